//go:build cgo && !mopslock_core

package main

import (
	"context"
	"sync"

	"github.com/mopslock/mopslock/host"
	"github.com/mopslock/mopslock/wasm"
)

// guest is never closed, since the next host would have to compile it again.
var guest = engine{open: func() (host.Engine, error) { return wasm.Open(context.Background(), nil) }}

// engine is opened by the first caller that asks for it. No caller's timeout ends
// that: it takes longer than some callers wait, and later callers also want it.
type engine struct {
	open func() (host.Engine, error)

	mu      sync.Mutex
	attempt *attempt // under way, or successful; nil before the first one and after a failure
}

// attempt opens the engine once.
type attempt struct {
	ended  chan struct{} // closed when the other fields are set
	engine host.Engine
	err    error
}

// get waits for the engine, or for the end of ctx.
func (e *engine) get(ctx context.Context) (host.Engine, error) {
	a := e.latest()
	select {
	case <-a.ended:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if a.err != nil {
		return nil, &host.EngineError{Err: a.err}
	}
	return a.engine, nil
}

// latest is the attempt that serves every caller now.
func (e *engine) latest() *attempt {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.attempt != nil {
		return e.attempt
	}
	a := &attempt{ended: make(chan struct{})}
	e.attempt = a
	go func() {
		a.engine, a.err = e.open()
		if a.err != nil {
			e.mu.Lock()
			e.attempt = nil
			e.mu.Unlock()
		}
		close(a.ended)
	}()
	return a
}
