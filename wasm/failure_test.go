package wasm

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
	_ "github.com/mopslock/mopslock/host/store/mem"
)

var _ host.Engine = (*Engine)(nil)

// Opcodes of the modules below, which do what ours never does.
const (
	opUnreachable = "\x00"
	opI32         = "\x41" // then a signed LEB128
	opI64         = "\x42"
	opEnd         = "\x0b"
)

// fakeModule is a module with our exports and these bodies. Its memory has n
// pages of 64 KiB.
func fakeModule(pages byte, version, newBody, stepBody string) []byte {
	section := func(id byte, content string) string { return string(id) + leb(len(content)) + content }
	exports, bodies := "", ""
	for i, f := range []struct{ name, body string }{
		{"abi_version", opI32 + version},
		{"buffer", opI32 + "\x08"},
		{"new", newBody},
		{"step", stepBody},
		{"drop", opI32 + "\x00"},
		{"gc", ""},
	} {
		exports += leb(len(f.name)) + f.name + "\x00" + string(rune(i))
		body := "\x00" + f.body + opEnd // no locals
		bodies += leb(len(body)) + body
	}
	return []byte("\x00asm\x01\x00\x00\x00" +
		section(1, "\x05"+ // types
			"\x60\x00\x01\x7f"+ // () i32
			"\x60\x01\x7f\x01\x7e"+ // (i32) i64
			"\x60\x02\x7e\x7f\x01\x7e"+ // (i64 i32) i64
			"\x60\x01\x7e\x01\x7f"+ // (i64) i32
			"\x60\x00\x00") + // ()
		section(3, "\x06\x00\x00\x01\x02\x03\x04") + // functions
		section(5, "\x01\x00"+string(rune(pages))) + // memory
		section(7, "\x07"+exports+"\x06memory\x02\x00") +
		section(10, "\x06"+bodies))
}

// withoutMemory takes the memory and its export away.
func withoutMemory(module []byte) []byte {
	s := strings.Replace(string(module), "\x05\x03\x01\x00\x02", "", 1)
	s = strings.Replace(s, "\x06memory\x02\x00", "", 1)
	at := strings.Index(s, "\x0babi_version") - 2 // the section's length, before the count
	return []byte(s[:at] + string([]byte{s[at] - 9, 6}) + s[at+2:])
}

func leb(n int) string {
	if n < 0x80 {
		return string([]byte{byte(n)})
	}
	return string([]byte{byte(n) | 0x80}) + leb(n>>7)
}

// place is address << 32 | length as what an i64 constant is made of.
func place(address, length uint64) string {
	v, out := int64(address<<32|length), ""
	for {
		b := byte(v & 0x7f)
		v >>= 7
		if v == 0 && b&0x40 == 0 {
			return out + string([]byte{b})
		}
		out += string([]byte{b | 0x80})
	}
}

func openModule(t *testing.T, module []byte) (*Engine, error) {
	t.Helper()
	e, err := Open(context.Background(), &Options{Module: module, CacheDir: shared})
	if err == nil {
		t.Cleanup(func() { _ = e.Close(context.Background()) })
	}
	return e, err
}

// TestTrap: a guest that traps is an error, the same for all its machines, and
// the next New gets a fresh guest. A machine of the failed guest keeps its last
// known state, for a host to act on.
func TestTrap(t *testing.T) {
	for name, answer := range map[string]string{
		"new traps":                   opUnreachable,
		"answers outside of memory":   opI64 + place(0x7fff_0000, 9),
		"answers past the end":        opI64 + place(0x3_fff0, 0x20),
		"answers more than a message": opI64 + place(8, 0x2_0000),
		"says what is no answer":      opI64 + place(8, 4),
	} {
		t.Run(name, func(t *testing.T) {
			e, err := openModule(t, fakeModule(4, "\x01", answer, opUnreachable))
			if err != nil {
				t.Fatal(err)
			}
			if g, err := e.NewGuest(context.Background()); err != nil {
				t.Fatal(err)
			} else if _, _, err := g.New(nil, nil); err == nil && name != "says what is no answer" { // a guest does not read answers
				t.Error("a guest alone takes it")
			}
			first := e.guest
			_, err = e.New(leaseConfig(1))
			if err == nil || errors.As(err, new(*core.Error)) || !strings.Contains(err.Error(), "the guest failed") {
				t.Fatal(err)
			}
			m := &machine{guest: first, answer: core.Answer{State: "held"}}
			_, _, again := first.New(nil, nil)
			_, step := first.Step(nil, 1, nil)
			_, machine := m.Step(core.Instant{}, core.Event{Kind: core.EventWoke})
			for _, other := range []error{again, step, machine, first.Drop(1), first.GC()} {
				if other == nil || other.Error() != err.Error() || m.String() != "held" {
					t.Errorf("%v, before %v; %s", other, err, m)
				}
			}
			if _, err := e.New(leaseConfig(1)); err == nil || e.guest == first {
				t.Errorf("%v; the failed guest is used again: %v", err, e.guest == first)
			}
			m.guest = e.guest
			if _, err := m.Step(core.Instant{}, core.Event{Kind: core.EventWoke}); err == nil || m.String() != "held" {
				t.Errorf("a step that traps: %v, %s", err, m)
			}
			e.Drop(m)
		})
	}
}

// TestPanicText: what Go's runtime says before it dies is in the error.
func TestPanicText(t *testing.T) {
	g := testGuest(t)
	_, _ = g.stderr.Write([]byte("panic: mopslock: core: too\xff bad\ngoroutine 1"))
	if err := g.fail(errors.New("exit 2")); !strings.HasSuffix(err.Error(), "exit 2 (panic: mopslock: core: too? bad)") {
		t.Error(err)
	}
	if n, _ := g.stderr.Write(make([]byte, 1<<20)); n != 1<<20 || len(g.stderr.b) > 1<<10 {
		t.Error("the tail grows")
	}
}

func TestOpenErrors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for want, opts := range map[string]*Options{
		"cannot be compiled": {Module: []byte("no module"), CacheDir: shared},
		"version 2":          {Module: fakeModule(2, "\x02", opUnreachable, opUnreachable), CacheDir: shared},
		"not in its memory":  {Module: fakeModule(1, "\x01", opUnreachable, opUnreachable), CacheDir: shared},
		"does not export abi_version": {
			Module: []byte("\x00asm\x01\x00\x00\x00"), CacheDir: shared,
		},
		"no memory": {
			Module: withoutMemory(fakeModule(2, "\x01", opUnreachable, opUnreachable)), CacheDir: shared,
		},
		"cache of compiled modules": {CacheDir: file},
	} {
		if _, err := Open(context.Background(), opts); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestCache: a compiled module that was cut off is made again, for the next Open. A bad
// module is not the cache's fault.
func TestCache(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "[1]+") // no pattern
	good := fakeModule(2, "\x01", opUnreachable, opUnreachable)
	open := func(module []byte, want bool) {
		t.Helper()
		e, err := Open(context.Background(), &Options{Module: module, CacheDir: dir})
		if (err == nil) != want {
			t.Fatal(err)
		}
		if err == nil && e.Close(context.Background()) != nil {
			t.Error("it does not close")
		}
	}
	files := func() (sizes map[string]int64) {
		sizes = map[string]int64{}
		_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, _ error) error {
			if info, err := d.Info(); err == nil && !d.IsDir() {
				sizes[path] = info.Size()
			}
			return nil
		})
		return sizes
	}
	open(good, true)
	whole := files()
	if len(whole) != 1 {
		t.Fatalf("cached: %v", whole)
	}
	open([]byte("no module"), false)
	open(fakeModule(2, "\x02", opUnreachable, opUnreachable), false)
	for path, size := range whole {
		if files()[path] != size {
			t.Errorf("left: %v", files())
		}
		if err := os.Truncate(path, size/2); err != nil {
			t.Fatal(err)
		}
	}
	open(good, true) // opens without the cache, and deletes what is in it
	if left := files(); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	open(good, true)
	if again := files(); !maps.Equal(again, whole) {
		t.Errorf("%v, before %v", again, whole)
	}
}

// TestHostSurvivesTrap: the Host gives up the failed guest's lease with an error that says
// why. The next lease is a fresh guest's, on the same Host, and the failed guest is closed.
func TestHostSurvivesTrap(t *testing.T) {
	ctx := context.Background()
	e := testEngine(t)
	h, err := host.Open(ctx, "mem://", &host.Options{Engine: e})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close(ctx)
	lease, err := h.TryAcquire(ctx, "first", nil)
	if err != nil {
		t.Fatal(err)
	}
	failed := e.guest
	_ = failed.fail(errors.New("broken by the test"))
	err = lease.Release(ctx)
	if !errors.Is(err, &host.Error{Kind: host.Lost, Reason: core.ReasonUnreachable}) || !errors.As(err, new(*host.EngineError)) ||
		!strings.Contains(err.Error(), "broken by the test") {
		t.Error(err)
	}
	next, err := h.TryAcquire(ctx, "second", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := next.Release(ctx); err != nil {
		t.Error(err)
	}
	if !failed.module.IsClosed() || e.guest.module.IsClosed() {
		t.Error("closed", failed.module.IsClosed(), e.guest.module.IsClosed())
	}
}

// TestClosed: nothing hangs and nothing panics on an engine that is closed.
func TestClosed(t *testing.T) {
	e, err := Open(context.Background(), &Options{CacheDir: shared})
	if err != nil {
		t.Fatal(err)
	}
	machine, err := e.New(leaseConfig(1))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := e.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
	if _, err := e.New(leaseConfig(1)); !errors.Is(err, errClosed) {
		t.Error(err)
	}
	if _, err := machine.Step(core.Instant{}, core.Event{Kind: core.EventAcquire}); !errors.Is(err, errClosed) {
		t.Error(err)
	}
	e.Drop(machine)
}
