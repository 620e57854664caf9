//go:build mopslock_mutations

package strict

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
	"github.com/mopslock/mopslock/core/internal/register"
)

func (r *renewer) startOf(sent int64) int64 {
	if r.Has(base.DeadlineFromAnswer) {
		return r.Now.Mono
	}
	return sent
}

func (r *renewer) isLate(sent int64) bool {
	return !r.Has(base.LateRenewal) && r.Cur.TTL != 0 && r.Now.Mono >= sent+r.span()
}

func (r *renewer) renew() {
	asksFirst := r.Has(base.ExistsBesidePut)
	if r.Cur.TTL != 0 && (asksFirst && r.asked != 0 || !asksFirst && r.putSent == base.Unset) {
		r.beat()
		return
	}
	r.askNewer()
}

func (r *renewer) beaten(sent int64) core.Reason {
	r.putSent = sent
	switch {
	case r.Has(base.ExistsBesidePut):
		r.asked = sent
		reason := r.renewalSucceeded()
		r.asked = 0
		return reason
	case r.Has(base.PutAloneRenews):
		r.schedule(sent)
		r.Emit(core.ActionRenewed).At = r.Timers[base.TimerDeadline]
	}
	r.renew()
	return core.ReasonNone
}

func (r *renewer) isSelfDue() bool {
	return !r.Has(base.SelfUnasked) && r.Now.Mono-r.selfAt >= int64(r.Cur.TTL/2)
}

func (r *renewer) isLockDue() bool {
	return !r.bridged && (r.Cfg.LockFilePresent || !r.Has(base.LockFileUnasked) && r.isSelfDue())
}

func (r *renewer) noneNewer(asked int64) core.Reason {
	r.asked = asked
	if r.Has(base.ExistsBesidePut) {
		r.renew()
		return core.ReasonNone
	}
	return r.checkLock()
}

func (r *renewer) askHint() {
	why := register.ForHint
	if r.Has(base.HintRenews) {
		why = register.ForNext
	}
	r.Ask(why, core.ActionExists, r.KeyAbove(), r.RequestLimit(r.Timers[base.TimerDeadline]))
}

func (l *Lease) isOver(on core.EventKind) bool {
	return !(l.Has(base.LateRenewal) && on == core.EventAnswer) && l.believes() && l.isPast()
}

func (l *Lease) giveUp(end base.Ending) {
	if l.Has(base.ForgetUnknownCreate) {
		l.become(core.LeaseReleasing)
		l.Ending = end
		l.endRelease(0)
		return
	}
	l.startReleasing(end, l.Attempt.V.N)
}

func (l *Lease) isLeftToExpire() bool {
	const courtesy = 3
	return l.Has(base.ReleaseLeftToExpire) || l.Retries >= courtesy && !l.hangsOnSession()
}

func (l *Lease) sendRelease() {
	if l.Has(base.EpochReset) { // the next claim begins at 1
		l.Ask(register.ForCreate, core.ActionDelete, register.VersionKey(l.Prefix, l.Cur.N), core.RequestLimit)
		return
	}
	v := l.released()
	l.Create(&v, l.RequestLimit(l.Timers[base.TimerDeadline]))
}

func (a *Attempt) renewNonce(r *register.Register) {
	if a.N == 0 || !r.Has(base.SameNonceRetry) {
		a.V.Nonce = register.NewNonce(&r.RNG)
	}
}

func (c *Companion) goOnJoining() {
	if c.Has(base.JoinByBeat) {
		c.hold(c.Now.Mono)
		return
	}
	v := c.Successor(core.VersionHeld)
	if c.Has(base.JoinDropsSession) {
		v.Session = ""
	}
	c.join(v)
}

func (s *Session) isOver() bool {
	if s.Has(base.SessionLivesOn) && s.Due(base.TimerDeadline) {
		s.Timers[base.TimerDeadline] = base.Unset // it forgets the instant, which would ring forever
	}
	return s.Due(base.TimerDeadline)
}

func (s *Session) isSelfDue() bool {
	return !s.Has(base.SelfUnasked) && s.Now.Mono-s.selfAt >= int64(s.Cfg.TTL/2)
}

func (s *Session) isCalled(ev *core.Event) bool {
	return !s.Has(base.SessionWithoutCalls) && ev.Outcome == core.OutcomeYes
}

func (r *Revocation) isDead(v register.Verdict) bool {
	return r.Has(base.BreakVerdictKept) && r.dead || v == register.Free
}
