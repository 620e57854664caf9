package host

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
)

func TestLeaseTells(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		w.same("reached", p.Reached(), false)
		type key struct{}
		ctx, cancel := context.WithCancel(context.WithValue(background, key{}, "value"))
		l, err := p.Acquire(ctx, "a/b", &AcquireOptions{Terms: terms})
		w.ok(err)
		cancel() // the lease lives on
		w.same("reached", p.Reached(), true)
		w.same("name", l.Name(), "a/b")
		w.same("TTL", l.TTL(), core.TTL(minute))
		w.same("token", l.FencingToken()+l.Epoch(), uint64(0))
		w.same("holder", l.Holder(), w.status("a/b").Holder)
		w.same("value", l.Context().Value(key{}), any("value"))
		w.ok(l.Context().Err())
		w.same("left", l.Left(), 54*time.Second-latency)
		w.same("deadline", time.Until(l.Deadline()), 54*time.Second-latency)
		if got := w.status("a/b").Acquired.Sub(l.Acquired()); got > 0 || got < -time.Microsecond {
			w.Fatalf("acquired differs by %v", got)
		}
		endless := p.hold("m", Terms{Protocol: core.ProtocolStrict, TTL: core.TTLEndless})
		w.same("left of an endless one", endless.Left(), time.Duration(core.Never))
		_, err = w.host().Renew(background, endless.OwnerHandle(), nil)
		w.ok(err)
		handle := l.Handle()
		w.same("handle", handle, Handle{Name: "a/b", Protocol: core.ProtocolLastWriter, Holder: l.Holder(), TTL: core.TTL(minute), Acquired: l.Acquired()})
		p.clock.jump(l.Left())
		w.is(l.Err(), ErrLost) // at its deadline, and before the loop has seen that
	})
}

func TestTryAcquire(t *testing.T) {
	bubble(t, func(w *world) {
		a, b := w.host(), w.host()
		held := a.acquire("n")
		begun := time.Now()
		_, err := b.try("n")
		w.is(err, ErrNotAcquired, &Error{Kind: NotAcquired, Reason: core.ReasonHeld})
		w.same("one request", b.store.verbs(), "get")
		w.same("at once", time.Since(begun), latency)
		e, _ := errors.AsType[*Error](err)
		w.same("seen", e.Seen.Holder, held.Holder())
		b.idle()
		a.release(held)
		b.free("n", terms)
		b.store.when("put", "", fault{class: core.ClassOther})
		w.is(errOf(b.try("n")), &Error{Kind: NotAcquired, Reason: core.ReasonUnusable}, errFake) // the put's, not that of the read behind it
	})
}

// In one process the release itself wakes the waiter, not its next poll, by handle too.
func TestHandOverInProcess(t *testing.T) {
	eachWay(t, func(w *world, terms Terms) {
		p := w.host()
		held := p.hold("n", terms)
		for _, release := range []func(*Lease) error{
			func(l *Lease) error { return l.Release(background) },
			func(l *Lease) error { return p.ReleaseHandle(background, l.OwnerHandle(), &terms) },
		} {
			got := beside(func() *Lease { return p.hold("n", terms) })
			w.sleep(8 * minute) // polls have slowed down to one in 5 s
			w.ok(release(held))
			begun := time.Now()
			held = <-got
			w.within("hand-over", time.Since(begun), 0, 5*latency+core.ContendedMargin)
		}
		waits := p.begun("n", returns("x", 0), terms)
		w.sleep(8 * minute)
		p.release(held)
		begun := time.Now()
		waits.comesTo("x")
		w.within("to work", waits.at.Sub(begun), 0, 10*latency+core.ContendedMargin)
	})
}

// The release comes while the waiter is just looking, and its look was too
// early to see it. It must not sleep until its next poll.
func TestHandOverWhileLooking(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		held := p.acquire("n")
		got := beside(func() *Lease { return p.acquire("n") })
		w.sleep(50 * time.Millisecond)
		p.store.forget()
		p.store.once("get", fault{before: latency / 2, after: 3 * time.Second}) // the waiter's next poll
		w.until(time.Millisecond, func() bool { return p.store.verbs() != "" })
		w.sleep(latency)
		p.release(held)
		begun := time.Now()
		next := <-got
		w.within("hand-over took", time.Since(begun), 0, 3*time.Second+10*latency)
		p.release(next)
	})
}

// OnWaiting names the holder first and at every change, not at each poll.
func TestOnWaiting(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		w.place("n", theirs())
		var told []string
		ctx, cancel := context.WithCancel(background)
		done := make(chan error, 1)
		go func() {
			_, err := p.Acquire(ctx, "n", &AcquireOptions{Terms: terms, OnWaiting: func(s Status) {
				told = append(told, s.Holder+" "+s.Who())
			}})
			done <- err
		}()
		w.sleep(20 * time.Second)
		w.same("told", strings.Join(told, "; "), "somebody.else somebody.else on thathost (pid 99), renewed 0.0 s ago")
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

// A lapse of patience is not a failure of the store.
func TestAcquireWaitLimit(t *testing.T) {
	bubble(t, func(w *world) {
		a, b := w.host(), w.host()
		held := a.acquire("n")
		begun := time.Now()
		_, err := b.Acquire(background, "n", &AcquireOptions{Terms: terms, Wait: 10 * time.Second})
		w.is(err, &Error{Kind: NotAcquired, Reason: core.ReasonHeld})
		w.same("waited", time.Since(begun), 10*time.Second)
		b.idle()
		_, err = b.Acquire(background, "m", &AcquireOptions{Terms: terms, Wait: 1<<63 - 1})
		w.ok(err)
		a.release(held)
	})
}

// A store that refuses for good is told at once, be it at the claim; one that is silent
// after five seconds.
func TestAcquireFails(t *testing.T) {
	type test struct {
		verb   string
		reason core.Reason
		class  core.Class
		after  time.Duration
		fault
	}
	each(t, map[string]test{
		"hangs":      {"", core.ReasonUnreachable, core.ClassUnreachable, 5 * time.Second, fault{hang: true}},
		"throttles":  {"", core.ReasonUnreachable, core.ClassThrottled, 5 * time.Second, fault{class: core.ClassThrottled}},
		"is missing": {"", core.ReasonUnusable, core.ClassNoSuchStore, 0, fault{class: core.ClassNoSuchStore}},
		"read-only":  {"put", core.ReasonUnusable, core.ClassReadOnly, latency, fault{class: core.ClassReadOnly}},
	}, func(w *world, _ string, test test) {
		p := w.host()
		p.store.when(test.verb, "", test.fault)
		begun := time.Now()
		_, err := p.Acquire(background, "n", &AcquireOptions{Terms: terms})
		w.is(err, &Error{Kind: NotAcquired, Reason: test.reason})
		e, _ := errors.AsType[*Error](err)
		w.same("class", e.Class, test.class)
		w.same("after", time.Since(begun), test.after)
		p.idle()
	})
}

// On S3 a HEAD in a bucket that is not there is told no, as for any object: that is no sign
// that the store can be read.
func TestAcquireInNoBucket(t *testing.T) {
	each(t, map[string]core.Protocol{"auto": 0, "strict": core.ProtocolStrict}, func(w *world, _ string, protocol core.Protocol) {
		p := w.host()
		p.store.on(func(c call) fault {
			if c.verb == "exists" {
				return fine
			}
			return fault{class: core.ClassNoSuchStore}
		})
		_, err := p.Acquire(background, "n", &AcquireOptions{Terms: Terms{Protocol: protocol}})
		w.is(err, &Error{Kind: NotAcquired, Reason: core.ReasonUnusable})
		e, _ := errors.AsType[*Error](err)
		w.same("class", e.Class, core.ClassNoSuchStore)
		p.idle()
	})
}
