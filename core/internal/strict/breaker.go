package strict

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
	"github.com/mopslock/mopslock/core/internal/register"
)

// Breaker is the machine of one break: it ends somebody's strict lease on the
// record, and calls its session, if there is one, so that it hears.
type Breaker struct {
	register.Register
	task
	whose core.HolderID // the tenure that is to be broken, and no other; "" until it is known
	dead  bool          // the observation that gave the version to be broken shows that nobody keeps it alive
	Claim Claim
}

// NewBreaker makes a breaker in state Idle.
func NewBreaker(cfg core.Config) (*Breaker, error) {
	cfg.Machine, cfg.Protocol = core.MachineBreaker, core.ProtocolStrict
	r, err := register.New(cfg)
	if err != nil {
		return nil, err
	}
	return &Breaker{Register: r, task: newTask(), whose: cfg.Holder}, nil
}

// Step implements Machine.
func (b *Breaker) Step(now core.Instant, ev core.Event) ([]core.Action, error) {
	if err := b.Start(b, now, &ev); err != nil {
		return nil, err
	}
	b.ApplyHostState(&ev)
	if b.Due(base.TimerLimit) { // what is answered later rests on an observation that is too old
		b.giveUp()
	}
	switch ev.Kind {
	case core.EventBegin:
		b.Move(&b.Machine, core.TaskWorking)
		b.Timers[base.TimerLimit] = b.In(core.FirstAnswerLimit * 6)
		b.StartObservation(core.RequestLimit)
	case core.EventCancel:
		b.refuse(core.ReasonCancelled)
	case core.EventAnswer:
		if f, ok := b.Land(&ev); ok && b.State == core.TaskWorking {
			b.answer(&ev, f)
		}
	case core.EventWoke:
		if b.RanOut(base.TimerNext) {
			b.goOn()
		}
	}
	return b.Finish(), nil
}

func (b *Breaker) refuse(reason core.Reason) {
	if b.hasEnded() {
		return
	}
	b.Move(&b.Machine, core.TaskRefused)
	a := b.Emit(core.ActionRefused)
	a.Reason, a.Class, a.Observed = reason, b.Class, b.Observed
	if reason != core.ReasonUnreachable && reason != core.ReasonUnusable {
		a.Class = core.ClassNone
	}
}

// giveUp ends it in time. What was broken is, called or not: whoever wants the name
// makes the call.
func (b *Breaker) giveUp() {
	if b.State == core.TaskWorking && b.Cur.State == core.VersionBroken {
		b.Move(&b.Machine, core.TaskDone)
		b.Emit(core.ActionBroken).Epoch = b.Cur.N
		return
	}
	b.refuse(core.ReasonUnreachable)
}

func (b *Breaker) answer(ev *core.Event, f base.Flight) {
	if ev.Outcome == core.OutcomeUnknown {
		b.Class = ev.Class
		if ev.Class.Permanent() {
			b.refuse(core.ReasonUnusable)
			return
		}
		b.Later(base.Unset)
		return
	}
	switch b.Doing {
	case register.ForCreate:
		if ev.Outcome == core.OutcomeYes {
			b.broke()
			return
		}
		b.Claim.askBack(&b.Register, core.RequestLimit)
	case register.ForReadBack:
		b.readBack(ev)
	case register.ForCalls:
		b.CallsListed(ev)
		b.call()
	case register.ForCall:
		b.CallRead(ev)
		b.call()
	case register.ForNewCall:
		b.CallMade(ev)
		b.call()
	default:
		b.found(b.ObservationAnswer(ev, f, core.RequestLimit))
	}
}

// goOn tries again whatever had no answer.
func (b *Breaker) goOn() {
	switch {
	case b.Claim.N > 0 && b.Cur.N == b.Claim.V.N:
		b.call()
	case b.Claim.N > 0:
		b.Claim.askBack(&b.Register, core.RequestLimit)
	default:
		b.StartObservation(core.RequestLimit)
	}
}

// found goes on when an observation has come to something: what is held is broken. It
// was perhaps somebody else whom the caller saw, and chose to break:
//
//	caller  sees A, asks "break it?" . . . . . . . . . . . . "yes"
//	A, B                     A releases, B acquires           B goes on
//
// A tenure that the observation shows to be dead is over, and the break says so: alone,
// it frees the name at once. That holds for the version of this observation and no
// other. A companion that comes first makes the next one, and all begins anew:
//
//	breaker    observe: v(n) dead ── create v(n+1) broken, alone: exists ── observe: v(n+1) lives
//	companion                create v(n+1) held
func (b *Breaker) found(v register.Verdict) {
	c := &b.Cur
	switch {
	case v == register.Undecided:
	case v == register.Unanswered:
		b.Later(base.Unset)
	case c.Result == register.ReadNewer:
		b.refuse(core.ReasonNewer)
	case c.Result == register.ReadOther:
		b.refuse(core.ReasonKind)
	case c.Result == register.ReadCorrupt:
		b.refuse(core.ReasonUnreadable)
	case c.State != core.VersionHeld:
		b.refuse(core.ReasonVacant)
	case b.whose != "" && c.Tenure != b.whose: // somebody else's by now
		b.refuse(core.ReasonHeld)
	default:
		b.whose, b.Claim.N = c.Tenure, 0
		b.dead = b.isDead(v)
		b.sendBreak()
	}
}

func (b *Breaker) sendBreak() {
	v := b.Successor(core.VersionBroken)
	v.Alone, v.Why, v.By = b.Cfg.Now || b.dead, b.Cfg.Why, b.Cfg.PID+"@"+b.Cfg.Host
	b.Claim.V = v
	b.Claim.sendAs(&b.Register, core.RequestLimit)
}

func (b *Breaker) readBack(ev *core.Event) {
	if ev.Outcome == core.OutcomeNo { // the create may still land; another one shows
		if b.Claim.N == core.MaxAttempts {
			b.refuse(core.ReasonUnreachable)
			return
		}
		b.sendBreak()
		return
	}
	if b.Claim.landed(ev.Body) != nil {
		b.broke()
		return
	}
	b.Claim.N = 0
	b.StartObservation(core.RequestLimit) // somebody else made it: what is there now?
}

// broke: the version that says so is there. Its session is still to be called.
func (b *Breaker) broke() {
	v := b.Claim.V
	b.SetCurrent(&v, b.Claim.latest().sent)
	b.Observation = register.Observation{Listed: true, N: v.N}
	b.call()
}

// call makes the call, unless it is there or nobody has to be called.
func (b *Breaker) call() {
	if b.Cur.Session == "" || b.dead || b.isCalled() { // with now, too: its holder is to hear of it
		b.Move(&b.Machine, core.TaskDone)
		b.Emit(core.ActionBroken).Epoch = b.Cur.N
		return
	}
	b.SeekCall(core.RequestLimit)
}

// isCalled reports whether the call for this break is known to be there.
func (b *Breaker) isCalled() bool { return b.Register.Call.N == b.Cur.N }

// AppendState implements Machine.
func (b *Breaker) AppendState(dst []byte) []byte {
	s := b.Head(dst, core.MachineBreaker)
	s.Text(string(b.whose))
	s.Bools(b.dead)
	b.Register.Snapshot(&s)
	b.Claim.snapshot(&s)
	return s
}

// Clone implements Machine.
func (b *Breaker) Clone() core.Machine {
	twin := *b
	twin.Detach()
	return &twin
}
