package lastwriter

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
)

// release is the caller's wish to end. In an attempt it is a cancel.
func (l *Lease) release(brief bool) {
	switch l.State {
	case core.LeaseIdle: // a printed lease: nothing is known of it but its holder
		l.brief = brief
		l.Timers[base.TimerDeadline] = l.In(l.span())
		l.startReleasing(base.EndReleased)
	case core.LeaseHeld:
		l.brief = brief
		l.startReleasing(base.EndReleased)
	case core.LeaseReleasing: // of the lease, or of what a failed attempt left: no next one follows
		l.brief = l.brief || brief
		l.cancel()
	case core.LeaseReleased:
		l.brief = l.brief || brief
		if brief && l.rechecks > 1 { // the one after a second is behind us
			l.Timers[base.TimerNext] = base.Unset
		}
	default:
		l.cancel()
	}
}

// giveUp releases what an attempt that cannot succeed has left. It is a courtesy,
// tried once: what it cannot release expires.
func (l *Lease) giveUp(end base.Ending) {
	l.Timers[base.TimerDeadline] = base.Unset
	l.startReleasing(end)
}

// startReleasing waits for a put that is in flight: it could land after the
// released record and bring the lease back for a TTL.
//
//	holder  put(renewal) . . . . . . . . . . . . . answered
//	release       get(ours) put(released)               <- not yet
//	store                            released  renewal  <- held for a TTL by none
func (l *Lease) startReleasing(end base.Ending) {
	l.become(core.LeaseReleasing)
	l.Ending, l.Retries = end, 0
	if l.Flight.Verb == core.ActionPut && l.Flight.ID != 0 {
		l.Settling = true
		return
	}
	l.Rereading = false
	l.Abandon()
	l.releaseRead()
}

// releaseRead reads before it writes, unless told to be blind. A tenure that is
// only known from paper must be read for its counts in any case. So must a claim
// that was given up: the record may be of another, which won the race.
func (l *Lease) releaseRead() {
	if l.Cfg.Renewal == core.RenewalBlind && l.Cfg.Holder == "" && l.Ending == base.EndReleased {
		l.writeReleased(l.RequestLimit(l.Timers[base.TimerDeadline]))
		return
	}
	l.read(l.RequestLimit(l.Timers[base.TimerDeadline]))
}

func (l *Lease) releaseAnswer(ev *core.Event, f base.Flight) {
	switch {
	case f.Verb == core.ActionPut && l.Settling:
		l.Settling = false
		if ev.Outcome == core.OutcomeUnknown {
			l.doubt()
		}
		l.releaseRead()
	case f.Verb == core.ActionPut && ev.Outcome != core.OutcomeUnknown: // no: there is nothing to release
		l.endRelease()
	case f.Verb == core.ActionPut:
		l.Class = ev.Class
		l.releaseFailed()
	default:
		l.releaseFound(l.find(ev))
	}
}

func (l *Lease) releaseFound(found lockFileVerdict) {
	switch found {
	case foundReleased, foundNothing:
		l.endRelease()
	case foundOther:
		switch l.Ending {
		case base.EndReleased:
			l.lose(core.ReasonTaken)
		case base.EndRaced:
			l.lostRace(true)
		default:
			l.endRelease()
		}
	case foundUnknown, foundUnreadable:
		l.releaseFailed()
	default:
		l.writeRelease()
	}
}

// writeRelease writes what was read to be ours as released. What a failed
// attempt left is free by itself when its life is over, and a put that lands
// much later could fall on somebody's verified lease: it is given no longer.
func (l *Lease) writeRelease() {
	limit := l.RequestLimit(l.Timers[base.TimerDeadline])
	if l.Ending != base.EndReleased {
		life := l.Until(l.sent + int64(l.span()))
		limit = min(limit, max(life, l.Cfg.Margin))
	}
	l.adopt()
	l.writeReleased(limit)
}

// adopt continues the counts of a tenure that another process began.
func (l *Lease) adopt() {
	if l.Cfg.Holder == "" || l.count != 0 {
		return
	}
	l.acquired, l.Epoch = l.seen.AcquiredAt, l.seen.Epoch
	if !l.remote {
		l.count, l.firstWritten = l.seen.Count, l.seen.FirstWrittenAt
	}
}

// releaseFailed tries again until the deadline, which ends it as lost: what was
// not seen to be released is never called released.
func (l *Lease) releaseFailed() {
	if l.Ending != base.EndReleased {
		l.endRelease()
		return
	}
	l.Failing = true
	l.Later(l.Timers[base.TimerDeadline])
}

// endRelease leaves Releasing for where it was going.
func (l *Lease) endRelease() {
	switch l.Ending {
	case base.EndRaced:
		l.lostRace(false)
		return
	case base.EndRefused:
		l.become(core.LeaseRefused)
		return
	}
	inDoubt := l.Doubts > 0 && l.Now.Mono-l.doubtAt < int64(l.Cfg.TTL)
	l.become(core.LeaseReleased)
	l.releasedAt = l.Now.Mono
	l.Emit(core.ActionReleased)
	if inDoubt && l.Cfg.Renewal == core.RenewalChecked {
		l.scheduleRecheck()
	}
}

// scheduleRecheck plans the next read for a renewal of ours that landed on top
// of the release: after 1 s, after TTL/3, and once before the TTL is over, when
// anything later would be taken for stale anyway.
func (l *Lease) scheduleRecheck() {
	ttl := l.Cfg.TTL.Duration()
	for l.rechecks < 3 {
		after := [3]core.Duration{core.RecheckFirst, ttl / 3, ttl - l.Cfg.Margin}[l.rechecks]
		at := l.releasedAt + int64(after)
		if l.brief && l.rechecks > 0 {
			return
		}
		l.rechecks++
		if after < ttl && at > l.Now.Mono {
			l.Timers[base.TimerNext] = at
			return
		}
	}
}

func (l *Lease) recheckAnswer(ev *core.Event, f base.Flight) {
	if f.Verb == core.ActionGet {
		switch l.find(ev) {
		case foundPut, foundOurs:
			l.writeReleased(core.RequestLimit)
			return
		case foundOther:
			return // the name has moved on, and its holder judges a late put of ours
		}
	}
	l.scheduleRecheck()
}
