//go:build !wasip1

package machines

import "github.com/mopslock/mopslock/core"

func newKept(cfg core.Config) (core.Stepper, error) { return NewStepper(cfg) }

// still returns the actions of a machine that rests in a slice without spare capacity.
func still(m core.Stepper, actions []core.Action) []core.Action {
	if s, ok := m.(*sleeper); ok && s.lease == nil {
		return append([]core.Action(nil), actions...)
	}
	return actions
}
