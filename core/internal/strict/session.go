package strict

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
	"github.com/mopslock/mopslock/core/internal/jsontext"
	"github.com/mopslock/mopslock/core/internal/register"
)

// Session is the machine of one heartbeat for all that a process holds: a beat
// that it puts, and a chain of calls, in which a process that breaks a lease on it says
// so. Past its deadline its id is dead forever.
type Session struct {
	base.Machine
	base.Standing[core.SessionState]
	SID     string
	body    []byte `state:"exact: of the beat, which says nothing but a nonce that is fresh"`
	beatKey string
	selfKey string // of what is made once, before the id is in force, and never written again
	made    bool   // that is there
	selfAt  int64  // Mono of the latest proof of that
	callKey string // of the next call
	call    uint64 // the next call that is not there yet
	putSent int64  // Mono: sent of this renewal's beat, once answered; unset before
	Doing   register.Purpose
	quiet   int64    // Mono before which no hint is followed
	Calls   []string // to be deleted on closing
	warned  bool     // that it cannot be opened
}

// NewSession makes a session in state Idle.
func NewSession(cfg core.Config) (*Session, error) {
	cfg.Machine, cfg.Protocol = core.MachineSession, core.ProtocolStrict
	m, err := base.New(cfg)
	if err != nil {
		return nil, err
	}
	sid := string(base.SeedUUID(cfg.Seed))
	return &Session{Machine: m, Standing: base.At(core.SessionIdle, SessionEdges[:]), SID: sid, beatKey: register.SessionKey(sid), selfKey: register.SessionSelfKey(sid), callKey: register.CallKey(sid, 0), putSent: base.Unset, quiet: -core.MaxClockRange}, nil
}

// Step implements Machine.
func (s *Session) Step(now core.Instant, ev core.Event) ([]core.Action, error) {
	if err := s.Start(s, now, &ev); err != nil {
		return nil, err
	}
	if s.isOver() {
		s.lose()
	}
	switch ev.Kind {
	case core.EventBegin:
		s.become(core.SessionOpening)
		s.putBeat()
	case core.EventLeave:
		s.close()
	case core.EventAnswer:
		if f, ok := s.Land(&ev); ok {
			s.answer(&ev, f)
		}
	case core.EventChanged:
		if s.State == core.SessionInForce {
			s.Hint(s.quiet)
		}
	case core.EventWoke:
		if s.RanOut(base.TimerNext) {
			s.next()
		}
	}
	if s.State == core.SessionInForce && s.IsHintDue(&s.quiet) {
		s.askCall()
	}
	return s.Finish(), nil
}

// Accepts is the contract's table for commands.
func (s *Session) Accepts(kind core.EventKind) bool {
	switch kind {
	case core.EventBegin:
		return s.State == core.SessionIdle
	case core.EventLeave:
		return s.State != core.SessionIdle
	}
	return base.IsNews(kind)
}

// become moves along an edge of the table.
func (s *Session) become(to core.SessionState) {
	s.Move(&s.Machine, to)
	if to == core.SessionClosing {
		s.Timers[base.TimerDeadline] = base.Unset
	}
}

func (s *Session) ask(why register.Purpose, verb core.ActionKind, key string) *core.Action {
	s.Doing, s.Key = why, key
	return s.Send(verb, s.RequestLimit(s.Timers[base.TimerDeadline]))
}

func (s *Session) putBeat() {
	s.body = register.AppendSessionBeat(s.body[:0], &s.Machine, s.Cfg.TTL.Duration(), s.Cfg.Margin)
	a := s.ask(register.ForBeating, core.ActionPut, s.beatKey)
	a.Type, a.Body = core.RegisterType, s.body
	if s.State == core.SessionInForce {
		s.Overwrite(a)
	}
}

// next goes on with the renewal at hand: the beat, then is there a call.
func (s *Session) next() {
	switch {
	case s.State == core.SessionClosing:
		s.left()
	case s.putSent == base.Unset:
		s.putBeat()
	default:
		s.askNext()
	}
}

// askNext goes on when the beat is there. A session that is not in force has no calls, since
// it was named nowhere; but it makes the object by whose absence it will know that somebody
// has emptied the prefix: the beat that it puts again and again cannot tell that.
func (s *Session) askNext() {
	if !s.made {
		a := s.ask(register.ForSelf, core.ActionCreate, s.selfKey)
		a.Type, a.Body = core.RegisterType, s.body
		return
	}
	s.askCall()
}

func (s *Session) askCall() { s.ask(register.ForNext, core.ActionExists, s.callKey) }

func (s *Session) answer(ev *core.Event, f base.Flight) {
	if s.State == core.SessionClosing {
		s.closingAnswer(ev)
		return
	}
	if s.isHinted() && ev.Outcome != core.OutcomeYes {
		return // there is no call, or the next renewal finds it
	}
	if s.State == core.SessionOpening {
		s.note(ev, f)
	}
	if ev.Outcome == core.OutcomeUnknown {
		s.Class, s.Failing = ev.Class, true
		s.Later(s.Timers[base.TimerDeadline])
		s.warn()
		return
	}
	switch s.Doing {
	case register.ForBeating:
		if ev.Outcome == core.OutcomeNo {
			s.emptied()
			return
		}
		s.putSent = f.Sent
		s.askNext()
	case register.ForNext:
		switch {
		case s.isCalled(ev):
			s.ask(register.ForCall, core.ActionGet, s.Key)
		case s.isSelfDue():
			s.ask(register.ForSelf, core.ActionExists, s.selfKey)
		default:
			s.renewalSucceeded()
		}
	case register.ForSelf:
		if s.made && ev.Outcome == core.OutcomeNo {
			s.emptied()
			return
		}
		s.made, s.selfAt = true, s.Now.Mono // a create is answered no where one before it has landed
		s.renewalSucceeded()
	case register.ForCall:
		s.called(ev)
	}
}

// note takes an answer on the way to be in force. Nothing has worked before it is: a store that
// takes the beat, and not the session's own object, is none for it.
func (s *Session) note(ev *core.Event, f base.Flight) {
	if ev.Outcome != core.OutcomeUnknown {
		s.Reach = base.Reach{}
		return
	}
	s.Reach.Note(ev, f, s.Now.Mono)
}

// warn says, once, that the store does not take what the session begins with. A host that
// has seen none of its sessions in force tells the claims that wait for this one.
func (s *Session) warn() {
	if s.warned || s.State != core.SessionOpening {
		return
	}
	for _, d := range [...]base.Direction{base.Reads, base.Writes} {
		if reason := s.Reach.Ends(d, s.Now.Mono, false); reason != core.ReasonNone {
			s.warned = true
			a := s.Emit(core.ActionWarned)
			a.Reason, a.Key, a.Class = reason, s.Key, s.Reach.Class()
			return
		}
	}
}

// isHinted reports whether it asks for a call beside a renewal, whose beat goes first.
func (s *Session) isHinted() bool { return s.putSent == base.Unset && s.Doing != register.ForBeating }

// called tells the host of a call. Our renewal is not good before all calls that
// are there were told: the caller of each waits a ttl from then, and no longer.
func (s *Session) called(ev *core.Event) {
	var call register.BeatRecord
	if ev.Outcome == core.OutcomeYes && register.ParseCall(ev.Body, &call) == register.ReadGood {
		a := s.Emit(core.ActionCalled)
		a.Key, a.Epoch = string(jsontext.Text(call.Name).AppendTo(nil)), call.Epoch
	}
	s.call++
	s.callKey = register.CallKey(s.SID, s.call)
	s.askCall()
}

// renewalSucceeded: the beat is there, and every call was told.
func (s *Session) renewalSucceeded() {
	s.Timers[base.TimerDeadline] = s.putSent + int64(s.Cfg.TTL.Duration()-s.Cfg.Margin)
	third := s.Cfg.TTL.Duration() / 3
	next := s.putSent + int64(s.RNG.Between(third/6*5, third))
	s.putSent, s.Failing, s.Retries = base.Unset, false, 0
	first := s.State == core.SessionOpening
	if first {
		if s.Due(base.TimerDeadline) { // the first one took too long: the host was not told of it yet
			s.Timers[base.TimerDeadline] = base.Unset
			s.putBeat()
			return
		}
		s.become(core.SessionInForce)
		s.Reach = base.Reach{}
		a := s.Emit(core.ActionHeld)
		a.At, a.Holder = s.Timers[base.TimerDeadline], core.HolderID(s.SID)
	} else {
		s.Emit(core.ActionRenewed).At = s.Timers[base.TimerDeadline]
	}
	s.Timers[base.TimerNext] = next
}

// lose: the id is dead forever. Nothing is written under it again.
func (s *Session) lose() {
	reason := core.ReasonExpired
	if s.Failing || s.Flight.ID != 0 && !s.isHinted() {
		reason = core.ReasonUnreachable
	}
	s.become(core.SessionLost)
	s.Emit(core.ActionLost).Reason = reason
}

// emptied: somebody has removed what the session is, and others may have taken by now what
// stands on it.
func (s *Session) emptied() {
	s.become(core.SessionLost)
	a := s.Emit(core.ActionWarned)
	a.Reason, a.Key = core.ReasonEmptied, s.Key
	s.Emit(core.ActionLost).Reason = core.ReasonTaken
}

// close ends the session. Everything on it must have ended before.
func (s *Session) close() {
	switch s.State {
	case core.SessionOpening, core.SessionInForce:
		s.Abandon()
		s.become(core.SessionClosing)
		s.ask(register.ForCalls, core.ActionList, register.SessionPrefix(s.SID)).Count = register.ObservationEntries
	}
}

// closingAnswer removes what the session has left: a courtesy, tried once.
func (s *Session) closingAnswer(ev *core.Event) {
	switch {
	case ev.Outcome == core.OutcomeUnknown || s.Doing == register.ForDelete && len(s.Calls) == 0:
		s.left()
		return
	case s.Doing == register.ForCalls:
		for i := range ev.Entries {
			if key := string(ev.Entries[i].Key); key != s.beatKey {
				s.Calls = append(s.Calls, key)
			}
		}
		s.Calls = append(s.Calls, s.beatKey)
	}
	s.ask(register.ForDelete, core.ActionDelete, s.Calls[0])
	s.Calls = s.Calls[1:]
}

func (s *Session) left() {
	s.become(core.SessionClosed)
	s.Emit(core.ActionLeft)
}
