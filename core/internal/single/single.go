// Package single makes the machines of one claim each: what package machines hands out,
// and what package client is made of.
package single

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
	"github.com/mopslock/mopslock/core/internal/bridge"
	"github.com/mopslock/mopslock/core/internal/invocation"
	"github.com/mopslock/mopslock/core/internal/lastwriter"
	"github.com/mopslock/mopslock/core/internal/semaphore"
	"github.com/mopslock/mopslock/core/internal/strict"
)

// New makes the machine that the Config describes. It validates the whole
// Config; the error lists every bad field.
func New(cfg core.Config) (m base.Reporting, err error) {
	isStrict := cfg.Protocol == core.ProtocolStrict
	switch {
	case cfg.Machine == core.MachineLease && isStrict:
		m, err = strict.NewLease(cfg)
	case cfg.Machine == core.MachineCompanion && isStrict:
		m, err = strict.NewCompanion(cfg)
	case cfg.Machine == core.MachineLease && cfg.Protocol == core.ProtocolBridge:
		m, err = bridge.NewLease(cfg)
	case cfg.Machine == core.MachineCompanion && cfg.Protocol == core.ProtocolBridge:
		m, err = bridge.NewCompanion(cfg)
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
	default: // no such machine; the error also lists all other bad fields
		_, err = base.New(cfg)
	}
	if err != nil {
		return nil, err // m may be a nil pointer in an interface, which is not nil
	}
	return m, nil
}
