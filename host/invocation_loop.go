package host

import (
	"cmp"
	"context"
	"errors"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/store"
)

// What the loop does for invocations: all of it on the loop's goroutine.

// hear takes the notices of the invocation's machine: its own, and those of the
// lease or the companion within.
func (i *Invocation) hear(a *core.Action) {
	l := i.host.loop
	switch a.Kind {
	case core.ActionWaiting:
		i.waits(a)
	case core.ActionLaunch:
		i.launch()
	case core.ActionFound:
		l.resultIsThere(i)
		i.conclude(i.found(a), nil)
	case core.ActionAbsent:
		i.conclude(nil, i.absent(a))
	case core.ActionRefused:
		l.host.memory.saw(i.name, i.task.protocol, a.Observed)
		i.conclude(nil, i.refused(a))
	default:
		i.tenure(a)
	}
}

func (i *Invocation) waits(a *core.Action) {
	t := i.task
	i.leaseKey = ""
	if t.protocol != core.ProtocolStrict || a.Observed != nil {
		i.leaseKey = t.keyToWatch(a.Observed)
	}
	t.nowSeen(a.Observed)
}

// stepped follows the machine's state after each step: what is waited for is
// watched, and asked of the session.
func (i *Invocation) stepped() {
	t, l := i.task, i.host.loop
	state := t.machine.String()
	if state != core.InvocationDelivering.String() {
		i.source = nil
	}
	if r := t.inFlight[ownLane]; r != nil && isTransfer(r.action.Kind) && (i.source == nil || t.stopping) {
		l.stopTransfer(r) // nobody wants it any more
	}
	switch state {
	case core.InvocationWaiting.String():
		t.waiting = true
		t.watch(l, i.keysToWatch(i.leaseKey)...)
	case core.InvocationChecking.String(): // of one who waits it is a look
	case core.InvocationAcquiring.String():
		if t.session != nil {
			l.open(t.session)
		}
	case core.InvocationAwaiting.String():
		t.waiting = false
		t.watch(l, i.keysToWatch("")...)
	case core.InvocationSettling.String(): // of one who awaits it is a look
		t.waiting = false
	case core.InvocationLaunched.String():
		t.waiting, t.missed = false, false
		if i.view == nil || i.view.isOver() || t.protocol != core.ProtocolStrict || t.session != nil {
			t.stopWatching()
			return
		}
		t.watch(l, versionKey(i.name, i.view.epoch+1)) // which a break makes
	default:
		t.waiting = false
		t.stopWatching()
	}
}

// keysToWatch is what changes when somebody stores a result, or gives back the
// lease.
func (i *Invocation) keysToWatch(lease string) []string {
	if _, watches := i.task.watcher(); !watches {
		return nil
	}
	keys := []string{resultKey(i.name)}
	if i.memoFailures {
		keys = append(keys, failureKey(i.name))
	}
	if lease != "" {
		keys = append(keys, lease)
	}
	return keys
}

// tenure hands a notice of the lease or the companion to its view, which lives
// from held to the tenure's end.
func (i *Invocation) tenure(a *core.Action) {
	t, l := i.task, i.host.loop
	if a.Kind == core.ActionHeld {
		t.toldOfRelease = false
		t.mu.Lock()
		t.seen = nil // nobody is waited for any more
		t.mu.Unlock()
		if i.view == nil || i.view.isOver() {
			i.view = i.newView()
		}
	}
	var ended error
	view := i.view
	switch lives := view != nil && !view.isOver(); {
	case lives:
		l.tenure(view, a)
		ended = view.failure()
	case a.Kind == core.ActionLost:
		ended = l.failure(t, Lost, a)
		l.recordLost(t, a.Reason, ended)
	case a.Kind == core.ActionCannotMaintain:
		ended = l.failure(t, NothingToJoin, a)
	}
	if a.Kind != core.ActionLost && a.Kind != core.ActionCannotMaintain {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case i.work == nil && i.remote:
		i.ending = ended // unless it works without
	case i.work != nil && i.remote && (a.Reason == core.ReasonTaken || a.Reason == core.ReasonBroken):
		i.work.cancel(ended)
	case !i.remote && (i.decided || t.stopping): // it was being given back
		i.unreleased = ended
	}
}

// newView is a task without a machine: what callers see of the tenure that the
// invocation's machine keeps within.
func (i *Invocation) newView() *task {
	t := i.task
	return &task{
		loop: t.loop, via: t, name: t.name, protocol: t.protocol, ttl: t.ttl, index: -1,
		guarded: !i.remote, onContact: i.onContact, session: t.session, looked: t.looked,
		settled: make(chan struct{}), ctx: i.ctx,
	}
}

// launch makes the work that Next returns.
func (i *Invocation) launch() {
	w := &Work{invocation: i, view: i.view}
	if w.view != nil && w.view.isOver() {
		w.view = nil // its lease could not be maintained
	}
	if i.remote {
		w.ctx, w.cancel = context.WithCancelCause(w.view.within(context.WithoutCancel(i.ctx)))
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.work == nil && !i.decided {
		i.question.Answer(i.task.protocol, "held")
	}
	i.work, i.fresh, i.ending = w, true, nil
	i.notify()
}

// workEnded tells the machine, if it still waits for that: who has given up does not.
func (i *Invocation) workEnded(w *Work) {
	t := i.task
	state := t.machine.String()
	if t.gone || state != core.InvocationLaunched.String() && state != engineFailedState {
		return
	}
	event := core.Event{Kind: core.EventEnded, Outcome: core.OutcomeYes}
	lost := !i.remote && w.view != nil && w.view.isOver()
	i.mu.Lock()
	source := w.result
	switch {
	case w.err != nil && lost: // which ended it: that it failed says nothing of the work
		source = nil
	case w.err != nil:
		event.Outcome, source = core.OutcomeNo, w.failure
	}
	i.mu.Unlock()
	i.source, event.Result = source, source != nil
	i.host.loop.step(t, event)
}

// transferred takes what became of a transfer, before the machine hears of it.
func (i *Invocation) transferred(r *request, outcome core.Outcome, err error) {
	if i.task.inFlight[ownLane] != r {
		return
	}
	if outcome == core.OutcomeYes {
		i.own = true
	}
	if isBroken(err) {
		i.broken = err
	}
}

// found is the result that is there.
func (i *Invocation) found(a *core.Action) *Result {
	return &Result{Name: i.name, Key: a.Key, Failed: a.Key == failureKey(i.name), Own: i.own, host: i.host}
}

// absent is why there is no result.
func (i *Invocation) absent(a *core.Action) error {
	err := i.host.loop.failure(i.task, NoResult, a)
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case i.broken != nil && errors.Is(i.broken, store.ErrTooLarge):
		e.Err = i.broken // the store's own limit
	case i.broken != nil:
		e.Reason, e.Class, e.Err = core.ReasonFailed, core.ClassNone, i.broken
	case i.work != nil && i.work.err != nil && e.Err == nil:
		e.Err = i.work.err
	case i.work != nil && i.work.err != nil:
		e.Err = errors.Join(i.work.err, e.Err)
	}
	return e
}

// refused is why nothing was launched, or that it was given up.
func (i *Invocation) refused(a *core.Action) error {
	err := i.host.loop.failure(i.task, NotAcquired, a)
	i.mu.Lock()
	defer i.mu.Unlock()
	if errors.Is(err, &Error{Kind: NotAcquired, Reason: core.ReasonCancelled}) {
		return i.wasCancelled()
	}
	return err
}

// conclude decides, and hands on the notice of a release that only this invocation got.
// What is held is about to be given back.
func (i *Invocation) conclude(result *Result, err error) {
	i.invalidate()
	i.mu.Lock()
	i.decide(result, err)
	i.mu.Unlock()
	if t := i.task; t.toldOfRelease {
		t.toldOfRelease = false
		i.host.loop.wakeOneWaiter(i.name, t.handover.Freed())
	}
}

// resultIsThere tells all invocations of this process that want the same result. They
// only read, so all are told at once, unlike waiters for a lease. One that was told
// tells no other.
func (l *loop) resultIsThere(from *Invocation) {
	if from.told {
		return
	}
	for _, t := range l.tasks[from.name] {
		if i := t.invocation; i != nil && i != from && !i.told {
			i.told = true
			l.post(message{do: func() { l.changed(t) }})
		}
	}
}

// standIn takes the place of its machine when the engine has lost that.
func (i *Invocation) standIn() core.Stepper {
	standIn := &engineFailedInvocation{remote: i.remote}
	if view := i.view; view != nil && !view.isOver() {
		view.mu.Lock()
		standIn.held, standIn.deadline = view.held, view.relyUntil()
		view.mu.Unlock()
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	standIn.decided, standIn.worked = i.decided, i.work != nil
	standIn.launched = standIn.worked && !i.work.over && !i.task.stopping
	return standIn
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

// finished: the machine is gone, or was dropped by a Close that was forced.
func (i *Invocation) finished(err error) {
	if errors.Is(err, errDone) {
		err = ErrClosed
	}
	i.source = nil
	if i.view != nil {
		i.view.end(err)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if w := i.work; w != nil && w.cancel != nil {
		w.cancel(cmp.Or(i.err, err))
	}
	i.decide(nil, cmp.Or(i.ending, err))
	i.over = true
	i.notify()
}

// wantsSession reports whether a task waits for its session, in order to acquire.
func (t *task) wantsSession() bool {
	if t.invocation != nil {
		return t.machine.String() == core.InvocationAcquiring.String()
	}
	if t.shared != nil {
		return t.shared.wantsSession()
	}
	return t.isWaiting()
}
