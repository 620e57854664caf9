package core

// Breaker is the machine of one break: it ends somebody's strict lease on the
// record, and calls its session, if there is one, so that it hears.
type Breaker struct {
	register
	state TaskState
	whose HolderID // the tenure that is to be broken, and no other; "" until it is known
	dead  bool     // the look that gave the version to be broken shows that nobody keeps it alive
	claim claim
}

// NewBreaker makes a breaker in state Idle.
func NewBreaker(cfg Config) (*Breaker, error) {
	cfg.Machine, cfg.Protocol = MachineBreaker, ProtocolStrict
	r, err := newRegister(cfg)
	if err != nil {
		return nil, err
	}
	return &Breaker{register: r, state: TaskIdle, whose: cfg.Holder}, nil
}

// String implements Machine.
func (b *Breaker) String() string { return b.state.String() }

// State is where the machine stands.
func (b *Breaker) State() TaskState { return b.state }

// Step implements Machine.
func (b *Breaker) Step(now Instant, ev Event) ([]Action, error) {
	if err := b.admit(now, &ev); err != nil {
		return nil, err
	}
	if !taskAccepts(b.state, ev.Kind) {
		return nil, errEvent(b.state.String(), ev.Kind)
	}
	b.begin(now)
	b.hear(&ev)
	if b.due(timerLimit) { // what is answered later rests on a look that is too old
		b.giveUp()
	}
	switch ev.Kind {
	case EventBegin:
		b.become(TaskWorking)
		b.timers[timerLimit] = b.in(FirstAnswerLimit * 6)
		b.startLook(RequestLimit)
	case EventCancel:
		b.refuse(ReasonCancelled)
	case EventAnswer:
		if f, ok := b.land(&ev); ok && b.state == TaskWorking {
			b.answer(&ev, f)
		}
	case EventWoke:
		if b.due(timerNext) {
			b.timers[timerNext] = unset
			b.goOn()
		}
	}
	return b.finish(), nil
}

// become moves along an edge of the table.
func (b *Breaker) become(to TaskState) {
	if b.state >= TaskDone && to == TaskRefused {
		return // it has ended, and a cancel comes too late
	}
	checkMove(taskEdges[:], b.state, to)
	b.state = to
	if to >= TaskDone {
		b.timers = newTimers()
		b.abandon()
	}
}

func (b *Breaker) refuse(reason Reason) {
	if b.state >= TaskDone {
		return
	}
	b.become(TaskRefused)
	a := b.emit(ActionRefused)
	a.Reason, a.Class, a.Sight = reason, b.class, b.sight
	if reason != ReasonUnreachable && reason != ReasonUnusable {
		a.Class = ClassNone
	}
}

// giveUp ends it in time. What was broken is, called or not: whoever wants the name
// makes the call.
func (b *Breaker) giveUp() {
	if b.state == TaskWorking && b.cur.state == VersionBroken {
		b.become(TaskDone)
		b.emit(ActionBroken).Epoch = b.cur.n
		return
	}
	b.refuse(ReasonUnreachable)
}

func (b *Breaker) answer(ev *Event, f flight) {
	if ev.Outcome == OutcomeUnknown {
		b.class = ev.Class
		if ev.Class.Permanent() {
			b.refuse(ReasonUnusable)
			return
		}
		b.later(unset)
		return
	}
	switch b.doing {
	case forCreate:
		if ev.Outcome == OutcomeYes {
			b.broke()
			return
		}
		b.askBack()
	case forReadBack:
		b.readBack(ev)
	case forCalls:
		b.callsListed(ev)
		b.call()
	case forCall:
		b.callRead(ev)
		b.call()
	case forNewCall:
		b.callMade(ev)
		b.call()
	default:
		b.found(b.lookAnswer(ev, f, RequestLimit))
	}
}

// goOn tries again whatever had no answer.
func (b *Breaker) goOn() {
	switch {
	case b.claim.n > 0 && b.cur.n == b.claim.v.n:
		b.call()
	case b.claim.n > 0:
		b.askBack()
	default:
		b.startLook(RequestLimit)
	}
}

// found goes on when a look has come to something: what is held is broken. It was
// perhaps somebody else whom the caller saw, and chose to break:
//
//	caller  sees A, asks "break it?" . . . . . . . . . . . . "yes"
//	A, B                     A releases, B acquires           B goes on
//
// A tenure that the look shows to be dead is over, and the break says so: alone, it
// frees the name at once. That holds for the version of this look and no other. A
// companion that comes first makes the next one, and the look begins anew:
//
//	breaker    look: v(n) dead ── create v(n+1) broken, alone: exists ── look: v(n+1) lives
//	companion                create v(n+1) held
func (b *Breaker) found(v outlook) {
	c := &b.cur
	switch {
	case v == looking:
	case v == lookFailed:
		b.later(unset)
	case c.result == readNewer:
		b.refuse(ReasonNewer)
	case c.result == readOther:
		b.refuse(ReasonKind)
	case c.result == readCorrupt:
		b.refuse(ReasonUnreadable)
	case c.state != VersionHeld:
		b.refuse(ReasonVacant)
	case b.whose != "" && c.tenure != b.whose: // somebody else's by now
		b.refuse(ReasonHeld)
	default:
		b.whose, b.claim.n = c.tenure, 0
		b.dead = v == foundFree || b.dead && b.bug(BugBreakVerdictKept)
		b.sendBreak()
	}
}

func (b *Breaker) sendBreak() {
	v := b.successor(VersionBroken)
	v.alone, v.why, v.by = b.cfg.Now || b.dead, b.cfg.Why, b.cfg.PID+"@"+b.cfg.Host
	b.claim.v = v
	b.claim.tried[b.claim.n] = attempt{v.nonce, b.now.Mono}
	b.claim.n++
	b.create(&v, RequestLimit)
}

func (b *Breaker) askBack() {
	b.ask(forReadBack, ActionGet, versionKey(b.prefix, b.claim.v.n), RequestLimit)
}

func (b *Breaker) readBack(ev *Event) {
	if ev.Outcome == OutcomeNo { // the create may still land; another one shows
		if b.claim.n == MaxAttempts {
			b.refuse(ReasonUnreachable)
			return
		}
		b.sendBreak()
		return
	}
	var v version
	if parseVersion(ev.Body, b.claim.v.n, &v) == readGood {
		for i := range b.claim.n {
			if b.claim.tried[i].nonce.is(v.nonce) {
				b.broke()
				return
			}
		}
	}
	b.claim.n = 0
	b.startLook(RequestLimit) // somebody else made it: what is there now?
}

// broke: the version that says so is there. Its session is still to be called.
func (b *Breaker) broke() {
	v := b.claim.v
	b.made(&v, b.claim.tried[b.claim.n-1].sent)
	b.look = look{listed: true, n: v.n}
	b.call()
}

// call makes the call, unless it is there or nobody has to be called.
func (b *Breaker) call() {
	switch {
	case b.flight.id != 0 || b.state != TaskWorking:
	case b.cur.session == "" || b.dead || b.isCalled(): // with now, too: its holder is to hear of it
		b.become(TaskDone)
		b.emit(ActionBroken).Epoch = b.cur.n
	default:
		b.seekCall(RequestLimit)
	}
}

// isCalled reports whether the call for this break is known to be there.
func (b *Breaker) isCalled() bool { return b.register.call.n == b.cur.n }

// AppendState implements Machine.
func (b *Breaker) AppendState(dst []byte) []byte {
	s := snapshot(dst)
	s.octet(uint8(MachineBreaker))
	s.octet(uint8(b.state))
	s.text(string(b.whose))
	s.bools(b.dead)
	b.register.snapshot(&s)
	b.claim.snapshot(&s)
	return s
}

// Clone implements Machine.
func (b *Breaker) Clone() Machine {
	twin := *b
	twin.detach()
	return &twin
}
