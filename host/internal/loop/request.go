package loop

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/mopslock/mopslock/core"
)

// Request is one that the client has asked for.
type Request struct {
	core.Action
	// Claim is for which it is, or nil. It may have ended meanwhile.
	Claim Claim
	// Ctx is the call's. It ends when the request is given up, at its deadline at the latest.
	Ctx context.Context

	limit     int64 // Mono: it does not begin later
	until     int64 // Mono: when it is given up, the limit or before
	slots     *slots
	cancel    context.CancelFunc // nil before it has a slot
	abandoned bool               // nobody wants the answer
	late      atomic.Bool        // it was given up
}

// stop ends the call, if the store obeys that.
func (r *Request) stop() {
	if r.cancel != nil {
		r.cancel()
	}
}

// limited is the context of a call: its deadline is kept by the Loop, which has one timer
// for all.
type limited struct {
	context.Context
	request  *Request
	deadline time.Time
}

// Deadline implements context.Context.
func (c limited) Deadline() (time.Time, bool) { return c.deadline, true }

// Err implements context.Context.
func (c limited) Err() error {
	err := c.Context.Err()
	if err != nil && c.request.late.Load() {
		return context.DeadlineExceeded
	}
	return err
}

// ErrSilent is why a request has failed that was given up at its limit.
var ErrSilent = errors.New("no answer within the request's limit")

// unanswered is the answer to a request which the store has not answered.
func unanswered(r *Request) core.Event {
	return core.Event{Kind: core.EventAnswer, Request: r.Action.Request, Outcome: core.OutcomeUnknown, Class: core.ClassUnreachable}
}

// IsTransfer reports whether a request carries a result.
func IsTransfer(verb core.ActionKind) bool {
	return verb == core.ActionCreateResult || verb == core.ActionPutResult
}

// isRead reports whether a request changes nothing.
func isRead(verb core.ActionKind) bool {
	return verb == core.ActionGet || verb == core.ActionExists || verb == core.ActionList
}

// requests are those that the client waits for, and the slots in which calls are under way. A call
// that hangs keeps its slot until it comes back, also after its request was answered
// (PROTOCOL C7).
type requests struct {
	underWay     map[core.RequestID]*Request
	waiting      []*Request        // for a slot, in the order in which they came
	abandoned    []*Request        // that are to be answered at once
	lost         map[*Request]bool // of a client that is gone: the calls end by their limits, and nobody is told
	until        int64             // Mono: before it no request is to be given up
	small, large slots             // some hours of transfer must not delay a renewal
	cause        error             // why the latest that failed has failed
	shared       error             // and the latest for what claims share: a session, how the store is
}

type slots struct{ free int }

func newRequests(small, large int) requests {
	return requests{underWay: map[core.RequestID]*Request{}, lost: map[*Request]bool{}, until: core.Never, small: slots{small}, large: slots{large}}
}

// add takes a request. It has no slot yet, but its limit counts from now.
func (q *requests) add(c Claim, a *core.Action, now int64) {
	r := &Request{Action: *a, Claim: c, limit: now + int64(a.Limit), until: now + int64(a.Limit), slots: &q.small}
	r.Body, r.Observed = bytes.Clone(a.Body), nil // the client writes the next one over it
	if IsTransfer(a.Kind) {
		r.slots = &q.large
	}
	q.underWay[a.Request] = r
	q.waiting = append(q.waiting, r)
	q.until = min(q.until, r.until)
}

// take takes a request out, whose answer has come. It returns false if that was answered before.
func (q *requests) take(r *Request) bool {
	if q.underWay[r.Action.Request] != r {
		return false
	}
	delete(q.underWay, r.Action.Request)
	if len(q.underWay)+len(q.lost) == 0 {
		q.until = core.Never
	}
	return true
}

// end takes that the call of a request has come back.
func (q *requests) end(r *Request) {
	r.slots.free++
	delete(q.lost, r)
}

// abandonGrace is how long a store may take to let go of a write that nobody wants any more.
// The client may wait for its end, before others are let in.
const abandonGrace = int64(time.Second)

// abandon ends a request that nobody wants any more. It is answered all the same: at once if
// it can change nothing, so that many that hang keep no place.
func (q *requests) abandon(id core.RequestID, now int64) {
	r := q.underWay[id]
	if r == nil || r.abandoned {
		return
	}
	r.abandoned = true
	r.stop()
	if isRead(r.Kind) || r.cancel == nil {
		q.abandoned = append(q.abandoned, r)
		return
	}
	r.until = min(r.until, now+abandonGrace)
	q.until = min(q.until, r.until)
}

// nextAbandoned is a request that is to be answered at once, or nil.
func (q *requests) nextAbandoned() *Request {
	if len(q.abandoned) == 0 {
		return nil
	}
	r := q.abandoned[0]
	q.abandoned = slices.Delete(q.abandoned, 0, 1)
	return r
}

// overdue lists the requests whose limit has passed, in the order in which they came.
func (q *requests) overdue(now int64) (late []*Request) {
	if q.until > now {
		return nil
	}
	q.until = core.Never
	for _, r := range q.underWay {
		if r.until <= now {
			late = append(late, r)
		} else {
			q.until = min(q.until, r.until)
		}
	}
	for r := range q.lost {
		if r.until <= now {
			r.stop()
		} else {
			q.until = min(q.until, r.until)
		}
	}
	slices.SortFunc(late, func(a, b *Request) int { return cmp.Compare(a.Action.Request, b.Action.Request) })
	return late
}

// begin gives the requests that wait their slots, as far as there are some.
func (q *requests) begin(ctx context.Context, now int64) (begun []*Request) {
	if len(q.waiting) == 0 {
		return nil
	}
	q.waiting = slices.DeleteFunc(q.waiting, func(r *Request) bool {
		switch {
		case q.underWay[r.Action.Request] != r:
			return true // it was answered
		case r.slots.free == 0:
			return false
		}
		r.slots.free--
		call, cancel := context.WithCancel(ctx)
		r.cancel = cancel
		r.Ctx = limited{call, r, time.Now().Add(time.Duration(r.limit - now))}
		begun = append(begun, r)
		return true
	})
	return begun
}

// clear forgets all requests: the client is gone. Calls under way go on, to their limits.
func (q *requests) clear() {
	for _, r := range q.underWay {
		if r.cancel != nil {
			q.lost[r] = true
		}
	}
	clear(q.underWay)
	q.waiting, q.abandoned = nil, nil
}
