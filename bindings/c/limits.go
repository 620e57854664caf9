//go:build cgo && !mopslock_core

package main

// #include "shim.h"
import "C"

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/limiter"
)

// cLimiter is a limiter that C has a handle of.
type cLimiter struct {
	*limiter.Limiter
	fifo   bool
	handle uint64

	mu      sync.Mutex
	holders map[uint64]*limitHolder // nil once it is freed
}

// limitHolder is one that C has a handle of. It lists what it has made, so that its end
// need not search the table, which has all handles of the process. Its lock is taken
// before the table's.
type limitHolder struct {
	*limiter.PermitOwner
	of     *cLimiter
	handle uint64

	mu   sync.Mutex
	made map[uint64]struct{} // handles of its permits and slots; nil once it is freed
}

// limitPermit is one that C has a handle of.
type limitPermit struct {
	limiter.Permit
	of *limitHolder
}

// limitSlot is one that C has a handle of.
type limitSlot struct {
	*limiter.Slot
	of *limitHolder
}

// Errors of calls that allocate nothing: their texts have no name.
var (
	errNoRoom    = &limiter.Full{Name: "the slot's name"}
	errOverslot  = errors.Join(errors.New("mopslock: the weight is more than all permits of this view"), limiter.ErrWeightExceedsLimit)
	errSlotEnded = limiter.ErrOwnerEnded
)

// putLimiter makes a limiter, with a queue of events.
func putLimiter(fifo bool) uint64 {
	l := &cLimiter{Limiter: limiter.New(&limiter.Options{FIFO: fifo}), fifo: fifo, holders: map[uint64]*limitHolder{}}
	l.handle = put(l, limiterKind, 0)
	putQueue(l.handle)
	return l.handle
}

// free frees it once, with all its holders, and waits until every call that waits has
// its event.
func (l *cLimiter) free() {
	l.mu.Lock()
	holders := l.holders
	l.holders = nil
	l.mu.Unlock()
	for _, o := range holders {
		o.free()
	}
	take(l.handle)
	closeQueue(context.Background(), l.handle)
}

// holder makes a holder. It returns 0 if the limiter is just being freed.
func (l *cLimiter) holder() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.holders == nil {
		return 0
	}
	o := &limitHolder{PermitOwner: l.Owner(context.Background()), of: l, made: map[uint64]struct{}{}}
	o.handle = put(o, limitHolderKind, 0)
	l.holders[o.handle] = o
	return o.handle
}

// free gives back what it holds, once. A second call finds nothing.
func (o *limitHolder) free() (freed int) {
	o.mu.Lock()
	made := o.made
	o.made = nil
	o.mu.Unlock()
	freed = o.Close()
	takeAll(made)
	take(o.handle)
	o.of.mu.Lock()
	defer o.of.mu.Unlock()
	delete(o.of.holders, o.handle)
	return freed
}

// keep gives a handle to what it has made. It returns 0 if it has been freed meanwhile:
// that has given everything back.
func (o *limitHolder) keep(made any, kind uint64) uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.made == nil {
		return 0
	}
	handle := put(made, kind, 0)
	o.made[handle] = struct{}{}
	return handle
}

// acquire takes permits, by the rules of wait_ns.
func (o *limitHolder) acquire(ctx context.Context, name string, view limiter.View, weight int, wait C.int64_t) (limiter.Permit, error) {
	if ctx.Err() != nil {
		return limiter.Permit{}, context.Cause(ctx)
	}
	if wait == C.MOPSLOCK_TRY {
		return o.TryAcquire(name, view, weight)
	}
	if wait > 0 {
		var done func()
		ctx, done = context.WithTimeoutCause(ctx, time.Duration(wait), timeoutRoom)
		defer done()
	}
	p, err := o.Acquire(ctx, name, view, weight)
	if errors.Is(err, timeoutRoom) {
		full := &limiter.Full{Name: name, Held: o.of.Held(name), Limit: view.Limit(), Weight: max(1, weight)}
		if o.of.fifo {
			full.Waiting = o.of.Waiting(name)
		}
		err = full
	}
	return p, err
}

// give is acquire for C. It returns the permit's handle, and how much is held.
func (o *limitHolder) give(ctx context.Context, name string, view limiter.View, weight int, wait C.int64_t) (handle, held uint64, err error) {
	p, err := o.acquire(ctx, name, view, weight, wait)
	if err != nil {
		if full, ok := errors.AsType[*limiter.Full](err); ok {
			held = uint64(full.Held)
		}
		return 0, held, err
	}
	if handle = o.keep(&limitPermit{p, o}, limitPermitKind); handle == 0 {
		return 0, 0, limiter.ErrOwnerEnded
	}
	return handle, uint64(p.Total()), nil
}

// release gives a permit back. Of several calls one succeeds.
func (p *limitPermit) release(handle uint64) error {
	p.of.mu.Lock()
	_, there := p.of.made[handle]
	delete(p.of.made, handle)
	p.of.mu.Unlock()
	if !there {
		return errHandle
	}
	take(handle)
	if err := p.Release(); err != nil { // its holder was freed in this moment
		return errHandle
	}
	return nil
}

// acquire takes permits of a slot, or says why not.
func (s *limitSlot) acquire(view limiter.View, weight int) (held int, err error) {
	held, ok := s.TryAcquire(view.Capacity, view.Width, weight)
	switch {
	case ok:
		return held, nil
	case core.CheckView(uint32(view.Capacity), uint32(view.Width)) != nil:
		return 0, core.CheckView(uint32(view.Capacity), uint32(view.Width))
	case weight > view.Limit():
		return held, errOverslot
	case s.of.isFreed():
		return 0, errSlotEnded
	}
	return held, errNoRoom
}

func (o *limitHolder) isFreed() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.made == nil
}
