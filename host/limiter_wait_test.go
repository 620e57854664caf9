package host

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
)

// The give-back by itself: withdraw after the grant.
func TestLimiterGiveBack(t *testing.T) {
	l := NewLimiter(nil)
	h, w := l.Holder(background), l.Holder(background)
	h.On("n").TryAcquire(1, 1, 1)
	e := l.lock("n")
	granted := &waiter{demand: demand{1, 1, 1}, holding: w.o, entry: e, done: make(chan struct{})}
	behind := &waiter{demand: demand{1, 1, 1}, holding: h.o, entry: e, done: make(chan struct{})}
	w.o.wait(granted)
	h.o.wait(behind)
	e.mu.Unlock()
	h.On("n").Release(1)
	<-granted.done
	ctx, cancel := context.WithCancel(background)
	cancel()
	_, err := granted.await(ctx)
	same(t, "error", err, context.Canceled)
	<-behind.done // it was handed on
	same(t, "held by the cancelled", w.Close(), 0)
	same(t, "held", h.Close(), 1)
}

// No goroutine for holders, permits or waiters: each waits in its caller's own. In a FIFO
// queue nobody overtakes, and a caller hears why its context ended.
func TestLimiterWaiters(t *testing.T) {
	const many = 500
	bubble(t, func(w *world) {
		l := NewLimiter(&LimiterOptions{FIFO: true})
		why := errors.New("enough")
		ctx, cancel := context.WithCancelCause(background)
		before := goroutines()
		holders := make([]*Holder, many)
		for i := range holders {
			holders[i] = l.Holder(background)
			asked(holders[i], "n", many, 1, 1)
		}
		w.same("goroutines of holders", goroutines(), before)
		var all sync.WaitGroup
		for _, h := range holders {
			all.Go(func() {
				w.is(errOf(h.Acquire(ctx, "n", View{many, 1}, 1)), why)
			})
		}
		synctest.Wait()
		w.same("goroutines of waiters", goroutines(), before+many)
		w.same("waiting", l.Waiting("n"), many)
		got, _ := asked(holders[0], "n", many+1, 1, 1)
		w.same("overtakes", got, `"n" is full: 500/501 held, 500 waiting`)
		cancel(why)
		all.Wait()
		w.same("held", l.Held("n"), many)
		for _, h := range holders {
			w.same("close", h.Close(), 1)
		}
		w.same("names", len(l.Names()), 0)
		w.same("goroutines left", goroutines(), before)
	})
}
