package host

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/store/card"
)

// A store that takes few writes of one object, as GCS does, is tried on an object of
// one's own: a fleet that starts together does not queue at the card. What a lost
// answer left is the same object, and everything of it goes.
func TestResolveBesideACrowd(t *testing.T) {
	for name, trouble := range map[string]fault{"fair": fine, "answers lost": {after: latency, lost: true}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				_, err := w.host().Resolve(background, "n", 0)
				w.ok(err)
				p := w.host()
				lost := 0
				p.store.on(func(c call) fault {
					switch {
					case c.verb != "create":
						return fine
					case c.key == cardKey:
						return fault{class: core.ClassThrottled}
					case lost == 0:
						lost++
						return trouble
					}
					return fine
				})
				got, err := p.Resolve(background, "n", 0)
				w.ok(err)
				w.same("protocol", got, core.ProtocolStrict)
				w.same("tries of the card", p.store.count("create", cardKey), 1)
				w.same("tries beside it", p.store.count("create", triedDir), 2)
				w.sleep(2 * time.Second)
				w.same("removed", p.store.count("delete", triedDir), 1)
				if left := keys(w); strings.Contains(left, triedDir) {
					w.Error(left)
				}
			})
		})
	}
}

// A Host that closes between its two tries leaves nothing of them, nor does one whose
// store throttles on and on make a new object for each attempt.
func TestResolveBesideACrowdCutOff(t *testing.T) {
	bubble(t, func(w *world) {
		_, err := w.host().Resolve(background, "n", 0)
		w.ok(err)
		p := w.host()
		p.store.on(func(c call) fault {
			if c.verb == "create" && c.key == cardKey {
				return fault{class: core.ClassThrottled}
			}
			return fine
		})
		go func() { _, _ = p.Resolve(background, "n", 0) }()
		w.sleep(time.Second)
		w.same("tries beside the card", p.store.count("create", triedDir), 1)
		w.ok(p.Close(background))
		if left := keys(w); strings.Contains(left, triedDir) {
			w.Error(left)
		}

		p = w.host()
		p.store.on(func(c call) fault {
			if c.verb == "create" {
				return fault{class: core.ClassThrottled}
			}
			return fine
		})
		ctx, cancel := context.WithTimeout(background, minute)
		defer cancel()
		_, err = p.Acquire(ctx, "n", &AcquireOptions{Terms: strict})
		w.is(err, context.DeadlineExceeded)
		tried := map[string]int{}
		for _, c := range p.store.log() {
			if c.verb == "create" {
				tried[c.key]++
			}
		}
		w.same("objects tried, and the card", len(tried), 2)
		w.same("tries of the card", tried[cardKey], 1)
		delete(tried, cardKey)
		for _, n := range tried {
			w.same("tries of the other in a minute", n, 59)
		}
	})
}

// Nor does the crowd hide a store that takes every create for a put.
func TestResolveRefusedBesideACrowd(t *testing.T) {
	bubble(t, func(w *world) {
		w.shelf.put(cardKey, card.Card{Nonce: "another's"}.Body())
		p := w.host()
		p.store.overwrites = true
		p.store.on(func(c call) fault {
			if c.verb == "create" && c.key == cardKey {
				return fault{class: core.ClassThrottled}
			}
			return fine
		})
		_, err := p.TryAcquire(background, "n", &AcquireOptions{Terms: strict})
		w.is(err, ErrUnfit)
		w.refused("an object that was there could be created")
	})
}

// What was seen is written on the card though the crowd is at it.
func TestResolveTellsACrowd(t *testing.T) {
	bubble(t, func(w *world) {
		w.shelf.put(cardKey, card.Card{Nonce: "another's"}.Body())
		p := w.host()
		p.store.overwrites = true
		refusals := 0
		p.store.on(func(c call) fault {
			if c.verb == "put" && c.key == cardKey && refusals < mostTells {
				refusals++
				return fault{class: core.ClassThrottled}
			}
			return fine
		})
		_, err := p.TryAcquire(background, "n", &AcquireOptions{Terms: strict})
		w.is(err, ErrUnfit)
		object, _ := w.shelf.get(cardKey)
		if c, _ := card.Parse(object.Body); !c.Refused {
			w.Errorf("the card is %s", object.Body)
		}
	})
}

// Pauses grow between tries, whatever the card that is read before each of them says.
func TestResolvePausesGrow(t *testing.T) {
	bubble(t, func(w *world) {
		w.shelf.put(cardKey, card.Card{Nonce: "another's"}.Body())
		p := w.host()
		p.store.on(func(c call) fault {
			if c.verb == "create" {
				return fault{class: core.ClassUnreachable}
			}
			return fine
		})
		_, err := p.TryAcquire(background, "n", &AcquireOptions{Terms: strict})
		w.is(err, &Error{Kind: Refused, Reason: core.ReasonLimit})
		w.same("tries", p.store.count("create", cardKey), 5) // after 0, 0.2, 0.6, 1.4, 3 s
	})
}
