//go:build mopslock_bugs

package machines

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
)

// NewMutant is New with the mutation of that name in it; "" is none.
func NewMutant(cfg core.Config, mutation string) (core.Machine, error) {
	m, err := New(cfg)
	if err != nil || mutation == "" {
		return m, err
	}
	for _, bug := range base.Bugs() {
		if bug.String() == mutation {
			m.(interface{ Base() *base.Machine }).Base().On = bug
			return m, nil
		}
	}
	panic("mopslock: core: no such mutation: " + mutation)
}

// Mutations are the names of all.
func Mutations() (names []string) {
	for _, bug := range base.Bugs() {
		names = append(names, bug.String())
	}
	return names
}
