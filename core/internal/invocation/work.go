package invocation

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
)

// start begins the one call of this machine.
func (v *Invocation) start(ev *core.Event) {
	v.lastTry = ev.Wait == 0
	within := core.FirstAnswerLimit
	if ev.Wait > 0 {
		v.Timers[base.TimerLimit] = v.In(ev.Wait)
		within = min(within, ev.Wait)
	}
	if v.IsRemote() {
		within = v.Cfg.TTL.Duration() // as long as a companion tries to join
		v.Timers[base.TimerLimit] = base.Unset
	}
	v.Reach.Expect(v.Now.Mono, within)
	v.check()
}

func (v *Invocation) IsRemote() bool { return v.Cfg.Role == core.RoleRemote }

// mayStore: past a deadline, or after a release, there may be another: only a store
// that takes the first result and no second can be given ours. A remote whose
// orchestrator has released goes on, as mops' do, and may store.
func (v *Invocation) mayStore() bool {
	return v.lost == core.ReasonNone || v.creates() && !v.isAnothers() || v.IsRemote() && v.lost == core.ReasonReleased
}

// mayYet: a remote out of contact tries to join again, and may store then.
func (v *Invocation) mayYet() bool {
	return v.IsRemote() && v.lost == core.ReasonUnreachable && v.Now.Mono < v.tryBy
}

// creates reports whether the first result wins by the store's own word.
func (v *Invocation) creates() bool { return v.Cfg.Creates || v.Cfg.Protocol.HasRegister() }

// check looks for the result before each attempt: a late caller finds it.
func (v *Invocation) check() {
	v.become(core.InvocationChecking)
	v.stale = false
	v.askResult()
}

func (v *Invocation) askResult() {
	v.beats.asked = v.Now.Mono
	v.ask(forResult, core.ActionExists, core.ResultKey(v.Cfg.Name), v.ReadLimit())
}

// isOver reports whether its caller waits no longer. A remote has no other wait than for
// the first answer.
func (v *Invocation) isOver() bool { return v.lastTry && !v.IsRemote() }

// setReach bounds the time in which it looks for the result.
func (v *Invocation) setReach() {
	v.Timers[base.TimerReach] = base.Unset
	if v.state == core.InvocationChecking || v.state == core.InvocationConfirming {
		v.Timers[base.TimerReach] = v.Reach.By(v.isOver())
	}
}

// answer takes the answer to a request of our own onwards.
func (v *Invocation) answer(ev *core.Event, f base.Flight) {
	if v.quits {
		v.cancel(ev)
		return
	}
	v.Reach.Note(ev, f, v.Now.Mono)
	if ev.Outcome == core.OutcomeUnknown {
		v.Class = ev.Class
		v.unanswered()
		return
	}
	v.Retries, v.Class = 0, core.ClassNone
	there := ev.Outcome == core.OutcomeYes
	switch v.doing {
	case forResult:
		v.checked(there, core.ResultKey(v.Cfg.Name))
	case forFailure:
		v.checked(there, core.FailureKey(v.Cfg.Name))
	case forDelivery:
		v.found(v.deliveryKey()) // ours, or one that was there before: the first one stays
	default:
		v.beatsRead(ev, f)
	}
}

// unanswered: one error ends nothing that the store may still mend.
func (v *Invocation) unanswered() {
	switch reason := v.Reach.Ends(base.Reads, v.Now.Mono, v.isOver()); {
	case v.state == core.InvocationDelivering || v.state == core.InvocationSettling:
		v.undelivered()
	case v.state == core.InvocationConfirming && v.isAlone():
		v.launch() // nothing is known, and it is to work all the same
	case reason != core.ReasonNone && (v.state == core.InvocationChecking || v.state == core.InvocationConfirming):
		v.unreached(reason)
	default:
		v.Later(base.Unset)
	}
}

// unreached ends what looks for the result in a store that does not answer.
func (v *Invocation) unreached(reason core.Reason) {
	if v.state == core.InvocationConfirming {
		v.giveUp(reason)
		return
	}
	v.unusable(reason)
}

// unusable ends before anything was begun. To a remote it means that there is no
// lease that it could keep alive.
func (v *Invocation) unusable(reason core.Reason) {
	if !v.IsRemote() {
		v.refuse(reason)
		return
	}
	a := v.Emit(core.ActionCannotMaintain)
	a.Reason, a.Class = core.ReasonUnreadable, v.Class
	v.notJoined(core.ActionCannotMaintain)
}

// checked goes on when it is known whether there is a result. There may be the
// record of a failure instead, which counts for callers that keep failures.
func (v *Invocation) checked(there bool, key string) {
	delivering := v.state == core.InvocationDelivering
	switch {
	case there:
		v.found(key)
	case v.doing == forResult && v.Cfg.MemoFailures && (!delivering || v.failed):
		v.ask(forFailure, core.ActionExists, core.FailureKey(v.Cfg.Name), v.ReadLimit())
	case delivering:
		v.deliver()
	case v.state == core.InvocationConfirming:
		v.launch()
	case v.state == core.InvocationSettling:
		v.settled()
	case v.IsRemote() && v.Cfg.Holder == "":
		v.launch()
	case v.IsRemote():
		v.become(core.InvocationJoining)
		v.drive(core.MachineCompanion, core.EventAccompany)
		v.heard()
	default:
		v.become(core.InvocationAcquiring)
		v.Holder, v.lost = "", core.ReasonNone
		v.drive(core.MachineLease, core.EventAcquire)
		v.heard()
	}
}

// heard goes on with what the inner machine has just said.
func (v *Invocation) heard() {
	said := v.said
	switch {
	case said.held && (v.state == core.InvocationAcquiring || v.state == core.InvocationJoining):
		v.told = 0
		v.confirm()
	case said.outOf && v.state == core.InvocationConfirming: // another process may have come meanwhile: join anew
		v.Reach = base.Reach{}
		v.Reach.Expect(v.Now.Mono, v.Cfg.TTL.Duration())
		v.check()
	case said.adopted && v.state == core.InvocationAwaiting:
		v.settle() // a companion has come or gone
	case v.turned != core.ReasonNone && v.state == core.InvocationAcquiring && v.innerIsOver():
		v.turnedAway(v.turned, v.Class)
	case v.state == core.InvocationReleasing:
		v.parted()
	case said.ended == 0:
	case v.state == core.InvocationAcquiring:
		v.turnedAway(said.why, said.class)
	case v.state == core.InvocationJoining:
		v.notJoined(said.ended)
	default:
		v.leaseLost(said.why)
	}
}

// turnedAway waits for another's result or for its lease, or gives up.
func (v *Invocation) turnedAway(why core.Reason, class core.Class) {
	v.Class = class
	switch why {
	case core.ReasonNewer, core.ReasonKind, core.ReasonUnusable, core.ReasonUnreachable: // it has never worked
		v.refuse(why)
		return
	}
	if v.lastTry {
		v.refuse(why)
		return
	}
	if v.turned = why; !v.innerIsOver() { // the next attempt comes after what this one may have left
		return
	}
	v.turned = core.ReasonNone
	v.become(core.InvocationWaiting)
	if told := base.Mix(uint64(v.observed.Epoch), base.Fingerprint(v.observed.Holder)); told != v.told {
		v.told = told
		v.showObserved(v.Emit(core.ActionWaiting))
	}
	v.Timers[base.TimerNext] = v.In(v.pause())
	if v.stale { // told while it looked, perhaps too early to see it
		v.Timers[base.TimerNext] = v.Now.Mono
	}
	if at := v.observed.RecheckAt; at > v.Now.Mono { // it can be dead then
		v.Timers[base.TimerNext] = min(v.Timers[base.TimerNext], max(at, v.In(core.PollFirst)))
	}
}

// pause is mops' schedule, spread: 1, 2, 4 ... 22 s. Under strict it is never longer
// than a lease's waiter pauses.
func (v *Invocation) pause() core.Duration {
	most, longest := core.InvokeCap, core.InvokeCap+core.InvokeCap/5
	if v.Cfg.Protocol.HasRegister() {
		most, longest = core.PollCap, core.PollCap
	}
	step := core.InvokeFirst
	for i := 0; i < v.polls && step < most; i++ {
		step *= 2
	}
	base.CountUp(&v.polls)
	step = min(step, most)
	return min(longest, v.RNG.Between(step-step/5, step+step/5))
}

func (v *Invocation) showObserved(a *core.Action) {
	if v.observed.State != 0 {
		a.Observed = &v.observed
	}
}

// notJoined: a remote that came late, or has nothing to keep alive, runs nothing,
// unless it was told to work all the same.
func (v *Invocation) notJoined(ended core.ActionKind) {
	switch {
	case ended != core.ActionCannotMaintain || !v.Cfg.WithoutLease:
		v.wrapUp()
	case v.state == core.InvocationChecking: // it has just not been answered
		v.launch()
	default:
		v.confirm()
	}
}

// isAlone: it works without a lease.
func (v *Invocation) isAlone() bool { return v.IsRemote() && v.innerIsOver() }

// leaseLost: what was begun goes on; whether it still counts is asked at its end.
func (v *Invocation) leaseLost(why core.Reason) {
	v.lost = why
	switch {
	case (v.state == core.InvocationConfirming || v.state == core.InvocationChecking) && v.IsRemote(): // checking: out of contact, to join anew
		v.wrapUp()
	case v.state == core.InvocationConfirming:
		v.polls = 0
		v.check()
	case v.state == core.InvocationAwaiting:
		v.settle()
	}
}

func (v *Invocation) launch() {
	v.become(core.InvocationLaunched)
	v.lost, v.failed = core.ReasonNone, false
	v.Emit(core.ActionLaunch)
}

// changed: the name was released, or a result was put.
func (v *Invocation) changed() {
	switch v.state {
	case core.InvocationWaiting:
		v.check()
	case core.InvocationAwaiting:
		v.settle()
	case core.InvocationAcquiring:
		v.stale = true
	case core.InvocationLaunched: // the lease may have been broken
		if v.Inner != nil {
			v.order(core.EventChanged, false)
			v.heard()
		}
	}
}

// woke handles our own timers, in the order of the timer table.
func (v *Invocation) woke() {
	waits := v.state == core.InvocationChecking || v.state == core.InvocationWaiting
	if v.Due(base.TimerReach) {
		v.Class = max(v.Class, core.ClassOther)
		v.unreached(v.Reach.Why(v.Now.Mono, v.isOver()))
		return
	}
	if v.Due(base.TimerLimit) {
		v.Timers[base.TimerLimit] = base.Unset
		v.lastTry = true
		switch {
		case waits:
			v.outOfPatience()
			return
		case v.turned != core.ReasonNone && v.state == core.InvocationAcquiring:
			v.turnedAway(v.turned, v.Class)
			return
		}
	}
	if !v.Due(base.TimerNext) {
		return
	}
	v.Timers[base.TimerNext] = base.Unset
	switch v.state {
	case core.InvocationChecking, core.InvocationConfirming, core.InvocationSettling:
		v.askResult()
	case core.InvocationWaiting:
		v.check()
	case core.InvocationAwaiting:
		v.settle()
	case core.InvocationDelivering:
		v.redeliver()
	}
}

func (v *Invocation) outOfPatience() {
	switch {
	case v.Class == core.ClassNone && v.observed.State != 0:
		v.refuse(core.ReasonHeld)
	default:
		v.refuse(core.ReasonLimit)
	}
}
