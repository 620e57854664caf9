package host

import (
	"context"
	"errors"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/internal/telemetry"
)

// What the keeper tells the log and the meter of what its members come to: all of it
// on the keeper's goroutine.

// holding is a member as telemetry has it.
func (m *member) holding() telemetry.Holding {
	h := telemetry.Holding{
		Kind: m.kind(), Name: m.name, Protocol: m.protocol, TTL: m.ttl, Token: m.token, OnSession: m.life != nil,
	}
	switch h.Kind {
	case telemetry.Session:
		h.TTL = m.beats.terms.ttl
	case telemetry.Permit:
		h.Weight = int64(max(1, m.claim.first.Weight))
	}
	return h
}

// kind is what a member is counted as.
func (m *member) kind() telemetry.Kind {
	switch {
	case m.beats != nil:
		return telemetry.Session
	case m.claim != nil:
		return telemetry.Permit
	case m.guarded:
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
	case e.Kind == Unfit, e.Reason == core.ReasonCrowded:
		return "unfit"
	case e.Kind == Lost:
		return "lost"
	}
	return "refused"
}

// instantOf is when a member's request is sent; 0 if nobody wants to know.
func (k *keeper) instantOf(m *member) int64 {
	if m.service || m.held || !k.host.telemetry.Wants() {
		return 0
	}
	return k.host.clock.Now().Mono
}

// noteWaiting begins to look out, and begins anew when the holder is another.
func (m *member) noteWaiting(s *core.Sighting) {
	if s != nil && m.keeper.host.telemetry.Wants() {
		m.lookout = telemetry.NewHandover(s.Epoch, s.State)
	}
}

// noteLook takes a look of a waiter, after the machine has judged what it showed.
func (m *member) noteLook(r *request, ev *core.Event) {
	if m.lookout == nil || ev.Outcome == core.OutcomeUnknown {
		return
	}
	switch kind := r.action.Kind; {
	case kind == core.ActionPut:
		m.lookout.Put()
	case kind == core.ActionGet && m.protocol == core.ProtocolLastWriter:
		m.lookout.Read(m.keeper.host.clock.Now(), ev)
	}
	if !m.gone && m.machine.String() == core.LeaseWaiting.String() {
		m.lookout.NotFree(r.sent)
	}
}

// noteHeld counts what is held from now on, and says so. One that was held before is
// a companion that has joined again, past its deadline.
func (k *keeper) noteHeld(m *member, a *core.Action) {
	if m.held {
		k.noteRenewed(m, m.deadline)
		return
	}
	m.counted = true
	if !k.host.telemetry.Wants() {
		return
	}
	waiter := m
	if m.via != nil {
		waiter = m.via
	}
	h := m.holding()
	h.Holder, h.Token = Printable(string(a.Holder)), a.Token
	k.host.telemetry.Held(h, waiter.lookout)
	if h.Kind == telemetry.Lease {
		waiter.lookout = nil
	}
}

// uncount takes a member out of what is held, once.
func (m *member) uncount() {
	if m.counted {
		m.counted = false
		m.keeper.host.telemetry.Gone(m.holding())
	}
}

// noteReleased says that what was held was given back.
func (k *keeper) noteReleased(m *member) {
	if !k.host.telemetry.Wants() {
		return
	}
	h := m.holding()
	h.Holder = Printable(string(m.holder))
	k.host.telemetry.Released(h, m.farewell == core.EventRelease)
}

// noteLeft says that a Close did not have the time to release a lease.
func (k *keeper) noteLeft(m *member) {
	if m.invocation != nil {
		m = m.invocation.view
	}
	if m != nil && m.counted && m.kind() == telemetry.Lease {
		k.host.telemetry.LeftToExpire(m.holding())
	}
}

// noteRenewed counts a good renewal, before which the deadline was another.
func (k *keeper) noteRenewed(m *member, deadline int64) {
	k.host.telemetry.Renewed(m.holding(), deadline)
}

// noteLost counts a loss, and says so.
func (k *keeper) noteLost(m *member, why core.Reason, err error) {
	if m.counted {
		k.host.telemetry.Lost(m.holding(), why, err)
	} else {
		k.host.telemetry.NotOurs(m.name, why, err)
	}
}

// renews is whose renewal a request of a member is; nil if it is none.
func (m *member) renews(r *request) *member {
	of := m
	if m.invocation != nil && m.lane(r.action.Request) != ownLane {
		of = m.invocation.view
	}
	if of == nil || !of.counted || of.life != nil || m.leaving {
		return nil
	}
	return of
}

// noteAnswer takes the answer to a request that was still waited for.
func (k *keeper) noteAnswer(r *request, ev *core.Event) {
	if ev.Outcome != core.OutcomeUnknown {
		k.outage.Answered(k.host.telemetry)
		return
	}
	if of := r.from.renews(r); of != nil {
		k.host.telemetry.RenewalFailed(of.holding())
	}
	failed := r.from.troubles().failed
	if isTransfer(r.action.Kind) || errors.Is(failed, errors.ErrUnsupported) {
		return // it may be what is transferred that failed; and to have no such request is no outage
	}
	k.outage.Failed(k.host.telemetry, r.action.Kind, ev.Class, failed)
}
