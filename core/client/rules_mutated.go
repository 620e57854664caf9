//go:build mopslock_mutations

package client

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
)

// NewMutant is New with a mutation in it.
func NewMutant(cfg core.Config, mutation base.Mutation) (*Client, error) {
	c, err := New(cfg)
	if err == nil {
		c.Mutation = mutation
	}
	return c, err
}

func (c *Client) fixes() bool { return !c.Has(base.BeliefPastCall) }

func (c *Client) tellsSessionFirst() bool { return !c.Has(base.SessionToldLast) }

func (c *Client) nudges() bool { return !c.Has(base.NobodyNudged) }
