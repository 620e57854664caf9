//go:build mopslock_mutations

package client

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
	"github.com/mopslock/mopslock/core/internal/single"
	"github.com/mopslock/mopslock/core/internal/strict"
)

type rules struct{ base.Mutant }

func (r rules) newMachine(cfg core.Config, fresh, own [16]byte) (base.Reporting, error) {
	cfg.Seed = fresh
	if r.Has(base.TenureReused) && cfg.Machine == core.MachineLease {
		cfg.Seed = own
	}
	m, err := single.New(cfg)
	if err == nil {
		m.(interface{ Base() *base.Machine }).Base().Mutant = r.Mutant
	}
	return m, err
}

func (r rules) inForce(id string, m base.Reporting) string {
	if r.Has(base.SessionNotInForce) && m != nil {
		return m.(*strict.Session).SID
	}
	return id
}

func (r rules) isLeaving(leaves bool) bool { return leaves && !r.Has(base.LeavingHandedOut) }

func (r rules) capsBelief() bool { return !r.Has(base.BeliefPastCall) }

func (r rules) livesOn(cappedAt int64) int64 {
	if r.Has(base.FixLivesOn) {
		return cappedAt
	}
	return 0
}

func (r rules) isChecking(m base.Reporting, wakesByCap bool) bool {
	if r.Has(base.FixLivesOn) {
		return wakesByCap
	}
	return m.IsChecking()
}

func (r rules) tellsSessionFirst() bool { return !r.Has(base.SessionToldLast) }

func (r rules) wakesWaiters() bool { return !r.Has(base.NobodyNudged) }
