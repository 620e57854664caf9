package base

import "github.com/mopslock/mopslock/core"

// Companion is what the companion machines of both protocols share: the state, and the
// patience of a first joining.
type Companion struct {
	Standing[core.CompanionState]
	Rejoin bool  // it was joined before: nothing but Lost or leave ends it now
	joinBy int64 // Mono: unreadable so long, it cannot maintain
}

// NewCompanion is a companion in state Idle.
func NewCompanion(edges []Edge[core.CompanionState]) Companion {
	return Companion{Standing: At(core.CompanionIdle, edges)}
}

// Accepts is the contract's table for commands.
func (c *Companion) Accepts(kind core.EventKind) bool {
	switch kind {
	case core.EventAccompany:
		return c.State == core.CompanionIdle
	case core.EventLeave:
		return c.State != core.CompanionIdle
	}
	return IsNews(kind)
}

// Become moves along an edge of the table.
func (c *Companion) Become(m *Machine, to core.CompanionState) {
	c.Move(m, to)
	if to == core.CompanionLeaving {
		m.Timers[TimerDeadline] = Unset
	}
}

// Accompany sets the bound of a first joining.
func (c *Companion) Accompany(m *Machine) { c.joinBy = m.In(m.Patience()) }

// Patience is how long a machine tries what only the other owners' TTL bounds.
func (m *Machine) Patience() core.Duration {
	if m.Cfg.TTL == core.TTLEndless {
		return core.StrictTTL
	}
	return m.Cfg.TTL.Duration()
}

// JoinLimit bounds a request of joining.
func (m *Machine) JoinLimit() core.Duration { return min(core.RequestLimit, m.Patience()/3) }

// JoinBy is until when joining is tried: forever by a companion that was joined before.
func (c *Companion) JoinBy() int64 {
	if c.Rejoin {
		return Unset
	}
	return c.joinBy
}

// Reached notes what an answer on the way to a first joining says of the store.
func (c *Companion) Reached(m *Machine, ev *core.Event, f Flight) {
	if !c.Rejoin {
		m.Reach.Note(ev, f, m.Now.Mono)
	}
}

// IsTooLate reports whether a first joining has taken too long, or can never be.
func (c *Companion) IsTooLate(m *Machine) bool {
	return !c.Rejoin && (m.Now.Mono >= c.joinBy || m.Reach.IsHopeless())
}

// CannotMaintain ends a first joining. Later it is only bad news: another owner may yet
// write the tenure.
func (c *Companion) CannotMaintain(m *Machine, reason core.Reason) {
	if c.Rejoin {
		m.Later(Unset)
		return
	}
	c.Become(m, core.CompanionRefused)
	a := m.Emit(core.ActionCannotMaintain)
	a.Reason = reason
	if reason == core.ReasonUnreadable {
		a.Class = m.Class
	}
}

// LoseContact stops believing, says so once, and joins again.
func (c *Companion) LoseContact(m *Machine) {
	m.Timers[TimerDeadline] = Unset
	m.Abandon()
	m.Retries = 0
	c.Become(m, core.CompanionJoining)
	m.Emit(core.ActionContactLost)
}

// Left ends it at its own wish.
func (c *Companion) Left(m *Machine) {
	c.Become(m, core.CompanionLeft)
	m.Emit(core.ActionLeft)
}
