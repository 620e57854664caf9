package host

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mopslock/mopslock/core"
)

// holdMany acquires n leases at once.
func (p *actor) holdMany(n int, by Terms) []*Lease {
	leases := make([]*Lease, n)
	var all sync.WaitGroup
	for i := range leases {
		all.Go(func() { leases[i] = p.hold("lease/"+strconv.Itoa(i), by) })
	}
	all.Wait()
	return leases
}

// Several hundred leases on a store that takes 20 ms: all are renewed in time, never more
// than InFlight requests are under way, and no lease has a goroutine.
func TestManyLeases(t *testing.T) {
	const inFlight, many = 4, 500
	bubble(t, func(w *world) {
		p := w.hostWith(func(o *Options) { o.InFlight = inFlight })
		p.store.always(fault{before: 10 * time.Millisecond, after: 10 * time.Millisecond})
		p.acquire("first")
		w.sleep(2 * time.Second)
		before := goroutines()
		leases := p.holdMany(many, terms)
		w.sleep(20 * time.Second)
		p.store.forget()
		w.sleep(5 * minute)
		for _, l := range leases {
			w.ok(l.Err())
			w.within("left", l.Left(), span-25*time.Second, span)
		}
		if n := len(p.store.log()); n < many*2*15 || n > (many+1)*2*18 {
			w.Fatalf("%d requests in 5 minutes", n)
		}
		w.same("requests at once", p.store.most, inFlight)
		quiet(w, p)
		w.same("goroutines", goroutines(), before)
		w.ok(p.Close(background))
		w.same("after Close", goroutines(), before)
		w.state("lease/7", core.ObservedReleased)
	})
}

// quiet waits until no request is under way.
func quiet(w *world, p *actor) {
	w.Helper()
	synctest.Wait()
	w.until(time.Millisecond, func() bool { return p.store.inFlight() == 0 })
}

// A request that waits for a slot is answered at its limit too.
func TestLimitWithoutSlot(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.hostWith(func(o *Options) { o.InFlight = 2 }) // of which one is for renewals
		wake := make(chan struct{})
		p.store.once("get", fault{deaf: wake})
		go func() { _, _ = p.try("hung") }()
		w.sleep(time.Millisecond)
		begun := time.Now()
		w.is(errOf(p.tried("n", Terms{Protocol: core.ProtocolLastWriter, TTL: core.TTL(time.Second)})), &Error{Kind: NotAcquired, Reason: core.ReasonUnreachable})
		w.same("after", time.Since(begun), core.FirstAnswerLimit)
		close(wake)
		w.sleep(time.Second)
		p.release(p.acquire("n"))
	})
}

// What is not awaited any more takes no slot from what is.
func TestCancelledTakesNoSlot(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.hostWith(func(o *Options) { o.InFlight = 2 })
		p.store.once("get", fault{before: time.Second})
		ctx, cancel := context.WithCancel(background)
		var all sync.WaitGroup
		all.Go(func() { _, _ = p.try("slow") })
		w.sleep(time.Millisecond)
		for i := range 100 {
			all.Go(func() { _, _ = p.Acquire(ctx, "n"+strconv.Itoa(i), lastWriter) })
		}
		w.sleep(time.Millisecond)
		cancel()
		all.Wait()
		for _, c := range p.store.log() {
			w.same("key", c.key, "slow/lock.json")
		}
	})
}

// Callbacks run on the loop, but no lock is held: they may use other locks
// and other goroutines' calls.
func TestCallbackHoldsNoLock(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		held := p.acquire("n")
		ctx, cancel := context.WithCancel(background)
		defer cancel()
		done := make(chan error, 1)
		go func() {
			_, err := p.Acquire(ctx, "n", &AcquireOptions{Terms: terms, OnWaiting: func(Status) {
				_ = held.Err()
				_, _, _ = held.Left(), held.Holder(), held.Context().Err()
				cancel()
			}})
			done <- err
		}()
		w.is(<-done, context.Canceled)
	})
}

// A store that tells of changes wakes the waiter: with polls 5 s apart the
// hand-over between hosts takes no time.
func TestWatchWakes(t *testing.T) {
	eachWay(t, func(w *world, terms Terms) {
		a := w.host()
		b := w.watching(nil)
		held := a.hold("n", terms)
		got := beside(func() *Lease { return b.hold("n", terms) })
		w.sleep(5*minute + 2*time.Second)
		a.release(held)
		released := time.Now()
		next := <-got
		w.within("hand-over took", time.Since(released), 0, 9*latency)
		b.release(next)
		w.sleep(time.Second)
		w.unwatched("")
	})
}

// A change that is told while a look is under way is looked at after it.
func TestWatchWhileLooking(t *testing.T) {
	bubble(t, func(w *world) {
		b := w.watching(nil)
		w.place("n", theirs())
		b.store.always(fault{after: time.Second}) // every look is out of date when it is answered
		got := make(chan *Lease)
		go func() {
			l := b.hold("n", terms)
			got <- l
		}()
		w.sleep(10 * time.Second)
		w.until(time.Millisecond, func() bool { return b.store.inFlight() > 0 })
		released := theirs()
		released.written, released.released = time.Time{}, time.Now()
		w.place("n", released)
		begun := time.Now()
		b.store.heal()
		b.release(<-got)
		w.within("hand-over took", time.Since(begun), 0, time.Second+12*latency)
	})
}

// No watches left: polling remains.
func TestWatchRefused(t *testing.T) {
	bubble(t, func(w *world) {
		b := w.watching(errors.New("no watches left"))
		w.place("n", theirs())
		l := b.acquire("n")
		b.release(l)
	})
}
