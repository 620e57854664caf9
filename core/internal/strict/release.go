package strict

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
	"github.com/mopslock/mopslock/core/internal/register"
)

// cancel gives up whatever has been asked and not yet been given.
func (l *Lease) cancel() {
	switch l.State {
	case core.LeaseObserving, core.LeaseWaiting:
		l.refuse(core.ReasonCancelled)
	case core.LeaseClaiming, core.LeaseDoubtful:
		l.turnAway(core.ReasonCancelled)
	case core.LeaseVerifying:
		l.releaseRefused(core.ReasonCancelled)
	case core.LeaseReleasing:
		if l.Ending == base.EndRaced {
			l.tellRefused(core.ReasonCancelled)
		}
	}
}

// release is the caller's wish to end. In an attempt it is a cancel.
func (l *Lease) release() {
	switch l.State {
	case core.LeaseIdle: // a printed lease: its tenure is known, and an epoch that it had
		l.Cur = register.Current{N: l.Cfg.Epoch, Tenure: l.holderID}
		l.Attempt = &Attempt{since: l.Now.Mono}
		l.become(core.LeaseReleasing)
		l.Ending = base.EndReleased
		l.AskNewest("", core.RequestLimit)
	case core.LeaseHeld:
		l.startReleasing(base.EndReleased, 0)
	default:
		l.cancel()
	}
}

// startReleasing stops believing, and then makes the version that says so.
func (l *Lease) startReleasing(end base.Ending, closing core.Epoch) {
	l.become(core.LeaseReleasing)
	l.Ending, l.Closing, l.Checking, l.Retries, l.Failing = end, closing, false, 0, false
	if end != base.EndReleased {
		l.Timers[base.TimerDeadline] = base.Unset
	}
	l.Abandon()
	l.goOnReleasing()
}

// goOnReleasing makes the next version, released.
//
// Where ours was confirmed as the newest too long ago, the newest is looked for first: a
// create far below would win what was collected there, and release nothing.
func (l *Lease) goOnReleasing() {
	if l.Closing == 0 && (l.Cur.State == 0 || !l.IsConfirmedLately()) {
		l.AskNewest("", core.RequestLimit)
		return
	}
	if l.Closing != 0 {
		v := l.Attempt.V
		v.State, v.Alone, v.Nonce = core.VersionReleased, true, register.NewNonce(&l.RNG)
		l.Create(&v, l.RequestLimit(l.Timers[base.TimerDeadline]))
		return
	}
	l.sendRelease()
}

// released is the version that ends the tenure. It frees the name at once when
// no other owner can be keeping it alive.
func (l *Lease) released() register.OwnVersion {
	v := l.Successor(core.VersionReleased)
	// On paper it is unknown whether the session that keeps it lives: it is called.
	onPaper := l.Cfg.Holder != "" && l.Cur.Session != ""
	v.Alone = register.IsAlone(l.Cur.Owners, l.ParticipantID) && !onPaper
	return v
}

func (l *Lease) releaseAnswer(ev *core.Event, f base.Flight) {
	l.Learn(ev)
	switch {
	case ev.Outcome == core.OutcomeUnknown:
		l.Class = ev.Class
		l.releaseFailed()
	case l.Doing == register.ForConfirm:
		n, found := l.Newest(ev)
		if !found {
			l.AskNewest(l.After, core.RequestLimit)
			return
		}
		l.NewestConfirmedAt = l.Paged
		switch {
		case n == 0: // there is nothing that could be held, or it is no list of this name
			l.Ask(register.ForSelf, core.ActionExists, register.VersionKey(l.Prefix, l.Cur.N), l.RequestLimit(l.Timers[base.TimerDeadline]))
			return
		case n == l.Cur.N && l.Cur.State == core.VersionReleased: // ours, made long after we had observed
			l.endRelease(0)
			return
		case n == l.Cur.N && l.Cur.State == core.VersionHeld:
			l.goOnReleasing()
			return
		}
		l.Ask(register.ForReadBack, core.ActionGet, register.VersionKey(l.Prefix, n), l.RequestLimit(l.Timers[base.TimerDeadline]))
	case l.Doing == register.ForSelf && ev.Outcome == core.OutcomeYes:
		l.Class, l.NewestConfirmedAt = core.ClassOther, base.Unset
		l.releaseFailed()
	case l.Doing == register.ForSelf:
		l.endRelease(0)
	case l.Doing == register.ForCreate && ev.Outcome == core.OutcomeYes:
		l.releaseMade(f.Sent)
	case l.Doing == register.ForCreate:
		l.Ask(register.ForReadBack, core.ActionGet, l.Key, l.RequestLimit(l.Timers[base.TimerDeadline]))
	case ev.Outcome == core.OutcomeNo: // the version is not there (any more)
		l.Cur.State = 0
		l.Closing = 0
		l.releaseFailed()
	default:
		l.releaseFound(ev)
	}
}

// releaseMade: the version that we asked for is ours.
func (l *Lease) releaseMade(sent int64) {
	var v register.OwnVersion
	if l.Closing == 0 {
		v = l.released()
	} else {
		v = l.Attempt.V
		v.State, v.Alone = core.VersionReleased, true
	}
	late := l.Closing == 0 && !l.IsWinNewest(l.Cur.N+1, l.NewestConfirmedAt)
	l.SetCurrent(&v, sent)
	switch {
	case late: // what was won may lie far below the newest
		l.NewestConfirmedAt = base.Unset
		l.AskNewest("", core.RequestLimit)
	case v.Alone:
		l.endRelease(sent)
	default:
		l.endRelease(0)
	}
}

// releaseFound: somebody's version is where ours was to be, or it is the newest.
func (l *Lease) releaseFound(ev *core.Event) {
	n, _, _ := register.ParseRegisterKey(l.Prefix, []byte(l.Key))
	l.ReadVersion(ev.Body, n, ev.Stamp)
	l.Closing = 0
	switch reason := l.LossBy(l.holderID); {
	case reason == core.ReasonNone: // ours, made by another owner, or landed after all
		l.goOnReleasing()
	case l.Ending == base.EndRaced:
		l.lostRace(reason != core.ReasonReleased)
	case reason == core.ReasonReleased || l.Ending != base.EndReleased:
		l.endRelease(0)
	default:
		l.lose(reason)
	}
}

// releaseFailed tries again until the deadline, which ends it as lost: what was
// not seen to be released is never called released. What a failed attempt left
// expires by itself, but not while it hangs on a session that lives.
func (l *Lease) releaseFailed() {
	switch {
	case l.Ending != base.EndReleased && l.isLeftToExpire():
		l.endRelease(0)
	case l.Ending != base.EndReleased:
		l.Failing = l.Failing || l.hangsOnSession()
		l.Later(base.Unset)
	case l.Cfg.Holder == "":
		l.Failing = true
		l.Later(l.Timers[base.TimerDeadline])
	case l.Now.Mono < l.Attempt.since+int64(l.Patience()):
		l.Later(base.Unset)
	default: // a printed lease: it expires by itself
		l.lose(core.ReasonUnreachable)
	}
}

// hangsOnSession reports whether what a failed attempt left lives as long as our session.
func (l *Lease) hangsOnSession() bool {
	return l.Attempt != nil && l.Attempt.V.Session != "" && l.Attempt.V.Session == l.Session.ID && l.InForce()
}

// endRelease leaves Releasing for where it was going. Sent is of the version that
// frees the name at once, or 0.
func (l *Lease) endRelease(sent int64) {
	switch l.Ending {
	case base.EndRaced:
		l.lostRace(false)
		return
	case base.EndRefused:
		l.become(core.LeaseRefused)
		return
	}
	l.become(core.LeaseReleased)
	a := l.Emit(core.ActionReleased)
	a.Epoch, a.At = l.Cur.N, sent
	if l.Garbage != nil { // it gave way to the release
		l.Timers[base.TimerNext] = l.In(core.CollectLimit)
		l.goOnTidying()
	}
}

// goOnTidying asks for the next thing of a collection, if there is one.
func (l *Lease) goOnTidying() {
	if l.GoOnTidying(); l.Garbage == nil && l.State == core.LeaseReleased {
		l.Timers[base.TimerNext] = base.Unset
	}
}
