package host

import (
	"errors"
	"maps"
	"slices"

	"github.com/mopslock/mopslock/core"
)

// semaphore is the machine of all that this Host does with the shared semaphore on
// one name: what waits together is written together. Like its task it is the loop's
// own. It is made for the first request, and
// forgotten when nothing is held and nobody waits.
type semaphore struct {
	task     *task
	terms    semaphoreTerms
	requests map[uint64]*permitRequest // not over, by number
	last     uint64                    // number that the machine has heard of
	// newest is the newest version that any request has shown; only file events
	// need it.
	newest core.Epoch
	// seen is what the latest notice has shown: of those of one step, which are of
	// one look, only the first does.
	seen *Status
}

// semaphoreTerms is what requests must have in common to share a machine: two machines
// of one name on one session would take each other's permits for leftovers.
type semaphoreTerms struct {
	name string
	sessionTerms
}

// permitRequest is one thing that a semaphore's machine is asked for: a permit, or a limit.
type permitRequest struct {
	view      *task // what its caller sees
	first     core.Event
	number    uint64 // in the machine
	total     uint64
	cause     error // why it was cancelled, if not by its caller
	onWaiting func(Status)
}

func (p *permitRequest) isLimit() bool { return p.first.Kind == core.EventLimit }

// semaphoreOf is the semaphore that a request is for, made if need be. A limit is set by
// any machine of the name.
func (l *loop) semaphoreOf(cfg *core.Config, limit bool) (*semaphore, error) {
	terms := semaphoreTerms{cfg.Name, sessionTerms{cfg.TTL, cfg.Margin}}
	for _, t := range l.tasks[cfg.Name] {
		if s := t.shared; s != nil && (limit || s.terms == terms) {
			return s, nil
		}
	}
	t, err := l.host.newTask(l.ctx, cfg, core.EventLeave, nil)
	if err != nil {
		return nil, err
	}
	s := &semaphore{task: t, terms: terms, requests: map[uint64]*permitRequest{}}
	t.shared, t.hears, t.session = s, s.hear, l.sessionFor(cfg)
	l.enroll(t)
	return s, nil
}

// requestPermit asks for a permit or a limit.
func (l *loop) requestPermit(cfg *core.Config, p *permitRequest) {
	s, err := l.semaphoreOf(cfg, p.isLimit())
	if err != nil {
		p.end(refusedOf(cfg.Name, err))
		return
	}
	t := s.task
	p.number = s.last + 1
	s.requests[p.number] = p
	p.view.via, p.view.session = t, t.session
	p.first.Permit = p.number
	l.step(t, p.first)
	s.last = p.number
	if s.wantsSession() {
		l.open(t.session)
	}
}

// isAsked reports whether somebody waits for an answer of a semaphore's machine. One
// that is idle may be about to be asked, by a step that finds its session past the
// deadline and has it hear of that first.
func (t *task) isAsked() bool { return t.shared != nil && len(t.shared.requests) > 0 }

// giveBack ends a request, whatever has become of it by now.
func (l *loop) giveBack(p *permitRequest) {
	if t := p.view.via; t != nil && t.shared.requests[p.number] == p {
		l.step(t, core.Event{Kind: core.EventRelease, Permit: p.number})
	}
}

// inOrder is the requests in the order in which they came.
func (s *semaphore) inOrder() []*permitRequest {
	all := make([]*permitRequest, 0, len(s.requests))
	for _, number := range slices.Sorted(maps.Keys(s.requests)) {
		all = append(all, s.requests[number])
	}
	return all
}

// hear takes the machine's notices.
func (s *semaphore) hear(a *core.Action) {
	t := s.task
	l := t.loop
	if a.Kind == core.ActionLeft { // it is idle, and removed when this step ends
		return
	}
	if a.Observed != nil {
		seen := newStatus(t.name, t.protocol, a.Observed, l.host.clock.Now())
		s.seen = &seen
	}
	p := s.requests[a.Permit]
	switch a.Kind {
	case core.ActionWaiting:
		p.view.mu.Lock()
		p.view.seen = s.seen
		p.view.mu.Unlock()
		if p.onWaiting != nil {
			p.onWaiting(*s.seen)
		}
		return
	case core.ActionHeld:
		p.total = a.Total
		l.recordHeld(p.view, a)
		p.view.nowHeld(a)
		return
	}
	delete(s.requests, a.Permit)
	switch a.Kind {
	case core.ActionReleased:
		l.recordReleased(p.view)
		p.end(&Error{Kind: Ended, Name: t.name, Reason: core.ReasonReleased})
		s.tellOthers()
	case core.ActionLimited:
		p.end(errDone)
		s.tellOthers()
	case core.ActionRefused:
		if p.cause != nil && a.Reason == core.ReasonCancelled {
			p.end(p.cause)
			return
		}
		p.end(s.refusal(p, a))
	case core.ActionLost:
		err := l.failure(p.view, Lost, a)
		l.recordLost(p.view, a.Reason, err)
		p.end(err)
	}
}

// refusal is why a request was refused, with the holders that are in its way.
func (s *semaphore) refusal(p *permitRequest, a *core.Action) error {
	err := s.task.loop.failure(p.view, NotAcquired, a)
	if e, ok := errors.AsType[*Error](err); ok && (a.Reason == core.ReasonFull || a.Reason == core.ReasonCrowded) {
		e.Seen = s.seen
	}
	return err
}

// end says how a request ended, in the words for its caller.
func (p *permitRequest) end(err error) {
	p.view.end(p.view.inItsName(err))
}

// inItsName is an error of what its caller has: a permit's is not called a lease.
func (t *task) inItsName(err error) error {
	e, ok := errors.AsType[*Error](err)
	if !ok || t.permit == nil {
		return err
	}
	named := *e
	named.of = t.subject()
	return &named
}

// subject is what its caller has asked for.
func (t *task) subject() subject {
	switch {
	case t.permit == nil:
		return ofLease
	case t.permit.isLimit():
		return ofLimit
	}
	return ofPermit
}

// endAll ends the requests that are left when the machine is forgotten.
func (s *semaphore) endAll() {
	for _, p := range s.inOrder() {
		delete(s.requests, p.number)
		p.end(ErrClosed)
	}
}

// invalidate ends what relies on the permits, before they are given back.
func (s *semaphore) invalidate() {
	for _, p := range s.inOrder() {
		p.view.invalidate()
	}
}

// tellOthers tells the machines of other terms on the name: our own knows.
func (s *semaphore) tellOthers() {
	l := s.task.loop
	for _, t := range l.tasks[s.task.name] {
		if t.shared != nil && t != s.task {
			l.post(message{do: func() { l.changed(t) }})
		}
	}
}

// wantsSession reports whether a permit is waited for: it needs a session to stand on.
func (s *semaphore) wantsSession() bool {
	for _, p := range s.requests {
		if !p.isLimit() && p.view.isWaiting() {
			return true
		}
	}
	return false
}

// cannotStand ends the requests that wait for a session, since there can be none. A
// request that the machine does not know yet asks for the session once more.
func (s *semaphore) cannotStand(err error) {
	l := s.task.loop
	for _, p := range s.inOrder() {
		if s.requests[p.number] == p && p.number <= s.last && !p.isLimit() && p.view.isWaiting() {
			p.cause = err
			l.step(s.task, core.Event{Kind: core.EventCancel, Permit: p.number})
		}
	}
}

// stepped follows the machine's state after each step: what is waited for is watched.
func (s *semaphore) stepped() {
	t := s.task
	switch t.machine.String() {
	case core.SemaphoreWaiting.String():
		if _, watches := t.watcher(); watches {
			t.watch(t.loop, versionKey(t.name, s.newest+1))
		}
	case core.SemaphoreIdle.String(), core.SemaphoreClosed.String():
		t.stopWatching()
	}
}

// answered takes from an answer which version is the newest: that after it changes
// when somebody gives back.
func (s *semaphore) answered(a *core.Action, ev *core.Event) {
	switch {
	case ev.Outcome == core.OutcomeUnknown:
	case a.Kind == core.ActionList:
		for i := range ev.Entries {
			s.newest = max(s.newest, epochOf(s.task.name, string(ev.Entries[i].Key)))
		}
	case ev.Outcome == core.OutcomeYes, a.Kind == core.ActionCreate: // which fails where one is
		s.newest = max(s.newest, epochOf(s.task.name, a.Key))
	}
}

// engineFailedSemaphore is engineFailed for a semaphore. What is held stays good until its
// session's deadline as it was, and is lost then, or when it is given back: no other
// caller is let in before the session is dead. Callers that wait, or come later, are refused.
type engineFailedSemaphore struct {
	of       *semaphore
	deadline int64 // Mono, of what is held
	out      []core.Action
}

func (s *semaphore) standIn() core.Stepper {
	standIn := &engineFailedSemaphore{of: s, deadline: core.Never}
	for _, p := range s.requests {
		if !p.view.isWaiting() {
			standIn.deadline = min(standIn.deadline, p.view.reliedUntil())
		}
	}
	return standIn
}

// Step implements core.Stepper.
func (s *engineFailedSemaphore) Step(now core.Instant, ev core.Event) ([]core.Action, error) {
	s.out = s.out[:0]
	held := false
	for _, p := range s.of.inOrder() {
		leaves := ev.Kind == core.EventLeave || isStop(ev.Kind) && ev.Permit == p.number
		a := core.Action{Kind: core.ActionLost, Permit: p.number, Reason: core.ReasonUnreachable}
		switch {
		case !p.view.isWaiting() && (leaves || now.Mono >= s.deadline):
		case !p.view.isWaiting():
			held = true
			continue
		case leaves:
			a.Kind, a.Reason = core.ActionRefused, core.ReasonCancelled
		default:
			a.Kind, a.Reason = core.ActionRefused, core.ReasonUnusable
		}
		s.out = append(s.out, a)
	}
	switch {
	case ev.Kind == core.EventLeave:
		s.out = append(s.out, core.Action{Kind: core.ActionLeft})
	case held:
		s.out = append(s.out, core.Action{Kind: core.ActionWake, At: s.deadline})
	}
	return s.out, nil
}

// Idle implements core.Stepper.
func (s *engineFailedSemaphore) Idle() bool { return len(s.of.requests) == 0 }

// String implements core.Stepper.
func (s *engineFailedSemaphore) String() string { return engineFailedState }
