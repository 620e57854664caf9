package host

import (
	"context"
	"errors"
	"fmt"
	"sync"
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

// Whenever the caller gives up, nothing stays held, by record or by keeper.
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
	ctx, cancel := context.WithCancelCause(context.Background())
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
	next, err := other.try("n")
	w.ok(err)
	other.release(next)
}

// A cancelled waiter is gone at once; and one whose ctx was over before asks nothing.
func TestAcquireCancelledWaiting(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		w.place("n", theirs())
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		begun := time.Now()
		_, err := p.Acquire(ctx, "n", &AcquireOptions{Terms: terms})
		w.is(err, context.DeadlineExceeded)
		w.same("after", time.Since(begun), 10*time.Second)
		synctest.Wait()
		p.idle()
		p.store.forget()
		_, err = p.Acquire(ctx, "m", &AcquireOptions{Terms: terms})
		w.is(err, context.DeadlineExceeded)
		_, err = p.Accompany(ctx, Handle{Name: "m", Holder: "h"}, nil)
		w.is(err, context.DeadlineExceeded)
		w.sleep(time.Minute)
		w.same("requests", p.store.verbs(), "")
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
		l, err = p.Acquire(context.Background(), "n", &AcquireOptions{Terms: terms})
		acquired <- err
	}()
	w.sleep(at)
	w.ok(p.Close(context.Background()))
	if err := <-acquired; err != nil {
		w.is(err, ErrClosed)
	} else {
		w.is(l.Err(), ErrReleased)
		w.is(context.Cause(l.Context()), ErrReleased)
	}
	w.same("goroutines", goroutines(), before)
	w.closed(p)
	next, err := other.try("n")
	w.ok(err)
	other.release(next)
}

// closed: every call on a closed Host says so, and asks nothing.
func (w *world) closed(p *party) {
	w.Helper()
	p.store.forget()
	ctx := context.Background()
	handle := Handle{Name: "n", Holder: "h", TTL: minute}
	_, err := p.Acquire(ctx, "n", lastWriter)
	w.is(err, ErrClosed)
	_, err = p.try("n")
	w.is(err, ErrClosed)
	_, err = p.Accompany(ctx, handle, nil)
	w.is(err, ErrClosed)
	_, err = p.Renew(ctx, handle, nil)
	w.is(err, ErrClosed)
	w.is(p.ReleaseHandle(ctx, handle, nil), ErrClosed)
	_, err = p.Inspect(ctx, "n")
	w.is(err, ErrClosed)
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
		c, err := p.Accompany(context.Background(), theirLease.Handle(), nil)
		w.ok(err)
		waiting := make(chan error, 1)
		go func() { _, err := p.Acquire(context.Background(), "alone", lastWriter); waiting <- err }()
		w.sleep(3 * time.Second)
		p.store.always(fault{before: time.Second})
		joining, renewing := make(chan error, 1), make(chan error, 1)
		go func() { _, err := p.Accompany(context.Background(), alone.Handle(), nil); joining <- err }()
		go func() { _, err := p.Renew(context.Background(), alone.Handle(), nil); renewing <- err }()
		w.sleep(1500 * time.Millisecond) // both have read, and their puts are under way
		p.store.forget()
		closeTwice(w, p)
		w.is(l.Err(), ErrReleased, &Error{Kind: Ended, Reason: core.ReasonReleased})
		w.is(c.Err(), ErrReleased)
		w.is(<-waiting, ErrClosed)
		<-joining // it may just have joined
		w.is(<-renewing, ErrClosed)
		w.state("ours", core.ObservedReleased)
		w.state("theirs", core.ObservedHeld)
		w.state("alone", core.ObservedHeld)
		w.same("goroutines", goroutines(), before)
		w.sleep(2 * time.Minute)
		w.ok(theirLease.Err())
		w.ok(alone.Err())
	})
}

func closeTwice(w *world, p *party) {
	w.Helper()
	begun := time.Now()
	var both sync.WaitGroup
	took := make([]time.Duration, 2)
	for i := range took {
		both.Go(func() {
			if err := p.Close(context.Background()); err != nil {
				w.Errorf("close: %v", err)
			}
			took[i] = time.Since(begun)
		})
	}
	both.Wait()
	w.same("both close at once", took[0], took[1])
	if took[0] < time.Second || took[0] > 5*time.Second {
		w.Fatalf("Close took %v", took[0])
	}
}

// Close on a store that hangs ends when its ctx does, and says that it did not
// finish. What was waited for hears of it.
func TestCloseForced(t *testing.T) {
	bubble(t, func(w *world) {
		before := goroutines()
		p := w.host()
		l := p.acquire("held")
		p.store.always(fault{hang: true})
		claiming := make(chan error, 1)
		go func() { _, err := p.Acquire(context.Background(), "claiming", lastWriter); claiming <- err }()
		releasing := make(chan error, 1)
		w.sleep(100 * time.Millisecond)
		go func() { releasing <- l.Release(context.Background()) }()
		w.sleep(100 * time.Millisecond)
		why := errors.New("no time")
		ctx, cancel := context.WithTimeoutCause(context.Background(), time.Second, why)
		defer cancel()
		begun := time.Now()
		w.is(p.Close(ctx), why)
		w.same("took", time.Since(begun), time.Second)
		w.is(<-claiming, ErrClosed)
		w.is(<-releasing, ErrClosed)
		w.is(l.Err(), ErrClosed)
		w.is(l.Release(context.Background()), ErrClosed)
		w.same("goroutines", goroutines(), before)
		w.state("held", core.ObservedHeld) // it expires by itself
	})
}

// A ctx that is over before Close releases nothing, yet all ends; with nothing
// to release there is nothing to complain of.
func TestCloseContextOver(t *testing.T) {
	over, cancel := context.WithCancel(context.Background())
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

// Messages to a keeper that has stopped leave nothing behind.
func TestPostAfterStop(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		l := p.acquire("n")
		w.ok(p.Close(context.Background()))
		for range 1000 {
			w.ok(l.Release(context.Background()))
			w.is(l.Err(), ErrReleased)
		}
		w.same("queue", len(p.keeper.queue), 0)
	})
}

// The keeper may be about to tell of a renewal when Err finds the old deadline
// passed. Err then says nil; it does not wait for the lease to end.
//
//	keeper   Step: renewed . . . . . . . . . . new deadline
//	Err              past the old deadline: ask  . . . . .  nil
func TestErrBesideRenewal(t *testing.T) {
	bubble(t, func(w *world) {
		p, l := w.holding()
		m, gate := l.member, make(chan struct{})
		renewed := m.deadline
		m.mu.Lock()
		m.deadline = p.clock.Now().Mono
		m.mu.Unlock()
		p.keeper.post(message{do: func() { <-gate; m.nowRenewed(renewed) }})
		asked := make(chan error)
		go func() { asked <- l.Err() }()
		synctest.Wait()
		close(gate)
		w.ok(<-asked)
	})
}
