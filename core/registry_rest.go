//go:build !wasip1

package core

func newKept(cfg Config) (Stepper, error) { return NewStepper(cfg) }

// still is the actions without the room for more, if the machine has come to rest.
func still(m Stepper, actions []Action) []Action {
	if s, ok := m.(*sleeper); ok && s.lease == nil {
		return append([]Action(nil), actions...)
	}
	return actions
}
