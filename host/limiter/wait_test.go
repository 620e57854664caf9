package limiter

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
)

// The give-back by itself: withdraw after the grant.
func TestGiveBack(t *testing.T) {
	l := New(nil)
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
func TestWaiters(t *testing.T) {
	const many = 500
	synctest.Test(t, func(t *testing.T) {
		l := New(&Options{FIFO: true})
		why := errors.New("enough")
		ctx, cancel := context.WithCancelCause(background)
		before := goroutines()
		holders := make([]*Holder, many)
		for i := range holders {
			holders[i] = l.Holder(background)
			asked(holders[i], "n", many, 1, 1)
		}
		same(t, "goroutines of holders", goroutines(), before)
		var all sync.WaitGroup
		for _, h := range holders {
			all.Go(func() {
				_, err := h.Acquire(ctx, "n", View{many, 1}, 1)
				same(t, "waits", err, why)
			})
		}
		synctest.Wait()
		same(t, "goroutines of waiters", goroutines(), before+many)
		same(t, "waiting", l.Waiting("n"), many)
		got, _ := asked(holders[0], "n", many+1, 1, 1)
		same(t, "overtakes", got, `"n" is full: 500/501 held, 500 waiting`)
		cancel(why)
		all.Wait()
		same(t, "held", l.Held("n"), many)
		for _, h := range holders {
			same(t, "close", h.Close(), 1)
		}
		same(t, "names", len(l.Names()), 0)
		same(t, "goroutines left", goroutines(), before)
	})
}

// goroutines counts those of this bubble, from their stacks: "goroutine 5 [running,
// synctest bubble 2]:". Ours comes first. runtime.NumGoroutine also counts those of other tests.
func goroutines() int {
	synctest.Wait()
	buf := make([]byte, 1<<20)
	stacks := buf[:runtime.Stack(buf, true)]
	_, bubble, _ := bytes.Cut(stacks, []byte("[running"))
	bubble, _, _ = bytes.Cut(bubble, []byte("\n"))
	return bytes.Count(stacks, bubble)
}
