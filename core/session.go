package core

// Session is the machine of one heartbeat for all that a process holds: a beat
// that it puts, and a chain of calls in which whoever breaks a lease on it says
// so. Past its deadline its id is dead for ever.
type Session struct {
	machine
	state   SessionState
	sid     string
	body    []byte
	beatKey string
	callKey string // of the next call
	call    uint64 // the next call that is not there yet
	putSent int64  // Mono: sent of this renewal's beat, once answered; unset before
	doing   purpose
	retries int
	class   Class
	failing bool
	quiet   int64    // Mono before which no hint is heeded
	calls   []string // to be deleted on closing
}

// NewSession makes a session in state Idle.
func NewSession(cfg Config) (*Session, error) {
	cfg.Machine, cfg.Protocol = MachineSession, ProtocolStrict
	m, err := newMachine(cfg)
	if err != nil {
		return nil, err
	}
	sid := string(seedUUID(cfg.Seed))
	return &Session{machine: m, state: SessionIdle, sid: sid, beatKey: sessionKey(sid), callKey: callKey(sid, 0), putSent: unset, quiet: -MaxClockRange}, nil
}

// String implements Machine.
func (s *Session) String() string { return s.state.String() }

// State is where the machine stands.
func (s *Session) State() SessionState { return s.state }

// Step implements Machine.
func (s *Session) Step(now Instant, ev Event) ([]Action, error) {
	if err := s.admit(now, &ev); err != nil {
		return nil, err
	}
	if !s.accepts(ev.Kind) {
		return nil, errEvent(s.state.String(), ev.Kind)
	}
	s.begin(now)
	if s.due(timerDeadline) && !s.bug(BugSessionLivesOn) {
		s.lose()
	}
	switch ev.Kind {
	case EventBegin:
		s.become(SessionOpening)
		s.putBeat()
	case EventLeave:
		s.close()
	case EventAnswer:
		if f, ok := s.land(&ev); ok {
			s.answer(&ev, f)
		}
	case EventChanged:
		if s.state == SessionInForce {
			s.hint(s.quiet)
		}
	case EventWoke:
		if s.due(timerNext) {
			s.timers[timerNext] = unset
			s.next()
		}
	}
	if s.state == SessionInForce && s.heedsHint(&s.quiet) {
		s.askCall()
	}
	return s.finish(), nil
}

func (s *Session) accepts(kind EventKind) bool {
	switch kind {
	case EventAnswer, EventChanged, EventWoke:
		return true
	case EventBegin:
		return s.state == SessionIdle
	case EventLeave:
		return s.state != SessionIdle
	}
	return false
}

// become moves along an edge of the table.
func (s *Session) become(to SessionState) {
	checkMove(sessionEdges[:], s.state, to)
	s.state = to
	s.timers[timerNext], s.timers[timerLook] = unset, unset
	switch to {
	case SessionClosing:
		s.timers[timerDeadline] = unset
	case SessionClosed, SessionLost:
		s.timers = newTimers()
		s.abandon()
	}
}

func (s *Session) ask(why purpose, verb ActionKind, key string) *Action {
	s.doing, s.key = why, key
	return s.send(verb, s.requestLimit(s.timers[timerDeadline]))
}

func (s *Session) putBeat() {
	s.body = appendSessionBeat(s.body[:0], &s.machine, s.cfg.TTL, s.cfg.Margin)
	a := s.ask(forBeating, ActionPut, s.beatKey)
	a.Type, a.Body = RegisterType, s.body
}

// next goes on with the renewal at hand: the beat, then is there a call.
func (s *Session) next() {
	switch {
	case s.state == SessionClosing:
		s.left()
	case s.putSent == unset:
		s.putBeat()
	default:
		s.askCall()
	}
}

func (s *Session) askCall() { s.ask(forNext, ActionExists, s.callKey) }

func (s *Session) answer(ev *Event, f flight) {
	if s.state == SessionClosing {
		s.closingAnswer(ev)
		return
	}
	if s.isHinted() && ev.Outcome != OutcomeYes {
		return // there is no call, or the next renewal finds it
	}
	if ev.Outcome == OutcomeUnknown {
		s.class, s.failing = ev.Class, true
		s.timers[timerNext] = s.in(s.retryDelay(s.retries, s.class, s.timers[timerDeadline]))
		s.retries++
		return
	}
	switch s.doing {
	case forBeating:
		s.putSent = f.sent
		s.askCall()
	case forNext:
		if ev.Outcome == OutcomeYes && !s.bug(BugSessionWithoutCalls) {
			s.ask(forCall, ActionGet, s.key)
			return
		}
		s.good()
	case forCall:
		s.called(ev)
	}
}

// isHinted reports whether it asks for a call beside a renewal, whose beat goes first.
func (s *Session) isHinted() bool { return s.putSent == unset && s.doing != forBeating }

// called tells the host of a call. Our renewal is not good before all calls that
// are there were told: whoever called waits a ttl from then, and no longer.
func (s *Session) called(ev *Event) {
	var call beat
	if ev.Outcome == OutcomeYes && parseCall(ev.Body, &call) == readGood {
		a := s.emit(ActionCalled)
		a.Key, a.Epoch = string(text(call.name).appendTo(nil)), call.epoch
	}
	s.call++
	s.callKey = callKey(s.sid, s.call)
	s.askCall()
}

// good: the beat is there, and every call was told.
func (s *Session) good() {
	s.timers[timerDeadline] = s.putSent + int64(s.cfg.TTL-s.cfg.Margin)
	third := s.cfg.TTL / 3
	next := s.putSent + int64(s.rng.between(third/6*5, third))
	s.putSent, s.failing, s.retries = unset, false, 0
	first := s.state == SessionOpening
	if first {
		if s.due(timerDeadline) { // the first one took too long: nobody was told of it yet
			s.timers[timerDeadline] = unset
			s.putBeat()
			return
		}
		s.become(SessionInForce)
		a := s.emit(ActionHeld)
		a.At, a.Holder = s.timers[timerDeadline], HolderID(s.sid)
	} else {
		s.emit(ActionRenewed).At = s.timers[timerDeadline]
	}
	s.timers[timerNext] = next
}

// lose: the id is dead for ever. Nothing is written under it again.
func (s *Session) lose() {
	reason := ReasonExpired
	if s.failing || s.flight.id != 0 && !s.isHinted() {
		reason = ReasonUnreachable
	}
	s.become(SessionLost)
	s.emit(ActionLost).Reason = reason
}

// close ends the session. Everything on it must have ended before.
func (s *Session) close() {
	switch s.state {
	case SessionOpening, SessionInForce:
		s.abandon()
		s.become(SessionClosing)
		s.ask(forCalls, ActionList, callPrefix(s.sid)).Count = lookEntries
	}
}

// closingAnswer removes what the session has left: a courtesy, with one attempt.
func (s *Session) closingAnswer(ev *Event) {
	switch {
	case ev.Outcome == OutcomeUnknown || s.doing == forDelete && len(s.calls) == 0:
		s.left()
		return
	case s.doing == forCalls:
		for i := range ev.Entries {
			s.calls = append(s.calls, string(ev.Entries[i].Key))
		}
		s.calls = append(s.calls, s.beatKey)
	}
	s.ask(forDelete, ActionDelete, s.calls[0])
	s.calls = s.calls[1:]
}

func (s *Session) left() {
	s.become(SessionClosed)
	s.emit(ActionLeft)
}
