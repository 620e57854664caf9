package core

// release is the caller's wish to end. In an attempt it is a cancel.
func (l *Lease) release(brief bool) {
	switch l.state {
	case LeaseIdle: // a printed lease: nothing is known of it but its holder
		l.brief = brief
		l.timers[timerDeadline] = l.in(l.span())
		l.startReleasing(endReleased)
	case LeaseHeld:
		l.brief = brief
		l.startReleasing(endReleased)
	case LeaseReleasing: // or what a failed attempt left is, and there is to be no next one
		l.brief = l.brief || brief
		l.cancel()
	case LeaseReleased:
		l.brief = l.brief || brief
		if brief && l.rechecks > 1 { // the one after a second is behind us
			l.timers[timerNext] = unset
		}
	default:
		l.cancel()
	}
}

// giveUp releases what a claim that cannot succeed has left. It is a courtesy
// with one attempt: what it cannot release expires.
func (l *Lease) giveUp(end ending) {
	l.timers[timerDeadline] = unset
	l.startReleasing(end)
}

// startReleasing waits for a put that is in flight: it could land after the
// released record and bring the lease back for a TTL.
//
//	holder  put(renewal) . . . . . . . . . . . . . answered
//	release       get(ours) put(released)               <- not yet
//	store                            released  renewal  <- held for a TTL by nobody
func (l *Lease) startReleasing(end ending) {
	l.become(LeaseReleasing)
	l.ending, l.retries = end, 0
	l.timers[timerLook] = unset
	if l.flight.verb == ActionPut && l.flight.id != 0 {
		l.settling = true
		return
	}
	l.looking = false
	l.abandon()
	l.releaseRead()
}

// releaseRead reads before it writes, unless told to be blind. A tenure that is
// only known from paper must be read for its counts in any case, and a claim
// that was given up because it may be another's who won the race.
func (l *Lease) releaseRead() {
	if l.cfg.Renewal == RenewalBlind && l.cfg.Holder == "" && l.ending == endReleased {
		l.writeReleased(l.requestLimit(l.timers[timerDeadline]))
		return
	}
	l.read(l.requestLimit(l.timers[timerDeadline]))
}

func (l *Lease) releaseAnswer(ev *Event, f flight) {
	switch {
	case f.verb == ActionPut && l.settling:
		l.settling = false
		if ev.Outcome == OutcomeUnknown {
			l.doubt()
		}
		l.releaseRead()
	case f.verb == ActionPut && ev.Outcome == OutcomeYes:
		l.endRelease()
	case f.verb == ActionPut:
		l.class = ev.Class
		l.releaseFailed()
	default:
		l.releaseFound(l.find(ev))
	}
}

func (l *Lease) releaseFound(found finding) {
	switch found {
	case foundReleased, foundNothing:
		l.endRelease()
	case foundOther:
		if l.ending == endReleased {
			l.lose(ReasonTaken)
			return
		}
		l.endRelease()
	case foundUnknown, foundUnreadable:
		l.releaseFailed()
	default:
		l.writeRelease()
	}
}

// writeRelease writes what was read to be ours as released. What a failed
// attempt left is free by itself when its life is over, and a put that lands
// much later could fall on somebody's verified claim: it is given no longer.
func (l *Lease) writeRelease() {
	limit := l.requestLimit(l.timers[timerDeadline])
	if l.ending != endReleased {
		life := l.until(l.sent + int64(l.span()))
		limit = min(limit, max(life, l.cfg.Margin))
	}
	l.adopt()
	l.writeReleased(limit)
}

// adopt continues the counts of a tenure that another process began.
func (l *Lease) adopt() {
	if l.cfg.Holder == "" || l.count != 0 {
		return
	}
	l.acquired = l.seen.acquiredAt
	if !l.remote {
		l.count, l.firstWritten = l.seen.count, l.seen.firstWrittenAt
	}
}

// releaseFailed tries again until the deadline, which ends it as lost: what was
// not seen to be released is never called released.
func (l *Lease) releaseFailed() {
	if l.ending != endReleased {
		l.endRelease()
		return
	}
	l.failing = true
	l.later(l.timers[timerDeadline])
}

// endRelease leaves Releasing for where it was going.
func (l *Lease) endRelease() {
	switch l.ending {
	case endRaced:
		l.lostRace()
		return
	case endCancelled:
		l.refuse(ReasonCancelled)
		return
	}
	inDoubt := l.doubts > 0 && l.now.Mono-l.doubtAt < int64(l.cfg.TTL)
	l.become(LeaseReleased)
	l.releasedAt = l.now.Mono
	l.emit(ActionReleased)
	if inDoubt && l.cfg.Renewal == RenewalChecked {
		l.scheduleRecheck()
	}
}

// scheduleRecheck plans the next look for a renewal of ours that landed on top
// of the release: after 1 s, after TTL/3, and once before the TTL is over, when
// anything later would be taken for stale anyway.
func (l *Lease) scheduleRecheck() {
	ttl := l.cfg.TTL
	for l.rechecks < 3 {
		after := [3]Duration{RecheckFirst, ttl / 3, ttl - l.cfg.Margin}[l.rechecks]
		at := l.releasedAt + int64(after)
		if l.brief && l.rechecks > 0 {
			return
		}
		l.rechecks++
		if after < ttl && at > l.now.Mono {
			l.timers[timerNext] = at
			return
		}
	}
}

func (l *Lease) recheckAnswer(ev *Event, f flight) {
	if f.verb == ActionGet {
		switch l.find(ev) {
		case foundPut, foundOurs:
			l.writeReleased(RequestLimit)
			return
		case foundOther:
			return // the name has moved on, and a late put of ours is his to judge
		}
	}
	l.scheduleRecheck()
}
