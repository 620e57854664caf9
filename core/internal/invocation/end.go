package invocation

import "github.com/mopslock/mopslock/core"

// found says where the result is, at once; giving the lease back comes after.
func (v *Invocation) found(key string) {
	v.Emit(core.ActionFound).Key = key
	v.wrapUp()
}

// absent ends without a result.
func (v *Invocation) absent(reason core.Reason) {
	a := v.Emit(core.ActionAbsent)
	a.Reason = reason
	if reason == core.ReasonUnreachable || reason == core.ReasonUnusable {
		a.Class = v.Class
	}
	v.wrapUp()
}

// refuse ends an invocation that launched nothing and holds nothing.
func (v *Invocation) refuse(reason core.Reason) {
	v.become(core.InvocationRefused)
	v.refused(reason)
}

func (v *Invocation) refused(reason core.Reason) {
	a := v.Emit(core.ActionRefused)
	a.Reason = reason
	switch reason {
	case core.ReasonUnreachable, core.ReasonUnusable, core.ReasonLimit:
		a.Class = v.Class
	}
	if reason != core.ReasonCancelled {
		v.showObserved(a)
	}
}

// wrapUp gives back what is held, and ends.
func (v *Invocation) wrapUp() {
	v.become(core.InvocationReleasing)
	v.after = core.InvocationDone
	v.giveBack(false)
}

// giveUp refuses, and then gives back what is held: its caller did not ask for that, and must not
// rely on it while another acquires it.
func (v *Invocation) giveUp(reason core.Reason) {
	v.refused(reason)
	v.become(core.InvocationReleasing)
	v.after, v.refusal = core.InvocationRefused, core.ReasonNone
	v.giveBack(false)
}

// giveBack ends the inner machine: a lease is released, an attempt cancelled, and a
// companion leaves.
func (v *Invocation) giveBack(brief bool) {
	switch {
	case v.innerIsOver():
	case v.IsRemote():
		v.order(core.EventLeave, false)
	case v.Holder == "":
		v.order(core.EventCancel, false)
	default:
		v.order(core.EventRelease, brief)
	}
	v.parted()
}

// parted ends when the inner machine has.
func (v *Invocation) parted() {
	if !v.innerIsOver() {
		return
	}
	if v.refusal != core.ReasonNone {
		v.refuse(v.refusal)
		return
	}
	v.become(v.after)
}

// cancel gives up: what is held is given back, what was launched is the host's to end.
func (v *Invocation) cancel(ev *core.Event) {
	switch {
	case (v.state == core.InvocationChecking || v.state == core.InvocationWaiting) && v.innerIsOver(): // and no remote out of contact, which joins anew
		v.refuse(core.ReasonCancelled)
	case v.state >= core.InvocationReleasing:
		if ev.Kind == core.EventRelease && ev.Brief {
			v.hurry()
		}
	default:
		if v.Flight.ID != 0 && v.Flight.Verb == core.ActionPutResult {
			v.quits = true // it could land on another's result: the host stops it, and answers
			return
		}
		v.become(core.InvocationReleasing)
		v.after, v.refusal = core.InvocationRefused, core.ReasonCancelled
		v.giveBack(ev.Kind == core.EventRelease && ev.Brief)
	}
}

// hurry tells a lease that is being given back that the process is about to end.
func (v *Invocation) hurry() {
	if v.Inner == nil || v.IsRemote() || v.Holder == "" {
		return
	}
	v.order(core.EventRelease, true)
	if v.state == core.InvocationReleasing {
		v.parted()
	}
}
