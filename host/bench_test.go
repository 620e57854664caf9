package host

import (
	"context"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/store"
)

func benchHosts(b *testing.B, run func(b *testing.B, h *Host)) {
	kinds := []string{"mem", "file"}
	if far != nil {
		kinds = []string{far.kind}
	}
	for _, kind := range kinds {
		b.Run(kind, func(b *testing.B) {
			url := "mem://"
			if kind != "mem" {
				url = ownURL(b)
			}
			h, err := Open(context.Background(), url, nil)
			if err != nil {
				b.Fatal(err)
			}
			defer h.Close(context.Background())
			run(b, h)
		})
	}
}

// Acquire and release cost get, put, get, put, get, put; the wait between them
// is twice the first get and put.
func BenchmarkAcquireRelease(b *testing.B) {
	benchHosts(b, func(b *testing.B, h *Host) {
		ctx := context.Background()
		b.ReportAllocs()
		for b.Loop() {
			l, err := h.Acquire(ctx, "n", lastWriter)
			if err == nil {
				err = l.Release(ctx)
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	})
}

// A hundred goroutines acquire and release a permit each at the same time, on a
// store that takes a while: commits/100 is how many versions that takes, where one
// for each step would be 200.
func BenchmarkPermitsOfAHundred(b *testing.B) {
	const waiters = 100
	ctx := context.Background()
	s := newFakeStore(&shelf{objects: map[string]store.Object{}})
	s.always(fault{before: time.Millisecond})
	h, err := New(s, &Options{Memory: "-"})
	if err != nil {
		b.Fatal(err)
	}
	defer h.Close(ctx)
	together := func(do func(i int) error) {
		var all sync.WaitGroup
		for i := range waiters {
			all.Go(func() {
				if err := do(i); err != nil {
					b.Error(err)
				}
			})
		}
		all.Wait()
	}
	held := make([]*Permit, waiters)
	for b.Loop() {
		together(func(i int) (err error) {
			held[i], err = h.AcquirePermit(ctx, "n", View{Capacity: waiters, Width: 1}, nil)
			return err
		})
		together(func(i int) error { return held[i].Release(ctx) })
	}
	b.ReportMetric(float64(s.count("create", versionFile))/float64(b.N), "commits/100")
}

// The same verbs on the same store, called bare, with the protocol's wait of
// twice the first get and put (wait) and without (verbs).
func BenchmarkBareVerbs(b *testing.B) {
	for _, wait := range []bool{true, false} {
		b.Run(map[bool]string{true: "wait", false: "verbs"}[wait], func(b *testing.B) {
			benchHosts(b, func(b *testing.B, h *Host) {
				b.ReportAllocs()
				for b.Loop() {
					if err := bare(h.store, wait); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
}

func bare(s store.Store, wait bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	body := record{writer: "01234567-89ab-4def-8123-456789abcdef", expire: time.Minute}.body()
	begun := time.Now()
	for i := range 3 {
		if _, err := s.Get(ctx, "n/lock.json"); err != nil && i > 0 {
			return err
		}
		if err := s.Put(ctx, "n/lock.json", body, core.LockFileType); err != nil {
			return err
		}
		if i == 0 && wait {
			<-time.After(2 * time.Since(begun))
		}
	}
	return nil
}

// From A's release to B holds, in one process.
func BenchmarkHandOver(b *testing.B) {
	benchHosts(b, func(b *testing.B, h *Host) {
		ctx := context.Background()
		l, err := h.Acquire(ctx, "n", lastWriter)
		if err != nil {
			b.Fatal(err)
		}
		var between time.Duration
		for b.Loop() {
			next, waiting := make(chan *Lease), make(chan struct{})
			go func() {
				l, _ := h.Acquire(ctx, "n", &AcquireOptions{OnWaiting: func(Status) { close(waiting) }})
				next <- l
			}()
			<-waiting
			if err := l.Release(ctx); err != nil {
				b.Fatal(err)
			}
			released := time.Now()
			if l = <-next; l == nil {
				b.Fatal("not handed over")
			}
			between += time.Since(released)
		}
		b.ReportMetric(float64(between.Microseconds())/float64(b.N), "µs/hand-over")
	})
}

// What one held lease takes of memory while no request is under way, above
// what its record takes.
func BenchmarkMemoryPerLease(b *testing.B) {
	const many = 10_000
	ctx := context.Background()
	for b.Loop() {
		s := &bareShelf{shelf: &shelf{objects: make(map[string]store.Object, many)}}
		h, err := New(s, nil)
		if err != nil {
			b.Fatal(err)
		}
		names := make([]string, many)
		for i := range names {
			names[i] = "lease/" + strconv.Itoa(i)
		}
		before, goroutines := heapBytes(), runtime.NumGoroutine()
		leases := make([]*Lease, many)
		var all sync.WaitGroup
		for i := range leases {
			all.Go(func() {
				leases[i], _ = h.Acquire(ctx, names[i], &AcquireOptions{Terms: Terms{Protocol: core.ProtocolLastWriter, TTL: 30 * time.Minute}})
			})
		}
		all.Wait()
		b.ReportMetric(float64(heapBytes()-before-s.bytes())/many, "B/lease")
		b.ReportMetric(float64(runtime.NumGoroutine()-goroutines), "goroutines")
		runtime.KeepAlive(leases)
		if err := h.Close(ctx); err != nil {
			b.Fatal(err)
		}
	}
}

func heapBytes() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// bareShelf is a store that keeps nothing but the objects.
type bareShelf struct {
	store.Store
	shelf *shelf
}

func (s *bareShelf) Get(_ context.Context, key string) (store.Object, error) {
	object, ok := s.shelf.get(key)
	if !ok {
		return object, store.Fail("get", key, core.ClassNone, store.ErrAbsent)
	}
	return object, nil
}

func (s *bareShelf) Put(_ context.Context, key string, body []byte, _ string) error {
	s.shelf.put(key, body)
	return nil
}

func (s *bareShelf) StampUnit() time.Duration { return time.Nanosecond }
func (s *bareShelf) Close() error             { return nil }

// bytes is what keys and bodies take; the map itself was made before.
func (s *bareShelf) bytes() (n int64) {
	for key, object := range s.shelf.objects {
		n += int64(len(key) + cap(object.Body))
	}
	return n
}
