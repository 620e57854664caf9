package core

// Lease is the machine of one claim: acquire, hold, release. It is made for
// one tenure and ends in Released, Refused or Lost; the next claim takes a new
// one. doc.go has its states and edges.
type Lease struct {
	tenure
	state LeaseState

	// Acquiring.
	lastTry   bool // a failed attempt is the end: try once, or patience is over
	answered  bool // the store has said yes or no to something
	readStart int64
	polls     int
	races     int
	empties   int   // reads that found an empty object
	lostPuts  int   // claims in a row that the store did not take
	slowLooks int   // looks that found it free but took longer than the acquire margin
	watch     watch // of another's record, by the observed rule
	told      uint64

	// Claiming.
	confirming bool // the put that carries first_acquired_at is out
	rounds     int  // own claims found expired
	claimSent  int64
	claimWall  int64
	claimCount int64
	claimWait  Duration

	// Held.
	looking bool // the get in flight is the later look

	// Releasing and after.
	ending     ending
	brief      bool
	settling   bool // the put in flight is not the release but what came before
	releasedAt int64
	rechecks   int
}

// NewLease makes a lease machine in state Idle. With cfg.Holder set it can only
// release that tenure.
func NewLease(cfg Config) (*Lease, error) {
	cfg.Machine = MachineLease
	k, err := newTenure(cfg)
	if err != nil {
		return nil, err
	}
	return &Lease{tenure: k, state: LeaseIdle}, nil
}

// String implements Machine.
func (l *Lease) String() string { return l.state.String() }

// State is where the machine stands.
func (l *Lease) State() LeaseState { return l.state }

// Holder is the tenure's id.
func (l *Lease) Holder() HolderID { return l.holder }

// Step implements Machine.
func (l *Lease) Step(now Instant, ev Event) ([]Action, error) {
	if err := l.admit(now, &ev); err != nil {
		return nil, err
	}
	if !l.accepts(ev.Kind) {
		return nil, errEvent(l.state.String(), ev.Kind)
	}
	l.begin(now)
	if l.due(timerDeadline) {
		// Before anything else, and without waiting for I/O: an answer that comes
		// with this Step is too late to be believed.
		l.pastDeadline()
	}
	switch ev.Kind {
	case EventAcquire:
		l.acquire(ev.Wait)
	case EventRelease:
		l.release(ev.Brief)
	case EventCancel:
		l.cancel()
	case EventAnswer:
		if f, ok := l.land(&ev); ok {
			l.answer(&ev, f)
		}
	case EventChanged:
		if l.state == LeaseWaiting {
			l.look()
		}
	case EventWoke:
		l.woke()
	}
	return l.finish(), nil
}

// accepts is the contract's table: which commands have a meaning where. Answers,
// changed and woke always do, if only to be ignored.
func (l *Lease) accepts(kind EventKind) bool {
	switch kind {
	case EventAnswer, EventChanged, EventWoke:
		return true
	case EventAcquire:
		return l.state == LeaseIdle && l.cfg.Holder == ""
	case EventRelease:
		return l.state != LeaseIdle || l.cfg.Holder != ""
	case EventCancel:
		return l.state != LeaseIdle
	}
	return false
}

// become moves along an edge of the table.
func (l *Lease) become(to LeaseState) {
	checkMove(leaseEdges[:], l.state, to)
	l.state = to
	l.timers[timerNext] = unset
	if to >= LeaseReleased {
		l.timers = newTimers()
		l.abandon()
	}
}

func (l *Lease) answer(ev *Event, f flight) {
	if ev.Outcome != OutcomeUnknown {
		l.answered = true
		l.timers[timerReach] = unset
	}
	switch l.state {
	case LeaseObserving:
		l.observed(ev, f)
	case LeaseClaiming:
		l.claimed(ev)
	case LeaseVerifying:
		l.verified(ev, f)
	case LeaseDoubtful:
		l.readBack(ev)
	case LeaseHeld:
		l.heldAnswer(ev, f)
	case LeaseReleasing:
		l.releaseAnswer(ev, f)
	case LeaseReleased:
		l.recheckAnswer(ev, f)
	}
}

// woke handles every timer that is due, in the order of the timer table.
func (l *Lease) woke() {
	if l.due(timerReach) {
		l.refuse(ReasonUnreachable)
	}
	if l.due(timerLimit) {
		l.outOfPatience()
	}
	if l.due(timerLook) {
		l.laterLook()
	}
	if l.due(timerNext) {
		l.timers[timerNext] = unset
		l.next()
	}
}

// next does what the state was waiting to do.
func (l *Lease) next() {
	switch l.state {
	case LeaseObserving:
		l.read(l.observeLimit())
	case LeaseWaiting:
		l.look()
	case LeaseVerifying, LeaseDoubtful:
		l.read(l.requestLimit(l.claimBy()))
	case LeaseHeld:
		l.renewHeld()
	case LeaseReleasing:
		l.releaseRead()
	case LeaseReleased:
		l.read(RequestLimit)
	}
}

// acquire begins the one acquire of this machine.
func (l *Lease) acquire(wait Duration) {
	l.lastTry = wait == 0
	reach := FirstAnswerLimit
	if wait > 0 {
		l.timers[timerLimit] = l.in(wait)
		reach = min(reach, wait)
	}
	l.timers[timerReach] = l.in(reach)
	l.become(LeaseObserving)
	l.read(l.observeLimit())
}

// observeLimit bounds a read that no lease depends on. Until the store has
// answered once the whole silence is bounded, so one read must not outlast it.
func (l *Lease) observeLimit() Duration {
	if reach := l.timers[timerReach]; reach != unset {
		return max(RequestFloor, l.until(reach))
	}
	return RequestLimit
}

// look goes from Waiting back to the store.
func (l *Lease) look() {
	l.become(LeaseObserving)
	l.read(l.observeLimit())
}

// outOfPatience ends a wait. An attempt that is under way runs to its end,
// which is bounded; it is then the last.
func (l *Lease) outOfPatience() {
	l.timers[timerLimit] = unset
	l.lastTry = true
	if l.state == LeaseObserving || l.state == LeaseWaiting {
		l.refuseWaiting()
	}
}

func (l *Lease) refuseWaiting() {
	switch {
	case !l.answered:
		l.refuse(ReasonUnreachable)
	case l.told != 0 && !l.failing:
		l.refuse(ReasonHeld)
	default:
		l.refuse(ReasonLimit)
	}
}

// refuse ends the acquire. Nothing of ours is in the store, or it will expire.
func (l *Lease) refuse(reason Reason) {
	l.become(LeaseRefused)
	a := l.emit(ActionRefused)
	a.Reason = reason
	switch reason {
	case ReasonUnreachable, ReasonUnusable, ReasonLimit:
		a.Class = l.class
	}
	if reason != ReasonCancelled && l.sight.State != 0 {
		a.Sight = &l.sight
	}
}

// cancel gives up whatever has been asked and not yet been given.
func (l *Lease) cancel() {
	switch l.state {
	case LeaseObserving, LeaseWaiting:
		l.refuse(ReasonCancelled)
	case LeaseClaiming, LeaseVerifying, LeaseDoubtful:
		l.giveUp(endCancelled)
	case LeaseReleasing:
		if l.ending == endRaced {
			l.ending = endCancelled
		}
	}
}

// lose ends belief. Nothing of ours is written after it.
func (l *Lease) lose(reason Reason) {
	l.become(LeaseLost)
	a := l.emit(ActionLost)
	a.Reason = reason
	if reason == ReasonTaken || reason == ReasonReleased {
		a.Sight = &l.sight
	}
}

// pastDeadline: the lease may be another's from now on.
func (l *Lease) pastDeadline() {
	if l.failing || l.flight.id != 0 && !l.looking {
		l.lose(ReasonUnreachable)
		return
	}
	l.lose(ReasonExpired)
}
