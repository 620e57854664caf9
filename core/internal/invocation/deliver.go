package invocation

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
)

// workEnded stores the outcome of the work, or looks for what another process stored.
func (v *Invocation) workEnded(ev *core.Event) {
	v.failed = ev.Outcome == core.OutcomeNo
	v.polls = 0
	v.beats = beats{until: v.In(min(core.LaunchGrace, v.Cfg.TTL.Duration()))}
	v.tryBy = v.In(max(core.DeliverLimit, v.Cfg.TTL.Duration()))
	genuine := v.IsRemote() || v.lost == core.ReasonNone // the loss of its lease ends a launcher
	wanted := ev.Result && (!v.failed || v.Cfg.MemoFailures && genuine)
	switch {
	case v.isAnothers() && v.IsRemote():
		v.absent(v.lost)
	case wanted && (v.mayStore() || v.mayYet()):
		v.become(core.InvocationDelivering)
		v.redeliver()
	case v.IsRemote() && v.failed:
		v.absent(core.ReasonFailed)
	default:
		v.settle()
	}
}

// redeliver tries to store the result. Where the store knows no create it is looked
// for first, and a failure is never put over a success.
func (v *Invocation) redeliver() {
	if v.mayStore() && v.creates() && !v.failed {
		v.deliver()
		return
	}
	v.askResult()
}

func (v *Invocation) deliver() {
	switch {
	case v.mayStore():
	case v.mayYet():
		v.Timers[base.TimerNext] = v.In(v.RetryDelay(v.Retries, core.ClassNone, v.tryBy))
		v.Retries++
		return
	default:
		v.absentOr(v.lost)
		return
	}
	a := v.ask(forDelivery, v.deliveryVerb(), v.deliveryKey(), core.ResultLimit)
	a.Type = core.ResultType
	if v.failed {
		a.Type = core.FailureType
	}
}

func (v *Invocation) deliveryKey() string {
	if v.failed {
		return core.FailureKey(v.Cfg.Name)
	}
	return core.ResultKey(v.Cfg.Name)
}

// undelivered tries again: the same create settles what the last one did.
func (v *Invocation) undelivered() {
	switch {
	case v.isAnothers():
		v.absentOr(v.lost)
	case v.Reach.IsHopeless(), v.Class == core.ClassFull: // so is a result that the host cannot read, or that is too large
		v.absent(core.ReasonUnusable)
	case v.Now.Mono >= v.tryBy:
		v.absent(core.ReasonUnreachable)
	default:
		v.warn()
		v.Later(v.tryBy)
	}
}

// warn says, once, that the store has not taken the result again, since this may go on for long.
func (v *Invocation) warn() {
	if v.unstored || v.Retries == 0 || v.state != core.InvocationDelivering {
		return
	}
	v.unstored = true
	a := v.Emit(core.ActionWarned)
	a.Reason, a.Key, a.Class = core.ReasonUnusable, v.Key, v.Class
}

// absentOr ends a remote; a caller that wants the result waits for the other's.
func (v *Invocation) absentOr(lost core.Reason) {
	if v.IsRemote() {
		v.absent(lost)
		return
	}
	v.check()
}

// settle looks for the result once the launcher has ended.
func (v *Invocation) settle() {
	v.become(core.InvocationSettling)
	v.tryBy = v.In(max(core.DeliverLimit, v.Cfg.TTL.Duration()))
	v.askResult()
}

// settled: there is no result, and the launcher has ended.
func (v *Invocation) settled() {
	switch {
	case v.IsRemote():
		v.absent(v.lost)
	case v.lost != core.ReasonNone: // which may be why it failed
		v.check()
	default: // also a failure: what the launcher was told before us may be why
		v.readBeats()
	}
}
