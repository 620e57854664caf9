package strict

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
	"github.com/mopslock/mopslock/core/internal/register"
)

// Revocation is the machine of one break: it ends another's strict lease on the
// record, and calls the lease's session, if there is one, which tells the holder.
type Revocation struct {
	register.Register
	task
	target  core.HolderID // the tenure that is to be broken, and no other; "" until it is known
	dead    bool          // the observation that gave the version to be broken shows that no process keeps it alive
	Attempt Attempt
}

// NewRevocation makes a revocation in state Idle.
func NewRevocation(cfg core.Config) (*Revocation, error) {
	cfg.Machine, cfg.Protocol = core.MachineRevocation, core.ProtocolStrict
	r, err := register.New(cfg)
	if err != nil {
		return nil, err
	}
	return &Revocation{Register: r, task: newTask(), target: cfg.Holder}, nil
}

// Step implements Machine.
func (r *Revocation) Step(now core.Instant, ev core.Event) ([]core.Action, error) {
	if err := r.Start(r, now, &ev); err != nil {
		return nil, err
	}
	r.ApplyHostState(&ev)
	if r.Due(base.TimerLimit) { // what is answered later rests on an observation that is too old
		r.giveUp()
	}
	switch ev.Kind {
	case core.EventBegin:
		r.Move(&r.Machine, core.TaskWorking)
		r.Timers[base.TimerLimit] = r.In(core.FirstAnswerLimit * 6)
		r.StartObservation(core.RequestLimit)
	case core.EventCancel:
		r.refuse(core.ReasonCancelled)
	case core.EventAnswer:
		if f, ok := r.Land(&ev); ok && r.State == core.TaskWorking {
			r.answer(&ev, f)
		}
	case core.EventWoke:
		if r.RanOut(base.TimerNext) {
			r.goOn()
		}
	}
	return r.Finish(), nil
}

func (r *Revocation) refuse(reason core.Reason) {
	if r.hasEnded() {
		return
	}
	r.Move(&r.Machine, core.TaskRefused)
	a := r.Emit(core.ActionRefused)
	a.Reason, a.Class, a.Observed = reason, r.Class, r.Observed
	if reason != core.ReasonUnreachable && reason != core.ReasonUnusable {
		a.Class = core.ClassNone
	}
}

// giveUp ends it in time. A version that says broken counts, called or not: a waiter for
// the name makes the call.
func (r *Revocation) giveUp() {
	if r.State == core.TaskWorking && r.Cur.State == core.VersionBroken {
		r.Move(&r.Machine, core.TaskDone)
		r.Emit(core.ActionBroken).Epoch = r.Cur.N
		return
	}
	r.refuse(core.ReasonUnreachable)
}

func (r *Revocation) answer(ev *core.Event, f base.Flight) {
	if ev.Outcome == core.OutcomeUnknown {
		r.Class = ev.Class
		if ev.Class.Permanent() {
			r.refuse(core.ReasonUnusable)
			return
		}
		r.Later(base.Unset)
		return
	}
	switch r.Doing {
	case register.ForCreate:
		if ev.Outcome == core.OutcomeYes {
			r.broke()
			return
		}
		r.Attempt.askBack(&r.Register, core.RequestLimit)
	case register.ForReadBack:
		r.readBack(ev)
	case register.ForCalls:
		r.CallsListed(ev)
		r.call()
	case register.ForCall:
		r.CallRead(ev)
		r.call()
	case register.ForNewCall:
		r.CallMade(ev)
		r.call()
	default:
		r.found(r.ObservationAnswer(ev, f, core.RequestLimit))
	}
}

// goOn tries again whatever had no answer.
func (r *Revocation) goOn() {
	switch {
	case r.Attempt.N > 0 && r.Cur.N == r.Attempt.V.N:
		r.call()
	case r.Attempt.N > 0:
		r.Attempt.askBack(&r.Register, core.RequestLimit)
	default:
		r.StartObservation(core.RequestLimit)
	}
}

// found goes on when an observation has come to something: what is held is broken.
// The caller may have seen another holder, and chosen to break that:
//
//	caller  sees A, asks "break it?" . . . . . . . . . . . . "yes"
//	A, B                     A releases, B acquires           B goes on
//
// A tenure that the observation shows to be dead is over, and the break says so: alone,
// it frees the name at once. That holds for the version of this observation and no
// other. A companion that comes first makes the next one, and all begins again:
//
//	breaker    observe: v(n) dead ── create v(n+1) broken, alone: exists ── observe: v(n+1) lives
//	companion                create v(n+1) held
func (r *Revocation) found(v register.Verdict) {
	c := &r.Cur
	switch {
	case v == register.Undecided:
	case v == register.Unanswered:
		r.Later(base.Unset)
	case c.Result == register.ReadNewer:
		r.refuse(core.ReasonNewer)
	case c.Result == register.ReadOther:
		r.refuse(core.ReasonKind)
	case c.Result == register.ReadCorrupt:
		r.refuse(core.ReasonUnreadable)
	case c.State != core.VersionHeld:
		r.refuse(core.ReasonVacant)
	case r.target != "" && c.Tenure != r.target: // another's by now
		r.refuse(core.ReasonHeld)
	default:
		r.target, r.Attempt.N = c.Tenure, 0
		r.dead = r.isDead(v)
		r.sendBreak()
	}
}

func (r *Revocation) sendBreak() {
	v := r.Successor(core.VersionBroken)
	v.Alone, v.Why, v.By = r.Cfg.Now || r.dead, r.Cfg.Why, r.Cfg.PID+"@"+r.Cfg.Host
	r.Attempt.V = v
	r.Attempt.sendAs(&r.Register, core.RequestLimit)
}

func (r *Revocation) readBack(ev *core.Event) {
	if ev.Outcome == core.OutcomeNo { // the create may still land; another one shows
		if r.Attempt.N == core.MaxCreates {
			r.refuse(core.ReasonUnreachable)
			return
		}
		r.sendBreak()
		return
	}
	if r.Attempt.landed(ev.Body) != nil {
		r.broke()
		return
	}
	r.Attempt.N = 0
	r.StartObservation(core.RequestLimit) // another made it: what is there now?
}

// broke: the version that says so is there. Its session is still to be called.
func (r *Revocation) broke() {
	v := r.Attempt.V
	r.SetCurrent(&v, r.Attempt.latest().sent)
	r.Observation = register.Observation{Listed: true, N: v.N}
	r.call()
}

// call makes the call, unless it is there or there is no session to call.
func (r *Revocation) call() {
	if r.Cur.Session == "" || r.dead || r.isCalled() { // also with now: its holder is to be told
		r.Move(&r.Machine, core.TaskDone)
		r.Emit(core.ActionBroken).Epoch = r.Cur.N
		return
	}
	r.SeekCall(core.RequestLimit)
}

// isCalled reports whether the call for this break is known to be there.
func (r *Revocation) isCalled() bool { return r.Register.Call.N == r.Cur.N }
