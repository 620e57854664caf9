package host

import (
	"errors"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/machines"
)

// Engine runs the client of a Host. Every engine runs the same core and gives the same
// answers; package wasm has one that needs nothing of this process. Its methods may be
// called from any goroutine, the machine's by one at a time.
type Engine interface {
	// New makes the machine of a Config, as machines.New does. An *core.Error is the
	// Config's fault, any other the engine's.
	New(cfg core.Config) (core.Stepper, error)
	// Drop gives back what a machine takes up. It is not stepped after that.
	Drop(machine core.Stepper)
}

// Native is the Engine that calls package core as it is.
type Native struct{}

// New implements Engine.
func (Native) New(cfg core.Config) (core.Stepper, error) { return machines.New(cfg) }

// Drop implements Engine.
func (Native) Drop(core.Stepper) {}

// EngineError is behind an *Error when the engine failed, and not the store: a
// WASM guest that trapped, for one.
type EngineError struct{ Err error }

// Error is the engine's own error.
func (e *EngineError) Error() string { return "mopslock: engine: " + e.Err.Error() }

// Unwrap returns the engine's own error.
func (e *EngineError) Unwrap() error { return e.Err }

// failing is an Engine that says when it makes no machine.
type failing struct{ Engine }

// New implements Engine.
func (e failing) New(cfg core.Config) (core.Stepper, error) {
	machine, err := e.Engine.New(cfg)
	if _, breach := errors.AsType[*core.Error](err); err != nil && !breach {
		return nil, &EngineError{err}
	}
	return machine, err
}
