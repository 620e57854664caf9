package host

import (
	"context"
	"errors"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/internal/telemetry"
)

// What the loop tells the log and the meter of what becomes of its tasks: all of it on
// the loop's goroutine.

// holding is a task as telemetry has it.
func (t *task) holding() telemetry.Holding {
	h := telemetry.Holding{
		Kind: t.kind(), Name: t.name, Protocol: t.protocol, TTL: t.ttl.Duration(), Token: t.token, OnSession: t.instance != nil,
	}
	switch h.Kind {
	case telemetry.Session:
		h.TTL = t.beats.terms.ttl.Duration()
	case telemetry.Permit:
		h.Weight = int64(max(1, t.permit.first.Weight))
	}
	return h
}

// kind is what a task is counted as.
func (t *task) kind() telemetry.Kind {
	switch {
	case t.beats != nil:
		return telemetry.Session
	case t.permit != nil:
		return telemetry.Permit
	case t.guarded:
		return telemetry.Lease
	}
	return telemetry.Companion
}

// answered counts the answer to a question. What was wrong with the question itself counts
// for nothing: no store was asked.
func answered(ctx context.Context, q telemetry.Question, protocol core.Protocol, err error) {
	q.Answer(protocol, outcomeOf(ctx, err))
}

// outcomeOf is what became of an acquire, in a word; "" if nothing did.
func outcomeOf(ctx context.Context, err error) string {
	e, ours := errors.AsType[*Error](err)
	_, engine := errors.AsType[*EngineError](err)
	switch {
	case err == nil:
		return "held"
	case !ours && (ctx.Err() != nil || errors.Is(err, ErrClosed)), ours && e.Reason == core.ReasonCancelled:
		return "cancelled"
	case !ours && !engine:
		return ""
	case !ours, e.Class.Permanent(), e.Reason == core.ReasonUnreachable, e.Reason == core.ReasonUnusable, e.Reason == core.ReasonUnreadable:
		return "unavailable"
	case e.Kind == Incompatible, e.Reason == core.ReasonCrowded:
		return "unfit"
	case e.Kind == Lost:
		return "lost"
	}
	return "refused"
}

// instantOf is when a task's request is sent; 0 if nobody wants to know.
func (l *loop) instantOf(t *task) int64 {
	if t.service || t.held || !l.host.telemetry.Wants() {
		return 0
	}
	return l.host.clock.Now().Mono
}

// recordWaiting begins to track the hand-over, and begins again when the holder is another.
func (t *task) recordWaiting(s *core.Observed) {
	if s != nil && t.loop.host.telemetry.Wants() {
		t.handover = telemetry.TrackHandover(s.Epoch, s.State)
	}
}

// recordRead takes an answer to a waiter's request, after the machine has judged it.
func (t *task) recordRead(r *request, ev *core.Event) {
	if t.handover == nil || ev.Outcome == core.OutcomeUnknown {
		return
	}
	switch kind := r.action.Kind; {
	case kind == core.ActionPut:
		t.handover.Put()
	case kind == core.ActionGet && t.protocol == core.ProtocolLastWriter:
		t.handover.Read(t.loop.host.clock.Now(), ev)
	}
	if !t.gone && t.machine.String() == core.LeaseWaiting.String() {
		t.handover.NotFree(r.sent)
	}
}

// recordHeld counts what is held from now on, and logs it. A task that was held before is
// a companion that has joined again, past its deadline.
func (l *loop) recordHeld(t *task, a *core.Action) {
	if t.held {
		l.recordRenewed(t, t.deadline)
		return
	}
	t.counted = true
	if !l.host.telemetry.Wants() {
		return
	}
	waiter := t
	if t.via != nil {
		waiter = t.via
	}
	h := t.holding()
	h.Holder, h.Token = Printable(string(a.Holder)), a.Token
	l.host.telemetry.Held(h, waiter.handover)
	if h.Kind == telemetry.Lease {
		waiter.handover = nil
	}
}

// uncount takes a task out of what is held, once.
func (t *task) uncount() {
	if t.counted {
		t.counted = false
		t.loop.host.telemetry.Gone(t.holding())
	}
}

// recordReleased logs that what was held was given back.
func (l *loop) recordReleased(t *task) {
	if !l.host.telemetry.Wants() {
		return
	}
	h := t.holding()
	h.Holder = Printable(string(t.holder))
	l.host.telemetry.Released(h, t.stopKind == core.EventRelease)
}

// recordLeft logs that a Close did not have the time to release a lease.
func (l *loop) recordLeft(t *task) {
	if t.invocation != nil {
		t = t.invocation.view
	}
	if t != nil && t.counted && t.kind() == telemetry.Lease {
		l.host.telemetry.LeftToExpire(t.holding())
	}
}

// recordRenewed counts a good renewal, before which the deadline was another.
func (l *loop) recordRenewed(t *task, deadline int64) {
	l.host.telemetry.Renewed(t.holding(), deadline)
}

// recordLost counts a loss, and logs it.
func (l *loop) recordLost(t *task, why core.Reason, err error) {
	if t.counted {
		l.host.telemetry.Lost(t.holding(), why, err)
	} else {
		l.host.telemetry.NotOurs(t.name, why, err)
	}
}

// renews is the task that a request of a task renews; nil if it renews none.
func (t *task) renews(r *request) *task {
	of := t
	if t.invocation != nil && t.lane(r.action.Request) != ownLane {
		of = t.invocation.view
	}
	if of == nil || !of.counted || of.instance != nil || t.stopping {
		return nil
	}
	return of
}

// recordAnswer takes an answer that was still waited for.
func (l *loop) recordAnswer(r *request, ev *core.Event) {
	if ev.Outcome != core.OutcomeUnknown {
		l.outage.Answered(l.host.telemetry, r.action.Kind)
		return
	}
	if of := r.from.renews(r); of != nil {
		l.host.telemetry.RenewalFailed(of.holding())
	}
	failed := r.from.readFailures().lastError
	if isTransfer(r.action.Kind) || errors.Is(failed, errors.ErrUnsupported) {
		return // it may be what is transferred that failed; and to have no such request is no outage
	}
	l.outage.Failed(l.host.telemetry, r.action.Kind, ev.Class, failed)
}
