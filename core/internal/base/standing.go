package base

import "github.com/mopslock/mopslock/core"

// state is one machine's kind of states.
type state interface {
	~uint8
	String() string
}

// Standing is the state that a machine is in, and its table of edges.
type Standing[S state] struct {
	State S
	edges []Edge[S] `state:"fixed: a table"`
}

// At is a machine in this state.
func At[S state](state S, edges []Edge[S]) Standing[S] { return Standing[S]{state, edges} }

// String implements Machine.
func (s *Standing[S]) String() string { return s.State.String() }

// Move moves along an edge of the table. The timers of what the state before was to do
// next are off then. In a state that no edge leaves, nothing is waited for any more.
func (s *Standing[S]) Move(m *Machine, to S) {
	CheckMove(s.edges, s.State, to)
	s.State = to
	m.Timers[TimerNext], m.Timers[TimerExtra] = Unset, Unset
	if s.isEnd() {
		m.Timers = NewTimers()
		m.Abandon()
	}
}

func (s *Standing[S]) isEnd() bool {
	for i := range s.edges {
		if s.edges[i].From == s.State {
			return false
		}
	}
	return true
}

// commanded is a machine whose state says which commands have a meaning.
type commanded interface {
	Accepts(kind core.EventKind) bool
	String() string
}

// Start begins a Step of self, which is built on m. It refuses what breaks the contract
// before anything is changed.
func (m *Machine) Start(self commanded, now core.Instant, ev *core.Event) error {
	if err := m.Admit(now, ev); err != nil {
		return err
	}
	if !self.Accepts(ev.Kind) {
		return ErrEvent(self.String(), ev.Kind)
	}
	m.Begin(now)
	return nil
}

// IsNews reports whether an event is no command: it always has a meaning, if only to be
// ignored.
func IsNews(kind core.EventKind) bool {
	return kind == core.EventAnswer || kind == core.EventChanged || kind == core.EventWoke
}
