package wasm

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/machines"
)

// abiVersion is the version of the exports that this file calls; guest/main.go has them.
const abiVersion = 1

// room is for a message in the guest's buffer, and for one byte more: the core
// refuses a message of that length.
const room = core.MaxMessage + 1

// A guest does not collect garbage by itself: it has neither time nor a second
// thread. Configs, dropped machines and errors make garbage there. These constants
// estimate how much, in bytes. The time of a collection grows with what is live, so
// the host asks for one when there may be as much garbage as live memory.
const (
	gcLeast     = 1 << 20
	perMachine  = 4 << 10 // more than a machine has
	perStep     = 1 << 7  // most steps make none; an error makes as much as a few of these
	perConfig   = 2       // times its length: its texts, and the errors about them
	wasmPage    = 1 << 16
	stderrBytes = 1 << 10
)

// Guest is one running copy of the module: a machines.Registry, by messages. Its
// methods may be called from any goroutine, and answer one after the other.
//
// A guest that traps, or whose bytes are no answer, has failed: from then on every
// call returns the same error, and its machines are gone. Only a bug, or a module
// other than ours, can cause that.
type Guest struct {
	mu     sync.Mutex
	module api.Module
	buffer uint32 // its address: 8 bytes of a handle, then a message

	new, step, drop, gc api.Function

	stack   [2]uint64
	garbage int // bytes at most, since the last collection
	live    int // machines
	failed  error
	stderr  tail
}

// NewGuest starts a guest of its own, beside the one that serves New. It ends
// with its Close or the Engine's.
func (e *Engine) NewGuest(ctx context.Context) (*Guest, error) {
	g := &Guest{}
	config := wazero.NewModuleConfig().WithName("").WithStartFunctions("_initialize").WithStderr(&g.stderr)
	var err error
	if g.module, err = e.runtime.InstantiateModule(ctx, e.compiled, config); err != nil {
		return nil, fmt.Errorf("mopslock: wasm: the module cannot be started: %w", err)
	}
	if err := g.bind(); err != nil {
		return nil, errors.Join(fmt.Errorf("mopslock: wasm: this is not a module of mopslock: %w", err), g.module.Close(ctx))
	}
	return g, nil
}

// signature is what an export takes and returns.
type signature struct {
	name            string
	params, results []api.ValueType
}

// bind finds the exports, and asks the guest for its version and its buffer.
func (g *Guest) bind() error {
	const i32, i64 = api.ValueTypeI32, api.ValueTypeI64
	var version, buffer api.Function
	for _, export := range []struct {
		signature
		to *api.Function
	}{
		{signature{"abi_version", nil, []api.ValueType{i32}}, &version},
		{signature{"buffer", nil, []api.ValueType{i32}}, &buffer},
		{signature{"new", []api.ValueType{i32}, []api.ValueType{i64}}, &g.new},
		{signature{"step", []api.ValueType{i64, i32}, []api.ValueType{i64}}, &g.step},
		{signature{"drop", []api.ValueType{i64}, []api.ValueType{i32}}, &g.drop},
		{signature{"gc", nil, nil}, &g.gc},
	} {
		f := g.module.ExportedFunction(export.name)
		if f == nil || string(f.Definition().ParamTypes()) != string(export.params) ||
			string(f.Definition().ResultTypes()) != string(export.results) {
			return fmt.Errorf("it does not export %s, or with other types", export.name)
		}
		*export.to = f
	}
	if g.module.ExportedMemoryDefinitions()["memory"] == nil {
		return errors.New("it exports no memory")
	}
	if v, err := g.call(version); err != nil || uint32(v) != abiVersion {
		return errors.Join(fmt.Errorf("its exports are of version %d, not %d", uint32(v), abiVersion), err)
	}
	at, err := g.call(buffer)
	if err != nil {
		return err
	}
	g.buffer = uint32(at)
	_, err = g.space()
	return err
}

// space is the guest's buffer. It moves when the guest's memory grows, so it
// is asked for before every use.
func (g *Guest) space() ([]byte, error) {
	space, ok := g.module.Memory().Read(g.buffer, 8+room)
	if !ok {
		return nil, g.failing(errors.New("its buffer is not in its memory"))
	}
	return space, nil
}

// New makes the machine of a config and appends its answer to dst, as
// machines.Registry does. The error is the guest's own.
func (g *Guest) New(dst, config []byte) (machines.Handle, []byte, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	n, err := g.put(config)
	if err != nil {
		return 0, nil, err
	}
	if err := g.litter(perMachine + perConfig*n); err != nil {
		return 0, nil, err
	}
	g.stack[0] = uint64(n)
	dst, err = g.answered(g.new, dst)
	if err != nil {
		return 0, nil, err
	}
	space, err := g.space()
	if err != nil {
		return 0, nil, err
	}
	h := machines.Handle(binary.LittleEndian.Uint64(space))
	if h != 0 {
		g.live++
	}
	return h, dst, nil
}

// Step gives an input to a machine and appends its answer to dst, as
// machines.Registry does. The error is the guest's own; dst is lost with it.
func (g *Guest) Step(dst []byte, h machines.Handle, input []byte) ([]byte, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	n, err := g.put(input)
	if err != nil {
		return nil, err
	}
	return g.stepped(dst, h, n)
}

// stepEvent is Step with the input written where the guest reads it.
func (g *Guest) stepEvent(dst []byte, h machines.Handle, now core.Instant, ev *core.Event) ([]byte, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.failed != nil {
		return nil, g.failed
	}
	space, err := g.space()
	if err != nil {
		return nil, err
	}
	// An input that grows out of the room is longer than a message. The core refuses
	// it for its length alone, so what the room holds then does not matter.
	input := core.AppendInput(space[8:8], now, ev)
	return g.stepped(dst, h, min(len(input), room))
}

func (g *Guest) stepped(dst []byte, h machines.Handle, n int) ([]byte, error) {
	if err := g.litter(perStep); err != nil {
		return nil, err
	}
	g.stack = [2]uint64{uint64(h), uint64(n)}
	return g.answered(g.step, dst)
}

// put writes a message to the guest's buffer and returns how long it is.
func (g *Guest) put(message []byte) (int, error) {
	if g.failed != nil {
		return 0, g.failed
	}
	space, err := g.space()
	if err != nil {
		return 0, err
	}
	return copy(space[8:], message), nil
}

// Drop forgets a machine. The error is the guest's own.
func (g *Guest) Drop(h machines.Handle) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.failed != nil {
		return g.failed
	}
	g.stack[0] = uint64(h)
	was, err := g.run(g.drop)
	g.live -= int(was & 1)
	return err
}

// GC collects the guest's garbage. New and Step also do so now and then.
func (g *Guest) GC() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.failed != nil {
		return g.failed
	}
	return g.collect()
}

// litter notes garbage to come, and collects when there is enough.
func (g *Guest) litter(bytes int) error {
	if g.garbage += bytes; g.garbage < max(gcLeast, g.live*perMachine) {
		return nil
	}
	return g.collect()
}

func (g *Guest) collect() error {
	g.garbage = 0
	_, err := g.run(g.gc)
	return err
}

// Memory is how many bytes of memory the guest has. They never become fewer.
func (g *Guest) Memory() uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	pages, _ := g.module.Memory().Grow(0) // Size overflows when the memory is as large as it can be
	return uint64(pages) * wasmPage
}

// Close ends the guest. Its machines are gone.
func (g *Guest) Close(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.failed == nil {
		g.failed = errClosed
	}
	return g.module.Close(ctx)
}

// answered calls an export that answers with a message's place, and copies the
// message out: the next call writes another one there.
func (g *Guest) answered(f api.Function, dst []byte) ([]byte, error) {
	where, err := g.run(f)
	if err != nil {
		return nil, err
	}
	message, ok := g.module.Memory().Read(uint32(where>>32), uint32(where))
	if !ok || len(message) > core.MaxMessage {
		return nil, g.failing(errors.New("its answer is not in its memory"))
	}
	return append(dst, message...), nil
}

// run calls f with what is on the stack.
func (g *Guest) run(f api.Function) (uint64, error) {
	// Not a caller's ctx: one that can end costs 14 µs a call, and a step takes two.
	if err := f.CallWithStack(context.Background(), g.stack[:]); err != nil {
		return 0, g.failing(err)
	}
	return g.stack[0], nil
}

// call runs an export that takes nothing.
func (g *Guest) call(f api.Function) (uint64, error) {
	g.stack = [2]uint64{}
	return g.run(f)
}

func (g *Guest) failure() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.failed
}

// fail makes every later call return the error that it returns.
func (g *Guest) fail(err error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.failing(err)
}

func (g *Guest) failing(err error) error {
	if g.failed == nil {
		g.failed = fmt.Errorf("mopslock: wasm: the guest failed, and its machines are lost: %w%s", err, g.stderr.text())
	}
	return g.failed
}

// tail keeps the beginning of what the guest wrote when it died: Go's panic.
type tail struct{ b []byte }

// Write implements io.Writer.
func (t *tail) Write(b []byte) (int, error) {
	if left := stderrBytes - len(t.b); left > 0 {
		t.b = append(t.b, b[:min(left, len(b))]...)
	}
	return len(b), nil
}

// text is its first line.
func (t *tail) text() string {
	line, _, _ := strings.Cut(string(t.b), "\n")
	if line == "" {
		return ""
	}
	return " (" + strings.ToValidUTF8(line, "?") + ")"
}
