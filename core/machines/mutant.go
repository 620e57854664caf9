//go:build mopslock_mutations

package machines

import (
	"slices"
	"strings"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/client"
	"github.com/mopslock/mopslock/core/internal/base"
)

// NewMutant is New with the mutation of that name in it; "" is none.
func NewMutant(cfg core.Config, mutation string) (core.Machine, error) {
	if mutation != "" && !slices.ContainsFunc(base.Mutations(), func(m base.Caught) bool { return string(m.Mutation) == mutation }) {
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

// Mutations are the names of those that something catches, as base.Caught says it.
func Mutations(by string) (names []string) {
	for _, m := range base.Mutations() {
		if slices.Contains(strings.Fields(m.By), by) {
			names = append(names, string(m.Mutation))
		}
	}
	return names
}
