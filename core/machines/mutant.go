//go:build mopslock_mutations

package machines

import (
	"slices"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/client"
	"github.com/mopslock/mopslock/core/internal/base"
)

// NewMutant is New with the mutation of that name in it; "" is none. A client also has its own.
func NewMutant(cfg core.Config, mutation string) (core.Machine, error) {
	ofClient := cfg.Machine == core.MachineClient && slices.Contains(base.ClientMutations(), base.Mutation(mutation))
	if mutation != "" && !ofClient && !slices.Contains(Mutations(), mutation) {
		panic("mopslock: core: no such mutation: " + mutation)
	}
	if cfg.Machine == core.MachineClient {
		return client.NewMutant(cfg, base.Mutation(mutation))
	}
	m, err := New(cfg)
	if err != nil || mutation == "" {
		return m, err
	}
	m.(interface{ Base() *base.Machine }).Base().Mutation = base.Mutation(mutation)
	return m, nil
}

// Mutations are the names of all.
func Mutations() (names []string) {
	for _, mutation := range base.Mutations() {
		names = append(names, string(mutation))
	}
	return names
}
