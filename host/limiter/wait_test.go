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
	owner, w := l.Owner(background), l.Owner(background)
	owner.On("n").TryAcquire(1, 1, 1)
	e := l.lock("n")
	granted := &waiter{demand: demand{1, 1, 1}, owner: w.state, entry: e, done: make(chan struct{})}
	behind := &waiter{demand: demand{1, 1, 1}, owner: owner.state, entry: e, done: make(chan struct{})}
	w.state.wait(granted)
	owner.state.wait(behind)
	e.mu.Unlock()
	owner.On("n").Release(1)
	<-granted.done
	ctx, cancel := context.WithCancel(background)
	cancel()
	_, err := granted.await(ctx)
	same(t, "error", err, context.Canceled)
	<-behind.done // it was handed on
	same(t, "held by the cancelled", w.Close(), 0)
	same(t, "held", owner.Close(), 1)
}

// No goroutine for owners, permits or waiters: each waits in its caller's own. In a FIFO
// queue nobody overtakes, and a caller hears why its context ended.
func TestWaiters(t *testing.T) {
	const many = 500
	synctest.Test(t, func(t *testing.T) {
		l := New(&Options{FIFO: true})
		why := errors.New("enough")
		ctx, cancel := context.WithCancelCause(background)
		before := goroutines()
		owners := make([]*PermitOwner, many)
		for i := range owners {
			owners[i] = l.Owner(background)
			asked(owners[i], "n", many, 1, 1)
		}
		same(t, "goroutines of owners", goroutines(), before)
		var all sync.WaitGroup
		for _, owner := range owners {
			all.Go(func() {
				_, err := owner.Acquire(ctx, "n", View{many, 1}, 1)
				same(t, "waits", err, why)
			})
		}
		synctest.Wait()
		same(t, "goroutines of waiters", goroutines(), before+many)
		same(t, "waiting", l.Waiting("n"), many)
		got, _ := asked(owners[0], "n", many+1, 1, 1)
		same(t, "overtakes", got, `"n" is full: 500/501 held, 500 waiting`)
		cancel(why)
		all.Wait()
		same(t, "held", l.Held("n"), many)
		for _, owner := range owners {
			same(t, "close", owner.Close(), 1)
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
