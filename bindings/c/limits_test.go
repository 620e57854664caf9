//go:build cgo && !mopslock_core

package main

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"

	"github.com/mopslock/mopslock/host/limiter"
)

// liveOf counts the handles of a kind.
func liveOf(kind uint64) (count int) {
	table.mu.RLock()
	defer table.mu.RUnlock()
	for handle := range table.live {
		if handle&kindMask == kind {
			count++
		}
	}
	return count
}

func limiterOf(t *testing.T, handle uint64) *cLimiter {
	t.Helper()
	table.mu.RLock()
	defer table.mu.RUnlock()
	l, ok := table.live[handle].value.(*cLimiter)
	if !ok {
		t.Fatal("no limiter")
	}
	return l
}

func holderOf(t *testing.T, l *cLimiter, handle uint64) *limitHolder {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	o := l.holders[handle]
	if o == nil {
		t.Fatal("no holder")
	}
	return o
}

// TestHandlesOfLimits: goroutines free a holder, release its permits and take more of
// them, in any order. In the end no handle is left, and nothing is held.
func TestHandlesOfLimits(t *testing.T) {
	l := limiterOf(t, putLimiter(false))
	view := limiter.View{Capacity: 3, Width: 2}
	for range 200 {
		o := holderOf(t, l, l.holder())
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				handle, _, err := o.give(context.Background(), "n", view, 1, -1)
				if err != nil {
					return
				}
				p := &limitPermit{of: o}
				if found, ok := lookup[*limitPermit](handle); ok {
					p = found
				}
				var twice sync.WaitGroup
				for range 2 {
					twice.Go(func() { _ = p.release(handle) })
				}
				twice.Wait()
			})
		}
		all.Go(func() { o.free() })
		all.Go(func() { o.free() })
		all.Wait()
		if held := l.Held("n"); held != 0 {
			t.Fatalf("%d held", held)
		}
	}
	for _, kind := range []uint64{limitHolderKind, limitPermitKind, limitSlotKind} {
		if n := liveOf(kind); n != 0 {
			t.Errorf("%d handles of kind %d", n, kind)
		}
	}
	o := holderOf(t, l, l.holder())
	handle, held, err := o.give(context.Background(), "n", view, 6, 0)
	if err != nil || held != 6 {
		t.Fatal(held, err)
	}
	waits := make(chan error)
	go func() {
		_, _, err := o.give(context.Background(), "n", view, 1, 0)
		waits <- err
	}()
	for l.Waiting("n") == 0 {
		runtime.Gosched()
	}
	l.free()
	if err := <-waits; !errors.Is(err, limiter.ErrOwnerEnded) {
		t.Error(err)
	}
	if _, ok := lookup[*limitPermit](handle); ok || l.holder() != 0 {
		t.Error("a freed limiter has something")
	}
	for _, kind := range []uint64{limiterKind, limitHolderKind, limitPermitKind} {
		if n := liveOf(kind); n != 0 {
			t.Errorf("%d handles of kind %d", n, kind)
		}
	}
	table.mu.RLock()
	defer table.mu.RUnlock()
	if table.queues[l.handle] != nil {
		t.Error("its queue is left")
	}
}

func lookup[T any](handle uint64) (T, bool) {
	table.mu.RLock()
	defer table.mu.RUnlock()
	value, ok := table.live[handle].value.(T)
	return value, ok
}
