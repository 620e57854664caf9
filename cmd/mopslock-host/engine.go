package main

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/exit"
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
	"github.com/mopslock/mopslock/wasm"
)

// engine is what --engine chose: the core as it is linked here, or as WASM. It
// is opened by the first machine or while a store is first asked, and not by
// commands that do neither.
type engine struct {
	name  string
	users int // Hosts and others that may still step a machine
	// module is what wasm runs; nil is the one that comes with package wasm, and
	// anything else a test's.
	module []byte

	once  sync.Once
	inner host.Engine
	shut  func(context.Context) error
	err   error
}

const (
	engineNative = "native"
	engineWASM   = "wasm"
)

// open is the one place where host and WASM meet.
func (e *engine) open() {
	if e.name != engineWASM {
		e.inner = host.Native{}
		return
	}
	// Most of what it allocates it keeps: to collect meanwhile is an eighth of the time.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	guest, err := wasm.Open(context.Background(), &wasm.Options{Module: e.module})
	if err != nil {
		e.err = err
		return
	}
	e.inner, e.shut = guest, guest.Close
}

// begin opens WASM beside the first requests to a store, which take as long if it
// is far. close waits for it.
func (e *engine) begin() {
	if e.name == engineWASM {
		go e.once.Do(e.open)
	}
}

// New implements host.Engine.
func (e *engine) New(cfg core.Config) (core.Stepper, error) {
	e.once.Do(e.open)
	if e.err != nil {
		return nil, fmt.Errorf("--engine %s cannot be opened: %w; --engine native needs nothing", e.name, e.err)
	}
	return e.inner.New(cfg)
}

// Drop implements host.Engine.
func (e *engine) Drop(machine core.Stepper) { e.inner.Drop(machine) }

// close is for when nobody steps a machine any more.
func (e *engine) close(ctx context.Context) {
	e.once.Do(func() {}) // not opened any more
	if e.shut != nil {
		_ = e.shut(ctx) // nothing is kept in it
	}
}

// core is what runs the machines: the engine, behind the recorder if there is one.
func (a *app) core() host.Engine {
	if a.trace != nil {
		return a.trace
	}
	return &a.engine
}

// interruptible does what may hang on a pipe or a mount. It is left behind when
// a signal comes first, and ends with the process.
func (a *app) interruptible(ctx context.Context, do func() error) error {
	done := make(chan error, 1)
	a.engine.users++
	go func() { done <- do() }()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case err := <-done:
		a.engine.users--
		return err
	}
}

// endEngine ends the recording and the engine, at the end of everything. What
// goes wrong with the recording is told, and changes nothing.
func (a *app) endEngine() {
	ctx, cancel := context.WithTimeout(context.Background(), tracePatience)
	defer cancel()
	if a.trace != nil {
		err := a.trace.Close(ctx)
		if ctx.Err() == nil { // else somebody still writes, and the process ends
			if closeErr := a.trace.file.file.Close(); err == nil {
				err = closeErr
			}
		}
		if err != nil {
			a.console.Printf("--trace: %s", exit.Text(err))
		}
	}
	if a.engine.users == 0 { // else somebody who was left behind may still step a machine
		a.engine.close(ctx)
	}
}
