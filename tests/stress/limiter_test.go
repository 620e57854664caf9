//go:build linux || darwin

package stress

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mopslock/mopslock/host"
)

// Of TestLimiter.
const (
	limiterWorkers  = 64
	limiterNames    = 4
	limiterCapacity = 40 // at most; views are others at every call
	limiterWidth    = 4
)

// TestLimiter: 10 million operations (1 million in a short run) on one limiter,
// with views that are others at every call, holders that end and waiting calls
// that are cancelled, beside names that come and go. No grant is above the limit of its
// own view, by what it says and by what the callers count themselves.
func TestLimiter(t *testing.T) {
	_, long := duration(t)
	operations := 1_000_000
	if long {
		operations = 10_000_000
	}
	for _, fifo := range []bool{false, true} {
		s := &limited{limiter: host.NewLimiter(&host.LimiterOptions{FIFO: fifo})}
		began := time.Now()
		var all sync.WaitGroup
		for i := range limiterWorkers {
			all.Go(func() { s.work(t, i, operations/2/limiterWorkers) })
		}
		all.Wait()
		for i := range s.inside {
			if inside, held := s.inside[i].Load(), s.limiter.Held(limitedName(i)); inside != 0 || held != 0 {
				t.Errorf("at the end %d inside and %d held", inside, held)
			}
		}
		if names := s.limiter.Names(); len(names) > 0 {
			t.Errorf("at the end there is %q", names)
		}
		if s.granted.Load() == 0 || s.full.Load() == 0 || s.waited.Load() == 0 || s.cancelled.Load() == 0 {
			t.Error("there was something that did not happen")
		}
		figures(t, "fifo=%v: %d operations in %v: granted %d, refused %d, waited %d, cancelled %d, at most %d inside",
			fifo, operations/2, time.Since(began).Round(time.Millisecond), s.granted.Load(), s.full.Load(), s.waited.Load(), s.cancelled.Load(), s.most.Load())
	}
}

// limited is a limiter and what its callers count of it.
type limited struct {
	limiter *host.Limiter
	inside  [limiterNames]atomic.Int64 // at most what is held
	most    atomic.Int64
	waiting [limiterWorkers]atomic.Pointer[context.CancelFunc]

	granted, full, waited, cancelled atomic.Int64
}

func limitedName(i int) string { return "name" + strconv.Itoa(i) }

// work waits only while it holds nothing, so that somebody can always go on.
func (s *limited) work(t *testing.T, number, operations int) {
	random := rand.New(rand.NewPCG(uint64(number), 11)) //nolint:gosec // no secret
	holder := s.limiter.Holder(context.Background())
	type grant struct {
		name   int
		permit host.LimiterPermit
		weight int64
	}
	var held []grant
	end := func() {
		sum := int64(0)
		for _, g := range held {
			s.inside[g.name].Add(-g.weight)
			sum += g.weight
		}
		if freed := holder.Close(); int64(freed) != sum {
			t.Errorf("%d freed, not %d", freed, sum)
		}
		held = held[:0]
	}
	for i := 0; i < operations && !t.Failed(); i++ {
		switch n := random.IntN(200); {
		case n == 0:
			end()
			holder = s.limiter.Holder(context.Background())
		case n < 10: // a name that nobody uses again
			p, err := holder.TryAcquire(strconv.FormatUint(random.Uint64(), 36), host.View{Capacity: 1, Width: 1}, 1)
			if err != nil || p.Release() != nil {
				t.Errorf("a name of its own: %v", err)
			}
		case n < 20:
			if cancel := s.waiting[random.IntN(limiterWorkers)].Load(); cancel != nil {
				(*cancel)()
			}
		case n < 110 && len(held) > 0:
			g := held[len(held)-1]
			held = held[:len(held)-1]
			s.inside[g.name].Add(-g.weight)
			if err := g.permit.Release(); err != nil {
				t.Error(err)
			}
		default:
			name, weight := random.IntN(limiterNames), 1+random.IntN(3)
			view := host.View{Capacity: 1 + random.IntN(limiterCapacity), Width: 1 + random.IntN(limiterWidth)}
			p, ok := s.acquire(t, number, holder, limitedName(name), view, weight, len(held) == 0 && n%2 == 0)
			if ok {
				if inside := s.inside[name].Add(int64(weight)); inside > limiterCapacity*limiterWidth {
					t.Errorf("%d inside", inside)
				} else if inside > s.most.Load() {
					s.most.Store(inside) // roughly: it is only told
				}
				held = append(held, grant{name, p, int64(weight)})
			}
		}
	}
	end()
}

func (s *limited) acquire(t *testing.T, number int, h *host.Holder, name string, view host.View, weight int, wait bool) (host.LimiterPermit, bool) {
	var p host.LimiterPermit
	var err error
	if wait {
		ctx, cancel := context.WithCancel(context.Background())
		s.waiting[number].Store(&cancel)
		s.waited.Add(1)
		p, err = h.Acquire(ctx, name, view, weight)
		s.waiting[number].Store(nil)
		cancel()
	} else {
		p, err = h.TryAcquire(name, view, weight)
	}
	switch {
	case err == nil && p.Total() > view.Limit():
		t.Errorf("granted %d of %d", p.Total(), view.Limit())
	case err == nil:
		s.granted.Add(1)
	case errors.Is(err, host.ErrFull):
		s.full.Add(1)
	case errors.Is(err, context.Canceled):
		s.cancelled.Add(1)
	case !errors.Is(err, host.ErrTooHeavy):
		t.Error(err)
	}
	return p, err == nil
}
