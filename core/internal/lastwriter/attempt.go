package lastwriter

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
)

// A claim under lastwriter: put, wait until every other machine that saw the name
// free has put as well, read. The last put is there, and its machine wins. It puts a
// second time with first_acquired_at, without which a companion does not join.
//
//	A  get(free) put . . . . . wait . . . . . . get(B's)   lost race
//	B      get(free) . put . . . . . wait . . . . . . get(B's) put(confirm) held
//
// The wait eats the record's own life, so the confirming put must be answered
// before the first put's stamp + span; otherwise the attempt is cleaned up.

// startAttempt puts the first record. readStart is when the read that found the name
// free was sent.
func (l *Lease) startAttempt(readStart int64) {
	l.become(core.LeaseClaiming)
	l.Confirming, l.readStart, l.acquired, l.Retries, l.there = false, readStart, 0, 0, false
	l.firstPutSent, l.firstPutWall = l.Now.Mono, l.Now.Wall
	l.write(l.attemptLimit(l.RequestLimit(l.attemptBy()), readStart))
	l.firstPutCount = l.count
}

// attemptBy is when the attempt is too old to be confirmed.
func (l *Lease) attemptBy() int64 { return l.firstPutSent + int64(l.span()) }

// putAnswer takes the answer to either put.
func (l *Lease) putAnswer(ev *core.Event) {
	l.Observed.State = 0 // the winner of a race is not the holder that was seen before
	switch {
	case ev.Outcome == core.OutcomeYes && !l.Confirming:
		l.there = true
		l.startVerifying()
	case ev.Outcome == core.OutcomeYes && l.Now.Mono < l.attemptBy():
		l.hold()
	case ev.Outcome != core.OutcomeUnknown: // too late, or the first put was removed
		l.giveUp(base.EndRaced)
	case ev.Class.Permanent() && l.Ends(&l.Machine, base.Writes) != core.ReasonNone: // it was refused, not lost
		l.refuse(core.ReasonUnusable)
	default:
		l.putUnknown(ev.Class)
	}
}

// putUnknown reads a put back: at once the first time, then at intervals, and
// not at once after a store that asked for patience: another put follows.
func (l *Lease) putUnknown(class core.Class) {
	l.Class, l.putSaid = class, class
	l.doubt()
	l.become(core.LeaseDoubtful)
	if l.Retries == 0 && class != core.ClassThrottled {
		l.Retries++
		l.read(l.RequestLimit(l.attemptBy()))
		return
	}
	l.Later(l.attemptBy())
}

// startVerifying waits for every machine that may have read what we read. A slow
// store makes the wait longer: the next one's put may be as slow as ours.
//
// Where others are known to want the name our own speed says too little of theirs:
// all saw it become free in the same moment, and a processor or a disk that they
// share holds one up between its read and its put.
//
//	A  get(free) put wait get(A's) put(confirm) held
//	B     get(free) . . . . . . . . . . . . . . . . . put . wait . get(B's) held
func (l *Lease) startVerifying() {
	l.become(core.LeaseVerifying)
	l.Retries, l.lostPuts = 0, 0
	l.verifyWait = max(l.Cfg.AcquireMargin, 2*l.sinceRead())
	if l.isContended() {
		l.verifyWait = max(l.verifyWait, min(core.ContendedMargin, l.span()/2))
	}
	l.Timers[base.TimerNext] = l.In(l.verifyWait)
}

// verified takes the only read that may answer held.
func (l *Lease) verified(ev *core.Event, f base.Flight) {
	switch found := l.find(ev); found {
	case foundPut:
		if l.ownFresh() && l.Now.Mono < l.attemptBy() {
			l.confirm()
		} else if l.Rounds++; l.Rounds < core.RewriteRounds {
			l.startAttempt(f.Sent)
		} else {
			l.giveUp(base.EndRaced)
		}
	case foundUnknown, foundUnreadable:
		l.unread()
	default:
		l.lostRace(found == foundOther)
	}
}

// unread: the record could not be read while an attempt is open.
func (l *Lease) unread() {
	switch reason := l.Ends(&l.Machine, base.Reads); {
	case reason != core.ReasonNone:
		l.turnAway(reason)
	case l.Now.Mono >= l.attemptBy():
		l.giveUp(base.EndRaced)
	default:
		l.Later(l.attemptBy())
	}
}

// confirm writes first_acquired_at.
func (l *Lease) confirm() {
	l.become(core.LeaseClaiming)
	l.Confirming = true
	if l.acquired == 0 {
		l.acquired = l.Now.Wall
	}
	l.write(l.RequestLimit(l.attemptBy()))
}

// readBack leaves Doubtful, by the one way there is: what is there now?
func (l *Lease) readBack(ev *core.Event) {
	found := l.find(ev)
	switch {
	case found == foundUnknown || found == foundUnreadable:
		l.unread()
	case found == foundPut && !l.Confirming:
		l.settle()
		l.ClearWrites(&l.Machine)
		l.startVerifying()
	case found == foundPut && l.Now.Mono < l.attemptBy():
		l.settle()
		l.hold()
	case found == foundPut:
		l.giveUp(base.EndRaced)
	case found == foundOurs && l.Confirming && l.firstPutSeen():
		if l.Now.Mono < l.attemptBy() {
			l.confirm() // the confirming put was lost on its way, the first was not
		} else {
			l.giveUp(base.EndRaced)
		}
	case found == foundOther && l.Observed.State == core.ObservedHeld:
		l.lostRace(true)
	default:
		l.nobodyWon()
	}
}

// nobodyWon: our put is not there, and no other in its place. The store lost it, as it
// lost the answer. That is no race, and trying again as fast as after one would only
// add to the store's load.
func (l *Lease) nobodyWon() {
	l.Class = l.putSaid
	l.lostPuts++
	if reason := l.Ends(&l.Machine, base.Writes); reason != core.ReasonNone {
		l.refuse(reason)
		return
	}
	l.become(core.LeaseWaiting)
	l.Timers[base.TimerNext] = l.In(l.RetryDelay(l.lostPuts-1, l.Class, base.Unset))
}

// firstPutSeen reports whether the record read is the put that was verified.
func (l *Lease) firstPutSeen() bool {
	return l.seen.Count == l.firstPutCount && l.seen.WrittenAt == microseconds(l.firstPutWall)
}

// lostRace ends an attempt that failed: beaten if another's record was read.
func (l *Lease) lostRace(beaten bool) {
	l.Rounds = 0
	if beaten {
		l.ClearWrites(&l.Machine)
	}
	if l.LastTry && beaten {
		l.refuse(core.ReasonRaced)
		return
	}
	if l.LastTry && !l.Reach.IsFailing() { // otherwise it tries again for as long as it has patience
		l.refuse(core.ReasonLimit)
		return
	}
	l.become(core.LeaseWaiting)
	l.Timers[base.TimerNext] = l.AfterBackoff(&l.Races)
}

// hold begins the tenure as a caller sees it.
func (l *Lease) hold() {
	l.become(core.LeaseHeld)
	l.Timers[base.TimerLimit], l.Timers[base.TimerReach] = base.Unset, base.Unset
	l.Reach = base.Reach{}
	l.Tenure.hold(l.sent)
	// Each contender waits by its own latency, so one with a fast store among
	// slow ones waits too little. A later read catches the slow one's put.
	delay := max(core.LaterReadMin, core.LaterReadWaits*l.verifyWait)
	if l.Cfg.Renewal == core.RenewalChecked && l.Cfg.TTL.Duration() >= delay {
		l.Timers[base.TimerExtra] = l.In(delay)
	}
}

// sinceRead is how long ago the read was sent that found the name free.
func (l *Lease) sinceRead() core.Duration { return -l.Until(l.readStart) }
