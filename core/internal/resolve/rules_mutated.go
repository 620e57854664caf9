//go:build mopslock_mutations

package resolve

import "github.com/mopslock/mopslock/core/internal/base"

func (p *Prober) countsLost() bool { return p.Has(base.LostCreateBelieved) }

func (p *Prober) goesAside() bool { return !p.Has(base.ThrottledRecordAwaited) }
