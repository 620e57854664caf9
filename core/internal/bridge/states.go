package bridge

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
	"github.com/mopslock/mopslock/core/internal/lastwriter"
	"github.com/mopslock/mopslock/core/internal/strict"
)

// become moves along an edge of the table.
func (l *Lease) become(to core.LeaseState) { l.Move(&l.Machine, to) }

// acquire begins the one acquire of this machine.
func (l *Lease) acquire(wait core.Duration) {
	l.lastTry = wait == 0
	if wait > 0 {
		l.Timers[base.TimerLimit] = l.In(wait)
	}
	l.become(core.LeaseObserving)
	l.look(wait)
}

// left is what is left of the caller's wait.
func (l *Lease) left() core.Duration {
	switch at := l.Timers[base.TimerLimit]; {
	case l.lastTry:
		return 0
	case at == base.Unset:
		return core.Forever
	default:
		return max(0, l.Until(at))
	}
}

// goOn goes on with what the halves have said, until they say no more.
func (l *Lease) goOn() {
	for l.next() {
	}
}

// next reports whether anything was new.
func (l *Lease) next() bool {
	register, record := l.register.said, l.record.said
	l.register.said, l.record.said = spoken{}, spoken{}
	if register == (spoken{}) && record == (spoken{}) && l.State != core.LeaseReleasing && l.State != core.LeaseHeld {
		return false
	}
	switch l.State {
	case core.LeaseObserving, core.LeaseWaiting:
		return l.looked(record)
	case core.LeaseClaiming:
		return l.versionAnswered(register)
	case core.LeaseVerifying:
		return l.recordAnswered(register, record)
	case core.LeaseHeld:
		return l.kept(register, record)
	case core.LeaseReleasing:
		return l.givesBack(register, record)
	}
	return false
}

// looked goes on from a look at lock.json.
func (l *Lease) looked(record spoken) bool {
	switch {
	case record.waits && l.State == core.LeaseObserving:
		l.become(core.LeaseWaiting)
	case record.ended != core.ActionRefused:
	case record.why == core.ReasonVacant:
		l.remember()
		l.record.forget()
		l.become(core.LeaseClaiming)
		l.startRegister(l.left())
		return true
	default:
		l.refuse(record.why, record.class, record.seen)
	}
	return false
}

// versionAnswered goes on from the acquire of the register.
func (l *Lease) versionAnswered(register spoken) bool {
	switch {
	case register.held:
		l.become(core.LeaseVerifying)
		l.since = l.Now.Mono
		l.Timers[base.TimerNext] = l.attemptBy()
		l.claim()
		return true
	case register.ended == core.ActionRefused:
		l.refuse(register.why, register.class, register.seen)
	}
	return false
}

// recordAnswered goes on from the attempt at lock.json.
func (l *Lease) recordAnswered(register, record spoken) bool {
	switch {
	case register.ended != 0:
		l.fail(core.ReasonRaced, core.ClassNone)
	case record.held:
		l.hold()
	case record.ended == core.ActionRefused && l.isInProgress(record):
		l.remember()
		l.record.forget()
		l.Timers[base.TimerExtra] = l.In(core.PollFirst) // read again before giving up
		return false
	case record.ended == core.ActionRefused:
		l.see(record.seen)
		l.fail(record.why, record.class)
	default:
		return false
	}
	return true
}

// isInProgress reports whether another's claim of lock.json, which was seen, may come to nothing yet.
func (l *Lease) isInProgress(record spoken) bool {
	if record.why != core.ReasonHeld || record.seen == nil || record.seen.AcquiredAt != 0 {
		return false
	}
	return -l.Until(l.since) < max(l.Cfg.AcquireMargin, core.Second)
}

// hold begins the tenure as a caller sees it.
func (l *Lease) hold() {
	l.stale = l.record.machine.(*lastwriter.Lease).Stale
	l.become(core.LeaseHeld)
	l.Timers = base.NewTimers()
	l.pair.hold()
}

// kept goes on with a lease that is held.
func (l *Lease) kept(register, record spoken) bool {
	switch {
	case register.ended != 0:
		l.lose(register.why, register.seen)
		l.endRecord(register.why)
		return true
	case record.held && l.claims:
		l.claims = false
		l.Timers[base.TimerDeadline] = base.Unset
	case record.ended == core.ActionLost && !l.claims && l.mayClaimAgain(record):
		a := l.Emit(core.ActionWarned)
		a.Reason, a.Observed = core.ReasonMixed, record.seen
		l.claims = true
		l.Timers[base.TimerDeadline] = l.held.recordAt
		l.claim()
		return true
	case record.ended != 0:
		why := record.why
		if l.claims { // the claim was refused: another's is there
			why = core.ReasonTaken
		}
		l.lose(why, record.seen)
		l.record.forget()
		return true
	}
	l.say()
	return false
}

// mayClaimAgain reports whether what took lock.json from us is a late write of a tenure that the
// register has ended, or the end of the one whose stale record we have claimed.
func (l *Lease) mayClaimAgain(record spoken) bool {
	s, m := record.seen, l.record.machine.(*lastwriter.Lease)
	return record.why == core.ReasonTaken && s != nil && (l.isEnded(m.SeenEpoch) || s.State == core.ObservedReleased && l.isStale(s))
}

// lose ends belief. The version is given back all the same: it is nobody's any more.
func (l *Lease) lose(reason core.Reason, seen *core.Observed) {
	l.become(core.LeaseReleasing)
	l.Timers = base.NewTimers()
	l.isLost, l.ending, l.claims = true, base.EndRefused, false
	l.Lost(reason, seen)
	if !l.isOrphan() {
		l.register.forget()
	}
}

// endRecord gives lock.json back, if the version was broken and lock.json may still be ours. In all other
// cases nothing of ours is written any more.
func (l *Lease) endRecord(reason core.Reason) {
	if reason != core.ReasonBroken || l.Now.Mono >= l.held.recordAt {
		l.record.forget()
	}
}

// release is the caller's wish to end. In an attempt it is a cancel.
func (l *Lease) release() {
	switch l.State {
	case core.LeaseIdle:
		l.startPrinted()
		l.give(base.EndReleased)
	case core.LeaseHeld:
		l.become(core.LeaseReleasing)
		l.Timers = base.NewTimers()
		l.ending = base.EndReleased
	case core.LeaseReleased:
		if l.record.machine != nil && l.brief {
			l.order(&l.record, core.EventRelease, 0)
		}
	default:
		l.cancel()
	}
}

// cancel gives up whatever has been asked and not yet been given.
func (l *Lease) cancel() {
	switch l.State {
	case core.LeaseObserving, core.LeaseWaiting:
		l.record.forget()
		l.refuse(core.ReasonCancelled, core.ClassNone, nil)
	case core.LeaseClaiming:
		l.order(&l.register, core.EventCancel, 0)
	case core.LeaseVerifying:
		l.Refused(core.ReasonCancelled, nil)
		l.give(base.EndRefused)
	case core.LeaseReleasing:
		if l.ending == base.EndRaced {
			l.Refused(core.ReasonCancelled, nil)
			l.ending = base.EndRefused
		}
	}
}

// fail ends an attempt, and gives back what it has.
func (l *Lease) fail(why core.Reason, class core.Class) {
	l.why, l.class = why, class
	l.give(base.EndRaced)
}

func (l *Lease) give(ending base.Ending) {
	l.become(core.LeaseReleasing)
	l.ending = ending
}

// refuse ends the acquire. What a half has begun it cleans up.
func (l *Lease) refuse(reason core.Reason, class core.Class, seen *core.Observed) {
	l.become(core.LeaseRefused)
	a := l.Emit(core.ActionRefused)
	a.Reason, a.Class, a.Observed = reason, class, seen
}

// givesBack goes on with what is given back: lock.json first, and then the version. A crash between costs
// the new ones a TTL, and the old ones nothing.
func (l *Lease) givesBack(register, record spoken) bool {
	first, second := l.first()
	for _, h := range [...]*half{first, second} {
		said := record
		if h == &l.register {
			said = register
		}
		switch state := h.leaseState(); {
		case state < core.LeaseReleasing:
			l.order(h, core.EventRelease, 0)
			return true
		case state == core.LeaseReleasing:
			return false
		case said.ended == core.ActionLost: // the other is given back all the same
			l.lostAtRelease(said)
		}
	}
	l.isBack()
	return false
}

// lostAtRelease tells that a half was not seen to be released.
func (l *Lease) lostAtRelease(half spoken) {
	if l.ending == base.EndReleased {
		l.isLost, l.ending = true, base.EndRefused
		l.Lost(half.why, half.seen)
	}
}

// isBack leaves Releasing for where it was going.
func (l *Lease) isBack() {
	switch {
	case l.isLost:
		l.become(core.LeaseLost)
	case l.ending == base.EndReleased:
		l.become(core.LeaseReleased)
		a := l.Emit(core.ActionReleased)
		a.Epoch = l.register.machine.(*strict.Lease).Cur.N
	case l.ending == base.EndRefused:
		l.become(core.LeaseRefused)
	case l.lastTry:
		l.refuse(l.why, l.class, shown(&l.observed))
	default:
		l.remember()
		l.record.forget()
		l.become(core.LeaseWaiting)
		l.Timers[base.TimerNext] = l.AfterBackoff(&l.polls)
	}
}

// see keeps what another holds, to be told when what we began is cleaned up.
func (l *Lease) see(s *core.Observed) {
	l.observed = core.Observed{}
	if s != nil {
		l.observed = *s
		l.observed.Detach()
	}
}

// shown is what was seen, or nil where nothing was.
func shown(seen *core.Observed) *core.Observed {
	if seen.State == 0 {
		return nil
	}
	return seen
}

// remember keeps what the halves have seen of another's lease, and since when: the next ones go on from there.
func (l *Lease) remember() {
	if m, ok := l.record.machine.(*lastwriter.Lease); ok {
		l.Record, l.Told, l.Warned = m.Unchanged, m.Told, m.Warned
	}
	if m, ok := l.register.machine.(*strict.Lease); ok {
		l.Version, l.End = m.Unchanged, m.EndUnchanged
	}
}

// woke handles every timer that is due.
func (l *Lease) woke() {
	if l.Due(base.TimerDeadline) && l.State == core.LeaseHeld { // while lock.json is claimed again
		l.lose(core.ReasonTaken, nil)
		l.record.forget()
	}
	if l.RanOut(base.TimerLimit) {
		l.lastTry = true
		if l.State == core.LeaseWaiting && l.record.machine == nil {
			l.refuse(core.ReasonLimit, core.ClassNone, nil)
		}
	}
	if l.RanOut(base.TimerExtra) && l.State == core.LeaseVerifying {
		l.claim()
	}
	if l.RanOut(base.TimerNext) {
		switch l.State {
		case core.LeaseWaiting:
			l.become(core.LeaseObserving)
			l.look(l.left())
		case core.LeaseVerifying:
			l.fail(core.ReasonHeld, core.ClassNone)
		}
	}
}
