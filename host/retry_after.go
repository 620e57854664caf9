package host

import (
	"errors"
	"time"

	"github.com/mopslock/mopslock/host/store"
)

// retryAfter is the time until which a store asks to be left alone, by Retry-After. Until
// then no machine's request is sent, except that each is sent at half of its limit at the
// latest: limits come from deadlines, and a holder that does not send in time loses a lease
// that the store would have kept. Inspections and tidying (direct) do not wait: none is
// repeated at once.
//
//	renewal    503, Retry-After: 30 ·····│ sent after all
//	           limit of the next one: ═══╪═══│
//	waiter                          ····························│ sent
//
// The machines know nothing of it. To them a request that has to wait is a slow one, and
// they reckon from when they asked for it.
type retryAfter struct {
	until time.Time // on Go's clock: too late after the computer was suspended, never too early
}

// observe takes a RetryAfter from a store's error, if there is one in it.
func (r *retryAfter) observe(err error) {
	e, ok := errors.AsType[*store.Error](err)
	if !ok || e.RetryAfter <= 0 {
		return
	}
	if until := time.Now().Add(e.RetryAfter); until.After(r.until) {
		r.until = until
	}
}

// begins is when a request may be sent that has a limit, and a deadline from it.
func (r *retryAfter) begins(deadline time.Time, limit time.Duration) time.Time {
	if half := deadline.Add(-limit / 2); half.Before(r.until) {
		return half
	}
	return r.until
}
