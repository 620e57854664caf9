//go:build !mopslock_mutations

package bridge

import "github.com/mopslock/mopslock/core"

// Each rule here is one that core/PROTOCOL.md names a mutation for: the explorer leaves it
// out, by rules_mutated.go, and finds what then goes wrong.

// believedUntil is the earlier of the deadlines of both (PROTOCOL B3).
func (p *pair) believedUntil() int64 { return min(p.held.registerAt, p.held.recordAt) }

// waitUnderVersion is how long a claim of lock.json waits for another while we hold the version: never (PROTOCOL B2).
func (l *Lease) waitUnderVersion() core.Duration { return 0 }

// attemptBy bounds the attempt at lock.json, since others wait for the version. It takes the acquire margin at least
// (PROTOCOL B2).
func (l *Lease) attemptBy() int64 {
	return l.In(l.Cfg.AcquireMargin + min(l.Cfg.TTL.Duration()/3, core.RequestLimit))
}

// isEnded reports whether a record that is in the place of ours is a late write of a tenure that the register has
// ended: its epoch is smaller (PROTOCOL B2).
func (l *Lease) isEnded(epoch core.Epoch) bool { return epoch != 0 && epoch < l.held.token }

// isStale reports whether a released record that is in the place of ours is that of the tenure whose stale record our
// claim found (PROTOCOL B3).
func (l *Lease) isStale(s *core.Observed) bool { return l.stale != "" && string(s.Holder) == l.stale }

// first is what is given back first, and then comes the other (PROTOCOL B4).
func (l *Lease) first() (first, second *half) { return &l.record, &l.register }

// isOrphan reports whether the version is to be given back after lock.json was lost (PROTOCOL B6).
func (l *Lease) isOrphan() bool { return true }
