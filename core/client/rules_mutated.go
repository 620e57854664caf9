//go:build mopslock_mutations

package client

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
	"github.com/mopslock/mopslock/core/internal/single"
	"github.com/mopslock/mopslock/core/internal/strict"
)

// NewMutant is New with a mutation in it, which the machines that it makes have too.
func NewMutant(cfg core.Config, mutation base.Mutation) (*Client, error) {
	c, err := New(cfg)
	if err == nil {
		c.Mutation = mutation
	}
	return c, err
}

func (c *Client) newMachine(cfg core.Config) (base.Reporting, error) {
	cfg.Seed = c.seed()
	if c.Has(base.TenureReused) && cfg.Machine == core.MachineLease {
		cfg.Seed = c.cfg.Seed
	}
	m, err := single.New(cfg)
	if err == nil {
		m.(interface{ Base() *base.Machine }).Base().Mutant = c.Mutant
	}
	return m, err
}

func (c *Client) inForce(s *session) string {
	if c.Has(base.SessionNotInForce) && s.unit != nil {
		return s.unit.machine.(*strict.Session).SID
	}
	return s.id
}

func (c *Client) isLeaving(s *session) bool {
	return s.state == sessionLeaving && !c.Has(base.LeavingHandedOut)
}

func (c *Client) capsBelief() bool { return !c.Has(base.BeliefPastCall) }

func (c *Client) newBelief(cl *claim, b belief) {
	if c.Has(base.FixLivesOn) {
		b.cappedAt = cl.cappedAt
	}
	cl.belief = b
}

func (c *Client) isChecking(cl *claim, u *unit) bool {
	if c.Has(base.FixLivesOn) {
		return u.IsArmed() && u.At <= cl.cappedAt
	}
	return u.machine.IsChecking()
}

func (c *Client) tellsSessionFirst() bool { return !c.Has(base.SessionToldLast) }

func (c *Client) yields() bool { return c.canStrict() && !c.Has(base.StrictUnseen) }

func (c *Client) wakesWaiters() bool { return !c.Has(base.NobodyNudged) }
