// Package engine opens the engine that --engine names: the core as it is linked here, or as WASM.
//
// It does not know how long an engine is needed: its user closes it when no machine is stepped any more.
package engine

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
	"github.com/mopslock/mopslock/wasm"
)

// Engine is a host.Engine that is opened by its first machine, or by Begin. A command that needs none
// opens none.
type Engine struct {
	Name   string // native or wasm
	Module []byte // what wasm runs; nil: the module of package wasm, which only tests replace

	once       sync.Once
	inner      host.Engine
	closeInner func(context.Context) error
	err        error
}

// The names of engines.
const (
	Native = "native"
	WASM   = "wasm"
)

// open is the one place where host and WASM meet.
func (e *Engine) open() {
	if e.Name != WASM {
		e.inner = host.Native{}
		return
	}
	// It keeps most of what it allocates. Without collections it opens in an eighth less time.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	guest, err := wasm.Open(context.Background(), &wasm.Options{Module: e.Module})
	if err != nil {
		e.err = err
		return
	}
	e.inner, e.closeInner = guest, guest.Close
}

var errClosed = errors.New("it is closed")

// Begin opens WASM in the background, while the first requests go to the store. Close waits for it.
func (e *Engine) Begin() {
	if e.Name == WASM {
		go e.once.Do(e.open)
	}
}

// New implements host.Engine.
func (e *Engine) New(cfg core.Config) (core.Stepper, error) {
	e.once.Do(e.open)
	if e.err != nil {
		return nil, fmt.Errorf("--engine %s cannot be opened: %w; --engine native needs nothing", e.Name, e.err)
	}
	return e.inner.New(cfg)
}

// Drop implements host.Engine.
func (e *Engine) Drop(machine core.Stepper) { e.inner.Drop(machine) }

// Close closes the engine. Its machines cannot be stepped after that.
func (e *Engine) Close(ctx context.Context) {
	e.once.Do(func() { e.err = errClosed }) // it is not opened after this
	if e.closeInner != nil {
		_ = e.closeInner(ctx) // nothing in it is kept
	}
}
