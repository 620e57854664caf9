package core

// workEnded stores what the work came to, or looks for what somebody else stored.
func (v *Invocation) workEnded(ev *Event) {
	v.failed = ev.Outcome == OutcomeNo
	v.polls = 0
	v.signs = signs{until: v.in(min(LaunchGrace, v.cfg.TTL))}
	v.tryBy = v.in(max(DeliverLimit, v.cfg.TTL))
	genuine := v.isRemote() || v.lost == ReasonNone // the loss of its lease ends a launcher
	wanted := ev.Result && (!v.failed || v.cfg.MemoFailures && genuine)
	switch {
	case v.isAnothers() && v.isRemote():
		v.absent(v.lost)
	case wanted && (v.mayStore() || v.mayYet()):
		v.become(InvocationDelivering)
		v.redeliver()
	case v.isRemote() && v.failed:
		v.absent(ReasonFailed)
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
		v.timers[timerNext] = v.in(v.retryDelay(v.retries, ClassNone, v.tryBy))
		v.retries++
		return
	default:
		v.absentOr(v.lost)
		return
	}
	verb := ActionCreateResult
	if !v.creates() || v.bug(BugResultOverwrites) {
		verb = ActionPutResult
	}
	a := v.ask(forDelivery, verb, v.deliveryKey(), ResultLimit)
	a.Type = ResultType
	if v.failed {
		a.Type = FailureType
	}
}

func (v *Invocation) deliveryKey() string {
	if v.failed {
		return FailureKey(v.cfg.Name)
	}
	return ResultKey(v.cfg.Name)
}

// undelivered tries again: the same create settles what the last one did.
func (v *Invocation) undelivered() {
	switch {
	case v.isAnothers():
		v.absentOr(v.lost)
	case v.class.Permanent():
		v.absent(ReasonUnusable)
	case v.now.Mono >= v.tryBy:
		v.absent(ReasonUnreachable)
	default:
		v.timers[timerNext] = v.in(v.retryDelay(v.retries, v.class, v.tryBy))
		v.retries++
	}
}

// absentOr ends a remote; who wants the result waits for the other's.
func (v *Invocation) absentOr(lost Reason) {
	if v.isRemote() {
		v.absent(lost)
		return
	}
	v.check()
}

// settle looks for the result once the launcher has ended.
func (v *Invocation) settle() {
	v.become(InvocationSettling)
	v.tryBy = v.in(max(DeliverLimit, v.cfg.TTL))
	v.askResult()
}

// settled: there is no result, and the launcher has ended.
func (v *Invocation) settled() {
	switch {
	case v.isRemote():
		v.absent(v.lost)
	case v.lost != ReasonNone: // which may be why it failed
		v.check()
	default: // a failure, too: what the launcher was told before us may be why
		v.readSigns()
	}
}
