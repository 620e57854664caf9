//go:build unix

package main

import (
	"context"
	"errors"
	"os"
	"path"
	"slices"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/machines"
	"github.com/mopslock/mopslock/host"
	"github.com/mopslock/mopslock/host/store"
	_ "github.com/mopslock/mopslock/host/store/local"
	"github.com/mopslock/mopslock/wasm"
)

// engine is what plays a trace: the core natively, or a guest.
type engine struct {
	make func(dst, config []byte) (machines.Handle, []byte, error)
	step func(dst []byte, h machines.Handle, input []byte) ([]byte, error)
	drop func(h machines.Handle) error
}

func native() engine {
	r := &machines.Registry{}
	return engine{
		func(dst, config []byte) (machines.Handle, []byte, error) {
			h, dst := r.New(dst, config)
			return h, dst, nil
		},
		func(dst []byte, h machines.Handle, input []byte) ([]byte, error) { return r.Step(dst, h, input), nil },
		func(h machines.Handle) error {
			r.Drop(h)
			return nil
		},
	}
}

// play times the renewals of a trace, one step an iteration. Making the machines
// anew, and acquiring, is not timed.
func play(b *testing.B, e engine) {
	p := newPlayer(e)
	i := p.rewind()
	b.ReportAllocs()
	for b.Loop() {
		if i == len(p.inputs) {
			b.StopTimer()
			i = p.rewind()
			b.StartTimer()
		}
		p.step(i)
		i++
	}
}

// player steps an engine's machines through a trace.
type player struct {
	*trace

	engine   engine
	machines []machines.Handle
	out      []byte
}

func newPlayer(e engine) *player {
	return &player{trace: record(), engine: e, machines: make([]machines.Handle, handles), out: make([]byte, 0, core.MaxMessage)}
}

// rewind makes the machines anew, and has them acquire. It returns the index of their next step.
func (p *player) rewind() int {
	for i, config := range p.configs {
		if p.machines[i] != 0 {
			must(p.engine.drop(p.machines[i]))
		}
		var err error
		p.machines[i], _, err = p.engine.make(nil, config)
		must(err)
	}
	for i := range prelude {
		p.step(i)
	}
	return prelude
}

func (p *player) step(i int) {
	var err error
	p.out, err = p.engine.step(p.out[:0], p.machines[p.handle(i)], p.inputs[i])
	must(err)
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// BenchmarkStepBeside is a native step, and what no core can do without, in turns so
// short that the machine is equally busy for both: the medians of both.
func BenchmarkStepBeside(b *testing.B) {
	const turn = 16 * handles // a trace is a whole number of turns
	p := newPlayer(native())
	bare := newCopier(p.trace)
	var took [2][]float64
	for b.Loop() {
		i := p.rewind()
		for i < len(p.inputs) {
			begin, from := time.Now(), i
			for ; i < from+turn; i++ {
				p.step(i)
			}
			middle := time.Now()
			for j := from; j < i; j++ {
				bare.copy(j)
			}
			end := time.Now()
			took[0] = append(took[0], float64(middle.Sub(begin))/turn)
			took[1] = append(took[1], float64(end.Sub(middle))/turn)
		}
	}
	for which, name := range []string{"ns-ours", "ns-bare"} {
		slices.Sort(took[which])
		b.ReportMetric(took[which][len(took[which])/2], name)
	}
}

// BenchmarkStepNative is one step, message to message.
func BenchmarkStepNative(b *testing.B) { play(b, native()) }

// BenchmarkStepWASM is the same step in a guest.
func BenchmarkStepWASM(b *testing.B) {
	g, err := openEngine(b).NewGuest(context.Background())
	if err != nil {
		b.Fatal(err)
	}
	play(b, engine{g.New, g.Step, g.Drop})
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

// BenchmarkCompileWASM is an engine without a cache.
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
	c := newCopier(record())
	i := prelude
	for b.Loop() {
		if i == len(c.inputs) {
			i = prelude
		}
		c.copy(i)
		i++
	}
}

type copier struct {
	*trace

	machines map[int64]*scratch
	out      [1024]byte
}

type scratch struct{ in, out [1024]byte }

func newCopier(t *trace) *copier {
	c := &copier{trace: t, machines: map[int64]*scratch{}}
	for i := range int64(handles) {
		c.machines[i] = &scratch{}
	}
	return c
}

func (c *copier) copy(i int) {
	m := c.machines[int64(c.handle(i))]
	copy(m.in[:], c.inputs[i])
	copy(c.out[:], m.out[:len(c.answers[i])])
}

// BenchmarkAcquireRelease is an uncontended acquire and release under lastwriter on a
// local directory, the claim's wait included.
func BenchmarkAcquireRelease(b *testing.B) {
	ctx := context.Background()
	h, err := host.Open(ctx, "file://"+b.TempDir(), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer h.Close(ctx)
	opts := &host.AcquireOptions{Terms: host.Terms{Protocol: core.ProtocolLastWriter}}
	for b.Loop() {
		lease, err := h.Acquire(ctx, "bench", opts)
		if err != nil {
			b.Fatal(err)
		}
		if err := lease.Release(ctx); err != nil {
			b.Fatal(err)
		}
	}
}

// spin waits without a timer: Go's timers may come a millisecond late.
func spin(d time.Duration) {
	for begin := time.Now(); time.Since(begin) < d; {
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
		spin(2 * time.Since(begin))
		getPut()
		getPut()
	}
}
