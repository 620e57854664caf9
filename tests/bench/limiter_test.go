//go:build unix

package main

import (
	"context"
	"runtime"
	"strconv"
	"sync"
	"testing"

	"golang.org/x/sync/semaphore"

	"github.com/mopslock/mopslock/host/limiter"
)

// The shape of canal_lock's own benchmark.
var canalLockView = limiter.View{Capacity: 100, Width: 10}

// spread runs b.N pairs of an acquire and a release on some goroutines, each with
// the pair that worker makes for it.
func spread(b *testing.B, goroutines int, worker func() (pair func() bool)) {
	b.ReportAllocs()
	var all sync.WaitGroup
	for i := range goroutines {
		all.Go(func() {
			pair := worker()
			for range b.N/goroutines + min(1, max(0, b.N%goroutines-i)) {
				if !pair() {
					b.Error("refused")
					return
				}
			}
		})
	}
	all.Wait()
}

// limiterPairs are pairs with name and holder, one holder a goroutine.
func limiterPairs(b *testing.B, goroutines int) {
	l := limiter.New(nil)
	spread(b, goroutines, func() func() bool {
		h := l.Owner(context.Background())
		return func() bool {
			p, err := h.TryAcquire("bench", canalLockView, 1)
			return err == nil && p.Release() == nil
		}
	})
}

func slotPairs(b *testing.B, goroutines int) {
	l := limiter.New(nil)
	spread(b, goroutines, func() func() bool {
		s := l.Owner(context.Background()).On("bench")
		return func() bool {
			_, ok := s.TryAcquire(canalLockView.Capacity, canalLockView.Width, 1)
			return ok && s.Release(1)
		}
	})
}

func semaphorePairs(b *testing.B, goroutines int) {
	s := semaphore.NewWeighted(int64(canalLockView.Limit()))
	spread(b, goroutines, func() func() bool {
		return func() bool {
			ok := s.TryAcquire(1)
			if ok {
				s.Release(1)
			}
			return ok
		}
	})
}

// One name: by name and holder; on a resolved handle; and beside them a semaphore that has
// no names and no holders. Each on 1 goroutine and on 100.
func BenchmarkLimiter(b *testing.B)         { limiterPairs(b, 1) }
func BenchmarkLimiterMany(b *testing.B)     { limiterPairs(b, 100) }
func BenchmarkLimiterSlot(b *testing.B)     { slotPairs(b, 1) }
func BenchmarkLimiterSlotMany(b *testing.B) { slotPairs(b, 100) }
func BenchmarkSemaphore(b *testing.B)       { semaphorePairs(b, 1) }
func BenchmarkSemaphoreMany(b *testing.B)   { semaphorePairs(b, 100) }

// BenchmarkLimiterMemory is the memory of a name of which one permit is held: the
// name's own bytes, the limiter's and the holder's.
func BenchmarkLimiterMemory(b *testing.B) {
	const names = 1_000_000
	for b.Loop() {
		before := liveBytes()
		l := limiter.New(nil)
		h := l.Owner(context.Background())
		for i := range names {
			if _, err := h.TryAcquire("name-"+strconv.Itoa(i), limiter.View{Capacity: 1, Width: 1}, 1); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(liveBytes()-before)/names, "B/name")
		runtime.KeepAlive(l)
		h.Close()
	}
}

func liveBytes() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
