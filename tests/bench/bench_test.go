package main

import (
	"context"
	"errors"
	"os"
	"path"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
	"github.com/mopslock/mopslock/host/store"
	_ "github.com/mopslock/mopslock/host/store/local"
	"github.com/mopslock/mopslock/wasm"
)

// engine is what plays a trace: the core natively, or a guest.
type engine interface {
	make(config []byte) core.Handle
	step(dst []byte, h core.Handle, input []byte) []byte
	drop(h core.Handle)
}

type native struct{ core.Registry }

func (n *native) make(config []byte) core.Handle {
	h, _ := n.New(nil, config)
	return h
}

func (n *native) step(dst []byte, h core.Handle, input []byte) []byte { return n.Step(dst, h, input) }
func (n *native) drop(h core.Handle)                                  { n.Drop(h) }

type guest struct {
	testing.TB
	*wasm.Guest
}

func (g *guest) make(config []byte) core.Handle {
	h, _, err := g.New(nil, config)
	if err != nil {
		g.Fatal(err)
	}
	return h
}

func (g *guest) step(dst []byte, h core.Handle, input []byte) []byte {
	dst, err := g.Step(dst, h, input)
	if err != nil {
		g.Fatal(err)
	}
	return dst
}

func (g *guest) drop(h core.Handle) {
	if err := g.Drop(h); err != nil {
		g.Fatal(err)
	}
}

// play times the renewals of a trace, one step an iteration. Making the machines
// anew, and acquiring, is not timed.
func play(b *testing.B, e engine) {
	t := record()
	out := make([]byte, 0, core.MaxMessage)
	machines := make([]core.Handle, handles)
	rewind := func() int {
		for i, config := range t.configs {
			if machines[i] != 0 {
				e.drop(machines[i])
			}
			machines[i] = e.make(config)
		}
		for i, input := range t.inputs[:prelude] {
			out = e.step(out[:0], machines[t.handle(i)], input)
		}
		return prelude
	}
	i := rewind()
	b.ReportAllocs()
	for b.Loop() {
		if i == len(t.inputs) {
			b.StopTimer()
			i = rewind()
			b.StartTimer()
		}
		out = e.step(out[:0], machines[t.handle(i)], t.inputs[i])
		i++
	}
}

// BenchmarkStepNative is one step, message to message.
func BenchmarkStepNative(b *testing.B) { play(b, &native{}) }

// BenchmarkStepWASM is the same step in a guest.
func BenchmarkStepWASM(b *testing.B) {
	g, err := openEngine(b).NewGuest(context.Background())
	if err != nil {
		b.Fatal(err)
	}
	play(b, &guest{b, g})
}

func openEngine(b *testing.B) *wasm.Engine {
	e, err := wasm.Open(context.Background(), &wasm.Options{CacheDir: os.Getenv("MOPSLOCK_BENCH_CACHE")})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = e.Close(context.Background()) })
	return e
}

// BenchmarkOpenWASM is an engine from the cache of compiled modules.
func BenchmarkOpenWASM(b *testing.B) {
	openEngine(b)
	for b.Loop() {
		openEngine(b)
	}
}

// BenchmarkCompileWASM is an engine without one.
func BenchmarkCompileWASM(b *testing.B) {
	for b.Loop() {
		e, err := wasm.Open(context.Background(), &wasm.Options{CacheDir: b.TempDir()})
		if err != nil {
			b.Fatal(err)
		}
		_ = e.Close(context.Background())
	}
}

// BenchmarkGuestWASM is one more guest of an engine.
func BenchmarkGuestWASM(b *testing.B) {
	e := openEngine(b)
	for b.Loop() {
		g, err := e.NewGuest(context.Background())
		if err != nil {
			b.Fatal(err)
		}
		_ = g.Close(context.Background())
	}
}

// BenchmarkMapAndCopy is what no core can do without: find the handle, copy the
// same bytes in and out.
func BenchmarkMapAndCopy(b *testing.B) {
	t := record()
	type scratch struct{ in, out [1024]byte }
	machines := map[int64]*scratch{}
	for i := range int64(handles) {
		machines[i] = &scratch{}
	}
	var out [1024]byte
	i := prelude
	for b.Loop() {
		if i == len(t.inputs) {
			i = prelude
		}
		m := machines[int64(t.handle(i))]
		copy(m.in[:], t.inputs[i])
		copy(out[:], m.out[:len(t.answers[i])])
		i++
	}
}

// BenchmarkAcquireRelease is an uncontended acquire and release on a local
// directory, the claim's wait included.
func BenchmarkAcquireRelease(b *testing.B) {
	ctx := context.Background()
	h, err := host.Open(ctx, "file://"+b.TempDir(), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer h.Close(ctx)
	for b.Loop() {
		lease, err := h.Acquire(ctx, "bench", nil)
		if err != nil {
			b.Fatal(err)
		}
		if err := lease.Release(ctx); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkBareVerbs are the same verbs on the same store, and the same wait of
// twice what the read and the write took: get, put, wait, get, put for the
// acquire, get and put for the release.
func BenchmarkBareVerbs(b *testing.B) {
	ctx := context.Background()
	s, err := store.Open(ctx, "file://"+b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	key := path.Join("bench", core.LockFile)
	body := make([]byte, 400)
	getPut := func() {
		if _, err := s.Get(ctx, key); err != nil && !errors.Is(err, store.ErrAbsent) {
			b.Fatal(err)
		}
		if err := s.Put(ctx, key, body, core.LockFileType); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		begin := time.Now()
		getPut()
		<-time.After(2 * time.Since(begin))
		getPut()
		getPut()
	}
}
