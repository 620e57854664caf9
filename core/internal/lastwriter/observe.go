package lastwriter

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
	"github.com/mopslock/mopslock/core/internal/lockfile"
)

// verdict is what a first read makes of a record.
type verdict uint8

const (
	verdictFree verdict = iota
	verdictHeld
	verdictEmpty // an empty object that may yet be filled: read again
)

// observed takes the answer to a read that may begin an attempt.
func (l *Lease) observed(ev *core.Event, f base.Flight) {
	switch ev.Outcome {
	case core.OutcomeUnknown:
		l.unanswered(ev.Class)
		return
	case core.OutcomeNo:
		l.startUnlessSlow(f)
		return
	}
	lockfile.Parse(ev.Body, &l.seen)
	if l.seen.State != lockfile.Empty { // those are read again with a back-off of their own
		l.Retries = 0
	}
	switch l.judge(ev, f) {
	case verdictFree:
		l.startUnlessSlow(f)
	case verdictEmpty:
		l.Later(base.Unset)
	case verdictHeld:
		l.heldByAnother()
	}
}

// startUnlessSlow starts an attempt for what a read found free, unless the read took so
// long that a put could no longer land within the acquire margin: then it is worth
// nothing (we were paused, say), and the next may be better.
func (l *Lease) startUnlessSlow(f base.Flight) {
	margin := l.Cfg.AcquireMargin
	if margin > core.RequestFloor && l.Now.Mono-f.Sent >= int64(margin-core.RequestFloor) && l.slowReads < core.SlowReads {
		l.slowReads++
		l.read(l.ReadLimit())
		return
	}
	l.slowReads = 0
	if l.yields {
		l.refuse(core.ReasonVacant)
		return
	}
	l.startAttempt(f.Sent)
}

// unanswered: a read failed. A waiter carries on; one that tries once does not.
func (l *Lease) unanswered(class core.Class) {
	l.Class = class
	if reason := l.Unanswered(&l.Machine); reason != core.ReasonNone {
		l.refuse(reason)
	}
}

// judge decides whether the record is free. The order is mops': released, not
// fresh, ours, another's.
func (l *Lease) judge(ev *core.Event, f base.Flight) verdict {
	r := &l.seen
	switch r.State {
	case lockfile.Released:
		return verdictFree
	case lockfile.Live:
		l.empties = 0
		l.seeExpire(r.Expire)
		if l.Cfg.Expiry == core.ExpiryWall && !l.fresh() {
			l.Stale = string(r.Writer.AppendTo(nil))
			return verdictFree
		}
		if r.Epoch != 0 && r.Epoch < l.Ended {
			return verdictFree
		}
		if r.Writer.Equal(string(l.HolderID)) {
			return verdictFree // a put of ours from an earlier attempt, landed late
		}
		return l.judgeUnchanged(r.Fingerprint(), f, r.Expire, r.WrittenAt+int64(r.Expire))
	case lockfile.Empty:
		if l.empties++; l.empties < core.EmptyReads {
			return verdictEmpty
		}
	}
	return l.judgeCorrupt(ev, f)
}

// judgeCorrupt: held by unknown until old, by the store's own stamp against our
// wall clock, or unchanged for as long. Then it is taken, with a warning.
func (l *Lease) judgeCorrupt(ev *core.Event, f base.Flight) verdict {
	hold := max(l.Cfg.TTL.Duration(), core.CorruptMin)
	expires := base.Unset
	if ev.Stamp != 0 {
		expires = ev.Stamp + int64(hold)
	}
	old := l.Cfg.Expiry == core.ExpiryWall && l.Now.Wall > expires
	if !old && l.judgeUnchanged(base.Fingerprint(ev.Body), f, hold, expires) == verdictHeld {
		return verdictHeld
	}
	l.note(core.ObservedCorrupt)
	a := l.Emit(core.ActionWarned)
	a.Reason, a.Key, a.Observed = core.ReasonCorruptTaken, l.Key, &l.Observed
	return verdictFree
}

// judgeUnchanged applies the observed rule: free once the same record was seen
// from the answer to the first read to the sending of this one for its whole
// TTL, on our own clock. It also says when it can be dead at the earliest;
// expires is when the wall clock says so, or unset.
func (l *Lease) judgeUnchanged(fingerprint uint64, f base.Flight, ttl core.Duration, expires int64) verdict {
	if l.Unchanged.Fingerprint != fingerprint || l.Told == 0 {
		l.Unchanged = base.Unchanged{Fingerprint: fingerprint, Since: l.Now.Mono}
	} else if f.Sent-l.Unchanged.Since >= int64(ttl) {
		return verdictFree
	}
	l.note(l.observe())
	l.Observed.RecheckAt = l.Unchanged.Since + int64(ttl)
	if l.Cfg.Expiry == core.ExpiryWall && expires-int64(core.MaxTTL) <= l.Now.Wall { // otherwise unchanged comes first
		// One microsecond past it: the test is inclusive.
		l.Observed.RecheckAt = min(l.Observed.RecheckAt, l.Now.Mono+max(0, expires-l.Now.Wall)+int64(core.Microsecond))
	}
	return verdictHeld
}

// heldByAnother refuses, or waits for the next poll or for the earliest
// instant at which what was seen can be dead, whichever comes first.
func (l *Lease) heldByAnother() {
	if l.Observed.State == core.ObservedStale {
		l.Observed.State = core.ObservedHeld // only observed may free it, and has not yet
	}
	news := l.Told != l.Unchanged.Fingerprint
	l.Told = l.Unchanged.Fingerprint
	if l.LastTry {
		l.refuse(core.ReasonHeld)
		return
	}
	l.become(core.LeaseWaiting)
	if news {
		l.Emit(core.ActionWaiting).Observed = &l.Observed
	}
	l.Timers[base.TimerNext] = min(l.AfterBackoff(&l.Polls), max(l.Observed.RecheckAt, l.Now.Mono))
}
