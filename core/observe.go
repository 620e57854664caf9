package core

// judgement is what a first look makes of a record.
type judgement uint8

const (
	judgedFree judgement = iota
	judgedHeld
	judgedEmpty // an empty object that may yet be filled: read again
)

// observed takes the answer to a look that may end in a claim.
func (l *Lease) observed(ev *Event, f flight) {
	switch ev.Outcome {
	case OutcomeUnknown:
		l.unanswered(ev.Class)
		return
	case OutcomeNo:
		l.claimFree(f)
		return
	}
	l.failing = false
	parseRecord(ev.Body, &l.seen)
	if l.seen.state != recordEmpty { // those are read again with a back-off of their own
		l.retries = 0
	}
	switch l.judge(ev, f) {
	case judgedFree:
		l.claimFree(f)
	case judgedEmpty:
		l.later(unset)
	case judgedHeld:
		l.heldByAnother()
	}
}

// claimFree claims what a look found free, unless the look took so long that a
// put could no longer land within the acquire margin: then it is worth nothing
// (we were paused, say), and the next may be better.
func (l *Lease) claimFree(f flight) {
	margin := l.cfg.AcquireMargin
	if margin > RequestFloor && l.now.Mono-f.sent >= int64(margin-RequestFloor) && l.slowLooks < SlowLooks {
		l.slowLooks++
		l.read(l.observeLimit())
		return
	}
	l.slowLooks = 0
	l.claim(f.sent)
}

// unanswered: a look failed. A waiter carries on; one who tries once does not.
func (l *Lease) unanswered(class Class) {
	l.class, l.failing = class, true
	switch {
	case class.Permanent():
		l.refuse(ReasonUnusable)
	case l.lastTry:
		l.refuseWaiting()
	default:
		l.later(unset)
	}
}

// judge decides whether the record is free. The order is mops': released, not
// fresh, ours, another's.
func (l *Lease) judge(ev *Event, f flight) judgement {
	r := &l.seen
	switch r.state {
	case recordReleased:
		return judgedFree
	case recordLive:
		l.empties = 0
		l.seeExpire(r.expire)
		if l.cfg.Expiry == ExpiryWall && !l.fresh() {
			return judgedFree
		}
		if r.writer.equal(string(l.holder)) {
			return judgedFree // a put of ours from an earlier attempt, landed late
		}
		return l.judgeUnchanged(r.print(), f, r.expire, r.writtenAt+int64(r.expire))
	case recordEmpty:
		if l.empties++; l.empties < EmptyReads {
			return judgedEmpty
		}
	}
	return l.judgeCorrupt(ev, f)
}

// judgeCorrupt: held by unknown until old, by the store's own stamp against our
// wall clock, or unchanged for as long. Then it is taken, and said aloud.
func (l *Lease) judgeCorrupt(ev *Event, f flight) judgement {
	hold := max(l.cfg.TTL, CorruptMin)
	expires := unset
	if ev.Stamp != 0 {
		expires = ev.Stamp + int64(hold)
	}
	old := l.cfg.Expiry == ExpiryWall && l.now.Wall > expires
	if !old && l.judgeUnchanged(fingerprint(ev.Body), f, hold, expires) == judgedHeld {
		return judgedHeld
	}
	l.note(ObservedCorrupt)
	a := l.emit(ActionWarned)
	a.Reason, a.Key, a.Sight = ReasonCorruptTaken, l.key, &l.sight
	return judgedFree
}

// judgeUnchanged applies the observed rule: free once the same record was seen
// from the answer to the first look to the sending of this one for its whole
// TTL, on our own clock. It also says when it can be dead at the earliest;
// expires is when the wall clock says so, or unset.
func (l *Lease) judgeUnchanged(print uint64, f flight, ttl Duration, expires int64) judgement {
	if l.watch.print != print || l.told == 0 {
		l.watch = watch{print, l.now.Mono}
	} else if f.sent-l.watch.since >= int64(ttl) {
		return judgedFree
	}
	l.note(l.observe())
	l.sight.LookAt = l.watch.since + int64(ttl)
	if l.cfg.Expiry == ExpiryWall && expires-int64(MaxTTL) <= l.now.Wall { // else unchanged comes first
		// One microsecond past it: the test is inclusive.
		l.sight.LookAt = min(l.sight.LookAt, l.now.Mono+max(0, expires-l.now.Wall)+int64(microsecond))
	}
	return judgedHeld
}

// heldByAnother refuses, or waits for the next poll or for the earliest
// instant at which what was seen can be dead, whichever comes first.
func (l *Lease) heldByAnother() {
	if l.sight.State == ObservedStale {
		l.sight.State = ObservedHeld // only observed may free it, and has not yet
	}
	news := l.told != l.watch.print
	l.told = l.watch.print
	if l.lastTry {
		l.refuse(ReasonHeld)
		return
	}
	l.become(LeaseWaiting)
	if news {
		l.emit(ActionWaiting).Sight = &l.sight
	}
	l.timers[timerNext] = min(l.in(l.backoff(PollFirst, l.polls)), max(l.sight.LookAt, l.now.Mono))
	l.polls++
}
