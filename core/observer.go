package core

// Observer is the machine of one look by somebody who takes no part: it reads,
// and says what there is, a lease or a semaphore.
type Observer struct {
	register
	state   TaskState
	roster  roster // of a semaphore's holders
	reading string // the session whose beat is read
}

// NewObserver makes an observer in state Idle.
func NewObserver(cfg Config) (*Observer, error) {
	cfg.Machine, cfg.Protocol = MachineObserver, ProtocolStrict
	r, err := newRegister(cfg)
	if err != nil {
		return nil, err
	}
	r.passive = true
	return &Observer{register: r, state: TaskIdle}, nil
}

// String implements Machine.
func (o *Observer) String() string { return o.state.String() }

// State is where the machine stands.
func (o *Observer) State() TaskState { return o.state }

// Step implements Machine.
func (o *Observer) Step(now Instant, ev Event) ([]Action, error) {
	if err := o.admit(now, &ev); err != nil {
		return nil, err
	}
	if !taskAccepts(o.state, ev.Kind) {
		return nil, errEvent(o.state.String(), ev.Kind)
	}
	o.begin(now)
	o.hear(&ev)
	switch ev.Kind {
	case EventBegin:
		o.become(TaskWorking)
		o.startLook(RequestLimit)
	case EventCancel:
		o.end(ReasonCancelled)
	case EventAnswer:
		if f, ok := o.land(&ev); ok && o.state == TaskWorking {
			o.answer(&ev, f)
		}
	}
	return o.finish(), nil
}

// become moves along an edge of the table.
func (o *Observer) become(to TaskState) {
	checkMove(taskEdges[:], o.state, to)
	o.state = to
}

// end refuses, unless it has ended.
func (o *Observer) end(reason Reason) {
	if o.state >= TaskDone {
		return
	}
	o.abandon()
	o.become(TaskRefused)
	a := o.emit(ActionRefused)
	a.Reason = reason
	if reason == ReasonUnreachable || reason == ReasonUnusable {
		a.Class = o.class
	}
}

func (o *Observer) answer(ev *Event, f flight) {
	if o.reading != "" {
		o.sessionAnswer(ev)
		return
	}
	switch o.lookAnswer(ev, f, RequestLimit) {
	case looking:
		return
	case lookFailed:
		reason := ReasonUnreachable
		if o.class.Permanent() {
			reason = ReasonUnusable
		}
		o.end(reason)
		return
	case foundUnfit:
		reason := ReasonNewer
		if o.cur.result == readOther {
			reason = ReasonKind
		}
		o.end(reason)
		return
	}
	if o.cur.state == VersionValue {
		o.roster = o.roster.cover(o.value, "")
		o.nextSession()
		return
	}
	if o.sight == nil {
		o.sight = &Sighting{State: ObservedVacant}
	}
	s := o.sight
	if s.State == ObservedHeld && s.Left < 0 { // good enough for people
		s.State = ObservedStale
	}
	o.become(TaskDone)
	o.emit(ActionSeen).Sight = s
}

// observedSessions is how many of a semaphore's holders' sessions are looked at.
const observedSessions = 4 * BeatsPerLook

// nextSession looks at the sessions of a semaphore's holders, and then says what
// there is.
func (o *Observer) nextSession() {
	if due := o.dueSession(o.roster, observedSessions); due != nil {
		due.asked, o.reading = true, due.id
		o.ask(forSession, ActionGet, sessionKey(due.id), RequestLimit)
		return
	}
	s, v := o.sight, o.value
	s.State, s.TTL = ObservedVacant, 0
	if len(v.permits) > 0 {
		s.State = ObservedHeld
	}
	s.Capacity, s.Width, s.Held, s.Limit = v.capacity, v.width, v.held(), v.limit
	s.Dead = o.roster.appendDead(s.Dead[:0])
	o.become(TaskDone)
	o.emit(ActionSeen).Sight = s
}

// sessionAnswer takes in a beat. One that cannot be read now is not known to be dead.
func (o *Observer) sessionAnswer(ev *Event) {
	seen := o.roster.find(o.reading)
	o.reading = ""
	if ev.Outcome != OutcomeUnknown {
		o.sessionRead(seen, ev)
		// To somebody who only looks our wall clock may tell. It decides nothing.
		sign := &seen.sign
		seen.dead = seen.dead || !sign.sameBoot && sign.stamp != 0 &&
			o.now.Wall > sign.stamp+o.sessionTTL(seen)+o.slop()
	}
	o.nextSession()
}

// AppendState implements Machine.
func (o *Observer) AppendState(dst []byte) []byte {
	s := snapshot(dst)
	s.octet(uint8(MachineObserver))
	s.octet(uint8(o.state))
	o.register.snapshot(&s)
	o.roster.snapshot(&s)
	s.text(o.reading)
	return s
}

// Clone implements Machine.
func (o *Observer) Clone() Machine {
	twin := *o
	twin.detach()
	twin.roster = append(roster(nil), o.roster...)
	return &twin
}
