//go:build !wasip1

package machines

import "github.com/mopslock/mopslock/core"

func newKept(cfg core.Config) (core.Stepper, error) { return NewStepper(cfg) }

// still is the actions without the room for more, if the machine has come to rest.
func still(m core.Stepper, actions []core.Action) []core.Action {
	if s, ok := m.(*sleeper); ok && s.lease == nil {
		return append([]core.Action(nil), actions...)
	}
	return actions
}
