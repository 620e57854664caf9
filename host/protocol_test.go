package host

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
)

// Auto is strict where the store honours create-if-absent, which each Host tries
// once, in one request where the card is there already; lastwriter where old clients are, or the store
// does not honour it, and that is said aloud.
func TestResolve(t *testing.T) {
	bubble(t, func(w *world) {
		p, other := w.host(), w.host()
		resolve := func(p *party, name string, want core.Protocol) core.Protocol {
			w.Helper()
			got, err := p.Resolve(context.Background(), name, want)
			w.ok(err)
			return got
		}
		w.same("a memo of mops", resolve(p, "m/lock", 0), core.ProtocolLastWriter)
		w.same("asked for", resolve(p, "n", core.ProtocolLastWriter), core.ProtocolLastWriter)
		w.same("requests", p.store.verbs(), "")
		w.same("a new store", resolve(p, "n", 0), core.ProtocolStrict)
		w.same("requests", p.store.verbs(), "exists create create")
		p.store.forget()
		w.same("known", resolve(p, "o", 0), core.ProtocolStrict)
		w.same("requests", p.store.verbs(), "exists")
		w.same("known to others", resolve(other, "n", 0), core.ProtocolStrict)
		w.same("requests", other.store.verbs(), "exists create")
		w.place("old", theirs())
		w.same("of an old client", resolve(p, "old", 0), core.ProtocolLastWriter)
		w.same("but asked for", resolve(p, "old", core.ProtocolStrict), core.ProtocolStrict)
		_, err := p.Resolve(context.Background(), "n", 9)
		w.is(err, &core.Error{Code: core.ErrorConfig})
		_, err = p.Resolve(context.Background(), "a//b", 0)
		w.is(err, &core.Error{Code: core.ErrorConfig})
		p.idle()
	})
}

func TestResolveWithoutCreate(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		p.store.overwrites = true
		l, err := p.Acquire(context.Background(), "n", &AcquireOptions{Terms: Terms{TTL: minute}})
		w.ok(err)
		w.same("protocol", l.Protocol(), core.ProtocolLastWriter)
		w.same("said", strings.Count(p.log.String(), "does not honour create-if-absent"), 1)
		_, err = p.TryAcquire(context.Background(), "m", &AcquireOptions{Terms: strict})
		w.is(err, ErrUnfit)
		if _, there := w.shelf.get(cardKey); there {
			w.Error("a card")
		}
	})
}

// A card proves nothing by being there: the bucket may have been copied from a
// store that honours create-if-absent to one that does not, or anybody have put it.
func TestResolveDoesNotBelieveTheCard(t *testing.T) {
	bubble(t, func(w *world) {
		w.host().strictly("n")
		if _, there := w.shelf.get(cardKey); !there {
			w.Fatal("no card")
		}
		p := w.host()
		p.store.overwrites = true
		_, err := p.TryAcquire(context.Background(), "m", &AcquireOptions{Terms: strict})
		w.is(err, ErrUnfit)
		got, err := p.Resolve(context.Background(), "m", 0)
		w.ok(err)
		w.same("protocol", got, core.ProtocolLastWriter)
		w.same("tries", p.store.count("create", cardKey), 2)
		w.same("a card that says what is not so", strings.Contains(keys(w), cardKey), false)
	})
}

// Unknown outcomes do not decide: what decides is that two creates in a row were
// answered, or that one was told that the card exists.
func TestResolveByUnknowns(t *testing.T) {
	for name, test := range map[string]struct {
		faults     map[int]fault // by the number of the create
		overwrites bool
		creates    int
		want       core.Protocol
	}{
		"lost the first":           {map[int]fault{1: {lost: true}}, false, 2, core.ProtocolStrict},
		"lost the second":          {map[int]fault{2: {lost: true}}, false, 3, core.ProtocolStrict},
		"the first comes late":     {map[int]fault{1: {late: time.Second}}, false, 3, core.ProtocolStrict},
		"lost the first, ignored":  {map[int]fault{1: {lost: true}}, true, 3, core.ProtocolLastWriter},
		"lost the second, ignored": {map[int]fault{2: {lost: true}}, true, 4, core.ProtocolLastWriter},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
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
				got, err := p.Resolve(context.Background(), "n", 0)
				w.ok(err)
				w.same("protocol", got, test.want)
				w.same("creates", creates, test.creates)
				w.sleep(2 * time.Second)
			})
		})
	}
}

// A wait is a bound also while the store is silent, before it is known how the
// name is kept.
func TestWaitBoundsASilentStore(t *testing.T) {
	for part, reason := range map[string]core.Reason{"": core.ReasonUnreachable, cardKey: core.ReasonLimit} {
		for _, silence := range []fault{{hang: true}, {class: core.ClassUnreachable}} {
			bubble(t, func(w *world) {
				p := w.host()
				p.store.on(func(c call) fault {
					if strings.Contains(c.key, part) {
						return silence
					}
					return fine
				})
				begun := time.Now()
				_, err := p.Acquire(context.Background(), "n", &AcquireOptions{Terms: strict, Wait: time.Second})
				w.is(err, &Error{Kind: Refused, Reason: reason})
				if took := time.Since(begun); took > time.Second+10*latency {
					w.Errorf("after %v", took)
				}
			})
		}
	}
}

func keys(w *world) string {
	w.shelf.mu.Lock()
	defer w.shelf.mu.Unlock()
	var b strings.Builder
	for key := range w.shelf.objects {
		b.WriteString(key + " ")
	}
	return b.String()
}

// Whoever comes while the store is being tried waits for that, and all fail
// together if it cannot be.
func TestResolveTogether(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				_, err := p.Resolve(context.Background(), "n", 0)
				w.ok(err)
			})
		}
		all.Wait()
		w.same("tries", p.store.count("create", cardKey), 2)

		deaf := w.host()
		deaf.store.always(fault{class: core.ClassUnreachable})
		begun := time.Now()
		for range 100 {
			all.Go(func() {
				_, err := deaf.Resolve(context.Background(), "n", 0)
				w.is(err, &Error{Kind: Refused, Reason: core.ReasonUnreachable})
			})
		}
		all.Wait()
		if took := time.Since(begun); took > 12*time.Second {
			w.Errorf("after %v", took)
		}
		deaf.store.on(func(c call) fault {
			if strings.HasPrefix(c.key, storePrefix) {
				return fault{class: core.ClassUnreachable}
			}
			return fine
		})
		for wait, reason := range map[time.Duration]core.Reason{time.Minute: core.ReasonLimit, time.Second: core.ReasonLimit} {
			begun = time.Now()
			_, err := deaf.Acquire(context.Background(), "n", &AcquireOptions{Terms: strict, Wait: wait})
			w.is(err, &Error{Kind: Refused, Reason: reason})
			if took := time.Since(begun); took < wait || took > wait+time.Second {
				w.Errorf("after %v", took)
			}
		}
		deaf.store.heal()
		_, err := deaf.Resolve(context.Background(), "n", 0)
		w.ok(err)
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
		w.is(l.Err(), &Error{Kind: Lost, Reason: core.ReasonTaken})
		if took := time.Since(begun); took > 20*time.Second {
			w.Errorf("noticed after %v", took)
		}
		if !strings.Contains(p.log.String(), "beside a strict lease") {
			w.Error("nothing was said")
		}
		_, err := p.tryStrictly("n")
		w.is(err, ErrRefused)
	})
}
