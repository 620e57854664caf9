package host

import (
	"strings"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/store/capability"
)

// A store that takes few writes of one object, as GCS does, is tried on an object of
// one's own: a fleet that starts together does not queue at the capability record. What a lost
// answer left is the same object, and everything of it goes.
func TestResolveBesideACrowd(t *testing.T) {
	each(t, map[string]fault{"fair": fine, "answers lost": {after: latency, lost: true}}, func(w *world, name string, trouble fault) {
		w.host().resolves("n", core.ProtocolStrict)
		p := w.host()
		lost := 0
		p.store.on(func(c call) fault {
			switch {
			case c.verb != "create":
				return fine
			case c.key == capabilityKey:
				return fault{class: core.ClassThrottled}
			case lost == 0:
				lost++
				return trouble
			}
			return fine
		})
		p.resolves("n", core.ProtocolStrict)
		w.same("tries of the card", p.store.count("create", capabilityKey), 1)
		w.same("tries beside it", p.store.count("create", triedDir), 2)
		w.sleep(2 * time.Second)
		w.same("removed", p.store.count("delete", triedDir), 1)
		if left := keys(w); strings.Contains(left, triedDir) {
			w.Error(left)
		}
	})
}

// A Host that closes between its two tries leaves nothing of them, nor does one whose
// store throttles on and on make a new object for each attempt.
func TestResolveBesideACrowdCutOff(t *testing.T) {
	bubble(t, func(w *world) {
		w.host().resolves("n", core.ProtocolStrict)
		p := w.host()
		p.store.when("create", capabilityKey, fault{class: core.ClassThrottled})
		go func() { _, _ = p.Acquire(background, "n", nil) }()
		w.sleep(time.Second)
		w.same("tries beside the card", p.store.count("create", triedDir), 1)
		w.ok(p.Close(background))
		if left := keys(w); strings.Contains(left, triedDir) {
			w.Error(left)
		}

		p = w.host()
		p.store.when("create", "", fault{class: core.ClassThrottled})
		w.is(errOf(p.Acquire(w.limited(minute), "n", &AcquireOptions{Terms: strict})), &Error{Kind: NotAcquired, Reason: core.ReasonUnreachable})
		tried := map[string]int{}
		for _, c := range p.store.log() {
			if c.verb == "create" {
				tried[c.key]++
			}
		}
		w.same("objects tried, and the card", len(tried), 2)
		w.same("tries of the card", tried[capabilityKey], 1)
		delete(tried, capabilityKey)
		for _, n := range tried {
			w.same("tries of the other in 5 s", n, 4)
		}
	})
}

// Nor does the crowd hide a store that takes every create for a put, which is written on
// the capability record though the crowd is at it.
func TestResolveRefusedBesideACrowd(t *testing.T) {
	bubble(t, func(w *world) {
		w.backend.put(capabilityKey, capability.Record{Nonce: "another's"}.Body())
		p := w.host()
		p.store.overwrites = true
		refusals := 0
		p.store.on(func(c call) fault {
			if c.key == capabilityKey && (c.verb == "create" || c.verb == "put" && refusals < mostFindingWrites) {
				if c.verb == "put" {
					refusals++
				}
				return fault{class: core.ClassThrottled}
			}
			return fine
		})
		w.is(errOf(p.tried("n", strict)), ErrIncompatible)
		object, _ := w.backend.get(capabilityKey)
		w.has(string(object.Body), "an object that was there could be created", "refused")
	})
}

// Pauses grow between tries, whatever the capability record that is read before each of them says.
func TestResolvePausesGrow(t *testing.T) {
	bubble(t, func(w *world) {
		w.backend.put(capabilityKey, capability.Record{Nonce: "another's"}.Body())
		p := w.host()
		p.store.when("create", "", fault{class: core.ClassUnreachable})
		w.is(errOf(p.tried("n", strict)), &Error{Kind: NotAcquired, Reason: core.ReasonUnreachable})
		w.same("tries", p.store.count("create", capabilityKey), 5) // after 0, 0.2, 0.6, 1.4, 3 s
	})
}
