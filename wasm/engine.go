// Package wasm runs package core as a WebAssembly module, under wazero: one file
// makes all decisions, whichever Go built the host. Its SHA-256 is published beside
// it. Engine is for host.Options; Guest speaks in messages alone.
//
// The module gets nothing from the system: no files, no environment, no arguments,
// a clock that does not tell the time and randomness that is not random. It gets
// configs and inputs, and gives answers. It does no I/O, and starts no goroutine on
// the host's side.
package wasm

import (
	"cmp"
	"context"
	_ "embed" // the module
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/machines"
)

//go:generate go run ./internal/gen -dir .

//go:embed mopslock.wasm
var module []byte

// Module is a copy of the module that comes with this package; its SHA-256 is in
// mopslock.wasm.sha256.
func Module() []byte { return append([]byte(nil), module...) }

// Options are for Open. The zero value, and nil, are good.
type Options struct {
	// Module is the module to run; nil is the one that comes with this package.
	Module []byte
	// CacheDir is where compiled modules are kept, which saves most of a second
	// at every start: a directory "wasm" below this one. No other user may write
	// there, since code that is found there is run. "" is mopslock in this user's
	// cache, or no cache where that cannot be made.
	CacheDir string
}

// Engine is the compiled module and one guest that serves every machine. It is
// a host.Engine. Its methods may be called from any goroutine; calls into the
// guest are made one after the other.
type Engine struct {
	runtime  wazero.Runtime
	compiled wazero.CompiledModule
	cache    wazero.CompilationCache

	mu     sync.Mutex
	guest  *Guest
	closed bool
}

var errClosed = errors.New("mopslock: wasm: engine is closed")

// Open compiles the module, or takes it from the cache, and starts a guest.
// ctx bounds no more than that.
func Open(ctx context.Context, opts *Options) (*Engine, error) {
	if opts == nil {
		opts = &Options{}
	}
	code := opts.Module
	if code == nil {
		code = module
	}
	dir, err := cacheDir(opts.CacheDir)
	if err != nil {
		return nil, err
	}
	if dir == "" {
		return open(ctx, code, nil)
	}
	if cache, err := wazero.NewCompilationCacheWithDir(dir); err == nil {
		if e, err := open(ctx, code, cache); err == nil {
			return e, nil
		}
	}
	// Is the module bad, or is the cache cut off or damaged? If the module works
	// without the cache, the cache is bad: delete wazero's files in it, which the
	// next Open writes again.
	e, err := open(ctx, code, nil)
	if err == nil {
		entries, _ := os.ReadDir(dir)
		for _, entry := range entries {
			if strings.HasPrefix(entry.Name(), "wazero-") {
				_ = os.RemoveAll(filepath.Join(dir, entry.Name()))
			}
		}
	}
	return e, err
}

// open starts an engine on a cache, or on nil.
func open(ctx context.Context, code []byte, cache wazero.CompilationCache) (*Engine, error) {
	e := &Engine{cache: cache}
	config := wazero.NewRuntimeConfig()
	if cache != nil {
		config = config.WithCompilationCache(cache)
	}
	e.runtime = wazero.NewRuntimeWithConfig(ctx, config)
	if err := e.start(ctx, code); err != nil {
		return nil, errors.Join(err, e.Close(ctx))
	}
	return e, nil
}

func (e *Engine) start(ctx context.Context, code []byte) error {
	if _, err := wasi_snapshot_preview1.Instantiate(ctx, e.runtime); err != nil {
		return fmt.Errorf("mopslock: wasm: %w", err)
	}
	var err error
	if e.compiled, err = e.runtime.CompileModule(ctx, code); err != nil {
		return fmt.Errorf("mopslock: wasm: the module cannot be compiled: %w", err)
	}
	e.guest, err = e.NewGuest(ctx)
	return err
}

// cacheDir makes a directory of ours below the one that was asked for, otherwise
// below this user's own; "" is none.
func cacheDir(asked string) (string, error) {
	dir := asked
	if dir == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", nil //nolint:nilerr // no home: compile every time
		}
		dir = filepath.Join(user, "mopslock")
	}
	dir = filepath.Join(dir, "wasm")
	if err := os.MkdirAll(dir, 0o700); err != nil && asked != "" {
		return "", fmt.Errorf("mopslock: wasm: cache of compiled modules: %w", err)
	} else if err != nil {
		return "", nil
	}
	return dir, nil
}

// New makes a machine. A *core.Error says what is wrong with the config; after any
// other error the next New tries with a fresh guest.
func (e *Engine) New(cfg core.Config) (core.Stepper, error) {
	guest, err := e.live()
	if err != nil {
		return nil, err
	}
	message := core.AppendConfig(nil, &cfg)
	if err := core.DecodeConfig(message, new(core.Config)); err != nil {
		// No message can carry this config, which has an enum without a name, or text
		// that is not UTF-8. machines.New refuses it and says all that is wrong.
		_, whole := machines.New(cfg)
		return nil, cmp.Or(whole, err)
	}
	m := &machine{guest: guest}
	if m.handle, m.message, err = guest.New(nil, message); err != nil {
		return nil, err
	}
	if err := m.read(); err != nil {
		return nil, err
	}
	return m, nil
}

// live is the guest that serves new machines. It replaces a guest that has failed,
// whose machines are lost.
func (e *Engine) live() (*Guest, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, errClosed
	}
	if e.guest.failure() == nil {
		return e.guest, nil
	}
	guest, err := e.NewGuest(context.Background())
	if err != nil {
		return nil, err
	}
	_ = e.guest.Close(context.Background()) // its memory is of no more use
	e.guest = guest
	return guest, nil
}

// Drop gives back a machine that New made.
func (e *Engine) Drop(s core.Stepper) {
	if m, ok := s.(*machine); ok {
		_ = m.guest.Drop(m.handle) // a guest that has failed keeps nothing
	}
}

// Close ends the engine. Machines that are stepped afterwards fail. Guests of
// NewGuest must be closed before.
func (e *Engine) Close(ctx context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil
	}
	e.closed = true
	var err error
	if e.guest != nil {
		err = e.guest.Close(ctx)
	}
	err = errors.Join(err, e.runtime.Close(ctx))
	if e.cache != nil {
		err = errors.Join(err, e.cache.Close(ctx))
	}
	return err
}
