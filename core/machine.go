package core

// flight is the one request that a machine waits for; id 0 is none.
type flight struct {
	id   RequestID
	verb ActionKind
	sent int64 // Mono of the Step that returned it
}

// machine is what all machines are built on: the clock, the requests, the
// timers and the actions of the Step in progress.
type machine struct {
	deliberate
	cfg    Config
	key    string // of the name's lock.json
	rng    rng
	now    Instant // of the latest Step
	issued RequestID
	flight flight
	timers timers
	out    []Action
}

// errEvent is the error of an event that has no meaning where the machine stands.
func errEvent(state string, kind EventKind) error {
	return &Error{ErrorEvent, "event " + kind.String() + " has no meaning in state " + state}
}

func newMachine(cfg Config) (machine, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return machine{}, err
	}
	return machine{
		cfg:    cfg,
		key:    cfg.Name + "/" + LockFile,
		rng:    newRNG(cfg.Seed),
		now:    Instant{Mono: -MaxClockRange},
		timers: newTimers(),
	}, nil
}

// admit refuses what breaks the contract, before anything is changed.
func (m *machine) admit(now Instant, ev *Event) error {
	code := ErrorEvent
	var text string
	switch {
	case now.Mono < m.now.Mono:
		code, text = ErrorClock, "monotonic clock went back from "+intText(m.now.Mono)+" to "+intText(now.Mono)
	case now.Mono > MaxClockRange || now.Wall > MaxClockRange || now.Wall < -MaxClockRange:
		code, text = ErrorClock, "clock out of range"
	case ev.StoreStamp > MaxClockRange || ev.StoreStamp < -MaxClockRange || ev.StoreAt > MaxClockRange || ev.StoreAt < -MaxClockRange:
		text = "sample of the store's clock out of range"
	case ev.Wait < Forever || ev.Wait > MaxWait:
		text = ev.Kind.String() + ": wait " + durationText(int64(ev.Wait)) + " is out of range"
	case ev.Kind != EventAnswer:
		return nil
	case ev.Request == 0 || ev.Request > m.issued:
		code, text = ErrorRequest, "answer to request "+uintText(uint64(ev.Request))+
			", but only "+uintText(uint64(m.issued))+" were issued"
	case ev.Outcome < OutcomeYes || ev.Outcome > OutcomeUnknown:
		text = "answer without an outcome"
	case ev.Class > ClassFull:
		text = "answer of an unknown class"
	case ev.Stamp > MaxClockRange || ev.Stamp < -MaxClockRange:
		text = "answer with a stamp out of range"
	case ev.Request == m.flight.id && ev.Outcome == OutcomeNo && cannotSayNo(m.flight.verb):
		text = "a " + m.flight.verb.String() + " cannot be answered no"
	case len(ev.Entries) > MaxEntries:
		text = "answer with more than 256 entries"
	case !entriesInRange(ev.Entries):
		text = "answer with a stamp out of range"
	default:
		return nil
	}
	return &Error{code, text}
}

func entriesInRange(entries []Entry) bool {
	for i := range entries {
		if s := entries[i].Stamp; s > MaxClockRange || s < -MaxClockRange {
			return false
		}
	}
	return true
}

// cannotSayNo reports that a verb has only yes and unknown.
func cannotSayNo(verb ActionKind) bool {
	return verb == ActionPut || verb == ActionPutResult || verb == ActionList || verb == ActionDelete
}

// begin starts a Step that was admitted.
func (m *machine) begin(now Instant) {
	m.now = now
	if m.out == nil {
		m.out = make([]Action, 0, MaxActions)
	}
	m.out = m.out[:0]
}

// finish ends a Step: at most one wake, last, and none means that no timer is set.
func (m *machine) finish() []Action {
	if at := m.timers.earliest(); at != unset {
		m.emit(ActionWake).At = at
	}
	return m.out
}

// Idle implements Machine.
func (m *machine) Idle() bool { return m.flight.id == 0 && m.timers.earliest() == unset }

// emit adds an action, which is the caller's to fill in where it stands: one of
// its size is dear to hand over. There is room for MaxActions.
// Not inlined: at its many calls that would cost the WASM guest kilobytes.
//
//go:noinline
func (m *machine) emit(kind ActionKind) *Action {
	n := len(m.out)
	m.out = m.out[:n+1]
	a := &m.out[n]
	*a = Action{}
	a.Kind = kind
	return a
}

// land takes the request in flight out of the air if ev answers it. An answer
// to any other request was abandoned and changes nothing.
func (m *machine) land(ev *Event) (flight, bool) {
	f := m.flight
	if ev.Request != f.id {
		return flight{}, false
	}
	m.flight = flight{}
	if f.verb == ActionList && ev.More && len(ev.Entries) == 0 { // that there is nothing is not what it says
		ev.Outcome, ev.Class = OutcomeUnknown, ClassOther
	}
	return f, true
}

// abandon forgets the request in flight: its answer will change nothing.
func (m *machine) abandon() { m.flight = flight{} }

// send adds a request.
// Not inlined: at its many calls that would cost the WASM guest kilobytes.
//
//go:noinline
func (m *machine) send(kind ActionKind, limit Duration) *Action {
	m.issued++
	m.flight = flight{m.issued, kind, m.now.Mono}
	a := m.emit(kind)
	a.Request, a.Key, a.Limit = m.issued, m.key, limit
	return a
}

// in is the instant so much later than now.
func (m *machine) in(d Duration) int64 { return m.now.Mono + int64(d) }

// due reports whether a timer has run out.
func (m *machine) due(which timer) bool { return m.timers[which] <= m.now.Mono }

// until is how long it is to a Mono; negative when it has passed.
func (m *machine) until(at int64) Duration { return Duration(at - m.now.Mono) }

// requestLimit bounds a request so that three fit before the deadline.
// Not inlined: at its many calls that would cost the WASM guest kilobytes.
//
//go:noinline
func (m *machine) requestLimit(deadline int64) Duration {
	if deadline == unset {
		return RequestLimit
	}
	return max(RequestFloor, min(RequestLimit, m.until(deadline)/3))
}

// backoff is the waiter's poll: first x 1.5^n, spread by a fifth either way and
// capped by the TTL, so that a short lease is not waited for in long steps.
func (m *machine) backoff(first Duration, n int) Duration {
	ceiling := PollCap
	if m.cfg.TTL != None {
		ceiling = min(PollCap, max(PollCapFloor, m.cfg.TTL/8))
	}
	step := first
	for i := 0; i < n && step < ceiling; i++ {
		step += step / 2
	}
	step = min(step, ceiling)
	return min(ceiling, m.rng.between(step-step/5, step+step/5))
}

// retryDelay spaces attempts that fail: backoff, but short enough that several
// more fit before the deadline, and slower at once when the store asks for it.
func (m *machine) retryDelay(n int, class Class, deadline int64) Duration {
	first := PollFirst
	if class == ClassThrottled {
		first = ThrottledFirst
	}
	delay := m.backoff(first, n)
	if deadline == unset || deadline <= m.now.Mono {
		return delay // no deadline, or one that hurrying does not bring back
	}
	return max(RetryFloor, min(delay, m.until(deadline)/4))
}
