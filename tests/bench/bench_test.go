package main

import (
	"context"
	"errors"
	"path"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
	"github.com/mopslock/mopslock/host/store"
	_ "github.com/mopslock/mopslock/host/store/local"
)

// handles is how many leases are stepped in rotation, so that none stays in the
// processor's nearest cache by itself.
const handles = 64

// renewing is a held lease and a host that does nothing but what a renewal
// asks: woke → get → its answer → put → its answer.
type renewing struct {
	registry core.Registry
	handle   core.Handle
	now      core.Instant
	wake     int64
	event    core.Event
	body     []byte
	in, out  []byte // the messages of the latest step
	buf      core.AnswerBuffer
}

func newRenewing(tb testing.TB, seed byte) *renewing {
	r := &renewing{
		now:   core.Instant{Mono: 1, Wall: 1_760_000_000_000_000_000},
		event: core.Event{Kind: core.EventAcquire, Wait: core.Forever},
	}
	r.handle, _ = r.registry.New(nil, core.AppendConfig(nil, &core.Config{
		Machine: core.MachineLease, Protocol: core.ProtocolLastWriter, Name: "bench/renewal", TTL: time.Minute,
		Seed: [16]byte{seed, 1}, Host: "bench.example.org", PID: "4711", TID: 4711,
	}))
	for range 100 { // well into the renewals
		r.step(tb)
	}
	return r
}

// step is one message in, one step, one message out, and the host's part.
func (r *renewing) step(tb testing.TB) {
	r.in = core.AppendInput(r.in[:0], r.now, &r.event)
	r.out = r.registry.Step(r.out[:0], r.handle, r.in)
	var answer core.Answer
	if err := core.DecodeAnswer(r.out, &r.buf, &answer); err != nil || answer.Err != nil {
		tb.Fatal(err, answer.Err)
	}
	r.next(answer.Actions)
}

// next is what a host with a perfect store answers.
func (r *renewing) next(actions []core.Action) {
	r.event = core.Event{Kind: core.EventWoke}
	for i := range actions {
		switch a := &actions[i]; a.Kind {
		case core.ActionGet:
			r.event = core.Event{Kind: core.EventAnswer, Request: a.Request, Outcome: core.OutcomeYes, Body: r.body}
			if len(r.body) == 0 {
				r.event.Outcome = core.OutcomeNo
			}
		case core.ActionPut:
			r.body = append(r.body[:0], a.Body...)
			r.event = core.Event{Kind: core.EventAnswer, Request: a.Request, Outcome: core.OutcomeYes}
		case core.ActionWake:
			r.wake = a.At
		}
	}
	passed := int64(time.Millisecond)
	if r.event.Kind == core.EventWoke {
		passed = max(passed, r.wake-r.now.Mono)
	}
	r.now.Mono += passed
	r.now.Wall += passed
}

// BenchmarkRenewStep is one step of a renewal, a third of the whole.
func BenchmarkRenewStep(b *testing.B) {
	leases := map[int64]*renewing{}
	for i := range int64(handles) {
		leases[i] = newRenewing(b, byte(i))
	}
	b.ReportAllocs()
	i := int64(0)
	for b.Loop() {
		leases[i%handles].step(b)
		i++
	}
}

// BenchmarkMapAndCopy is what no core can do without: find the handle, copy the
// same bytes in and out.
func BenchmarkMapAndCopy(b *testing.B) {
	var sizes [3][2]int // of the messages of a renewal's three steps
	r := newRenewing(b, 0)
	for i := range sizes {
		r.step(b)
		sizes[i] = [2]int{len(r.in), len(r.out)}
	}
	type scratch struct{ in, out [4096]byte }
	leases := map[int64]*scratch{}
	for i := range int64(handles) {
		leases[i] = &scratch{}
	}
	var in, out [4096]byte
	i := int64(0)
	for b.Loop() {
		size := sizes[i%3]
		lease := leases[i%handles]
		copy(lease.in[:size[0]], in[:])
		copy(out[:], lease.out[:size[1]])
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
