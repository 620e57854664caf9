package host

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mopslock/mopslock/core"
)

// phases are instants within an acquire, which takes 8 latencies: reading,
// reading's answer, claiming, waiting, verifying, confirming, just held, held.
func phases(each func(at time.Duration)) {
	for at := time.Duration(0); at <= 9*latency; at += latency / 2 {
		each(at)
	}
}

// Whenever the caller gives up, nothing stays held, by record or by loop.
func TestAcquireCancelled(t *testing.T) {
	phases(func(at time.Duration) {
		for _, f := range []fault{fine, {before: latency / 2, after: latency / 2, lost: true}} {
			t.Run(fmt.Sprint(at, " lost ", f.lost), func(t *testing.T) {
				bubble(t, func(w *world) { acquireCancelled(w, at, f) })
			})
		}
	})
}

func acquireCancelled(w *world, at time.Duration, put fault) {
	p, other := w.host(), w.host()
	p.store.once("put", put)
	why := errors.New("changed my mind")
	ctx, cancel := context.WithCancelCause(background)
	timer := time.AfterFunc(at, func() { cancel(why) })
	defer timer.Stop()
	l, err := p.Acquire(ctx, "n", &AcquireOptions{Terms: terms})
	if err != nil {
		w.is(err, why)
		w.same("returned at once", l, (*Lease)(nil))
	} else {
		p.release(l)
	}
	w.sleep(3 * time.Second)
	p.idle()
	other.free("n", terms)
}

// A cancelled waiter is gone at once; and one whose ctx was over before asks nothing.
func TestAcquireCancelledWaiting(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		w.place("n", theirs())
		ctx := w.limited(10 * time.Second)
		begun := time.Now()
		w.is(errOf(p.Acquire(ctx, "n", &AcquireOptions{Terms: terms})), context.DeadlineExceeded)
		w.same("after", time.Since(begun), 10*time.Second)
		synctest.Wait()
		p.idle()
		p.store.forget()
		w.is(errOf(p.Acquire(ctx, "m", &AcquireOptions{Terms: terms})), context.DeadlineExceeded)
		w.is(errOf(p.Accompany(ctx, Handle{Name: "m", Holder: "h"}, nil)), context.DeadlineExceeded)
		w.sleep(minute)
		w.same("requests", p.store.verbs(), "")
	})
}

// A caller whose ctx ends while it waits hears of why, as before, and for which name, and
// who was in the way.
func TestWaitingEndedSays(t *testing.T) {
	why := errors.New("enough of that")
	type test struct {
		ask  func(context.Context, *actor) error
		says string
	}
	each(t, map[string]test{
		"lease": {func(ctx context.Context, p *actor) error {
			_, err := p.Acquire(ctx, "n", &AcquireOptions{Terms: strict})
			return err
		}, `mopslock: lease "n": waiting ended while held by HOLDER`},
		"invocation": {func(ctx context.Context, p *actor) error {
			_, err := p.Invoke(ctx, "n", func(context.Context, *Work) error { return nil }, &InvokeOptions{Terms: strict})
			return err
		}, `mopslock: lease "n": waiting ended while held by HOLDER`},
		"permit": {func(ctx context.Context, p *actor) error {
			_, err := p.AcquirePermit(ctx, "s", View{Capacity: 1, Width: 1}, &PermitOptions{Terms: permitTerms})
			return err
		}, `mopslock: permit of "s": waiting ended while full, with 1 held, by PERMIT`},
		"companion": {func(ctx context.Context, p *actor) error {
			p.store.on(func(call) fault { return fault{before: time.Hour, lost: true} })
			_, err := p.Accompany(ctx, Handle{Name: "n", Holder: "h", Epoch: 1, Protocol: core.ProtocolStrict, TTL: core.TTL(minute)}, nil)
			return err
		}, `mopslock: lease "n": waiting ended: enough of that`},
		"silent store": {func(ctx context.Context, p *actor) error {
			p.store.on(func(call) fault { return fault{before: time.Hour, lost: true} })
			_, err := p.Acquire(ctx, "n", &AcquireOptions{Terms: strict})
			return err
		}, `mopslock: lease "n": waiting ended: enough of that`},
	}, func(w *world, name string, c test) {
		holder, p := w.host(), w.host()
		l, permit := holder.strictly("n"), holder.permit("s", View{Capacity: 1, Width: 1})
		ctx, cancel := context.WithTimeoutCause(background, 3*time.Second, why)
		defer cancel()
		err := c.ask(ctx, p)
		w.is(err, why)
		w.same("refused", errors.Is(err, ErrNotAcquired), false)
		says := strings.NewReplacer("HOLDER", l.Holder(), "PERMIT", permit.Holder()).Replace(c.says)
		if text := err.Error(); !strings.HasPrefix(text, says) || !strings.HasSuffix(text, ": enough of that") {
			w.Errorf("%s; want %s…", text, says)
		}
		p.store.on(func(call) fault { return fine })
	})
}

// Once it works an invocation waits for nobody, and what it says then names nobody.
func TestWaitingEndedForgets(t *testing.T) {
	eachWay(t, func(w *world, terms Terms) {
		holder, p := w.host(), w.host()
		l := holder.hold("n", terms)
		i := p.begins("n", terms)
		_, err := i.Next(w.limited(3 * time.Second))
		w.has(err.Error(), "waiting ended while held by "+l.Holder())
		holder.release(l)
		work := w.next(i)
		_, err = i.Next(w.limited(time.Second))
		w.is(err, context.DeadlineExceeded)
		w.same("names nobody", strings.Contains(err.Error(), "held by"), false)
		work.End(nil)
	})
}

// Close at any moment of an acquire: the caller hears ErrClosed or has a lease
// that is over, nothing is held, and nothing runs any more.
func TestCloseWhileAcquiring(t *testing.T) {
	phases(func(at time.Duration) {
		t.Run(at.String(), func(t *testing.T) {
			bubble(t, func(w *world) { closeWhileAcquiring(w, at) })
		})
	})
}

func closeWhileAcquiring(w *world, at time.Duration) {
	other := w.host()
	before := goroutines()
	p := w.host()
	var l *Lease
	acquired := make(chan error, 1)
	go func() {
		var err error
		l, err = p.Acquire(background, "n", &AcquireOptions{Terms: terms})
		acquired <- err
	}()
	w.sleep(at)
	w.ok(p.Close(background))
	if err := <-acquired; err != nil {
		w.is(err, ErrClosed)
	} else {
		w.is(l.Err(), ErrReleased)
		w.is(context.Cause(l.Context()), ErrReleased)
	}
	w.same("goroutines", goroutines(), before)
	w.closed(p)
	other.free("n", terms)
}

// closed: every call on a closed Host says so, and asks nothing.
func (w *world) closed(p *actor) {
	w.Helper()
	p.store.forget()
	ctx := background
	handle := Handle{Name: "n", Holder: "h", TTL: core.TTL(minute)}
	w.is(errOf(p.Acquire(ctx, "n", lastWriter)), ErrClosed)
	w.is(errOf(p.try("n")), ErrClosed)
	w.is(errOf(p.Accompany(ctx, handle, nil)), ErrClosed)
	w.is(errOf(p.Renew(ctx, handle, nil)), ErrClosed)
	w.is(p.ReleaseHandle(ctx, handle, nil), ErrClosed)
	for range 2 { // the second does not wait for what the first could not ask
		w.is(errOf(p.AcquirePermit(ctx, "n", six, nil)), ErrClosed)
	}
	w.is(errOf(p.Inspect(ctx, "n")), ErrClosed)
	for _, err := range p.List(ctx, "") {
		w.is(err, ErrClosed)
	}
	for _, err := range p.Watch(ctx, "n") {
		w.is(err, ErrClosed)
	}
	w.ok(p.Close(ctx))
	w.same("requests", p.store.verbs(), "")
}

// Close ends everything there is: held, waiting, joined, joining, renewing by
// handle. A second Close waits for the first.
func TestCloseEverything(t *testing.T) {
	bubble(t, func(w *world) {
		other := w.host()
		theirLease, alone := other.acquire("theirs"), other.acquire("alone")
		before := goroutines()
		p := w.host()
		l := p.acquire("ours")
		c := p.joins(theirLease.Handle())
		waiting := make(chan error, 1)
		go func() { _, err := p.Acquire(background, "alone", lastWriter); waiting <- err }()
		w.sleep(3 * time.Second)
		p.store.always(fault{before: time.Second})
		joining, renewing := make(chan error, 1), make(chan error, 1)
		go func() { _, err := p.Accompany(background, alone.Handle(), nil); joining <- err }()
		go func() { _, err := p.Renew(background, alone.Handle(), nil); renewing <- err }()
		w.sleep(1500 * time.Millisecond) // both have read, and their puts are under way
		p.store.forget()
		begun := time.Now()
		both := []<-chan error{beside(func() error { return p.Close(background) }), beside(func() error { return p.Close(background) })}
		for _, closed := range both {
			w.ok(<-closed)
			w.within("Close took", time.Since(begun), time.Second, 5*time.Second)
		}
		w.is(l.Err(), ErrReleased, &Error{Kind: Ended, Reason: core.ReasonReleased})
		w.is(c.Err(), ErrReleased)
		w.is(<-waiting, ErrClosed)
		<-joining // it may just have joined
		w.is(<-renewing, ErrClosed)
		w.state("ours", core.ObservedReleased)
		w.state("theirs", core.ObservedHeld)
		w.state("alone", core.ObservedHeld)
		w.same("goroutines", goroutines(), before)
		w.sleep(2 * minute)
		w.ok(theirLease.Err())
		w.ok(alone.Err())
	})
}

// Close on a store that hangs ends when its ctx does, and says that it did not
// finish. What was waited for hears of it.
func TestCloseForced(t *testing.T) {
	bubble(t, func(w *world) {
		before := goroutines()
		p := w.host()
		l, work := p.acquire("held"), w.next(p.begins("work", terms))
		p.store.always(fault{hang: true})
		claiming := make(chan error, 1)
		go func() { _, err := p.Acquire(background, "claiming", lastWriter); claiming <- err }()
		releasing := make(chan error, 1)
		w.sleep(100 * time.Millisecond)
		go func() { releasing <- l.Release(background) }()
		w.sleep(100 * time.Millisecond)
		why := errors.New("no time")
		ctx, cancel := context.WithTimeoutCause(background, time.Second, why)
		defer cancel()
		begun := time.Now()
		w.is(p.Close(ctx), why)
		w.same("took", time.Since(begun), time.Second)
		w.is(<-claiming, ErrClosed)
		w.is(<-releasing, ErrClosed)
		w.is(l.Err(), ErrClosed)
		w.is(l.Release(background), ErrClosed)
		w.is(work.Err(), ErrClosed)
		w.same("goroutines", goroutines(), before)
		w.state("held", core.ObservedHeld) // it expires by itself
	})
}

// Close returns when its ctx ends, whatever hangs, and says why. The store is closed by
// the last request that comes back.
func TestCloseOnDeadMount(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		back := make(chan struct{})
		p.store.always(fault{deaf: back})
		w.is(errOf(p.try("n")), ErrNotAcquired)
		waiter := beside(func() error { return errOf(p.Acquire(background, "n", lastWriter)) })
		w.sleep(time.Millisecond)
		w.is(p.Close(w.limited(time.Second)), context.DeadlineExceeded)
		w.is(<-waiter, ErrClosed)
		w.same("closed", p.store.isClosed(), false)
		close(back)
		w.sleep(time.Second)
		w.same("closed", p.store.isClosed(), true)
	})
}

// A ctx that is over before Close releases nothing, yet all ends; with nothing
// to release there is nothing to complain of.
func TestCloseContextOver(t *testing.T) {
	over, cancel := context.WithCancel(background)
	cancel()
	bubble(t, func(w *world) {
		p := w.host()
		l := p.acquire("n")
		w.is(p.Close(over), context.Canceled)
		w.is(l.Err(), ErrClosed)
		w.ok(w.host().Close(over))
		q := w.host()
		q.release(q.acquire("m"))
		w.ok(q.Close(over))
	})
}

// Calls on what a closed Host has held leave nothing behind.
func TestCallsAfterClose(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		l := p.acquire("n")
		w.ok(p.Close(background))
		for range 1000 {
			w.ok(l.Release(background))
			w.is(l.Err(), ErrReleased)
		}
		w.same("forgotten", p.tasks(), 0)
	})
}

// silentUnit is a store on a mount that has died: it does not even say how fine its stamps are.
type silentUnit struct {
	*fakeStore
	dead chan struct{}
}

func (s silentUnit) StampUnit() time.Duration {
	<-s.dead
	return time.Nanosecond
}

// A store that dies before the first claim strands nobody, and hangs no Close.
func TestDeadBeforeTheFirstClaim(t *testing.T) {
	bubble(t, func(w *world) {
		dead := make(chan struct{})
		defer close(dead)
		s := silentUnit{newFakeStore(w.backend), dead}
		h := &Host{}
		opened := beside(func() error {
			var err error
			h, err = New(s, &Options{Clock: &fakeClock{start: time.Now()}, Memory: "-"})
			return err
		})
		w.ok(<-opened)
		begun := time.Now()
		for range 3 {
			w.says(errOf(h.Acquire(background, "n", nil)), &Error{Kind: NotAcquired, Reason: core.ReasonUnreachable}, `lease "n" not acquired: the store does not answer`)
			w.is(errOf(h.Inspect(background, "n")), &Error{Kind: NotAcquired, Reason: core.ReasonUnreachable})
		}
		w.ok(h.Close(background))
		w.within("after", time.Since(begun), 6*storePatience, 6*storePatience)
	})
}
