package host

import (
	"cmp"
	"context"
	"errors"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/internal/loop"
	"github.com/mopslock/mopslock/host/internal/telemetry"
	"github.com/mopslock/mopslock/host/store"
)

// What the loop tells an invocation, all of it under the loop's lock.

// Hear implements loop.Claim: the notices of the invocation, and those of the lease or the
// companion within.
func (i *Invocation) Hear(a *core.Action) (last bool) {
	switch a.Kind {
	case core.ActionWaiting:
		i.waits(a)
	case core.ActionHeld:
		i.held(a)
	case core.ActionLaunch:
		i.launch()
	case core.ActionFound:
		i.conclude(i.found(a), nil, 0)
	case core.ActionAbsent:
		i.conclude(nil, i.absent(a), 0)
	case core.ActionRefused:
		i.conclude(nil, i.refused(a), a.Protocol)
	case core.ActionWarned:
		i.host.warn(i.name, a, i.Cause())
	case core.ActionLeft:
		i.left()
		return true
	case core.ActionLost:
		i.lost(a, i.failed(Lost, a))
	case core.ActionCannotMaintain:
		i.lost(a, i.failed(NothingToJoin, a))
	default:
		if i.view != nil {
			i.view.Hear(a)
		}
	}
	return false
}

// failed is what a notice says of how something has ended.
func (i *Invocation) failed(kind Kind, a *core.Action) error {
	return i.host.failure(&Error{Kind: kind, Name: i.name, Err: i.Cause()}, a, i.protocol())
}

// waits takes whom it waits for, at first and at each change.
func (i *Invocation) waits(a *core.Action) {
	if a.Observed == nil {
		return
	}
	seen := i.host.waitedFor(i.name, a.Observed)
	i.mu.Lock()
	i.outcome.seen = &seen
	itself := i.own != nil && i.own.context().Err() == nil
	if itself {
		i.outcome.refusal = &Error{Kind: NotAcquired, Name: i.name, Reason: core.ReasonHeld, Seen: &seen, of: ofOwn}
	}
	i.mu.Unlock()
	if tell := i.asked.onWaiting; itself {
		i.host.loop.Later(func() { i.host.loop.Command(i, core.Event{Kind: core.EventCancel}, nil) })
	} else if tell != nil {
		i.host.loop.Later(func() { tell(seen) })
	}
}

// held begins a tenure, or goes on with the one at hand.
func (i *Invocation) held(a *core.Action) {
	i.mu.Lock()
	i.outcome.seen = nil // nobody is waited for any more
	i.mu.Unlock()
	if i.view == nil || i.view.isOver() {
		kind := telemetry.Lease
		if i.asked.remote {
			kind = telemetry.Companion
		}
		i.view = i.host.newClaim(i.ctx, kind, i.asked.command.Terms)
		i.view.of, i.view.onContact = i, i.asked.onContact
	}
	i.view.Hear(a)
}

// lost ends the tenure at hand, or says that there never was one.
func (i *Invocation) lost(a *core.Action, ended error) {
	switch {
	case i.view != nil && !i.view.isOver():
		i.view.lost(a.Reason, ended)
	case a.Kind == core.ActionLost:
		i.host.record(func(r *telemetry.Recorder) { r.NotOurs(i.name, a.Reason, ended) })
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case i.work == nil && i.asked.remote:
		i.outcome.ending = ended // unless it works without
	case i.work != nil && i.asked.remote && (a.Reason == core.ReasonTaken || a.Reason == core.ReasonBroken):
		i.work.cancel(ended)
	case !i.asked.remote && (i.state >= invocationDecided || i.outcome.stopped): // it was being given back
		i.outcome.unreleased = ended
	}
}

// launch makes the work that Next returns.
func (i *Invocation) launch() {
	w := &Work{invocation: i, view: i.view}
	if w.view != nil && w.view.isOver() {
		w.view = nil // its lease could not be maintained
	}
	if i.asked.remote {
		ctx := context.WithoutCancel(i.ctx)
		if w.view != nil {
			ctx = w.view.within(ctx)
		}
		w.ctx, w.cancel = context.WithCancelCause(ctx)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.answer(i.protocol(), "held")
	i.work, i.fresh, i.outcome.ending, i.delivery = w, true, nil, delivery{}
	i.notify()
}

// deliver is the command that says that the work has ended, after which its output is
// stored. The caller holds mu.
func (i *Invocation) deliver(w *Work) core.Event {
	event := core.Event{Kind: core.EventEnded, Outcome: core.OutcomeYes}
	source := w.result
	switch {
	case w.err != nil && !i.asked.remote && w.view != nil && w.view.isOver():
		source = nil // that it failed says nothing of the work: the loss has ended it
	case w.err != nil:
		event.Outcome, source = core.OutcomeNo, w.failure
	}
	i.delivery.source, event.Result = source, source != nil
	return event
}

// source is what is to be stored, or nil.
func (i *Invocation) source() Source {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.delivery.source
}

// Answered implements loop.Claim.
func (i *Invocation) Answered(r *loop.Request, ev *core.Event, err error) {
	if i.view != nil {
		i.view.Answered(r, ev, err)
	}
	if !loop.IsTransfer(r.Kind) {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if ev.Outcome == core.OutcomeYes {
		i.delivery.own = true
	}
	if isBroken(err) {
		i.delivery.broken = err
	}
}

// found is the result that is there.
func (i *Invocation) found(a *core.Action) *Result {
	i.mu.Lock()
	defer i.mu.Unlock()
	return &Result{Name: i.name, Key: a.Key, Failed: a.Key == core.FailureKey(i.name), Own: i.delivery.own, host: i.host}
}

// absent is why there is no result.
func (i *Invocation) absent(a *core.Action) error {
	err := i.failed(NoResult, a)
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	switch broken := i.delivery.broken; {
	case broken != nil && errors.Is(broken, store.ErrTooLarge):
		e.Err = broken // the store's own limit
	case broken != nil:
		e.Reason, e.Class, e.Err = core.ReasonFailed, core.ClassNone, broken
	case i.work != nil && i.work.err != nil && e.Err == nil:
		e.Err = i.work.err
	case i.work != nil && i.work.err != nil:
		e.Err = errors.Join(i.work.err, e.Err)
	}
	return e
}

// refused is why nothing was launched, or that it was given up.
func (i *Invocation) refused(a *core.Action) error {
	if a.Reason == core.ReasonCancelled {
		i.mu.Lock()
		defer i.mu.Unlock()
		return i.wasCancelled()
	}
	err := i.failed(NotAcquired, a)
	if e, ok := errors.AsType[*Error](err); ok && a.Reason == core.ReasonKind && a.Protocol == 0 && a.Observed == nil {
		e.of = ofMemo
	}
	return err
}

// conclude decides. What is held is about to be given back.
func (i *Invocation) conclude(result *Result, err error, protocol core.Protocol) {
	i.invalidate()
	i.mu.Lock()
	defer i.mu.Unlock()
	i.decide(result, err, cmp.Or(protocol, i.protocol()))
}

// invalidate ends what relies on the lease, and a remote's work: it is given up.
func (i *Invocation) invalidate() {
	i.mu.Lock()
	w := i.work
	i.mu.Unlock()
	if w == nil {
		return
	}
	if w.view != nil {
		w.view.invalidate()
	}
	if w.cancel != nil {
		w.cancel(&Error{Kind: Ended, Name: i.name})
	}
}

// left ends the tenure at hand with the invocation.
func (i *Invocation) left() {
	if i.view != nil && !i.view.isOver() {
		i.view.conclude(&Error{Kind: Ended, Name: i.name})
	}
	i.over(ErrClosed)
}

// Closing implements loop.Claim.
func (i *Invocation) Closing() {
	i.invalidate()
	i.mu.Lock()
	defer i.mu.Unlock()
	i.outcome.stopped = true
}

// Left implements loop.Claim.
func (i *Invocation) Left() {
	if i.view != nil && !i.view.isOver() {
		i.view.Left()
	}
	i.over(ErrClosed)
}

// Stranded implements loop.Claim. It ends with what it has, but waits for work that runs, which
// has no result only at its end.
func (i *Invocation) Stranded(now int64, command core.EventKind, cause error) (until int64) {
	i.mu.Lock()
	worked, decided := i.work != nil, i.state >= invocationDecided
	goesOn := worked && !i.work.over && !decided && command == 0
	i.mu.Unlock()
	i.Fail(&EngineError{cause})
	if view := i.view; view != nil && !view.isOver() {
		switch {
		case goesOn && now < view.until():
			return view.until()
		case goesOn && i.asked.remote:
			view.Stranded(now, 0, cause)
		case !i.asked.remote: // unreleased, it expires
			i.Hear(&core.Action{Kind: core.ActionLost, Reason: core.ReasonUnreachable})
		}
	}
	if goesOn {
		return core.Never
	}
	a := core.Action{Kind: core.ActionRefused, Reason: core.ReasonUnusable}
	switch {
	case command == core.EventEnded || worked && command == 0:
		a = core.Action{Kind: core.ActionAbsent, Reason: core.ReasonUnusable}
	case command != 0:
		a.Reason = core.ReasonCancelled
	case i.asked.remote:
		a = core.Action{Kind: core.ActionCannotMaintain, Reason: core.ReasonUnreadable}
	}
	i.Hear(&a)
	i.left()
	return 0
}
