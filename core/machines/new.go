// Package machines makes the machines that package core describes: New for a Go program,
// and Registry for callers that speak in messages, which are the WASM guest and the C
// library. The packages below core/internal have the rules that a machine follows; this
// one has none.
package machines

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/buckets"
	"github.com/mopslock/mopslock/core/client"
	"github.com/mopslock/mopslock/core/internal/base"
	"github.com/mopslock/mopslock/core/internal/single"
)

// New makes the machine that the Config describes. It validates the whole
// Config; the error lists every bad field.
func New(cfg core.Config) (m core.Machine, err error) {
	switch {
	case cfg.Machine == core.MachineClient:
		m, err = client.New(cfg)
	case cfg.Machine == core.MachineBuckets && cfg.Protocol == core.ProtocolStrict:
		m, err = buckets.New(cfg)
	default:
		return single.New(cfg)
	}
	if err != nil {
		return nil, err // m may be a nil pointer in an interface, which is not nil
	}
	return m, nil
}

// NewStepper is New for a caller that only steps the machine: a machine that can rest does
// so by itself.
func NewStepper(cfg core.Config) (core.Stepper, error) {
	m, err := New(cfg)
	if err != nil {
		return nil, err
	}
	if l, ok := m.(base.Reporting); ok && cfg.Machine == core.MachineLease && cfg.OnSession {
		return &sleeper{lease: l}, nil
	}
	return m, nil
}

// sleeper is a lease that rests whenever it can.
type sleeper struct {
	lease   base.Reporting // nil: it rests
	resting base.Parked
}

// Step implements Stepper.
func (s *sleeper) Step(now core.Instant, ev core.Event) ([]core.Action, error) {
	l := s.lease
	if l == nil {
		l = s.resting.Unpark()
	}
	actions, err := l.Step(now, ev)
	s.lease, s.resting = l, l.Park()
	if s.resting != nil {
		s.lease = nil
	}
	return actions, err
}

// Idle implements Stepper. A lease that rests waits for its session.
func (s *sleeper) Idle() bool { return s.lease != nil && s.lease.Idle() }

// String implements Stepper.
func (s *sleeper) String() string {
	if s.lease == nil {
		return core.LeaseHeld.String()
	}
	return s.lease.String()
}
