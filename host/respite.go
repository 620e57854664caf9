package host

import (
	"errors"
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

// begins is when a request may be sent that has a limit, and a deadline from it.
func (p *respite) begins(deadline time.Time, limit time.Duration) time.Time {
	if half := deadline.Add(-limit / 2); half.Before(p.until) {
		return half
	}
	return p.until
}
