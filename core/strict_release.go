package core

// cancel gives up whatever has been asked and not yet been given.
func (l *StrictLease) cancel() {
	switch l.state {
	case LeaseObserving, LeaseWaiting:
		l.refuse(ReasonCancelled)
	case LeaseClaiming, LeaseDoubtful:
		l.giveUp(endCancelled)
	case LeaseVerifying:
		l.startReleasing(endCancelled, 0)
	case LeaseReleasing:
		if l.ending != endReleased {
			l.ending = endCancelled
		}
	}
}

// release is the caller's wish to end. In an attempt it is a cancel.
func (l *StrictLease) release() {
	switch l.state {
	case LeaseIdle: // a printed lease: its tenure is known, and an epoch that it had
		l.cur = current{n: l.cfg.Epoch, tenure: l.holder}
		l.claim = &claim{since: l.now.Mono}
		l.become(LeaseReleasing)
		l.ending = endReleased
		l.askNewest("", RequestLimit)
	case LeaseHeld:
		l.startReleasing(endReleased, 0)
	default:
		l.cancel()
	}
}

// giveUp shuts out a claim of unknown fate, by a release at its very key: either
// that is won, and the claim can land no more, or the key shows who won it.
func (l *StrictLease) giveUp(end ending) {
	if l.bug(BugForgetUnknownCreate) {
		l.become(LeaseReleasing)
		l.ending = end
		l.endRelease(0)
		return
	}
	l.startReleasing(end, l.claim.v.n)
}

// startReleasing stops believing, and then makes the version that says so.
func (l *StrictLease) startReleasing(end ending, closing Epoch) {
	l.become(LeaseReleasing)
	l.ending, l.closing, l.checking, l.retries, l.failing = end, closing, false, 0, false
	if end != endReleased {
		l.timers[timerDeadline] = unset
	}
	l.abandon()
	l.goOnReleasing()
}

// goOnReleasing makes the next version, released.
//
// Where the proof that ours is the newest is too old, it is looked for first: a
// create far below would win what was collected there, and release nothing.
func (l *StrictLease) goOnReleasing() {
	if l.closing == 0 && (l.cur.state == 0 || l.basis == unset || l.now.Mono-l.basis > int64(BasisWindow)) {
		l.askNewest("", RequestLimit)
		return
	}
	if l.closing != 0 {
		v := l.claim.v
		v.state, v.alone, v.nonce = VersionReleased, true, newNonce(&l.rng)
		l.create(&v, l.requestLimit(l.timers[timerDeadline]))
		return
	}
	if l.bug(BugEpochReset) {
		l.ask(forDelete, ActionDelete, versionKey(l.prefix, l.cur.n), RequestLimit)
		return
	}
	v := l.released()
	l.create(&v, l.requestLimit(l.timers[timerDeadline]))
}

// released is the version that ends the tenure. It frees the name at once when
// nobody else can be keeping it alive.
func (l *StrictLease) released() ownVersion {
	v := l.successor(VersionReleased)
	// On paper nobody knows whether the session that keeps it lives: it is called.
	onPaper := l.cfg.Holder != "" && l.cur.session != ""
	v.alone = isAlone(l.cur.owners, l.owner.owner) && !onPaper
	return v
}

func (l *StrictLease) releaseAnswer(ev *Event, f flight) {
	l.learn(ev)
	switch {
	case ev.Outcome == OutcomeUnknown:
		l.class = ev.Class
		l.releaseFailed()
	case l.doing == forConfirm:
		n, found := l.newest(ev)
		if !found {
			l.askNewest(l.after, RequestLimit)
			return
		}
		l.basis = l.paged
		switch {
		case n == 0: // there is nothing that could be held
			l.endRelease(0)
			return
		case n == l.cur.n && l.cur.state == VersionReleased: // ours, made long after we had looked
			l.endRelease(0)
			return
		case n == l.cur.n && l.cur.state == VersionHeld:
			l.goOnReleasing()
			return
		}
		l.ask(forReadBack, ActionGet, versionKey(l.prefix, n), l.requestLimit(l.timers[timerDeadline]))
	case l.doing == forCreate && ev.Outcome == OutcomeYes:
		l.releaseMade(f.sent)
	case l.doing == forCreate:
		l.ask(forReadBack, ActionGet, l.key, l.requestLimit(l.timers[timerDeadline]))
	case ev.Outcome == OutcomeNo: // the version is not there (any more)
		l.cur.state = 0
		l.closing = 0
		l.releaseFailed()
	default:
		l.releaseFound(ev)
	}
}

// releaseMade: the version that we asked for is ours.
func (l *StrictLease) releaseMade(sent int64) {
	var v ownVersion
	if l.closing == 0 {
		v = l.released()
	} else {
		v = l.claim.v
		v.state, v.alone = VersionReleased, true
	}
	late := l.closing == 0 && l.now.Mono-l.basis > int64(BasisWindow)
	l.made(&v, sent)
	switch {
	case late: // what was won may lie far below the newest
		l.basis = unset
		l.askNewest("", RequestLimit)
	case v.alone:
		l.endRelease(sent)
	default:
		l.endRelease(0)
	}
}

// releaseFound: somebody's version is where ours was to be, or it is the newest.
func (l *StrictLease) releaseFound(ev *Event) {
	n, _, _ := parseRegisterKey(l.prefix, []byte(l.key))
	l.readVersion(ev.Body, n, ev.Stamp)
	l.closing = 0
	switch reason := l.lossBy(l.holder); {
	case reason == ReasonNone: // ours, made by another owner, or landed after all
		l.goOnReleasing()
	case reason == ReasonReleased || l.ending != endReleased:
		l.endRelease(0)
	default:
		l.lose(reason)
	}
}

// releaseFailed tries again until the deadline, which ends it as lost: what was
// not seen to be released is never called released. What a failed attempt left
// expires by itself, but not while it hangs on a session that lives.
func (l *StrictLease) releaseFailed() {
	const courtesy = 3
	session := ""
	if l.claim != nil {
		session = l.claim.v.session
	}
	switch {
	case l.bug(BugReleaseLeftToExpire):
		l.endRelease(0)
	case l.ending == endReleased && l.cfg.Holder == "",
		l.ending != endReleased && session != "" && session == l.session.id && l.inForce():
		l.failing = true
		l.later(l.timers[timerDeadline])
	case l.ending == endReleased && l.now.Mono < l.claim.since+int64(l.patience()), l.ending != endReleased && l.retries < courtesy:
		l.later(unset)
	case l.ending == endReleased: // a printed lease: it expires by itself
		l.lose(ReasonUnreachable)
	default:
		l.endRelease(0)
	}
}

// patience is how long a printed lease is tried to be released.
func (l *StrictLease) patience() Duration {
	if l.cfg.TTL == None {
		return DefaultStrictTTL
	}
	return l.cfg.TTL
}

// endRelease leaves Releasing for where it was going. Sent is of the version that
// frees the name at once, or 0.
func (l *StrictLease) endRelease(sent int64) {
	switch l.ending {
	case endRaced:
		l.lostRace()
		return
	case endCancelled:
		l.refuse(ReasonCancelled)
		return
	case endUnreached:
		l.refuse(ReasonUnreachable)
		return
	}
	l.become(LeaseReleased)
	a := l.emit(ActionReleased)
	a.Epoch, a.At = l.cur.n, sent
}
