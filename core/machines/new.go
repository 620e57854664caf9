// Package machines makes the machines that package core describes: New for a Go program,
// and Registry for callers that speak in messages, which are the WASM guest and the C
// library. The packages below core/internal have the rules that a machine follows; this
// one has none.
package machines

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/buckets"
	"github.com/mopslock/mopslock/core/internal/base"
	"github.com/mopslock/mopslock/core/internal/invocation"
	"github.com/mopslock/mopslock/core/internal/lastwriter"
	"github.com/mopslock/mopslock/core/internal/semaphore"
	"github.com/mopslock/mopslock/core/internal/strict"
)

// New makes the machine that the Config describes. It validates the whole
// Config; the error lists every bad field.
func New(cfg core.Config) (m core.Machine, err error) {
	isStrict := cfg.Protocol == core.ProtocolStrict
	switch {
	case cfg.Machine == core.MachineLease && isStrict:
		m, err = strict.NewLease(cfg)
	case cfg.Machine == core.MachineCompanion && isStrict:
		m, err = strict.NewCompanion(cfg)
	case cfg.Machine == core.MachineLease:
		m, err = lastwriter.NewLease(cfg)
	case cfg.Machine == core.MachineCompanion:
		m, err = lastwriter.NewCompanion(cfg)
	case cfg.Machine == core.MachineSession && isStrict:
		m, err = strict.NewSession(cfg)
	case cfg.Machine == core.MachineRevocation && isStrict:
		m, err = strict.NewRevocation(cfg)
	case cfg.Machine == core.MachineInspection && isStrict:
		m, err = strict.NewInspection(cfg)
	case cfg.Machine == core.MachineStoreClockSample && isStrict:
		m, err = strict.NewStoreClockSample(cfg)
	case cfg.Machine == core.MachineInvocation:
		m, err = invocation.New(cfg)
	case cfg.Machine == core.MachineSemaphore && isStrict:
		m, err = semaphore.New(cfg)
	case cfg.Machine == core.MachineBuckets && isStrict:
		m, err = buckets.New(cfg)
	default: // no such machine; the error also lists all other bad fields
		_, err = base.New(cfg)
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
	if l, ok := m.(*strict.Lease); ok && l.Cfg.OnSession {
		return &sleeper{lease: l}, nil
	}
	return m, nil
}

// sleeper is a lease that rests whenever it can.
type sleeper struct {
	lease   *strict.Lease // nil: it rests
	resting *strict.Resting
}

// Step implements Stepper.
func (s *sleeper) Step(now core.Instant, ev core.Event) ([]core.Action, error) {
	l := s.lease
	if l == nil {
		l = s.resting.Wake()
	}
	actions, err := l.Step(now, ev)
	s.lease, s.resting = l, l.Rest()
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
