//go:build !mopslock_mutations

package semaphore

// Each rule here is one that core/PROTOCOL.md names a mutation for: the explorer leaves it
// out, by rules_mutated.go, and finds what then goes wrong.

// fits reports whether there is room for a permit where so much is held, and so much may
// be (PROTOCOL P3.1).
func (s *Semaphore) fits(a *ask, held, most uint64) bool { return held+a.weight <= most }

// isIn reports whether a permit stands in the newest value, whichever create has put it
// there (PROTOCOL P6).
func (s *Semaphore) isIn(a *ask) bool { return !a.isLimit && s.Value.Find(a.ID) >= 0 }

// landsNoMore reports that no create of ours can land any more: it has, or another process's
// stands in its place (PROTOCOL P6 and S7.4).
func (s *Semaphore) landsNoMore() bool { return s.Cur.N >= s.Open }

// mayBeIn reports whether a permit that is given up has to be taken out (PROTOCOL P6).
func (s *Semaphore) mayBeIn(a *ask) bool { return a.isSent() }

// isKept reports whether the session that a permit hangs on is in force (PROTOCOL P4).
func (s *Semaphore) isKept(a *ask) bool { return a.session == s.Session.ID && s.InForce() }

// askAnew makes of a request under a dead session one under the next: what landed of the
// old one stands there under another id (PROTOCOL P6).
func (s *Semaphore) askAnew(a *ask) { a.ID, a.weighed = s.freshID(), false }
