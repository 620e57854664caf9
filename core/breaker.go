package core

// Breaker is the machine of one break: it ends somebody's strict lease on the
// record, and calls its session, if there is one, so that it hears.
type Breaker struct {
	register
	state TaskState
	whose HolderID // the tenure that is to be broken, once it is known
	claim claim
}

// NewBreaker makes a breaker in state Idle.
func NewBreaker(cfg Config) (*Breaker, error) {
	cfg.Machine, cfg.Protocol = MachineBreaker, ProtocolStrict
	r, err := newRegister(cfg)
	if err != nil {
		return nil, err
	}
	return &Breaker{register: r, state: TaskIdle}, nil
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
	switch ev.Kind {
	case EventBegin:
		b.become(TaskWorking)
		b.timers[timerLimit] = b.in(FirstAnswerLimit * 6)
		b.startLook(RequestLimit)
	case EventCancel:
		b.refuse(ReasonCancelled)
	case EventAnswer:
		if _, ok := b.land(&ev); ok && b.state == TaskWorking {
			b.answer(&ev)
		}
	case EventWoke:
		if b.due(timerLimit) {
			b.giveUp()
		}
		if b.due(timerNext) {
			b.timers[timerNext] = unset
			b.goOn()
		}
	}
	return b.finish(), nil
}

// taskAccepts is the contract's table of the machines that do one thing.
func taskAccepts(state TaskState, kind EventKind) bool {
	switch kind {
	case EventAnswer, EventChanged, EventWoke:
		return true
	case EventBegin:
		return state == TaskIdle
	case EventCancel:
		return state != TaskIdle
	}
	return false
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

func (b *Breaker) answer(ev *Event) {
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
	case forList, forVersion:
		b.found(ev)
	case forCalls:
		b.callsListed(ev)
		b.call()
	case forCall:
		b.callRead(ev)
		b.call()
	case forNewCall:
		b.callMade(ev)
		b.call()
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

// found takes the newest version: what is held is broken.
func (b *Breaker) found(ev *Event) {
	if b.doing == forList {
		b.learn(ev)
		b.listed(ev)
		switch k := &b.look; {
		case !k.listed:
			b.askList(RequestLimit)
		case k.n == 0:
			b.cur = current{}
			b.refuse(ReasonVacant)
		default:
			b.ask(forVersion, ActionGet, versionKey(b.prefix, k.n), RequestLimit)
		}
		return
	}
	if ev.Outcome == OutcomeNo { // collected since it was listed
		b.startLook(RequestLimit)
		return
	}
	b.readVersion(ev.Body, b.look.n, ev.Stamp)
	switch c := &b.cur; {
	case c.result == readNewer:
		b.refuse(ReasonNewer)
	case c.result == readOther:
		b.refuse(ReasonKind)
	case c.result == readCorrupt:
		b.refuse(ReasonUnreadable)
	case c.state != VersionHeld, b.whose != "" && c.tenure != b.whose: // over, or another's by now
		b.refuse(ReasonVacant)
	default:
		b.whose = c.tenure
		b.claim.n = 0
		b.sendBreak()
	}
}

func (b *Breaker) sendBreak() {
	v := b.successor(VersionBroken)
	v.alone, v.why, v.by = b.cfg.Now, b.cfg.Why, b.cfg.PID+"@"+b.cfg.Host
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
	case b.cur.session == "" || b.isCalled(): // with now, too: its holder is to hear of it
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
