package base

import "github.com/mopslock/mopslock/core"

// Lease is what the lease machines of both protocols share: the state, the caller's
// patience, and what the caller was told.
type Lease struct {
	Standing[core.LeaseState]
	LastTry bool // a failed attempt is the end: try once, or patience is over
	Polls   int
	Races   int
	Told    uint64 // fingerprint of what the caller was told to wait for, or 0
	Ending  Ending
	printed bool // its tenure is known from Config alone, and can only be released
}

// NewLease is a lease in state Idle.
func NewLease(cfg *core.Config, edges []Edge[core.LeaseState]) Lease {
	return Lease{Standing: At(core.LeaseIdle, edges), printed: cfg.Holder != ""}
}

// Accepts is the contract's table: which commands have a meaning in which state.
func (l *Lease) Accepts(kind core.EventKind) bool {
	switch kind {
	case core.EventAcquire:
		return l.State == core.LeaseIdle && !l.printed
	case core.EventRelease:
		return l.State != core.LeaseIdle || l.printed
	case core.EventCancel:
		return l.State != core.LeaseIdle
	}
	return IsNews(kind)
}

// Await sets the bounds of an acquire: how long the caller waits for the lease, and how
// long for the store's first answer.
func (l *Lease) Await(m *Machine, wait core.Duration) {
	l.LastTry = wait == 0
	within := core.FirstAnswerLimit
	if wait > 0 {
		m.Timers[TimerLimit] = m.In(wait)
		within = min(within, wait)
	}
	m.Reach.Expect(m.Now.Mono, within)
	l.setReach(m)
}

// Reached notes what an answer on the way to the lease says of the store.
func (l *Lease) Reached(m *Machine, ev *core.Event, f Flight) {
	if l.State < core.LeaseHeld || l.State == core.LeaseReleasing && l.Ending == EndRaced {
		m.Reach.Note(ev, f, m.Now.Mono)
		l.setReach(m)
	}
}

// ClearWrites says that what became of our writes is known, though they were not answered.
func (l *Lease) ClearWrites(m *Machine) {
	m.Reach.ClearWrites()
	l.setReach(m)
}

func (l *Lease) setReach(m *Machine) { m.Timers[TimerReach] = m.Reach.By(l.LastTry) }

// Ends is why a request that has failed was the last of this acquire, or none.
func (l *Lease) Ends(m *Machine, d Direction) core.Reason {
	return m.Reach.Ends(d, m.Now.Mono, l.LastTry)
}

// Unreached is why the acquire ends when TimerReach has run out.
func (l *Lease) Unreached(m *Machine) core.Reason {
	m.Timers[TimerReach] = Unset
	return m.Reach.Why(m.Now.Mono, l.LastTry)
}

// IsLooking reports whether nothing of ours can be in the store yet.
func (l *Lease) IsLooking() bool {
	return l.State == core.LeaseObserving || l.State == core.LeaseWaiting
}

// OutOfPatience ends a wait, and reports whether there is one. An attempt that is under
// way runs to its end, which is bounded; it is then the last.
func (l *Lease) OutOfPatience(m *Machine) bool {
	m.Timers[TimerLimit] = Unset
	l.LastTry = true
	l.setReach(m)
	return l.IsLooking()
}

// WaitEnded is the reason to refuse when the caller waits no longer. Held is what the last
// answer has shown.
func (l *Lease) WaitEnded(m *Machine) core.Reason {
	switch {
	case !m.Reach.HasServed(Reads):
		return m.Reach.Reason(Reads)
	case l.Told != 0 && !m.Reach.IsFailing():
		return core.ReasonHeld
	}
	return core.ReasonLimit
}

// Unanswered is the reason to refuse after a read that failed. There is none while there is
// patience, to read again later.
func (l *Lease) Unanswered(m *Machine) core.Reason {
	if reason := l.Ends(m, Reads); reason != core.ReasonNone {
		return reason
	}
	m.Later(Unset)
	return core.ReasonNone
}

// ReadLimit bounds a read that no lease depends on. Until the store has answered one
// the whole silence is bounded, so one read must not outlast it.
func (m *Machine) ReadLimit() core.Duration {
	if of := &m.Reach.of[Reads]; of.silent && !of.served {
		return max(core.RequestFloor, min(core.RequestLimit, m.Until(of.by)))
	}
	return core.RequestLimit
}

// Refused tells the caller that it gets nothing, and what was seen.
func (m *Machine) Refused(reason core.Reason, seen *core.Observed) {
	a := m.Emit(core.ActionRefused)
	a.Reason = reason
	switch reason {
	case core.ReasonUnreachable, core.ReasonUnusable, core.ReasonLimit:
		a.Class = m.Reach.Class()
	}
	if reason != core.ReasonCancelled {
		a.Observed = shown(seen)
	}
}

// Lost tells the caller that it holds nothing any more, and of a loss that was read, what
// was seen.
func (m *Machine) Lost(reason core.Reason, seen *core.Observed) {
	a := m.Emit(core.ActionLost)
	a.Reason = reason
	if reason < core.ReasonUnreachable {
		a.Observed = shown(seen)
	}
}

// shown is what was seen, or nil where nothing was.
func shown(seen *core.Observed) *core.Observed {
	if seen == nil || seen.State == 0 {
		return nil
	}
	return seen
}
