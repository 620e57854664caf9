package host

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
)

// limiterHammer is many goroutines on few names, each with views of its own at
// every call, while holders come to their ends and waiting calls are cancelled.
type limiterHammer struct {
	t       *testing.T
	limiter *Limiter
	shared  *Holder // of all
	names   [3]hammered
	cancels [limiterHammerers]atomic.Pointer[context.CancelFunc]
}

// hammered is a name, and what its callers know of it themselves: they count what
// they were granted after they were, and before they give it back. So it is never
// more than what is held.
type hammered struct {
	name   string
	inside atomic.Int64
}

const (
	limiterHammerers            = 64
	maxHammerCap, maxHammerWide = 12, 3
	maxHammerWeight             = 3
)

func TestLimiterHammer(t *testing.T) {
	const operations = 200_000
	for _, fifo := range []bool{false, true} {
		t.Run(fmt.Sprintf("fifo=%v", fifo), func(t *testing.T) {
			hammer := &limiterHammer{t: t, limiter: NewLimiter(&LimiterOptions{FIFO: fifo})}
			for i := range hammer.names {
				hammer.names[i].name = fmt.Sprint("name", i)
			}
			hammer.shared = hammer.limiter.Holder(context.Background())
			var all sync.WaitGroup
			for i := range limiterHammerers {
				all.Go(func() { hammer.swing(i, operations/2/limiterHammerers) })
			}
			all.Wait()
			for i := range hammer.names {
				n := &hammer.names[i]
				same(t, "inside at the end", n.inside.Load(), 0)
				same(t, "held at the end", hammer.limiter.Held(n.name), 0)
				same(t, "waiting at the end", hammer.limiter.Waiting(n.name), 0)
			}
			same(t, "held by the shared holder", hammer.shared.Close(), 0)
			same(t, "names", hammer.limiter.Names(), nil)
		})
	}
}

// hammerer is one of the goroutines, and what it holds.
type hammerer struct {
	*limiterHammer
	number int
	rand   *rand.Rand
	holder *Holder
	end    context.CancelFunc // of the holder
	held   []hammerHeld
}

type hammerHeld struct {
	*hammered
	permit LimiterPermit
	weight int
}

func (l *limiterHammer) swing(number, operations int) {
	h := &hammerer{limiterHammer: l, number: number, rand: rand.New(rand.NewPCG(uint64(number), 7))}
	h.begin()
	for range operations {
		switch n := h.rand.IntN(100); {
		case len(h.held) == 0 && n < 20:
			h.acquire(true)
		case len(h.held) == 0 || n < 45:
			h.acquire(false)
		case n < 80:
			h.release()
		case n < 90:
			h.share()
		case n < 91:
			h.sweep()
		case n < 98: // somebody who waits
			if cancel := l.cancels[h.rand.IntN(limiterHammerers)].Load(); cancel != nil {
				(*cancel)()
			}
		default:
			h.finish()
			h.begin()
		}
		if l.t.Failed() {
			break
		}
	}
	h.finish()
}

func (h *hammerer) begin() {
	ctx, cancel := context.WithCancel(context.Background())
	h.holder, h.end = h.limiter.Holder(ctx), cancel
}

// acquire waits only with empty hands, so that somebody can always go on.
func (h *hammerer) acquire(wait bool) {
	n := &h.names[h.rand.IntN(len(h.names))]
	view := View{1 + h.rand.IntN(maxHammerCap), 1 + h.rand.IntN(maxHammerWide)}
	weight := 1 + h.rand.IntN(maxHammerWeight)
	var p LimiterPermit
	var err error
	if wait {
		ctx, cancel := context.WithCancel(context.Background())
		h.cancels[h.number].Store(&cancel)
		p, err = h.holder.Acquire(ctx, n.name, view, weight)
		h.cancels[h.number].Store(nil)
		cancel()
	} else {
		p, err = h.holder.TryAcquire(n.name, view, weight)
	}
	switch {
	case err == nil:
		if p.Total() > view.Limit() {
			h.t.Errorf("granted %d of %d", p.Total(), view.Limit())
		}
		if inside := n.inside.Add(int64(weight)); inside > maxHammerCap*maxHammerWide {
			h.t.Errorf("%d inside", inside)
		}
		h.held = append(h.held, hammerHeld{n, p, weight})
	case !errors.Is(err, ErrFull) && !errors.Is(err, ErrTooHeavy) && !errors.Is(err, context.Canceled):
		h.t.Error(err)
	}
}

// share takes and gives back on a slot of the holder that everybody has.
func (h *hammerer) share() {
	n := &h.names[h.rand.IntN(len(h.names))]
	slot := h.shared.On(n.name)
	capacity := 1 + h.rand.IntN(maxHammerCap)
	total, ok := slot.TryAcquire(capacity, 1, 1)
	if !ok {
		return
	}
	if inside := n.inside.Add(1); total > capacity || inside > maxHammerCap*maxHammerWide {
		h.t.Errorf("granted %d of %d, %d inside", total, capacity, inside)
	}
	n.inside.Add(-1)
	if !slot.Release(1) {
		h.t.Error("the shared slot has not what was granted")
	}
}

// sweep has names forgotten that others are about to use.
func (h *hammerer) sweep() {
	for i := range h.limiter.shards {
		s := &h.limiter.shards[i]
		s.mu.Lock()
		s.forget(h.limiter)
		s.mu.Unlock()
	}
	h.shared.o.crowded.Store(true)
	h.shared.o.tidy()
}

func (h *hammerer) release() {
	i := h.rand.IntN(len(h.held))
	held := h.held[i]
	h.held = append(h.held[:i], h.held[i+1:]...)
	held.inside.Add(-int64(held.weight))
	if h.rand.IntN(2) == 0 {
		if !h.holder.On(held.name).Release(held.weight) {
			h.t.Error("a slot has not what was granted")
		}
	} else if err := held.permit.Release(); err != nil {
		h.t.Error(err)
	}
}

// finish ends the holder by Close, or by its context and then Close, which waits
// for that.
func (h *hammerer) finish() {
	weight := 0
	for _, held := range h.held {
		weight += held.weight
		held.inside.Add(-int64(held.weight))
	}
	byContext := h.rand.IntN(2) == 0
	if byContext {
		h.end()
	}
	if freed := h.holder.Close(); freed != weight && !byContext {
		h.t.Errorf("%d freed, not %d", freed, weight)
	}
	h.end()
	for _, held := range h.held {
		if !errors.Is(held.permit.Release(), ErrOutOfBuckets) {
			h.t.Error("released after the end")
		}
	}
	h.held = h.held[:0]
}
