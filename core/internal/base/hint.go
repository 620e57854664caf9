package base

import "github.com/mopslock/mopslock/core"

// A hint is the host's word (changed) that something has changed in the store, of which
// a directory tells. The holder of a lease asks then what is above it, so that a break is
// heard at once and not by the next renewal. It asks beside its renewals, which
// neither count nor wait for it: no answer to it moves a deadline.

// Hint notes one. From quiet on another may be followed.
func (m *Machine) Hint(quiet int64) {
	if m.Timers[TimerExtra] == Unset {
		m.Timers[TimerExtra] = max(m.Now.Mono, quiet)
	}
}

// IsHintDue reports whether it is time to ask. A request in flight is waited for, since
// another would abandon it.
func (m *Machine) IsHintDue(quiet *int64) bool {
	if !m.Due(TimerExtra) {
		return false
	}
	*quiet = m.In(core.HintEach)
	if m.Flight.ID != 0 {
		m.Timers[TimerExtra] = *quiet
		return false
	}
	m.Timers[TimerExtra] = Unset
	return true
}
