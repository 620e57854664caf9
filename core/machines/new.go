// Package machines makes the machines that package core describes: New for a Go program,
// and Registry for callers that speak in messages, which are the WASM guest and the C
// library. The packages below core/internal have the rules that a machine follows; this
// one has none.
package machines

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/buckets"
	"github.com/mopslock/mopslock/core/client"
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
