package main

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"

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
