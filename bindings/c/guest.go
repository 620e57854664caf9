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

// engine is opened when it is first asked for. Nothing ends that once it has
// begun, neither the end of the first caller's time nor of anybody's: it takes
// longer than some are ready to wait, and who comes later wants it as well.
type engine struct {
	open func() (host.Engine, error)

	mu  sync.Mutex
	try *try // under way, or good; nil before the first and after a bad one
}

type try struct {
	ended  chan struct{} // closed when the rest is known
	engine host.Engine
	err    error
}

// get waits for the engine, or for the end of ctx.
func (e *engine) get(ctx context.Context) (host.Engine, error) {
	t := e.latest()
	select {
	case <-t.ended:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if t.err != nil {
		return nil, &host.EngineError{Err: t.err}
	}
	return t.engine, nil
}

// latest is the try that serves everybody now.
func (e *engine) latest() *try {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.try != nil {
		return e.try
	}
	t := &try{ended: make(chan struct{})}
	e.try = t
	go func() {
		t.engine, t.err = e.open()
		if t.err != nil {
			e.mu.Lock()
			e.try = nil
			e.mu.Unlock()
		}
		close(t.ended)
	}()
	return t
}
