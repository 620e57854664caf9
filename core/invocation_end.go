package core

// found says where the result is, at once; giving the lease back comes after.
func (v *Invocation) found(key string) {
	v.emit(ActionFound).Key = key
	v.wrapUp()
}

// absent ends without a result.
func (v *Invocation) absent(reason Reason) {
	a := v.emit(ActionAbsent)
	a.Reason = reason
	if reason == ReasonUnreachable || reason == ReasonUnusable {
		a.Class = v.class
	}
	v.wrapUp()
}

// refuse ends an invocation that launched nothing and holds nothing.
func (v *Invocation) refuse(reason Reason) {
	v.become(InvocationRefused)
	a := v.emit(ActionRefused)
	a.Reason = reason
	switch reason {
	case ReasonUnreachable, ReasonUnusable, ReasonLimit:
		a.Class = v.class
	}
	if reason != ReasonCancelled {
		v.showSight(a)
	}
}

// wrapUp gives back what is held, and ends.
func (v *Invocation) wrapUp() {
	v.become(InvocationReleasing)
	v.after = InvocationDone
	v.giveBack(false)
}

// giveUp gives back what is held, and then refuses.
func (v *Invocation) giveUp(reason Reason) {
	v.become(InvocationReleasing)
	v.after, v.refusal = InvocationRefused, reason
	v.giveBack(false)
}

// giveBack ends the inner machine: a lease is released, a claim cancelled, and a
// companion leaves.
func (v *Invocation) giveBack(brief bool) {
	switch {
	case v.innerIsOver():
	case v.isRemote():
		v.order(EventLeave, false)
	case v.holder == "":
		v.order(EventCancel, false)
	default:
		v.order(EventRelease, brief)
	}
	v.parted()
}

// parted ends when the inner machine has.
func (v *Invocation) parted() {
	if !v.innerIsOver() {
		return
	}
	if v.after == InvocationRefused {
		v.refuse(v.refusal)
		return
	}
	v.become(v.after)
}

// cancel gives up: what is held is given back, what was launched is the host's to end.
func (v *Invocation) cancel(ev *Event) {
	switch v.state {
	case InvocationChecking, InvocationWaiting:
		v.refuse(ReasonCancelled)
	case InvocationReleasing, InvocationDone, InvocationRefused:
		if ev.Kind == EventRelease && ev.Brief {
			v.hurry()
		}
	default:
		if v.flight.id != 0 && v.flight.verb == ActionPutResult {
			v.quits = true // it could land on another's result: the host stops it, and answers
			return
		}
		v.become(InvocationReleasing)
		v.after, v.refusal = InvocationRefused, ReasonCancelled
		v.giveBack(ev.Kind == EventRelease && ev.Brief)
	}
}

// hurry tells a lease that is being given back that the process is about to end.
func (v *Invocation) hurry() {
	if v.inner == nil || v.isRemote() || v.holder == "" {
		return
	}
	v.order(EventRelease, true)
	if v.state == InvocationReleasing {
		v.parted()
	}
}
