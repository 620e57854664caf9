package core

// A hint is the host's word (changed) that something has changed in the store, of which
// a directory tells. Who holds a lease asks then what is above it, so that a break is
// heard at once and not by the next renewal. It asks beside its renewals, which
// neither count nor wait for it: no answer to it moves a deadline.

// hint notes one. From quiet on another may be heeded.
func (m *machine) hint(quiet int64) {
	if m.timers[timerLook] == unset {
		m.timers[timerLook] = max(m.now.Mono, quiet)
	}
}

// heedsHint reports whether it is time to ask. A request in flight is waited for, since
// another would abandon it.
func (m *machine) heedsHint(quiet *int64) bool {
	if !m.due(timerLook) {
		return false
	}
	*quiet = m.in(HintEach)
	if m.flight.id != 0 {
		m.timers[timerLook] = *quiet
		return false
	}
	m.timers[timerLook] = unset
	return true
}
