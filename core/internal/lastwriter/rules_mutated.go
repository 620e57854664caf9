//go:build mopslock_mutations

package lastwriter

import "github.com/mopslock/mopslock/core/internal/base"

func (l *Lease) isContended() bool { return !l.Has(base.HurriedClaim) && (l.Told != 0 || l.Races > 0) }

func (l *Lease) lookFirst() {
	if l.Has(base.LookedBefore) && l.Epoch != 0 { // another machine has looked, before the version was made
		l.startAttempt(l.Now.Mono)
		return
	}
	l.read(l.ReadLimit())
}
