package host

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mopslock/mopslock/core"
)

// An acquire costs get, put, get, put and one later look; a renewal get and
// put; a release get and put (BUDGETS). Nothing else is asked in half an hour.
func TestLeaseRequests(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		begun := time.Now()
		l := p.acquire("n")
		// 10 + 10 ms, a wait of twice that, 10 + 10 ms.
		w.same("acquire took", time.Since(begun), 8*latency)
		w.same("requests of an acquire", p.store.verbs(), "get put get put")
		w.sleep(time.Second)
		w.same("with the later look", p.store.verbs(), "get put get put get")
		w.same("who is there", w.status("n").Holder, l.Holder())

		p.store.forget()
		w.sleep(30 * minute)
		w.ok(l.Err())
		checkRenewals(w, p, 20*time.Second)

		p.store.forget()
		p.release(l)
		w.same("requests of a release", p.store.verbs(), "get put")
		w.state("n", core.ObservedReleased)
		w.sleep(10 * minute)
		w.same("requests after it", p.store.verbs(), "get put")
		p.idle()
	})
}

// checkRenewals: get and put in turn, never early, never late, and not in step.
func checkRenewals(w *world, p *party, interval time.Duration) {
	w.Helper()
	calls := p.store.log()
	if len(calls) < 2*90 || len(calls) > 2*108+1 {
		w.Fatalf("%d requests in 30 minutes", len(calls))
	}
	gaps := map[time.Duration]bool{}
	for i := range calls {
		if want := []string{"get", "put"}[i%2]; calls[i].verb != want {
			w.Fatalf("request %d is a %s", i, calls[i].verb)
		}
		if i < 2 {
			continue
		}
		gap := calls[i].at.Sub(calls[i-2].at)
		if gap < interval/6*5 || gap > interval+latency {
			w.Fatalf("request %d comes %v after the last of its kind", i, gap)
		}
		gaps[gap] = true
	}
	if len(gaps) < 80 {
		w.Fatalf("renewals are not jittered: %d different gaps", len(gaps))
	}
}

func TestLeaseTells(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		w.same("reached", p.Reached(), false)
		type key struct{}
		ctx, cancel := context.WithCancel(context.WithValue(context.Background(), key{}, "value"))
		l, err := p.Acquire(ctx, "a/b", &AcquireOptions{Terms: terms})
		w.ok(err)
		cancel() // the lease lives on
		w.same("reached", p.Reached(), true)
		w.same("name", l.Name(), "a/b")
		w.same("TTL", l.TTL(), minute)
		w.same("token", l.FencingToken()+l.Epoch(), uint64(0))
		w.same("holder", l.Holder(), w.status("a/b").Holder)
		w.same("value", l.Context().Value(key{}), any("value"))
		w.ok(l.Context().Err())
		w.same("left", l.Left(), 54*time.Second-latency)
		w.same("deadline", time.Until(l.Deadline()), 54*time.Second-latency)
		if got := w.status("a/b").Acquired.Sub(l.Acquired()); got > 0 || got < -time.Microsecond {
			w.Fatalf("acquired differs by %v", got)
		}
		handle := l.Handle()
		w.same("handle", handle, Handle{Name: "a/b", Protocol: core.ProtocolLastWriter, Holder: l.Holder(), TTL: minute, Acquired: l.Acquired()})
	})
}

func TestTryAcquire(t *testing.T) {
	bubble(t, func(w *world) {
		a, b := w.host(), w.host()
		held := a.acquire("n")
		begun := time.Now()
		_, err := b.try("n")
		w.is(err, ErrRefused, &Error{Kind: Refused, Reason: core.ReasonHeld})
		w.same("one request", b.store.verbs(), "get")
		w.same("at once", time.Since(begun), latency)
		e, _ := errors.AsType[*Error](err)
		w.same("seen", e.Seen.Holder, held.Holder())
		b.idle()
		a.release(held)
		l, err := b.try("n")
		w.ok(err)
		b.release(l)
	})
}

// In one process the release itself wakes the waiter, not its next poll.
func TestHandOverInProcess(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		held := p.acquire("n")
		got := make(chan *Lease)
		go func() { got <- p.acquire("n") }()
		w.sleep(8 * minute) // polls have slowed down to one in 5 s
		p.release(held)
		begun := time.Now()
		next := <-got
		w.same("hand-over", time.Since(begun), 8*latency)
		p.release(next)
	})
}

// The release comes while the waiter is just looking, and its look was too
// early to see it. It must not sleep until its next poll.
func TestHandOverWhileLooking(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		held := p.acquire("n")
		var slow bool
		p.store.on(func(c call) fault {
			if slow && c.verb == "get" {
				slow = false
				return fault{before: latency / 2, after: 3 * time.Second}
			}
			return fine
		})
		got := make(chan *Lease)
		go func() { got <- p.acquire("n") }()
		w.sleep(50 * time.Millisecond)
		p.store.forget()
		slow = true // for the waiter's next poll, while the holder's requests are fast
		w.until(time.Millisecond, func() bool { return p.store.verbs() != "" })
		w.sleep(latency)
		p.release(held)
		begun := time.Now()
		next := <-got
		if took := time.Since(begun); took > 3*time.Second+10*latency {
			w.Fatalf("hand-over took %v", took)
		}
		p.release(next)
	})
}

// Only one waiter is told; if that one gives up, the next one is told.
func TestHandOverToTheNext(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		held := p.acquire("n")
		ctx, cancel := context.WithCancel(context.Background())
		first := make(chan error, 1)
		go func() { _, err := p.Acquire(ctx, "n", &AcquireOptions{Terms: terms}); first <- err }()
		w.sleep(time.Second)
		got := make(chan *Lease)
		go func() { got <- p.acquire("n") }()
		w.sleep(8 * minute)
		p.release(held)
		w.sleep(latency / 2) // the first one is reading
		cancel()
		w.is(<-first, context.Canceled)
		begun := time.Now()
		next := <-got
		if took := time.Since(begun); took > 10*latency {
			w.Fatalf("hand-over took %v", took)
		}
		p.release(next)
	})
}

// Waiters in other processes poll with back-off, jitter and a cap, and write nothing.
func TestWaiterOnlyPolls(t *testing.T) {
	bubble(t, func(w *world) {
		a, b := w.host(), w.host()
		held := a.acquire("n")
		got := make(chan *Lease)
		go func() { got <- b.acquire("n") }()
		w.sleep(30 * minute)
		calls := b.store.log()
		if n := len(calls); n < 30*60/5 || n > 30*60/4+20 {
			w.Fatalf("%d requests in 30 minutes", n)
		}
		for i, c := range calls {
			w.same("verb", c.verb, "get")
			if i > 20 && c.at.Sub(calls[i-1].at) > 5*time.Second+latency {
				w.Fatalf("poll %d after %v", i, c.at.Sub(calls[i-1].at))
			}
		}
		if second := calls[1].at.Sub(calls[0].at); second > 250*time.Millisecond {
			w.Fatalf("second poll after %v", second)
		}
		a.release(held)
		begun := time.Now()
		b.release(<-got)
		if took := time.Since(begun); took > 5*time.Second+10*latency {
			w.Fatalf("hand-over took %v", took)
		}
	})
}

// OnWaiting names the holder first and at every change, not at each poll.
func TestOnWaiting(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		w.place("n", theirs())
		var told []string
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() {
			_, err := p.Acquire(ctx, "n", &AcquireOptions{Terms: terms, OnWaiting: func(s Status) {
				told = append(told, s.Holder+" "+s.Who())
			}})
			done <- err
		}()
		w.sleep(20 * time.Second)
		w.same("told", strings.Join(told, "; "), "somebody.else somebody.else on thathost (pid 99), which can expire in 1m0s")
		other := theirs()
		other.writer = "another"
		w.place("n", other)
		w.sleep(10 * time.Second)
		w.same("told", len(told), 2)
		cancel()
		w.is(<-done, context.Canceled)
		w.same("puts", len(p.store.puts()), 0)
	})
}

// A dead holder's lease is taken when its TTL is over, without a poll's delay.
func TestTakeOverOfTheDead(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		w.place("n", theirs())
		begun := time.Now()
		l := p.acquire("n")
		if took := time.Since(begun); took < minute || took > minute+10*latency {
			w.Fatalf("taken after %v", took)
		}
		p.release(l)
	})
}

// Expiry is by the record's own TTL, not by the reader's (lesson of mops).
func TestExpiryIsTheRecords(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		w.place("n", theirs())
		w.sleep(30 * time.Second)
		_, err := p.TryAcquire(context.Background(), "n", &AcquireOptions{Terms: Terms{Protocol: core.ProtocolLastWriter, TTL: 10 * time.Second}})
		w.is(err, ErrRefused, &Error{Kind: Refused, Reason: core.ReasonHeld})
		if !strings.Contains(p.log.String(), "another TTL") {
			w.Fatalf("nobody was warned:\n%s", p.log)
		}
	})
}

// Under ExpiryObserved nobody's wall clock counts: one that is an hour ahead
// takes nothing, and a record dated in the future frees itself all the same.
func TestExpiryObserved(t *testing.T) {
	bubble(t, func(w *world) {
		a, b := w.host(), w.host()
		b.clock.offset(time.Hour)
		held := a.acquire("n")
		observed := Terms{Protocol: core.ProtocolLastWriter, TTL: minute, Expiry: core.ExpiryObserved}
		ctx, cancel := context.WithTimeout(context.Background(), 10*minute)
		defer cancel()
		_, err := b.Acquire(ctx, "n", &AcquireOptions{Terms: observed})
		w.is(err, context.DeadlineExceeded)
		w.same("puts", len(b.store.puts()), 0)
		w.ok(held.Err())
		a.release(held)

		future := theirs()
		future.written = time.Now().Add(365 * 24 * time.Hour)
		w.place("m", future)
		begun := time.Now()
		b.release(b.acquire("m"))
		if took := time.Since(begun); took < minute || took > minute+6*time.Second {
			w.Fatalf("taken after %v", took)
		}
	})
}

// A lapse of patience is not a failure of the store.
func TestAcquireWaitLimit(t *testing.T) {
	bubble(t, func(w *world) {
		a, b := w.host(), w.host()
		held := a.acquire("n")
		begun := time.Now()
		_, err := b.Acquire(context.Background(), "n", &AcquireOptions{Terms: terms, Wait: 10 * time.Second})
		w.is(err, &Error{Kind: Refused, Reason: core.ReasonHeld})
		w.same("waited", time.Since(begun), 10*time.Second)
		b.idle()
		_, err = b.Acquire(context.Background(), "m", &AcquireOptions{Terms: terms, Wait: 1<<63 - 1})
		w.ok(err)
		a.release(held)
	})
}

// A waiter survives errors of the store (lesson of mops), even long ones.
func TestWaiterSurvivesErrors(t *testing.T) {
	bubble(t, func(w *world) {
		a, b := w.host(), w.host()
		held := a.acquire("n")
		got := make(chan *Lease)
		go func() { got <- b.acquire("n") }()
		w.sleep(time.Second)
		b.store.always(fault{class: core.ClassUnreachable})
		w.sleep(10 * minute)
		b.store.heal()
		a.release(held)
		b.release(<-got)
	})
}

func TestAcquireStoreSilent(t *testing.T) {
	for _, test := range []struct {
		name string
		fault
		reason core.Reason
		class  core.Class
		after  time.Duration
	}{
		{"hangs", fault{hang: true}, core.ReasonUnreachable, core.ClassUnreachable, 5 * time.Second},
		{"fails", fault{class: core.ClassOther}, core.ReasonUnreachable, core.ClassOther, 5 * time.Second},
		{"throttles", fault{class: core.ClassThrottled}, core.ReasonUnreachable, core.ClassThrottled, 5 * time.Second},
		{"forbids", fault{class: core.ClassUnauthorized}, core.ReasonUnusable, core.ClassUnauthorized, 0},
		{"is missing", fault{class: core.ClassNoSuchStore}, core.ReasonUnusable, core.ClassNoSuchStore, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(w *world) {
				p := w.host()
				p.store.always(test.fault)
				begun := time.Now()
				_, err := p.Acquire(context.Background(), "n", &AcquireOptions{Terms: terms})
				w.is(err, &Error{Kind: Refused, Reason: test.reason})
				e, _ := errors.AsType[*Error](err)
				w.same("class", e.Class, test.class)
				w.same("after", time.Since(begun), test.after)
				p.idle()
			})
		})
	}
}

// A store that can be read but not written says so at the claim.
func TestAcquireReadOnly(t *testing.T) {
	for _, class := range []core.Class{core.ClassReadOnly, core.ClassFull, core.ClassUnauthorized} {
		bubble(t, func(w *world) {
			p := w.host()
			p.store.once("put", fault{class: class})
			_, err := p.Acquire(context.Background(), "n", &AcquireOptions{Terms: terms})
			w.is(err, &Error{Kind: Refused, Reason: core.ReasonUnusable})
			e, _ := errors.AsType[*Error](err)
			w.same("class", e.Class, class)
		})
	}
}

// Puts whose answers are lost are found by reading back; a claim that never
// landed is a lost race, and is tried again.
func TestAcquireUnknownPuts(t *testing.T) {
	for i, verbs := range []string{"get put get get put", "get put get put get"} {
		bubble(t, func(w *world) {
			p := w.host()
			puts := 0
			p.store.on(func(c call) fault {
				if c.verb == "put" {
					puts++
				}
				if c.verb == "put" && puts == i+1 {
					return fault{lost: true}
				}
				return fine
			})
			l := p.acquire("n")
			w.same("requests", p.store.verbs(), verbs)
			p.release(l)
		})
	}
	bubble(t, func(w *world) {
		p := w.host()
		p.store.once("put", fault{class: core.ClassUnreachable})
		l := p.acquire("n")
		w.same("requests", p.store.verbs(), "get put get get put get put")
		p.release(l)
	})
}

// Two that claim at once: one holds, the other waits and then holds.
func TestTwoClaimAtOnce(t *testing.T) {
	bubble(t, func(w *world) {
		hosts := []*party{w.host(), w.host(), w.host()}
		leases := make(chan *Lease)
		for _, p := range hosts {
			go func() { leases <- p.acquire("n") }()
		}
		holders := []string{}
		for range hosts {
			l := <-leases
			w.ok(l.Err())
			holders = append(holders, l.Holder())
			w.sleep(2 * minute)
			w.ok(l.Err())
			select {
			case <-leases:
				w.Fatal("two hold")
			default:
			}
			w.ok(l.Release(context.Background()))
		}
		slices.Sort(holders)
		w.same("different holders", len(slices.Compact(holders)), 3)
	})
}

// Ties in time hurt mops' daemon. With the same seed for every lease all their
// timers tie, and all are renewed.
func TestTies(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.hostWith(func(o *Options) { o.Rand = ones{} })
		var leases []*Lease
		for i := range 50 {
			leases = append(leases, nil)
			go func() { leases[i] = p.acquire("n" + string(rune('A'+i%26)) + string(rune('A'+i/26))) }()
		}
		w.sleep(10 * minute)
		for _, l := range leases {
			w.ok(l.Err())
		}
		synctest.Wait()
	})
}

type ones struct{}

func (ones) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 1
	}
	return len(b), nil
}
