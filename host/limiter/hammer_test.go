package limiter

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
)

const (
	maxCapacity, maxWidth = 12, 3
	maxWeight             = 3
)

// Many goroutines use few names, each with views of its own at every call, while owners
// come to their ends, waiting calls are cancelled and names are forgotten: nobody is
// granted more than there is, and nothing is left.
func TestHammer(t *testing.T) {
	const hammerers, operations = 32, 600
	for _, fifo := range []bool{false, true} {
		t.Run(fmt.Sprintf("fifo=%v", fifo), func(t *testing.T) {
			l := New(&Options{FIFO: fifo})
			h := &hammer{T: t, limiter: l, shared: l.Owner(background), cancels: make([]atomic.Pointer[context.CancelFunc], hammerers)}
			var all sync.WaitGroup
			for g := range hammerers {
				one := &hammerer{hammer: h, number: g, rand: rand.New(rand.NewPCG(uint64(g), 7))}
				all.Go(func() {
					one.begin()
					for range operations {
						one.swing()
					}
					one.finish()
				})
			}
			all.Wait()
			for n := range h.names {
				same(t, "inside at the end", h.names[n].inside.Load(), 0)
				if most := h.names[n].most.Load(); most > maxCapacity*maxWidth {
					t.Errorf("%d inside", most)
				}
				same(t, "waiting at the end", l.Waiting(fmt.Sprint(n)), 0)
			}
			same(t, "held by the shared owner", h.shared.Close(), 0)
			same(t, "names", l.Names(), nil)
		})
	}
}

type hammer struct {
	*testing.T
	limiter *Limiter
	shared  *PermitOwner // of all
	cancels []atomic.Pointer[context.CancelFunc]
	names   [3]struct{ inside, most atomic.Int64 }
}

// enter counts who is inside by a name, with no help of the limiter.
func (h *hammer) enter(n, weight int) {
	name := &h.names[n]
	now := name.inside.Add(int64(weight))
	for most := name.most.Load(); now > most && !name.most.CompareAndSwap(most, now); most = name.most.Load() {
	}
}

func (h *hammer) leave(n, weight int) { h.names[n].inside.Add(-int64(weight)) }

// hammerer is one of the goroutines, and what it holds.
type hammerer struct {
	*hammer
	number int
	rand   *rand.Rand
	owner  *PermitOwner
	end    context.CancelFunc // of the owner
	held   []heldPermit
}

type heldPermit struct {
	permit    Permit
	n, weight int
}

func (h *hammerer) begin() {
	ctx, cancel := context.WithCancel(background)
	h.owner, h.end = h.limiter.Owner(ctx), cancel
}

func (h *hammerer) swing() {
	switch dice := h.rand.IntN(100); {
	case len(h.held) == 0 || dice < 45: // it waits with empty hands alone, so that somebody can always go on
		h.acquire(len(h.held) == 0 && dice < 20)
	case dice < 80:
		h.release()
	case dice < 90: // on a slot of the owner that everybody has
		slot := h.shared.On(fmt.Sprint(h.rand.IntN(len(h.names))))
		if total, ok := slot.TryAcquire(3, 1, 1); ok && (total > 3 || !slot.Release(1)) {
			h.Errorf("granted %d of 3", total)
		}
	case dice < 91: // names are forgotten that others are about to use
		for i := range h.limiter.shards {
			s := &h.limiter.shards[i]
			s.mu.Lock()
			s.forget(h.limiter)
			s.mu.Unlock()
		}
		h.shared.state.crowded.Store(true)
		h.shared.state.tidy()
	case dice < 98: // somebody who waits
		if cancel := h.cancels[h.rand.IntN(len(h.cancels))].Load(); cancel != nil {
			(*cancel)()
		}
	default:
		h.finish()
		h.begin()
	}
}

func (h *hammerer) acquire(wait bool) {
	n, weight := h.rand.IntN(len(h.names)), 1+h.rand.IntN(maxWeight)
	view := View{1 + h.rand.IntN(maxCapacity), 1 + h.rand.IntN(maxWidth)}
	ctx, cancel := context.WithCancel(background)
	defer cancel()
	var p Permit
	var err error
	if wait {
		h.cancels[h.number].Store(&cancel)
		p, err = h.owner.Acquire(ctx, fmt.Sprint(n), view, weight)
		h.cancels[h.number].Store(nil)
	} else {
		p, err = h.owner.TryAcquire(fmt.Sprint(n), view, weight)
	}
	switch {
	case err == nil && p.Total() > view.Limit():
		h.Errorf("granted %d of %d", p.Total(), view.Limit())
	case err == nil:
		h.enter(n, weight)
		h.held = append(h.held, heldPermit{p, n, weight})
	case !errors.Is(err, ErrFull) && !errors.Is(err, ErrWeightExceedsLimit) && !errors.Is(err, context.Canceled):
		h.Error(err)
	}
}

func (h *hammerer) release() {
	last := len(h.held) - 1
	held := h.held[last]
	h.held = h.held[:last]
	h.leave(held.n, held.weight)
	if h.rand.IntN(2) == 0 {
		same(h, "released on a slot", h.owner.On(fmt.Sprint(held.n)).Release(held.weight), true)
	} else {
		same(h, "released", held.permit.Release(), nil)
	}
}

// finish ends the owner by Close, or by its context and then Close, which waits
// for that.
func (h *hammerer) finish() {
	weight := 0
	for _, held := range h.held {
		weight += held.weight
		h.leave(held.n, held.weight)
	}
	byContext := h.rand.IntN(2) == 0
	if byContext {
		h.end()
	}
	if freed := h.owner.Close(); freed != weight && !byContext {
		h.Errorf("%d freed, not %d", freed, weight)
	}
	h.end()
	for _, held := range h.held {
		same(h, "released after the end", errors.Is(held.permit.Release(), ErrOutOfBuckets), true)
	}
	h.held = nil
}
