package host

import (
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/store/capability"
)

// Auto is strict where the store honours create-if-absent, which each Host tries
// once, in two requests where the capability record is there already; lastwriter where old clients are, or the store
// does not honour it, and that is said aloud.
func TestResolve(t *testing.T) {
	bubble(t, func(w *world) {
		p, other := w.host(), w.host()
		p.release(p.acquire("asked for"))
		w.same("requests", p.store.probes(), "")
		p.resolves("m/lock", core.ProtocolStrict) // a new store, whatever the name
		w.same("requests", p.store.probes(), "exists get create create create create get")
		p.store.forget()
		p.resolves("o", core.ProtocolStrict)
		w.same("requests", p.store.probes(), "exists")
		other.resolves("n", core.ProtocolStrict)
		w.same("requests", other.store.probes(), "exists get create")
		old := theirs()
		old.released = time.Now()
		w.place("old", old)
		p.resolves("old", core.ProtocolBridge)
		p.release(p.strictly("old")) // but asked for
		w.is(errOf(p.tried("n", Terms{Protocol: 9})), &core.Error{Code: core.ErrorConfig})
		p.idle()
	})
}

// probes is what was asked to find out by which protocol names are kept, in short.
func (s *fakeStore) probes() string {
	var out []string
	for _, c := range s.log() {
		if c.key == capabilityKey || c.verb == "exists" && strings.HasSuffix(c.key, "/"+core.LockFile) {
			out = append(out, c.verb)
		}
	}
	return strings.Join(out, " ")
}

// refused fails the test unless the capability record says that the store was refused, and why.
func (w *world) refused(why string) {
	w.Helper()
	object, _ := w.backend.get(capabilityKey)
	c, _ := capability.Parse(object.Body)
	if !c.Refused || c.Why != why || !c.At.Equal(time.Now().Truncate(time.Second)) {
		w.Fatalf("the card is %s", object.Body)
	}
}

// A refusal stands, from any process and in any version of its format. The error
// and the log say what was seen.
func TestResolveRefused(t *testing.T) {
	bubble(t, func(w *world) {
		w.backend.put(capabilityKey, []byte(`{"v":2,"create":"refused","why":"16 of 16 writers","at":"2026-11-21T12:00:00Z"}`))
		p := w.host()
		_, err := p.tried("n", strict)
		w.is(err, ErrIncompatible)
		const seen = "16 of 16 writers, 2026-11-21T12:00:00Z"
		if text := err.Error(); !strings.HasSuffix(text, "(seen: "+seen+"; once it is mended, have the doctor examine it)") {
			w.Error(text)
		}
		l, err := p.Acquire(background, "n", nil)
		w.ok(err)
		w.same("protocol", l.Protocol(), core.ProtocolLastWriter)
		w.same("said", strings.Count(p.log.String(), `seen="`+seen), 2) // once more with what was tried
		w.same("looks at the card", p.store.count("get", capabilityKey), 1)
		w.says(errOf(p.AcquirePermit(background, "s", View{Capacity: 1, Width: 1}, nil)), ErrIncompatible, `permit of "s" cannot be served: the store does not honour create-if-absent`)
		w.is(p.SetLimit(background, "s", 1), ErrIncompatible)

		w.backend.put(capabilityKey, []byte("what nobody can read"))
		other := w.host()
		other.resolves("n2", core.ProtocolStrict)
		w.same("requests", other.store.probes(), "exists get create")
	})
}

// A store that looks and then writes is caught by the race of the first who comes,
// and stays refused, though one create after the other is told the truth there.
func TestResolveRacyStore(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		p.store.racy = true
		w.is(errOf(p.tried("n", strict)), ErrIncompatible)
		w.same("requests", p.store.probes(), "exists get create create create create put")
		w.refused("4 of 4 creates at once were told yes")
	})
}

// A Host that is told yes looks whose capability record lies there: of two Hosts that come at the
// same moment each may hear of one winner only.
//
//	A   create ── yes                  get: B's
//	B             create ── yes
func TestResolveTwoWinnersOfTwoHosts(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		gets := 0
		p.store.on(func(c call) fault {
			if c.verb == "get" {
				if gets++; gets == 2 {
					w.backend.put(capabilityKey, capability.Record{Nonce: "B's"}.Body())
				}
			}
			return fine
		})
		w.is(errOf(p.tried("n", strict)), ErrIncompatible)
		w.refused("a create was told yes, and another one lay there")
	})
}

// A front door that sends every create twice lets us hear of no winner at all; the
// store honours create-if-absent all the same.
func TestResolveBehindADoublingDoor(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		p.store.doubled = true
		p.resolves("n", core.ProtocolStrict)
		w.same("requests", p.store.probes(), "exists get create create create create get")
	})
}

// That a store has no create-if-absent is believed when it is said twice, where a capability record
// lies there, too: it is for as long as the Host is.
func TestResolveToldOfNone(t *testing.T) {
	for times, test := range map[int]struct {
		want  core.Protocol
		verbs string
	}{
		1: {core.ProtocolStrict, "exists get create get create"},
		2: {core.ProtocolLastWriter, "exists get create get create"},
	} {
		bubble(t, func(w *world) {
			w.backend.put(capabilityKey, capability.Record{Nonce: "another's"}.Body())
			p := w.host()
			creates := 0
			p.store.on(func(c call) fault {
				if c.verb == "create" {
					creates++
				}
				return fault{none: c.verb == "create" && creates <= times}
			})
			p.resolves("n", test.want)
			w.same("requests", p.store.probes(), test.verbs)
		})
	}
}

// A capability record proves nothing by being there: the bucket may have been copied from a
// store that honours create-if-absent to one that does not, or anybody have put it.
func TestResolveDoesNotBelieveTheCard(t *testing.T) {
	bubble(t, func(w *world) {
		w.host().strictly("n")
		if _, there := w.backend.get(capabilityKey); !there {
			w.Fatal("no card")
		}
		p := w.host()
		p.store.overwrites = true
		w.is(errOf(p.tried("m", strict)), ErrIncompatible)
		p.resolves("m", core.ProtocolLastWriter)
		w.same("requests", p.store.probes(), "exists get create create put")
		w.refused("an object that was there could be created")
	})
}

// Unknown outcomes do not decide: what decides is that two creates were told yes, or
// that one was told that the capability record exists. In doubt it begins again, with a get.
func TestResolveByUnknowns(t *testing.T) {
	none := fault{none: true}
	lost, first := fault{lost: true, before: latency}, fault{after: latency}
	type test struct {
		faults     map[int]fault // by the number of the create
		overwrites bool
		verbs      string
		want       core.Protocol
	}
	each(t, map[string]test{
		"lost one":                 {map[int]fault{1: lost}, false, "get create create create create get", core.ProtocolStrict},
		"lost three":               {map[int]fault{1: first, 2: lost, 3: lost, 4: lost}, false, "get create create create create get create", core.ProtocolStrict},
		"lost all":                 {map[int]fault{1: lost, 2: lost, 3: lost, 4: lost}, false, "get create create create create get create", core.ProtocolStrict},
		"one comes late":           {map[int]fault{1: {late: time.Second}}, false, "get create create create create get", core.ProtocolStrict},
		"all come late":            {map[int]fault{1: {late: time.Second}, 2: {late: time.Second}, 3: {late: time.Second}, 4: {late: time.Second}}, false, "get create create create create get create create create create get", core.ProtocolStrict},
		"lost one, ignored":        {map[int]fault{1: lost}, true, "get create create create create put", core.ProtocolLastWriter},
		"lost three, and it shows": {map[int]fault{1: first, 2: lost, 3: lost, 4: lost}, true, "get create create create create get put", core.ProtocolLastWriter},
		"lost all and more, both":  {map[int]fault{1: lost, 2: lost, 3: lost, 4: lost, 5: lost}, true, "get create create create create get create get create create put", core.ProtocolLastWriter},
		"one has none":             {map[int]fault{1: none}, false, "get create create create create get", core.ProtocolStrict},
		"has none":                 {map[int]fault{1: none, 2: none, 3: none, 4: none}, false, "get create create create create", core.ProtocolLastWriter},
	}, func(w *world, name string, test test) {
		p := w.host()
		p.store.overwrites = test.overwrites
		creates := 0
		p.store.on(func(c call) fault {
			if c.verb != "create" {
				return fine
			}
			creates++
			if f, ok := test.faults[creates]; ok {
				return f
			}
			return fine
		})
		p.resolves("n", test.want)
		w.same("requests", strings.TrimPrefix(p.store.probes(), "exists "), test.verbs)
		w.sleep(2 * time.Second)
	})
}

func keys(w *world) string {
	w.backend.mu.Lock()
	defer w.backend.mu.Unlock()
	var b strings.Builder
	for key := range w.backend.objects {
		b.WriteString(key + " ")
	}
	return b.String()
}

// A caller that comes while the store is being tried waits for that, and all fail
// together if it cannot be.
func TestResolveTogether(t *testing.T) {
	bubble(t, func(w *world) {
		p, deaf := w.host(), w.host()
		deaf.store.always(fault{class: core.ClassUnreachable})
		var all sync.WaitGroup
		begun := time.Now()
		for i := range 50 {
			all.Go(func() { p.resolves(strconv.Itoa(i), core.ProtocolStrict) })
			all.Go(func() {
				w.is(errOf(deaf.Acquire(background, "n", nil)), &Error{Kind: NotAcquired, Reason: core.ReasonUnreachable})
			})
		}
		all.Wait()
		w.same("tries", p.store.count("create", capabilityKey), competitors)
		w.within("after", time.Since(begun), 0, 12*time.Second)
		deaf.store.heal()
		w.ok(errOf(deaf.Inspect(background, "n"))) // it has been read, so that waiters carry on
		deaf.store.when("", storePrefix, fault{class: core.ClassUnreachable})
		for _, wait := range []time.Duration{minute, time.Second} {
			begun = time.Now()
			w.is(errOf(deaf.Acquire(background, "n", &AcquireOptions{Terms: strict, Wait: wait})), &Error{Kind: NotAcquired, Reason: core.ReasonLimit})
			w.within("after", time.Since(begun), wait, wait+time.Second)
		}
		deaf.store.heal()
		deaf.resolves("n", core.ProtocolStrict)
	})
}

// A strict holder of a name on which an old client appears yields at its next
// renewal, and says so.
func TestMixedProtocols(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		w.place("n", record{writer: "old", written: time.Now().Add(-time.Hour), acquired: time.Now(), expire: minute})
		l := p.strictly("n")
		w.sleep(5 * minute)
		w.ok(l.Err())
		w.place("n", theirs())
		begun := time.Now()
		<-l.Done()
		synctest.Wait()
		w.is(l.Err(), &Error{Kind: Lost, Reason: core.ReasonTaken})
		w.within("noticed after", time.Since(begun), 0, 20*time.Second)
		w.has(p.log.String(), "beside a strict lease")
		w.is(errOf(p.tryStrictly("n")), ErrNotAcquired)
	})
}
