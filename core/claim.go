package core

// A claim, as lastwriter makes it: put, wait until everybody who saw the name
// free has put too, read; the last one who put is there and wins. Then a second
// put carries first_acquired_at, without which a companion will not join.
//
//	A  get(free) put . . . . . wait . . . . . . get(B's)   lost race
//	B      get(free) . put . . . . . wait . . . . . . get(B's) put(confirm) held
//
// The wait eats the record's own life, so the confirming put must be answered
// before the first put's stamp + span; otherwise the claim is cleaned up.

// claim puts the first record. readStart is when the read that found the name
// free was sent.
func (l *Lease) claim(readStart int64) {
	l.become(LeaseClaiming)
	l.confirming, l.readStart, l.acquired, l.retries = false, readStart, 0, 0
	l.claimSent, l.claimWall = l.now.Mono, l.now.Wall
	l.write(l.claimLimit(l.requestLimit(l.claimBy()), readStart))
	l.claimCount = l.count
}

// claimBy is when the claim is too old to be confirmed.
func (l *Lease) claimBy() int64 { return l.claimSent + int64(l.span()) }

// claimed takes the answer to either put.
func (l *Lease) claimed(ev *Event) {
	l.sight.State = 0 // whoever wins a race now, it is not who was seen before
	switch {
	case ev.Outcome == OutcomeYes && !l.confirming:
		l.startVerifying()
	case ev.Outcome == OutcomeYes && l.now.Mono < l.claimBy():
		l.hold()
	case ev.Outcome == OutcomeYes:
		l.giveUp(endRaced)
	case ev.Class.Permanent():
		l.class = ev.Class
		l.refuse(ReasonUnusable)
	default:
		l.claimUnknown(ev.Class)
	}
}

// claimUnknown reads a put back: at once the first time, then at intervals, and
// not at once after a store that asked for patience: another put follows.
func (l *Lease) claimUnknown(class Class) {
	l.class, l.putSaid = class, class
	l.doubt()
	l.become(LeaseDoubtful)
	if l.retries == 0 && class != ClassThrottled {
		l.retries++
		l.read(l.requestLimit(l.claimBy()))
		return
	}
	l.later(l.claimBy())
}

// startVerifying waits for everybody who may have read what we read. A slow
// store makes the wait longer: the next one's put may be as slow as ours.
//
// Where others are known to want the name our own speed says too little of theirs:
// all saw it become free in the same moment, and a processor or a disk that they
// share holds one up between its read and its put.
//
//	A  get(free) put wait get(A's) put(confirm) held
//	B     get(free) . . . . . . . . . . . . . . . . . put . wait . get(B's) held
func (l *Lease) startVerifying() {
	l.become(LeaseVerifying)
	l.retries, l.lostPuts = 0, 0
	l.claimWait = max(l.cfg.AcquireMargin, 2*l.sinceRead())
	if l.isContended() && !l.bug(BugHurriedClaim) {
		l.claimWait = max(l.claimWait, min(ContendedMargin, l.span()/2))
	}
	l.timers[timerNext] = l.in(l.claimWait)
}

// isContended reports whether we have waited for another or lost a race.
func (l *Lease) isContended() bool { return l.told != 0 || l.races > 0 }

// verified takes the only read that may answer held.
func (l *Lease) verified(ev *Event, f flight) {
	switch l.find(ev) {
	case foundPut:
		if l.ownFresh() && l.now.Mono < l.claimBy() {
			l.confirm()
		} else if l.rounds++; l.rounds < RewriteRounds {
			l.claim(f.sent)
		} else {
			l.giveUp(endRaced)
		}
	case foundUnknown, foundUnreadable:
		l.unread()
	default:
		l.lostRace()
	}
}

// unread: the record could not be read while a claim is open.
func (l *Lease) unread() {
	switch {
	case l.class.Permanent():
		l.refuse(ReasonUnusable)
	case l.now.Mono >= l.claimBy():
		l.giveUp(endRaced)
	default:
		l.later(l.claimBy())
	}
}

// confirm writes first_acquired_at.
func (l *Lease) confirm() {
	l.become(LeaseClaiming)
	l.confirming = true
	if l.acquired == 0 {
		l.acquired = l.now.Wall
	}
	l.write(l.requestLimit(l.claimBy()))
}

// readBack leaves Doubtful, by the one way there is: what is there now?
func (l *Lease) readBack(ev *Event) {
	found := l.find(ev)
	switch {
	case found == foundUnknown || found == foundUnreadable:
		l.unread()
	case found == foundPut && !l.confirming:
		l.settle()
		l.startVerifying()
	case found == foundPut && l.now.Mono < l.claimBy():
		l.settle()
		l.hold()
	case found == foundPut:
		l.giveUp(endRaced)
	case found == foundOurs && l.confirming && l.firstPutSeen():
		if l.now.Mono < l.claimBy() {
			l.confirm() // the confirming put was lost on its way, the claim was not
		} else {
			l.giveUp(endRaced)
		}
	case found == foundOther && l.sight.State == ObservedHeld:
		l.lostRace()
	default:
		l.nobodyWon()
	}
}

// nobodyWon: our put is not there, and nobody's in its place. The store took it
// no better than it answered; that is not a race, and trying again as fast as
// after one would only add to what ails it.
func (l *Lease) nobodyWon() {
	l.class, l.failing = l.putSaid, true
	l.lostPuts++
	hopeless := l.class == ClassOther && l.lostPuts >= LostPuts
	switch {
	case hopeless || l.lastTry && l.class == ClassOther:
		l.refuse(ReasonUnusable)
	case l.lastTry:
		l.refuse(ReasonLimit)
	default:
		l.become(LeaseWaiting)
		l.timers[timerNext] = l.in(l.retryDelay(l.lostPuts-1, l.class, unset))
	}
}

// firstPutSeen reports whether the record read is the put that was verified.
func (l *Lease) firstPutSeen() bool {
	return l.seen.count == l.claimCount && l.seen.writtenAt == microseconds(l.claimWall)
}

// lostRace ends an attempt that somebody else won, or nobody.
func (l *Lease) lostRace() {
	l.rounds = 0
	if l.lastTry {
		l.refuse(ReasonRaced)
		return
	}
	l.become(LeaseWaiting)
	l.timers[timerNext] = l.in(l.backoff(PollFirst, l.races))
	l.races++
}

// hold begins the tenure as a caller sees it.
func (l *Lease) hold() {
	l.become(LeaseHeld)
	l.timers[timerLimit] = unset
	l.timers[timerReach] = unset
	l.good, l.failing, l.retries = l.sent, false, 0
	l.scheduleRenewal()
	a := l.emit(ActionHeld)
	a.At, a.Wall, a.Holder = l.timers[timerDeadline], l.acquired, l.holder
	// Each claimant waits by its own latency, so one with a fast store among
	// slow ones waits too little. A later look catches the slow one's put.
	delay := max(LaterLookMin, LaterLookWaits*l.claimWait)
	if l.cfg.Renewal == RenewalChecked && l.cfg.TTL >= delay {
		l.timers[timerLook] = l.in(delay)
	}
}

// sinceRead is how long ago the read was sent that found the name free.
func (l *Lease) sinceRead() Duration { return -l.until(l.readStart) }
