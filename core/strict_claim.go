package core

// startClaim makes the version that follows what was found free: a new tenure.
func (l *StrictLease) startClaim() {
	n := l.cur.n + 1
	if l.bug(BugEpochReset) && l.cur.state == VersionReleased {
		n = 1
	}
	ttl, margin := l.cfg.TTL, l.cfg.Margin
	if ttl == None {
		ttl, margin = 0, 0
	}
	session := ""
	if l.cfg.OnSession {
		session = l.session.id
	}
	l.claim = &claim{since: l.now.Mono, doubt: l.now.Mono, basis: l.basis, below: max(l.cur.origin, 1), v: ownVersion{
		n: n, origin: n, state: VersionHeld, tenure: l.holder, owner: l.owner.owner,
		owners: withOwner("", l.owner.owner), ttl: ttl, margin: margin, session: session, label: l.cfg.Label,
	}}
	l.become(LeaseClaiming)
	l.sendClaim()
}

// sendClaim sends the claim with a nonce of its own: the deadline counts from
// the very request that landed, so they must be told apart.
//
//	us     create(n) nonce 1 . . . . . . . . . . . . . . . . . landed, stamped
//	             (unknown)     create(n) nonce 2 . . exists: read back: nonce 1
func (l *StrictLease) sendClaim() {
	c := l.claim
	if c.n == 0 || !l.bug(BugSameNonceRetry) {
		c.v.nonce = newNonce(&l.rng)
	}
	c.tried[c.n] = attempt{c.v.nonce, l.now.Mono}
	c.n++
	l.create(&c.v, l.requestLimit(l.claimBy()))
}

// claimBy is when a claim that was sent now would be worth nothing any more.
func (l *StrictLease) claimBy() int64 {
	if l.claim.v.ttl == 0 {
		return unset
	}
	return l.claim.since + int64(l.claim.v.ttl-l.claim.v.margin)
}

// giveUpAt is when a claim in doubt is given up: nobody waits for a TTL of days to
// be told that a store is silent, and whose patience is over waits for one request.
func (l *StrictLease) giveUpAt() int64 {
	doubt := DoubtLimit
	if l.lastTry {
		doubt = RequestLimit
	}
	return min(l.claimBy(), l.claim.doubt+int64(doubt))
}

// claimed takes the answer to a create.
func (l *StrictLease) claimed(ev *Event) {
	switch ev.Outcome {
	case OutcomeYes:
		l.won(&l.claim.tried[l.claim.n-1])
		return
	case OutcomeUnknown:
		l.class = ev.Class
		if l.bug(BugUnknownIsYes) {
			l.won(&l.claim.tried[l.claim.n-1])
			return
		}
		if l.bug(BugUnknownIsNo) {
			l.become(LeaseDoubtful)
			l.lostRace()
			return
		}
	}
	// "Exists" is said of one's own success, too, where somebody on the way sent
	// the request twice. What is there is to be read in any case: it is who won.
	l.become(LeaseDoubtful)
	l.askBack()
}

// askBack reads the version that a create of ours may have made.
func (l *StrictLease) askBack() {
	l.ask(forReadBack, ActionGet, versionKey(l.prefix, l.claim.v.n), l.requestLimit(l.claimBy()))
}

// readBack tells whether the version there is ours, and by which request.
func (l *StrictLease) readBack(ev *Event) {
	c := l.claim
	switch ev.Outcome {
	case OutcomeUnknown:
		l.class, l.failing = ev.Class, true
		if l.now.Mono >= l.giveUpAt() || ev.Class.Permanent() {
			l.giveUp(endRaced)
			return
		}
		l.later(l.giveUpAt())
	case OutcomeNo:
		l.notThere()
	default:
		l.learn(ev)
		l.failing, l.retries = false, 0
		l.readVersion(ev.Body, c.v.n, ev.Stamp)
		var v version
		if parseVersion(ev.Body, c.v.n, &v) == readGood {
			for i := c.n - 1; i >= 0; i-- { // the latest of those with one nonce: a mistake, see the explorer
				if c.tried[i].nonce.is(v.nonce) {
					l.won(&c.tried[i])
					return
				}
			}
		}
		l.lostRace()
	}
}

// notThere: nobody has made the version, and a create of ours may still land.
// Another one is sent, which wins or shows who did.
func (l *StrictLease) notThere() {
	switch {
	case l.class.Permanent() && l.claim.n == 1: // it was refused, not lost
		l.refuse(ReasonUnusable)
	case l.claim.n == MaxAttempts || l.now.Mono >= l.giveUpAt():
		l.giveUp(endRaced)
	case l.cfg.OnSession && (!l.inForce() || l.session.id != l.claim.v.session):
		l.giveUp(endRaced)
	default:
		l.become(LeaseClaiming)
		l.sendClaim()
	}
}

// won: one of our creates made the version. It holds if it is young enough; if
// not, it is nobody's, and the next claim stands on it.
func (l *StrictLease) won(a *attempt) {
	c := l.claim
	l.made(&c.v, a.sent)
	switch {
	case l.isSpoilt(a.sent):
	case l.now.Mono-l.claim.basis > int64(BasisWindow) && !l.bug(BugGCWithoutBasis):
		l.become(LeaseVerifying)
		c.doubt = l.now.Mono
		l.confirmWin()
	default:
		l.hold(a.sent)
	}
}

// isSpoilt ends a claim that was won and may not be held: its session has called it
// off, it is too old, or its session has died.
func (l *StrictLease) isSpoilt(sent int64) bool {
	c := &l.cur
	late := c.ttl != 0 && l.now.Mono >= l.deadlineFrom(sent)
	onDead := c.session != "" && (c.session != l.session.id || !l.inForce())
	switch {
	case l.calledAt > c.n && c.session != "":
		l.becomeDoubtful()
		l.basis = unset
		l.lostRace()
	case late && !l.bug(BugLateRenewal) || onDead && !l.bug(BugSessionNotInForce):
		l.wonLate()
	default:
		return false
	}
	return true
}

// wonLate: the version is ours and we do not hold it; nobody joined it, since
// nobody was told of it.
func (l *StrictLease) wonLate() {
	const rounds = 3
	l.lateWins++
	if l.lateWins >= rounds || l.lastTry || l.cfg.OnSession && !l.inForce() {
		l.startReleasing(endRaced, 0)
		return
	}
	l.becomeDoubtful()
	l.startClaim()
}

func (l *StrictLease) becomeDoubtful() {
	if l.state != LeaseDoubtful {
		l.become(LeaseDoubtful)
	}
}

// confirmWin lists: the version was won so long after it was found to be the
// next one that what stood there before may have been collected.
func (l *StrictLease) confirmWin() { l.askNewest("", l.requestLimit(l.claimBy())) }

func (l *StrictLease) verified(ev *Event) {
	sent := l.cur.boottime
	n, found := l.newest(ev)
	switch {
	case ev.Outcome == OutcomeUnknown:
		l.class, l.failing = ev.Class, true
		if l.now.Mono >= l.giveUpAt() {
			l.startReleasing(endRaced, 0)
			return
		}
		l.later(l.giveUpAt())
	case !found:
		l.askNewest(l.after, l.requestLimit(l.claimBy()))
	case n != l.cur.n:
		l.lostRace()
	case l.isSpoilt(sent):
	default:
		l.basis = l.paged
		l.hold(sent)
	}
}

// lostRace ends an attempt that somebody else won. What was read back is his
// version, so there is nothing to look for: the basis holds for it, too, since it
// was made after that.
func (l *StrictLease) lostRace() {
	if l.claim != nil && l.claim.guess && l.state == LeaseDoubtful {
		l.reconsider()
		return
	}
	if l.lastTry {
		l.refuse(ReasonRaced)
		return
	}
	l.become(LeaseWaiting)
	if c := &l.cur; c.n == l.claim.v.n && c.state == VersionHeld && c.tenure != l.holder && l.basis != unset {
		l.look = look{listed: true, more: true, n: c.n, lowest: c.n, stamp: c.stamp, start: l.now.Mono}
		l.schedulePoll()
		if l.sight.LookAt == 0 && c.ttl != 0 { // nothing but watching can free it: begin
			l.sight.LookAt = l.now.Mono
		}
	} else {
		l.basis = unset
	}
	l.claim, l.body = nil, nil // it may wait for long, and thousands beside it
	l.moved = true             // in a crowd there are more above it by the next poll
	l.timers[timerNext] = l.in(l.backoff(PollFirst, l.races))
	l.races++
}

// hold begins the tenure as a caller sees it.
func (l *StrictLease) hold(sent int64) {
	l.become(LeaseHeld)
	l.timers = newTimers()
	l.believe(sent)
	tidies := l.cur.n/collectEach != l.claim.below/collectEach // the first tenure of each so many versions
	l.claim = nil                                              // a lease held costs little
	a := l.emit(ActionHeld)
	a.At, a.Wall, a.Holder = l.deadlineFrom(sent), l.now.Wall, l.holder
	a.Epoch, a.Token, a.Session = l.cur.n, l.cur.origin, l.standOn
	if l.bug(BugDeadlineFromAnswer) {
		a.At = l.deadlineFrom(l.now.Mono)
	}
	if tidies {
		l.startTidying()
	}
}

// heldAnswer takes the answer to a renewal, or to what a call made us ask.
func (l *StrictLease) heldAnswer(ev *Event, f flight) {
	if l.checking {
		l.callAnswer(ev)
		return
	}
	if course, reason := l.renewalAnswer(ev, f); course == lost {
		l.lose(reason)
	}
}

// called: our session has read that somebody broke the name. Until we know what
// is above us the session's renewals do us no good: the deadline stays where it
// is, since whoever broke it waits no longer than a ttl from the call.
//
// A claim of unknown fate may be the one that was broken. The session tells of it
// once, so it is remembered until the claim is settled:
//
//	us       create v(n) . . . . . . . . . . (unknown)  read back: ours
//	breaker                   v(n+1) broken, call
//	session                                   called    <- believed no more
func (l *StrictLease) called(epoch Epoch) {
	l.calledAt = max(l.calledAt, epoch)
	if l.state != LeaseHeld || l.standOn == "" || epoch <= l.cur.n {
		return
	}
	l.timers[timerDeadline] = max(l.session.until, l.own)
	l.checking = true
	l.emit(ActionDeadline).At = l.timers[timerDeadline]
	l.askAbove()
}

// callAnswer reads the chain up to the break that the call was about.
func (l *StrictLease) callAnswer(ev *Event) {
	switch {
	case ev.Outcome == OutcomeUnknown:
		l.class, l.failing = ev.Class, true
		l.later(l.timers[timerDeadline])
	case l.doing == forNext && ev.Outcome == OutcomeNo: // a call for what never came: the session goes on
		l.checking, l.failing, l.retries = false, false, 0
		l.restOnSession()
		l.emit(ActionRenewed).At = max(l.session.until, l.own)
	case l.doing == forNext:
		l.askAbove()
	case ev.Outcome == OutcomeNo: // the chain is not what the call says: ours no longer
		l.lose(ReasonTaken)
	default:
		if course, reason := l.above(ev); course == lost {
			l.lose(reason)
			return
		}
		// Another owner of the tenure made it; the break, if there is one, is above.
		l.ask(forNext, ActionExists, l.keyAbove(), l.requestLimit(l.timers[timerDeadline]))
	}
}
