//go:build mopslock_mutations

package lastwriter

import "github.com/mopslock/mopslock/core/internal/base"

func (l *Lease) isContended() bool { return !l.Has(base.HurriedClaim) && (l.Told != 0 || l.Races > 0) }
