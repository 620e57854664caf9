package host

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/machines"
)

// Engine runs the machines of a Host. Every engine runs the same core and gives
// the same answers; package wasm has one that needs nothing of this process.
// Its methods may be called from any goroutine, the machines' by one at a time.
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
func (Native) New(cfg core.Config) (core.Stepper, error) { return machines.NewStepper(cfg) }

// Drop implements Engine.
func (Native) Drop(core.Stepper) {}

// EngineError is behind an *Error when the engine failed, and not the store: a
// WASM guest that trapped, for one.
type EngineError struct{ Err error }

// Error is the engine's own error.
func (e *EngineError) Error() string { return "mopslock: engine: " + e.Err.Error() }

// Unwrap returns the engine's own error.
func (e *EngineError) Unwrap() error { return e.Err }

// engineFailed takes the place of a machine that its engine has lost. It writes
// nothing. What is held stays good until its deadline, and is lost then: the holder
// fences itself, as it would without a store. What was about to end ends at once.
type engineFailed struct {
	companion bool
	session   bool
	acquiring bool  // it is an acquire that is not held yet, or does one thing and ends
	held      bool  // or joined, or in force
	deadline  int64 // Mono, of what is held
	stopping  bool  // it was told to stop
	silent    bool  // the companion's loss of contact was told
	idle      bool  // nothing more is to be said
	out       [1]core.Action
}

// Step implements core.Stepper.
func (s *engineFailed) Step(now core.Instant, ev core.Event) ([]core.Action, error) {
	s.stopping = s.stopping || isStop(ev.Kind)
	late := now.Mono >= s.deadline
	switch {
	case s.idle:
		return nil, nil
	case s.session && s.stopping:
		return s.end(core.Action{Kind: core.ActionLeft})
	case s.session && !s.held:
		return s.end(core.Action{Kind: core.ActionRefused, Reason: core.ReasonUnusable})
	case s.companion && s.stopping:
		return s.end(core.Action{Kind: core.ActionLeft})
	case s.companion && !s.held:
		return s.end(core.Action{Kind: core.ActionCannotMaintain, Reason: core.ReasonUnreadable})
	case s.companion && s.silent:
		return nil, nil // it would try forever, and this one cannot
	case s.companion && late:
		s.silent = true
		return s.say(core.Action{Kind: core.ActionContactLost})
	case s.acquiring && s.stopping:
		return s.end(core.Action{Kind: core.ActionRefused, Reason: core.ReasonCancelled})
	case s.acquiring:
		return s.end(core.Action{Kind: core.ActionRefused, Reason: core.ReasonUnusable})
	case !s.companion && (late || s.stopping): // unreleased, it expires
		return s.end(core.Action{Kind: core.ActionLost, Reason: core.ReasonUnreachable})
	}
	return s.say(core.Action{Kind: core.ActionWake, At: s.deadline})
}

// engineFailedState is the state of a stand-in.
const engineFailedState = "stranded"

// isStop reports whether an event asks a machine to end.
func isStop(kind core.EventKind) bool {
	return kind == core.EventRelease || kind == core.EventCancel || kind == core.EventLeave
}

func (s *engineFailed) end(last core.Action) ([]core.Action, error) {
	s.idle = true
	return s.say(last)
}

func (s *engineFailed) say(a core.Action) ([]core.Action, error) {
	s.out[0] = a
	return s.out[:], nil
}

// Idle implements core.Stepper.
func (s *engineFailed) Idle() bool { return s.idle }

// String implements core.Stepper.
func (s *engineFailed) String() string { return engineFailedState }

// engineFailedInvocation is engineFailed for an invocation. It ends with what it has,
// but waits for work that runs, which has no result only at its end.
type engineFailedInvocation struct {
	remote   bool
	held     bool // and believed until deadline, a Mono
	deadline int64
	worked   bool
	launched bool // and it has not ended
	decided  bool
	idle     bool
	out      [3]core.Action
}

// Step implements core.Stepper.
func (s *engineFailedInvocation) Step(now core.Instant, ev core.Event) ([]core.Action, error) {
	out := s.out[:0]
	if s.idle {
		return out, nil
	}
	goesOn := s.launched && ev.Kind != core.EventEnded && !isStop(ev.Kind)
	if s.held && (!goesOn || now.Mono >= s.deadline) {
		s.held = false
		a := core.Action{Kind: core.ActionLost, Reason: core.ReasonUnreachable}
		switch {
		case s.remote && goesOn:
			a = core.Action{Kind: core.ActionContactLost}
		case s.remote:
			a = core.Action{Kind: core.ActionLeft}
		}
		out = append(out, a)
	}
	switch {
	case goesOn && s.held:
		return append(out, core.Action{Kind: core.ActionWake, At: s.deadline}), nil
	case goesOn:
		return out, nil
	}
	s.idle = true
	switch {
	case s.decided:
	case isStop(ev.Kind):
		out = append(out, core.Action{Kind: core.ActionRefused, Reason: core.ReasonCancelled})
	case s.worked:
		out = append(out, core.Action{Kind: core.ActionAbsent, Reason: core.ReasonUnusable})
	case s.remote:
		out = append(out, core.Action{Kind: core.ActionCannotMaintain, Reason: core.ReasonUnreadable})
	default:
		out = append(out, core.Action{Kind: core.ActionRefused, Reason: core.ReasonUnusable})
	}
	return out, nil
}

// Idle implements core.Stepper.
func (s *engineFailedInvocation) Idle() bool { return s.idle }

// String implements core.Stepper.
func (s *engineFailedInvocation) String() string { return engineFailedState }
