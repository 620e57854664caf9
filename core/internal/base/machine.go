// Package base is what every machine is built on: its two clocks, its timers, the one
// request in flight, the actions of a step, its random numbers, and its state as
// canonical bytes. It knows no protocol and no record.
package base

import (
	"strconv"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/octets"
)

// Flight is the one request that a machine waits for; id 0 is none.
type Flight struct {
	ID         core.RequestID
	Verb       core.ActionKind
	Sent       int64 // Mono of the Step that returned it
	Overwrites bool  // a put, which may be answered no: not even the directory is there
}

// Machine is what all machines are built on: the clock, the requests, the
// timers and the actions of the Step in progress.
type Machine struct {
	Mutant // nothing in a product
	Quiet
	Cfg    core.Config
	Key    string // of the name's lock.json
	RNG    RNG
	Now    core.Instant   `state:"exact: every Step overwrites it, and time never goes back"` // of the latest Step
	Issued core.RequestID `state:"exact: an answer names its request by the id that this machine gave it"`
	Flight Flight
	Timers timers        `state:"due"`
	Out    []core.Action `state:"scratch: of the latest Step"`

	Failing bool       // a renewal has failed since the last good one
	Retries int        // of what is tried now
	Class   core.Class // of the last unknown answer
	Reach   Reach      // of what is not held yet
}

// ErrEvent is the error of an event that has no meaning where the machine stands.
func ErrEvent(state string, kind core.EventKind) error {
	return &core.Error{Code: core.ErrorEvent, Text: "event " + kind.String() + " has no meaning in state " + state}
}

func New(cfg core.Config) (Machine, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return Machine{}, err
	}
	return Machine{
		Cfg:    cfg,
		Key:    cfg.Name + "/" + core.LockFile,
		RNG:    NewRNG(cfg.Seed),
		Now:    core.Instant{Mono: -core.MaxClockRange},
		Timers: NewTimers(),
	}, nil
}

// Admit refuses what breaks the contract, before anything is changed.
func (m *Machine) Admit(now core.Instant, ev *core.Event) error {
	code := core.ErrorEvent
	var text string
	switch {
	case now.Mono < m.Now.Mono:
		code, text = core.ErrorClock, "monotonic clock went back from "+strconv.FormatInt(m.Now.Mono, 10)+" to "+strconv.FormatInt(now.Mono, 10)
	case now.Mono > core.MaxClockRange || now.Wall > core.MaxClockRange || now.Wall < -core.MaxClockRange:
		code, text = core.ErrorClock, "clock out of range"
	case ev.StoreStamp > core.MaxClockRange || ev.StoreStamp < -core.MaxClockRange || ev.StoreAt > core.MaxClockRange || ev.StoreAt < -core.MaxClockRange:
		text = "sample of the store's clock out of range"
	case ev.Wait < core.Forever || ev.Wait > core.MaxWait:
		text = ev.Kind.String() + ": wait " + octets.DurationText(int64(ev.Wait)) + " is out of range"
	case ev.Kind != core.EventAnswer:
		return nil
	case ev.Request == 0 || ev.Request > m.Issued:
		code, text = core.ErrorRequest, "answer to request "+strconv.FormatUint(uint64(ev.Request), 10)+
			", but only "+strconv.FormatUint(uint64(m.Issued), 10)+" were issued"
	case ev.Outcome < core.OutcomeYes || ev.Outcome > core.OutcomeUnknown:
		text = "answer without an outcome"
	case ev.Class > core.ClassFull:
		text = "answer of an unknown class"
	case ev.Stamp > core.MaxClockRange || ev.Stamp < -core.MaxClockRange:
		text = "answer with a stamp out of range"
	case ev.Request == m.Flight.ID && ev.Outcome == core.OutcomeNo && !m.Flight.mayBeNo():
		text = "a " + m.Flight.Verb.String() + " cannot be answered no"
	case len(ev.Entries) > core.MaxEntries:
		text = "answer with more than 256 entries"
	case !entriesInRange(ev.Entries):
		text = "answer with a stamp out of range"
	default:
		return nil
	}
	return &core.Error{Code: code, Text: text}
}

func entriesInRange(entries []core.Entry) bool {
	for i := range entries {
		if s := entries[i].Stamp; s > core.MaxClockRange || s < -core.MaxClockRange {
			return false
		}
	}
	return true
}

// mayBeNo reports whether a request has more answers than yes and unknown.
func (f *Flight) mayBeNo() bool {
	switch f.Verb {
	case core.ActionPut:
		return f.Overwrites
	case core.ActionPutResult, core.ActionList, core.ActionDelete:
		return false
	}
	return true
}

// Begin starts a Step that was admitted.
func (m *Machine) Begin(now core.Instant) {
	m.Now = now
	if m.Out == nil {
		m.Out = make([]core.Action, 0, core.MaxActions)
	}
	m.Out = m.Out[:0]
}

// Finish ends a Step: at most one wake, last, and none means that no timer is set.
func (m *Machine) Finish() []core.Action {
	if at := m.Timers.Earliest(); at != Unset {
		m.Emit(core.ActionWake).At = at
	}
	return m.Out
}

// Idle implements Machine.
func (m *Machine) Idle() bool { return m.Flight.ID == 0 && m.Timers.Earliest() == Unset }

// Emit adds an action, which is the caller's to fill in where it stands: one of
// its size is expensive to hand over. There is room for MaxActions.
func (m *Machine) Emit(kind core.ActionKind) *core.Action {
	n := len(m.Out)
	m.Out = m.Out[:n+1]
	a := &m.Out[n]
	*a = core.Action{}
	a.Kind = kind
	return a
}

// Land takes the request in flight out of the air if ev answers it. An answer
// to any other request was abandoned and changes nothing.
func (m *Machine) Land(ev *core.Event) (Flight, bool) {
	f := m.Flight
	if ev.Request != f.ID {
		return Flight{}, false
	}
	m.Flight = Flight{}
	m.interpret(ev, f.Verb)
	return f, true
}

// Abandon forgets the request in flight: its answer will change nothing.
func (m *Machine) Abandon() { m.Flight = Flight{} }

// Send adds a request.
func (m *Machine) Send(kind core.ActionKind, limit core.Duration) *core.Action {
	m.Issued++
	m.Flight = Flight{ID: m.Issued, Verb: kind, Sent: m.Now.Mono}
	a := m.Emit(kind)
	a.Request, a.Key, a.Limit = m.Issued, m.Key, limit
	return a
}

// Overwrite says of the put just sent that the object was there.
func (m *Machine) Overwrite(a *core.Action) { a.Overwrites, m.Flight.Overwrites = true, true }

// In is the instant so much later than now.
func (m *Machine) In(d core.Duration) int64 { return m.Now.Mono + int64(d) }

// Due reports whether a timer has run out.
func (m *Machine) Due(which timer) bool { return m.Timers[which] <= m.Now.Mono }

// RanOut reports whether a timer has run out, which is off then.
func (m *Machine) RanOut(which timer) bool {
	if !m.Due(which) {
		return false
	}
	m.Timers[which] = Unset
	return true
}

// Until is how long it is to a Mono; negative when it has passed.
func (m *Machine) Until(at int64) core.Duration { return core.Duration(at - m.Now.Mono) }

// RequestLimit bounds a request so that three fit before the deadline.
func (m *Machine) RequestLimit(deadline int64) core.Duration {
	if deadline == Unset {
		return core.RequestLimit
	}
	return max(core.RequestFloor, min(core.RequestLimit, m.Until(deadline)/3))
}

// Backoff is the waiter's poll: first x 1.5^n, spread by a fifth either way and
// capped by the TTL, so that a short lease is not waited for in long steps.
func (m *Machine) Backoff(first core.Duration, n int) core.Duration {
	ceiling := core.PollCap
	if m.Cfg.TTL != core.TTLEndless {
		ceiling = min(core.PollCap, max(core.PollCapFloor, m.Cfg.TTL.Duration()/8))
	}
	step := first
	for i := 0; i < n && step < ceiling; i++ {
		step += step / 2
	}
	step = min(step, ceiling)
	return min(ceiling, m.RNG.Between(step-step/5, step+step/5))
}

// RetryDelay spaces attempts that fail: backoff, but short enough that several
// more fit before the deadline, and slower at once when the store asks for it.
func (m *Machine) RetryDelay(n int, class core.Class, deadline int64) core.Duration {
	first := core.PollFirst
	if class == core.ClassThrottled {
		first = core.ThrottledFirst
	}
	delay := m.Backoff(first, n)
	if deadline == Unset || deadline <= m.Now.Mono {
		return delay // no deadline, or one that hurrying does not bring back
	}
	return max(core.RetryFloor, min(delay, m.Until(deadline)/4))
}

// Later spaces the next attempt at whatever the state is about.
func (m *Machine) Later(deadline int64) {
	m.Timers[TimerNext] = m.In(m.RetryDelay(m.Retries, m.Class, deadline))
	m.Retries++
}

// AfterBackoff is when a waiter polls next. It counts the poll.
func (m *Machine) AfterBackoff(polls *int) int64 {
	at := m.In(m.Backoff(core.PollFirst, *polls))
	CountUp(polls)
	return at
}

// CountUp counts as far as any back-off grows: machines that have waited for longer are alike.
func CountUp(n *int) {
	const steps = 12
	*n = min(*n+1, steps)
}

// Base is what machines share.
func (m *Machine) Base() *Machine { return m }
