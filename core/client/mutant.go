//go:build mopslock_mutations

package client

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
)

// NewMutant is New with a mutation in it, which the machines that it makes have too.
func NewMutant(cfg core.Config, mutation base.Mutation) (*Client, error) {
	c, err := New(cfg)
	if err == nil {
		c.Mutation = mutation
	}
	return c, err
}
