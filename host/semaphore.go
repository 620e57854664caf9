package host

import (
	"errors"
	"maps"
	"slices"

	"github.com/mopslock/mopslock/core"
)

// semaphore is the machine of all that this Host does with the shared semaphore on
// one name: what waits together is written together. Like the task that it is the
// machine of, it is the keeper's own. It is made for the first claim, and forgotten
// when nothing is held and nobody waits.
type semaphore struct {
	task   *task
	terms  semaphoreTerms
	claims map[uint64]*claim // not over, by number
	last   uint64            // number that the machine has heard of
	// newest is the newest version that any request has shown; only file events
	// need it.
	newest core.Epoch
	// seen is what the latest notice has shown: of those of one step, which are of
	// one look, only the first does.
	seen *Status
}

// semaphoreTerms is what claims must have in common to share a machine: two machines
// of one name on one session would take each other's permits for leftovers.
type semaphoreTerms struct {
	name string
	sessionTerms
}

// claim is one thing that a semaphore's machine is asked for: a permit, or a limit.
type claim struct {
	view      *task // what its caller sees
	first     core.Event
	number    uint64 // in the machine
	total     uint64
	cause     error // why it was cancelled, if not by its caller
	onWaiting func(Status)
}

func (c *claim) isLimit() bool { return c.first.Kind == core.EventLimit }

// semaphoreOf is whose machine a claim is for. A limit is set by whichever machine
// of the name there is.
func (k *keeper) semaphoreOf(cfg *core.Config, limit bool) (*semaphore, error) {
	terms := semaphoreTerms{cfg.Name, sessionTerms{cfg.TTL, cfg.Margin}}
	for _, t := range k.tasks[cfg.Name] {
		if s := t.shared; s != nil && (limit || s.terms == terms) {
			return s, nil
		}
	}
	t, err := k.host.newTask(k.ctx, cfg, core.EventLeave, nil)
	if err != nil {
		return nil, err
	}
	s := &semaphore{task: t, terms: terms, claims: map[uint64]*claim{}}
	t.shared, t.hears, t.session = s, s.hear, k.sessionFor(cfg)
	k.enroll(t)
	return s, nil
}

// claim asks for a permit or a limit.
func (k *keeper) claim(cfg *core.Config, c *claim) {
	s, err := k.semaphoreOf(cfg, c.isLimit())
	if err != nil {
		c.end(refusedOf(cfg.Name, err))
		return
	}
	t := s.task
	c.number = s.last + 1
	s.claims[c.number] = c
	c.view.via, c.view.session = t, t.session
	c.first.Permit = c.number
	k.step(t, c.first)
	s.last = c.number
	if s.wantsSession() {
		k.open(t.session)
	}
}

// isAsked reports whether somebody waits for an answer of a semaphore's machine. One
// that is idle may be about to be asked, by a step that finds its session past the
// deadline and has it hear of that first.
func (t *task) isAsked() bool { return t.shared != nil && len(t.shared.claims) > 0 }

// giveBack ends a claim, whatever has become of it by now.
func (k *keeper) giveBack(c *claim) {
	if t := c.view.via; t != nil && t.shared.claims[c.number] == c {
		k.step(t, core.Event{Kind: core.EventRelease, Permit: c.number})
	}
}

// inOrder is the claims in the order in which they came.
func (s *semaphore) inOrder() []*claim {
	all := make([]*claim, 0, len(s.claims))
	for _, number := range slices.Sorted(maps.Keys(s.claims)) {
		all = append(all, s.claims[number])
	}
	return all
}

// hear takes the machine's notices.
func (s *semaphore) hear(a *core.Action) {
	t := s.task
	k := t.keeper
	if a.Kind == core.ActionLeft {
		t.end(&Error{Kind: Ended, Name: t.name})
		return
	}
	if a.Sight != nil {
		seen := newStatus(t.name, t.protocol, a.Sight, k.host.clock.Now())
		s.seen = &seen
	}
	c := s.claims[a.Permit]
	switch a.Kind {
	case core.ActionWaiting:
		c.view.mu.Lock()
		c.view.seen = s.seen
		c.view.mu.Unlock()
		if c.onWaiting != nil {
			c.onWaiting(*s.seen)
		}
		return
	case core.ActionHeld:
		c.total = a.Total
		k.noteHeld(c.view, a)
		c.view.nowHeld(a)
		return
	}
	delete(s.claims, a.Permit)
	switch a.Kind {
	case core.ActionReleased:
		k.noteReleased(c.view)
		c.end(&Error{Kind: Ended, Name: t.name, Reason: core.ReasonReleased})
		s.nudgeOthers()
	case core.ActionLimited:
		c.end(errDone)
		s.nudgeOthers()
	case core.ActionRefused:
		if c.cause != nil && a.Reason == core.ReasonCancelled {
			c.end(c.cause)
			return
		}
		c.end(s.refusal(c, a))
	case core.ActionLost:
		err := k.failure(c.view, Lost, a)
		k.noteLost(c.view, a.Reason, err)
		c.end(err)
	}
}

// refusal is why a claim was refused, with who is in its way.
func (s *semaphore) refusal(c *claim, a *core.Action) error {
	err := s.task.keeper.failure(c.view, Refused, a)
	if e, ok := errors.AsType[*Error](err); ok && (a.Reason == core.ReasonFull || a.Reason == core.ReasonCrowded) {
		e.Seen = s.seen
	}
	return err
}

// end says how a claim ended, as its caller is to hear it.
func (c *claim) end(err error) {
	c.view.end(c.view.inItsName(err))
}

// inItsName is an error of what its caller has: a permit's is not called a lease.
func (t *task) inItsName(err error) error {
	e, ok := errors.AsType[*Error](err)
	if !ok || t.claim == nil {
		return err
	}
	named := *e
	named.of = t.subject()
	return &named
}

// subject is what its caller has asked for.
func (t *task) subject() subject {
	switch {
	case t.claim == nil:
		return ofLease
	case t.claim.isLimit():
		return ofLimit
	}
	return ofPermit
}

// endAll ends the claims that are left when the machine is forgotten.
func (s *semaphore) endAll() {
	for _, c := range s.inOrder() {
		delete(s.claims, c.number)
		c.end(ErrClosed)
	}
}

// letGo ends belief in all permits, before they are given back.
func (s *semaphore) letGo() {
	for _, c := range s.inOrder() {
		c.view.letGo()
	}
}

// nudgeOthers tells the machines of other terms on the name: our own knows.
func (s *semaphore) nudgeOthers() {
	k := s.task.keeper
	for _, t := range k.tasks[s.task.name] {
		if t.shared != nil && t != s.task {
			k.post(message{do: func() { k.changed(t) }})
		}
	}
}

// wantsSession reports whether a permit is waited for: it needs a session to stand on.
func (s *semaphore) wantsSession() bool {
	for _, c := range s.claims {
		if !c.isLimit() && c.view.isWaiting() {
			return true
		}
	}
	return false
}

// cannotStand ends the claims that wait for a session that cannot be had. One that
// the machine has yet to hear of asks for the session once more.
func (s *semaphore) cannotStand(err error) {
	k := s.task.keeper
	for _, c := range s.inOrder() {
		if s.claims[c.number] == c && c.number <= s.last && !c.isLimit() && c.view.isWaiting() {
			c.cause = err
			k.step(s.task, core.Event{Kind: core.EventCancel, Permit: c.number})
		}
	}
}

// stepped follows the machine's state after each step: what is waited for is watched.
func (s *semaphore) stepped() {
	t := s.task
	switch t.machine.String() {
	case core.SemaphoreWaiting.String():
		if _, watches := t.watcher(); watches {
			t.watch(t.keeper, versionKey(t.name, s.newest+1))
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

// strandedSemaphore is stranded for a semaphore. What is held stays good until its
// session's deadline as it was, and is lost then, or when it is given back: nobody
// else is let in before the session is dead. Whoever waits, or comes, is refused.
type strandedSemaphore struct {
	of       *semaphore
	deadline int64 // Mono, of what is held
	out      []core.Action
}

func (s *semaphore) strand() core.Stepper {
	twin := &strandedSemaphore{of: s, deadline: core.Never}
	for _, c := range s.claims {
		if !c.view.isWaiting() {
			twin.deadline = min(twin.deadline, c.view.reliedUntil())
		}
	}
	return twin
}

// Step implements core.Stepper.
func (s *strandedSemaphore) Step(now core.Instant, ev core.Event) ([]core.Action, error) {
	s.out = s.out[:0]
	held := false
	for _, c := range s.of.inOrder() {
		leaves := ev.Kind == core.EventLeave || isFarewell(ev.Kind) && ev.Permit == c.number
		a := core.Action{Kind: core.ActionLost, Permit: c.number, Reason: core.ReasonUnreachable}
		switch {
		case !c.view.isWaiting() && (leaves || now.Mono >= s.deadline):
		case !c.view.isWaiting():
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
func (s *strandedSemaphore) Idle() bool { return len(s.of.claims) == 0 }

// String implements core.Stepper.
func (s *strandedSemaphore) String() string { return strandedState }
