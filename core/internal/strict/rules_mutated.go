//go:build mopslock_mutations

package strict

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
	"github.com/mopslock/mopslock/core/internal/register"
)

func (o *owner) startOf(sent int64) int64 {
	if o.Has(base.DeadlineFromAnswer) {
		return o.Now.Mono
	}
	return sent
}

func (o *owner) isLate(sent int64) bool {
	return !o.Has(base.LateRenewal) && o.Cur.TTL != 0 && o.Now.Mono >= sent+o.span()
}

func (o *owner) renew() {
	asksFirst := o.Has(base.ExistsBesidePut)
	if o.Cur.TTL != 0 && (asksFirst && o.asked != 0 || !asksFirst && o.putSent == base.Unset) {
		o.beat()
		return
	}
	o.askNewer()
}

func (o *owner) beaten(sent int64) core.Reason {
	o.putSent = sent
	switch {
	case o.Has(base.ExistsBesidePut):
		o.asked = sent
		reason := o.renewalSucceeded()
		o.asked = 0
		return reason
	case o.Has(base.PutAloneRenews):
		o.schedule(sent)
		o.Emit(core.ActionRenewed).At = o.Timers[base.TimerDeadline]
	}
	o.renew()
	return core.ReasonNone
}

func (o *owner) noneNewer(asked int64) core.Reason {
	o.asked = asked
	if o.Has(base.ExistsBesidePut) {
		o.renew()
		return core.ReasonNone
	}
	return o.checkLock()
}

func (o *owner) askHint() {
	why := register.ForHint
	if o.Has(base.HintRenews) {
		why = register.ForNext
	}
	o.Ask(why, core.ActionExists, o.KeyAbove(), o.RequestLimit(o.Timers[base.TimerDeadline]))
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
	l.startReleasing(end, l.Claim.V.N)
}

func (l *Lease) isLeftToExpire() bool {
	const courtesy = 3
	return l.Has(base.ReleaseLeftToExpire) || l.Retries >= courtesy && !l.hangsOnSession()
}

func (l *Lease) sendRelease() {
	if l.Has(base.EpochReset) { // what follows begins anew
		l.Ask(register.ForCreate, core.ActionDelete, register.VersionKey(l.Prefix, l.Cur.N), core.RequestLimit)
		return
	}
	v := l.released()
	l.Create(&v, l.RequestLimit(l.Timers[base.TimerDeadline]))
}

func (c *Claim) renewNonce(r *register.Register) {
	if c.N == 0 || !r.Has(base.SameNonceRetry) {
		c.V.Nonce = register.NewNonce(&r.RNG)
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

func (s *Session) isOver() bool { return !s.Has(base.SessionLivesOn) && s.Due(base.TimerDeadline) }

func (s *Session) isCalled(ev *core.Event) bool {
	return !s.Has(base.SessionWithoutCalls) && ev.Outcome == core.OutcomeYes
}

func (r *Revocation) isDead(v register.Verdict) bool {
	return r.Has(base.BreakVerdictKept) && r.dead || v == register.Free
}
