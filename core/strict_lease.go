package core

// StrictLease is the machine of one claim under strict: acquire, hold, release.
// Like a Lease it is made for one tenure and ends in Released, Refused or Lost.
type StrictLease struct {
	owner
	state LeaseState

	// Acquiring.
	holder   HolderID
	lastTry  bool // a failed attempt is the end: try once, or patience is over
	answered bool // the store has said yes or no to something
	wants    bool // the name is free, and the session is waited for
	sampling bool // who tries once waits for a sample of the store's clock
	again    bool // who asks for us tries again later, and has time for one until then
	polls    int
	races    int
	lateWins int // versions of ours that were won too late
	told     uint64
	waitedAt Epoch // the version that was waited for last
	moved    bool  // it was another one than the time before
	claim    *claim
	calledAt Epoch // the newest version of which a call said that it breaks the name

	// Held.
	checking bool // a call says that the name was broken, and the chain is read

	// Releasing.
	ending  ending
	closing Epoch // the version at which a create of unknown fate is shut out, or 0
}

// claim is one version that we try to make, by one create or several.
type claim struct {
	v     ownVersion
	tried [MaxAttempts]attempt
	n     int   // how many of them were sent
	since int64 // Mono: sent of the first
	doubt int64 // Mono since when its fate is in doubt
	basis int64 // Mono of the proof that it rests on
	guess bool  // that is only remembered
	below Epoch // origin of the tenure before, or as good a guess
}

// attempt is one create: its nonce, and when it was sent.
type attempt struct {
	nonce nonce
	sent  int64
}

// NewStrictLease makes a lease machine in state Idle. With cfg.Holder set it can
// only release that tenure.
func NewStrictLease(cfg Config) (*StrictLease, error) {
	cfg.Machine, cfg.Protocol = MachineLease, ProtocolStrict
	// Beside an old client's lock.json the lease may have to be yielded without a
	// word, and nothing of ours may stay behind a session that lives on.
	cfg.OnSession = cfg.OnSession && !cfg.Beside
	o, err := newOwner(cfg)
	if err != nil {
		return nil, err
	}
	l := &StrictLease{owner: o, state: LeaseIdle, holder: o.cfg.Holder}
	if l.holder == "" {
		l.holder = seedUUID(cfg.Seed)
		l.owner.owner = string(l.holder)
	}
	return l, nil
}

// String implements Machine.
func (l *StrictLease) String() string { return l.state.String() }

// Idle implements Machine. What stands on a session waits for that.
func (l *StrictLease) Idle() bool { return l.owner.Idle() && l.state != LeaseHeld }

// State is where the machine stands.
func (l *StrictLease) State() LeaseState { return l.state }

// Holder is the tenure's id.
func (l *StrictLease) Holder() HolderID { return l.holder }

// Step implements Machine.
func (l *StrictLease) Step(now Instant, ev Event) ([]Action, error) {
	if err := l.admit(now, &ev); err != nil {
		return nil, err
	}
	if !l.accepts(ev.Kind) {
		return nil, errEvent(l.state.String(), ev.Kind)
	}
	l.begin(now)
	l.hear(&ev)
	if l.believes() && l.isPast() && !(ev.Kind == EventAnswer && l.bug(BugLateRenewal)) {
		// Before anything else, and without waiting for I/O: an answer that comes
		// with this Step is too late to be believed.
		l.lose(l.whyPast())
	}
	switch ev.Kind {
	case EventAcquire:
		l.acquire(ev.Wait)
	case EventRelease:
		l.release()
	case EventCancel:
		l.cancel()
	case EventAnswer:
		if f, ok := l.land(&ev); ok {
			l.answer(&ev, f)
		}
	case EventChanged:
		switch {
		case l.state == LeaseWaiting:
			l.reconsider()
		case l.state == LeaseHeld && l.standOn == "": // else its session is told, and calls it
			l.hint(l.quiet)
		}
	case EventCalled:
		l.called(ev.Epoch)
	case EventWoke:
		l.woke()
	}
	if l.state == LeaseWaiting && (l.wants && l.inForce() || l.sampling && l.lastTry && l.toldAt > l.look.start) {
		l.reconsider()
	}
	if l.state == LeaseHeld {
		l.heedHint()
	}
	actions := l.finish()
	if l.isAtRest() { // nothing more to do for a long time
		l.forget()
	}
	return actions, nil
}

// believes reports whether the clock can take something away.
func (l *StrictLease) believes() bool {
	return l.state == LeaseHeld || l.state == LeaseReleasing && l.ending == endReleased && l.cfg.Holder == ""
}

func (l *StrictLease) accepts(kind EventKind) bool {
	switch kind {
	case EventAnswer, EventChanged, EventWoke, EventCalled:
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
func (l *StrictLease) become(to LeaseState) {
	checkMove(strictLeaseEdges[:], l.state, to)
	l.state, l.wants = to, false
	l.timers[timerNext], l.timers[timerLook] = unset, unset
	if to >= LeaseReleased {
		l.timers = newTimers()
		l.abandon()
	}
}

func (l *StrictLease) answer(ev *Event, f flight) {
	if ev.Outcome != OutcomeUnknown {
		l.answered = true
		l.timers[timerReach] = unset
	}
	if l.tidying() {
		if l.bug(BugEpochReset) && l.state == LeaseReleasing && ev.Outcome != OutcomeUnknown {
			l.endRelease(0)
			return
		}
		l.tidied(ev)
		return
	}
	switch l.state {
	case LeaseObserving:
		l.observed(l.lookAnswer(ev, f, l.observeLimit()))
	case LeaseWaiting:
		l.polled(ev, f)
	case LeaseClaiming:
		l.claimed(ev)
	case LeaseVerifying:
		l.verified(ev)
	case LeaseDoubtful:
		l.readBack(ev)
	case LeaseHeld:
		l.heldAnswer(ev, f)
	case LeaseReleasing:
		l.releaseAnswer(ev, f)
	}
}

// woke handles every timer that is due, in the order of the timer table.
func (l *StrictLease) woke() {
	if l.due(timerReach) {
		l.unreached()
	}
	if l.due(timerLimit) {
		l.outOfPatience()
	}
	if l.due(timerNext) || l.sampling && l.lastTry && l.state == LeaseWaiting { // there is none to be had
		l.timers[timerNext] = unset
		l.next()
	}
}

// next does what the state was waiting to do.
func (l *StrictLease) next() {
	switch l.state {
	case LeaseObserving:
		l.startLook(l.observeLimit())
	case LeaseWaiting:
		l.poll()
	case LeaseVerifying:
		l.confirmWin()
	case LeaseDoubtful:
		l.askBack()
	case LeaseHeld:
		l.abandon() // of what is tidied up: a renewal goes before
		if l.checking {
			l.askAbove()
			return
		}
		l.renew()
	case LeaseReleasing:
		l.goOnReleasing()
	}
}

// acquire begins the one acquire of this machine.
func (l *StrictLease) acquire(wait Duration) {
	l.lastTry = wait == 0
	reach := FirstAnswerLimit
	if wait > 0 {
		l.timers[timerLimit] = l.in(wait)
		reach = min(reach, wait)
	}
	l.timers[timerReach] = l.in(reach)
	l.become(LeaseObserving)
	last := l.cfg.LastAt
	if l.cfg.LastEpoch != 0 && !l.cfg.Beside && (!l.cfg.OnSession || l.inForce()) &&
		last <= l.now.Mono && l.now.Mono-last < int64(BasisWindow) {
		// Our process released it itself, alone, and a moment ago: whoever comes
		// between makes the create fail.
		l.cur, l.basis = current{n: l.cfg.LastEpoch}, last
		l.startClaim()
		l.claim.guess, l.claim.below = true, max(l.cfg.LastEpoch, 2)-1
		return
	}
	l.startLook(l.observeLimit())
}

// observeLimit bounds a read that no lease depends on; see Lease.observeLimit.
func (l *StrictLease) observeLimit() Duration {
	if reach := l.timers[timerReach]; reach != unset {
		return max(RequestFloor, l.until(reach))
	}
	return RequestLimit
}

// observed goes on when a look has come to something.
func (l *StrictLease) observed(v outlook) {
	switch v {
	case looking:
		return
	case lookFailed:
		l.unanswered()
		return
	case foundUnfit:
		reason := ReasonNewer
		if l.cur.result == readOther {
			reason = ReasonKind
		}
		l.refuse(reason)
		return
	case foundFree:
		l.failing, l.retries = false, 0
		if l.cur.result == readCorrupt {
			a := l.emit(ActionWarned)
			a.Reason, a.Key = ReasonCorruptTaken, versionKey(l.prefix, l.cur.n)
		}
		if l.cfg.OnSession && !l.inForce() {
			l.awaitSession()
			return
		}
		l.startClaim()
	case foundHeld:
		l.failing, l.retries = false, 0
		l.heldByAnother()
	}
}

// awaitSession: the name is free, and there is nothing to stand on yet. A lease
// on a session may be asked for only while that is in force.
func (l *StrictLease) awaitSession() {
	if l.lastTry && l.timers[timerLimit] == unset && l.polls > 3 {
		l.refuse(ReasonUnreachable)
		return
	}
	l.become(LeaseWaiting)
	l.wants = true
	l.timers[timerNext] = l.in(l.backoff(PollFirst, l.polls))
	l.polls++
}

// heldByAnother waits, or gives up.
func (l *StrictLease) heldByAnother() {
	if l.lastTry {
		if l.again {
			l.askForSample()
		}
		if !l.again && l.wantsSample() && !l.sampling && l.timers[timerLimit] == unset {
			// Who tries once has no later look, for which this one's answers would serve.
			// He may ask for the store's clock, and look once more.
			l.become(LeaseWaiting)
			l.sampling = true
			l.timers[timerNext] = l.in(SampleLimit)
			l.emit(ActionCalibrate)
			return
		}
		l.refuse(ReasonHeld)
		return
	}
	l.become(LeaseWaiting)
	s := l.sight
	told := mix(uint64(s.Epoch), fingerprint(s.Holder))
	if told != l.told {
		l.told = told // and the polls go on as they are: a crowd would else poll as at first
		l.emit(ActionWaiting).Sight = s
	}
	l.moved = l.waitedAt != 0 && l.waitedAt != l.cur.n
	l.waitedAt = l.cur.n
	l.schedulePoll()
	l.askForSample()
}

// schedulePoll sets the next poll, or wakes earlier: at the first instant at
// which what was seen can be dead.
func (l *StrictLease) schedulePoll() {
	at := l.in(l.backoff(PollFirst, l.polls))
	l.polls++
	// What was learned of the store's clock since serves the next look.
	l.sample, l.fresh = better(l.sample, l.fresh), clockSample{}
	if !l.look.lockHeld {
		l.sight.LookAt = 0
		if dead := l.deadAt(); dead != unset {
			l.sight.LookAt = dead
			at = min(at, dead)
		}
	}
	l.timers[timerNext] = at
}

// askForSample asks the host for the store's clock where that would free the
// name sooner than watching it.
func (l *StrictLease) askForSample() {
	if l.wantsSample() {
		l.emit(ActionCalibrate)
	}
}

// wantsSample reports whether the store's clock, which no recent sample tells,
// could show the name to be free.
func (l *StrictLease) wantsSample() bool {
	recent := l.toldAt != 0 && l.now.Mono-l.toldAt < int64(CalibrateEach)
	endless := l.cur.state == VersionHeld && l.cur.ttl == 0
	return l.cfg.Expiry == ExpiryCalibrated && !recent && !endless && !l.cur.sameBoot && !l.look.lockHeld
}

// poll asks what is cheapest: while what is there cannot be dead, only whether
// anything newer is there. When it can be, it looks. Where the name changes hands
// between any two polls, exists would only be one request more.
func (l *StrictLease) poll() {
	switch {
	case l.moved || l.wants || l.lastTry || l.look.lockHeld || l.cur.n == 0 || l.basis == unset ||
		l.now.Mono-l.basis > int64(BasisWindow) && !l.bug(BugPollAsBasis):
		l.reconsider()
	case l.canBeDead():
		if l.cur.sameBoot && l.cur.n != l.cur.origin || l.cur.state != VersionHeld || hasMoreOwners(l.cur.owners) {
			l.reconsider()
			return
		}
		l.become(LeaseObserving)
		l.startPoll(l.observeLimit())
	default:
		l.ask(forNext, ActionExists, l.keyAbove(), l.observeLimit())
	}
}

// canBeDead reports whether the instant has come that the last look gave.
func (l *StrictLease) canBeDead() bool {
	return l.sight != nil && l.sight.LookAt != 0 && l.now.Mono >= l.sight.LookAt
}

// polled takes the answer to a poll.
func (l *StrictLease) polled(ev *Event, f flight) {
	switch {
	case ev.Outcome == OutcomeUnknown:
		l.class, l.failing = ev.Class, true
		if ev.Class.Permanent() {
			l.refuse(ReasonUnusable)
			return
		}
		l.later(unset)
	case !l.proven(f.sent):
		l.reconsider()
	case ev.Outcome == OutcomeYes:
		l.become(LeaseObserving)
		l.follow(f.sent, l.observeLimit())
	default:
		l.basis, l.failing, l.retries = f.sent, false, 0
		l.schedulePoll()
	}
}

// reconsider goes from Waiting back to a whole look.
func (l *StrictLease) reconsider() {
	l.become(LeaseObserving)
	l.startLook(l.observeLimit())
}

// unanswered: a look failed. A waiter carries on; one who tries once does not.
func (l *StrictLease) unanswered() {
	l.failing = true
	switch {
	case l.class.Permanent():
		l.refuse(ReasonUnusable)
	case l.lastTry:
		l.refuseWaiting()
	default:
		l.later(unset)
	}
}

// unreached: the store has not answered once. A claim that rests on memory may
// have landed all the same, and is shut out like any other.
func (l *StrictLease) unreached() {
	l.timers[timerReach] = unset
	switch l.state {
	case LeaseObserving, LeaseWaiting:
		l.refuse(ReasonUnreachable)
	case LeaseClaiming, LeaseDoubtful:
		if v := &l.claim.v; v.session == "" && v.ttl != 0 { // what may have landed expires by itself
			l.refuse(ReasonUnreachable)
			return
		}
		l.giveUp(endUnreached)
	}
}

// outOfPatience ends a wait. An attempt that is under way runs to its end,
// which is bounded; it is then the last.
func (l *StrictLease) outOfPatience() {
	l.timers[timerLimit] = unset
	l.lastTry = true
	if l.state == LeaseObserving || l.state == LeaseWaiting {
		l.refuseWaiting()
	}
}

func (l *StrictLease) refuseWaiting() {
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
func (l *StrictLease) refuse(reason Reason) {
	l.become(LeaseRefused)
	a := l.emit(ActionRefused)
	a.Reason = reason
	switch reason {
	case ReasonUnreachable, ReasonUnusable, ReasonLimit:
		a.Class = l.class
	}
	if reason != ReasonCancelled {
		a.Sight = l.sight
	}
}

// lose ends belief. Nothing of ours is written after it.
func (l *StrictLease) lose(reason Reason) {
	l.become(LeaseLost)
	a := l.emit(ActionLost)
	a.Reason = reason
	if reason < ReasonUnreachable && l.sight != nil && l.sight.State != 0 {
		a.Sight = l.sight
	}
}
