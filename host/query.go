package host

import (
	"context"
	"errors"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/internal/loop"
	"github.com/mopslock/mopslock/host/internal/telemetry"
)

// query is a claim that does one thing and ends: a look, a break, a limit, the renewal or the
// release of a printed lease.
type query struct {
	notHeld
	host  *Host
	name  string
	of    subject
	seen  *Status     // what it has shown
	held  core.Action // of a renewal
	err   error       // why it was refused
	done  bool
	ended chan struct{}
}

// notHeld is embedded in a claim that holds nothing on which anybody relies.
type notHeld struct{ loop.Numbered }

// Answered implements loop.Claim.
func (notHeld) Answered(*loop.Request, *core.Event, error) {}

// Closing implements loop.Claim.
func (notHeld) Closing() {}

func (h *Host) newQuery(name string, of subject) *query {
	return &query{host: h, name: name, of: of, ended: make(chan struct{})}
}

// run begins it, and waits for its end. It returns what it was refused for, ErrClosed, or an
// error that wraps ctx's cause.
func (q *query) run(ctx context.Context, command core.Event) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := q.host.begin(q, command, &loop.Caller{Ctx: ctx, Done: q.ended}); err != nil {
		return err
	}
	select {
	case <-q.ended:
	case <-ctx.Done():
		q.host.loop.Command(q, core.Event{Kind: core.EventCancel}, nil)
		return &waitError{&Error{Name: q.name, of: q.of}, context.Cause(ctx)}
	}
	if errors.Is(q.err, &Error{Kind: NotAcquired, Reason: core.ReasonCancelled}) {
		return ErrClosed // nobody else could end it so
	}
	return q.err
}

// Hear implements loop.Claim.
func (q *query) Hear(a *core.Action) (last bool) {
	if s := a.Observed; s != nil && a.Kind == core.ActionSeen {
		seen := newStatus(q.name, a.Protocol, s, q.host.clock.Now())
		q.seen = &seen
	}
	switch a.Kind {
	case core.ActionHeld:
		q.held = *a
		q.held.Body, q.held.Observed = nil, nil
	case core.ActionSeen:
		q.conclude(q.of == ofRead, nil)
	case core.ActionReleased:
		q.host.record(func(r *telemetry.Recorder) { r.Released(telemetry.Holding{Kind: telemetry.Lease, Name: q.name}) })
		q.conclude(true, nil)
	case core.ActionLeft: // a renewal is over; if it was not made, Close has ended it
		if q.held.Kind == 0 {
			q.conclude(true, ErrClosed)
		}
		q.conclude(true, nil)
	case core.ActionLimited, core.ActionBroken:
		q.conclude(true, nil)
	case core.ActionWarned:
		q.host.warn(q.name, a, q.Cause())
	case core.ActionRefused:
		q.conclude(true, q.failed(NotAcquired, a))
	case core.ActionLost:
		why, err := a.Reason, q.failed(Lost, a)
		q.host.record(func(r *telemetry.Recorder) { r.NotOurs(q.name, why, err) })
		q.conclude(true, err)
	case core.ActionCannotMaintain:
		q.conclude(true, q.failed(NothingToJoin, a))
	}
	return q.done
}

func (q *query) failed(kind Kind, a *core.Action) error {
	return q.host.failure(&Error{Kind: kind, Name: q.name, Err: q.Cause(), of: q.of}, a, 0)
}

func (q *query) conclude(last bool, err error) {
	if last && !q.done {
		q.done, q.err = true, err
		q.host.loop.Signal(q.ended)
	}
}

// Left implements loop.Claim.
func (q *query) Left() { q.conclude(true, ErrClosed) }

// Stranded implements loop.Claim.
func (q *query) Stranded(_ int64, command core.EventKind, cause error) (until int64) {
	q.Fail(&EngineError{cause})
	a := core.Action{Kind: core.ActionRefused, Reason: core.ReasonUnusable}
	if command != 0 {
		a.Reason = core.ReasonCancelled
	}
	q.Hear(&a)
	return 0
}

// about is its name, for people.
func (q *query) about() string { return q.name }
