//go:build !mopslock_mutations

package lastwriter

// isContended reports that others want the name, for which the wait before verifying is
// longer: we have waited for another or lost a race (PROTOCOL L5.2). The explorer leaves this
// out, by rules_mutated.go, and finds what then goes wrong.
func (l *Lease) isContended() bool { return l.Told != 0 || l.Races > 0 }

// lookFirst reads the record before it is claimed. Under a version that look comes after the version was made
// (PROTOCOL B1).
func (l *Lease) lookFirst() { l.read(l.ReadLimit()) }
