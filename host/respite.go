package host

import (
	"errors"
	"slices"
	"time"

	"github.com/mopslock/mopslock/host/store"
)

// respite is a store's wish to be left alone for a while, as Retry-After says it. No
// machine's request is sent until then, but each at half of its limit at the latest: limits
// come from deadlines, and who never sends in time has lost what the store would have kept.
// Looks of those who take no part, and tidying, do not wait (direct): none is repeated at once.
//
//	renewal    503, Retry-After: 30 ·····│ sent after all
//	           limit of the next one: ═══╪═══│
//	waiter                          ····························│ sent
//
// The machines know nothing of it. A request that has to wait is to them one that
// takes its time, and what they reckon from is when they asked for it.
type respite struct {
	until time.Time // on Go's clock: after a machine was suspended it is too late, never too early
}

// heed takes a wish from a store's error, if there is one in it.
func (p *respite) heed(err error) {
	e, ok := errors.AsType[*store.Error](err)
	if !ok || e.RetryAfter <= 0 {
		return
	}
	if until := time.Now().Add(e.RetryAfter); until.After(p.until) {
		p.until = until
	}
}

// begins is when a request may be sent.
func (p *respite) begins(r *request) time.Time {
	if deadline, ok := r.ctx.Deadline(); ok {
		if half := deadline.Add(-r.action.Limit / 2); half.Before(p.until) {
			return half
		}
	}
	return p.until
}

// startDue is startReady while the store wants to be left alone.
func (k *keeper) startDue(q *queue, now time.Time) {
	next := k.respite.until
	q.ready = slices.DeleteFunc(q.ready, func(r *request) bool {
		begins := k.respite.begins(r)
		switch {
		case r.ctx.Err() != nil:
			return true // let go, or answered at its limit
		case begins.After(now):
			if begins.Before(next) {
				next = begins
			}
			return false
		case q.slots == 0:
			return false // whoever gives one back comes by here
		}
		k.start(q, r)
		return true
	})
	if len(q.ready) == 0 {
		return
	}
	if q.waking != nil {
		q.waking.Stop()
	}
	q.waking = time.AfterFunc(next.Sub(now), func() {
		k.post(message{do: func() { k.startReady(q) }})
	})
}
