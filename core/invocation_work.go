package core

// start begins the one call of this machine.
func (v *Invocation) start(ev *Event) {
	v.lastTry = ev.Wait == 0
	reach := FirstAnswerLimit
	if ev.Wait > 0 {
		v.timers[timerLimit] = v.in(ev.Wait)
		reach = min(reach, ev.Wait)
	}
	if v.isRemote() {
		reach = v.cfg.TTL // as long as a companion tries to join
		v.timers[timerLimit] = unset
	}
	v.timers[timerReach] = v.in(reach)
	v.check()
}

func (v *Invocation) isRemote() bool { return v.cfg.Role == RoleRemote }

// isAnothers reports that somebody else does the work by now, or was told that
// he may: nothing more of ours is written at the shared address.
func (v *Invocation) isAnothers() bool {
	return (v.lost == ReasonTaken || v.lost == ReasonBroken) && !v.bug(BugLoserDelivers)
}

// mayStore: past a deadline, or after a release, there may be another: only a store
// that takes the first result and no second can be given ours. A remote whose
// orchestrator has released goes on, as mops' do, and may store.
func (v *Invocation) mayStore() bool {
	return v.lost == ReasonNone || v.creates() && !v.isAnothers() || v.isRemote() && v.lost == ReasonReleased
}

// mayYet: a remote out of contact tries to join again, and may store then.
func (v *Invocation) mayYet() bool {
	return v.isRemote() && v.lost == ReasonUnreachable && v.now.Mono < v.tryBy
}

// creates reports whether the first result wins by the store's own word.
func (v *Invocation) creates() bool { return v.cfg.Creates || v.cfg.Protocol == ProtocolStrict }

// check looks for the result before each attempt: who is late finds it.
func (v *Invocation) check() {
	v.become(InvocationChecking)
	v.stale = false
	v.askResult()
}

func (v *Invocation) askResult() {
	v.signs.asked = v.now.Mono
	v.ask(forResult, ActionExists, ResultKey(v.cfg.Name), v.askLimit())
}

// askLimit bounds a request on which no deadline hangs. Until the store has
// answered once the whole silence is bounded.
func (v *Invocation) askLimit() Duration {
	if reach := v.timers[timerReach]; reach != unset {
		return max(RequestFloor, min(RequestLimit, v.until(reach)))
	}
	return RequestLimit
}

// answer takes the answer to a request of our own onwards.
func (v *Invocation) answer(ev *Event, f flight) {
	if v.quits {
		v.cancel(ev)
		return
	}
	if ev.Outcome == OutcomeUnknown {
		v.class = ev.Class
		v.unanswered()
		return
	}
	v.retries, v.class = 0, ClassNone
	v.timers[timerReach] = unset
	there := ev.Outcome == OutcomeYes
	switch v.doing {
	case forResult:
		v.checked(there, ResultKey(v.cfg.Name))
	case forFailure:
		v.checked(there, FailureKey(v.cfg.Name))
	case forDelivery:
		v.found(v.deliveryKey()) // ours, or one that was there before: the first one stays
	default:
		v.signRead(ev, f)
	}
}

// unanswered: one error ends nothing that the store may still mend.
func (v *Invocation) unanswered() {
	switch {
	case v.state == InvocationDelivering || v.state == InvocationSettling:
		v.undelivered()
		return
	case v.state == InvocationChecking && v.class.Permanent():
		v.unusable(ReasonUnusable)
		return
	case v.state == InvocationConfirming && v.isAlone():
		v.launch() // nothing is known, and it is to work all the same
		return
	case v.state == InvocationConfirming && v.class.Permanent():
		v.giveUp(ReasonUnusable)
		return
	case v.state == InvocationChecking && v.lastTry && !v.isRemote() && v.timers[timerReach] == unset:
		v.refuse(ReasonLimit)
		return
	}
	v.timers[timerNext] = v.in(v.retryDelay(v.retries, v.class, unset))
	v.retries++
}

// unusable ends before anything was begun. To a remote it means that there is no
// lease that it could keep alive.
func (v *Invocation) unusable(reason Reason) {
	if !v.isRemote() {
		v.refuse(reason)
		return
	}
	a := v.emit(ActionCannotMaintain)
	a.Reason, a.Class = ReasonUnreadable, v.class
	v.notJoined(ActionCannotMaintain)
}

// checked goes on when it is known whether there is a result. There may be what
// a failure came to instead, which counts for those who keep failures.
func (v *Invocation) checked(there bool, key string) {
	delivering := v.state == InvocationDelivering
	switch {
	case there:
		v.found(key)
	case v.doing == forResult && v.cfg.MemoFailures && (!delivering || v.failed):
		v.ask(forFailure, ActionExists, FailureKey(v.cfg.Name), v.askLimit())
	case delivering:
		v.deliver()
	case v.state == InvocationConfirming:
		v.launch()
	case v.state == InvocationSettling:
		v.settled()
	case v.isRemote() && v.cfg.Holder == "":
		v.launch()
	case v.isRemote():
		v.become(InvocationJoining)
		v.drive(MachineCompanion, EventAccompany)
		v.heard()
	default:
		v.become(InvocationAcquiring)
		v.holder, v.lost = "", ReasonNone
		v.drive(MachineLease, EventAcquire)
		v.heard()
	}
}

// heard goes on with what the inner machine has just said.
func (v *Invocation) heard() {
	said := v.said
	switch {
	case said.held && (v.state == InvocationAcquiring || v.state == InvocationJoining):
		v.told = 0
		v.confirm()
	case said.outOf && v.state == InvocationConfirming: // somebody may have come meanwhile: join anew
		v.timers[timerReach] = v.in(v.cfg.TTL)
		v.check()
	case said.adopted && v.state == InvocationAwaiting:
		v.settle() // a companion has come or gone
	case said.ended == 0:
	case v.state == InvocationReleasing:
		v.parted()
	case v.state == InvocationAcquiring:
		v.turnedAway(said.why, said.class)
	case v.state == InvocationJoining:
		v.notJoined(said.ended)
	default:
		v.leaseLost(said.why)
	}
}

// turnedAway waits for another's result or for his lease, or gives up.
func (v *Invocation) turnedAway(why Reason, class Class) {
	v.class = class
	hopeless := why == ReasonNewer || why == ReasonKind || why == ReasonUnusable && class.Permanent()
	if v.lastTry || hopeless {
		v.refuse(why)
		return
	}
	v.become(InvocationWaiting)
	if told := mix(uint64(v.sight.Epoch), fingerprint(v.sight.Holder)); told != v.told {
		v.told = told
		v.showSight(v.emit(ActionWaiting))
	}
	v.timers[timerNext] = v.in(v.pause())
	if v.stale { // told while it looked, perhaps too early to see it
		v.timers[timerNext] = v.now.Mono
	}
	if at := v.sight.LookAt; at > v.now.Mono { // it can be dead then
		v.timers[timerNext] = min(v.timers[timerNext], max(at, v.in(PollFirst)))
	}
}

// pause is mops' schedule, spread: 1, 2, 4 ... 22 s. Under strict it is never longer
// than a lease's waiter pauses.
func (v *Invocation) pause() Duration {
	most, longest := InvokeCap, InvokeCap+InvokeCap/5
	if v.cfg.Protocol == ProtocolStrict {
		most, longest = PollCap, PollCap
	}
	step := InvokeFirst
	for i := 0; i < v.polls && step < most; i++ {
		step *= 2
	}
	v.polls++
	step = min(step, most)
	return min(longest, v.rng.between(step-step/5, step+step/5))
}

func (v *Invocation) showSight(a *Action) {
	if v.sight.State != 0 {
		a.Sight = &v.sight
	}
}

// notJoined: a remote that came late, or has nothing to keep alive, runs nothing,
// unless it was told to work all the same.
func (v *Invocation) notJoined(ended ActionKind) {
	switch {
	case ended != ActionCannotMaintain || !v.cfg.WithoutLease:
		v.wrapUp()
	case v.state == InvocationChecking: // it has just not been answered
		v.launch()
	default:
		v.confirm()
	}
}

// isAlone: it works without a lease.
func (v *Invocation) isAlone() bool { return v.isRemote() && v.innerIsOver() }

// confirm looks once more: whoever held it before may have stored a result.
func (v *Invocation) confirm() {
	v.become(InvocationConfirming)
	if v.bug(BugNoSecondLook) {
		v.launch()
		return
	}
	v.askResult()
}

// leaseLost: what was begun goes on; whether it still counts is asked at its end.
func (v *Invocation) leaseLost(why Reason) {
	v.lost = why
	switch {
	case (v.state == InvocationConfirming || v.state == InvocationChecking) && v.isRemote(): // checking: out of contact, to join anew
		v.wrapUp()
	case v.state == InvocationConfirming:
		v.polls = 0
		v.check()
	case v.state == InvocationAwaiting:
		v.settle()
	}
}

func (v *Invocation) launch() {
	v.become(InvocationLaunched)
	v.lost, v.failed = ReasonNone, false
	v.timers[timerReach] = unset
	v.emit(ActionLaunch)
}

// changed: somebody has released the name, or put a result.
func (v *Invocation) changed() {
	switch v.state {
	case InvocationWaiting:
		v.check()
	case InvocationAwaiting:
		v.settle()
	case InvocationAcquiring:
		v.stale = true
	case InvocationLaunched: // the lease may have been broken
		if v.inner != nil {
			v.order(EventChanged, false)
			v.heard()
		}
	}
}

// woke handles our own timers, in the order of the timer table.
func (v *Invocation) woke() {
	waits := v.state == InvocationChecking || v.state == InvocationWaiting
	if v.due(timerReach) && v.state == InvocationChecking {
		v.class = max(v.class, ClassOther)
		v.unusable(ReasonUnreachable)
		return
	}
	if v.due(timerLimit) {
		v.timers[timerLimit] = unset
		v.lastTry = true
		if waits {
			v.outOfPatience()
			return
		}
	}
	if !v.due(timerNext) {
		return
	}
	v.timers[timerNext] = unset
	switch v.state {
	case InvocationChecking, InvocationConfirming, InvocationSettling:
		v.askResult()
	case InvocationWaiting:
		v.check()
	case InvocationAwaiting:
		v.settle()
	case InvocationDelivering:
		v.redeliver()
	}
}

func (v *Invocation) outOfPatience() {
	switch {
	case v.class == ClassNone && v.sight.State != 0:
		v.refuse(ReasonHeld)
	default:
		v.refuse(ReasonLimit)
	}
}
