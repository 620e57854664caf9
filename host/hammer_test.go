package host

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"go.opentelemetry.io/otel/metric/noop"

	"github.com/mopslock/mopslock/core"
)

// The tests named TestHammer hold what goroutines and locks can break. They run outside
// of bubbles, on every processor and the machine's own clock, and under the race detector.
// Counts bound them, and no assertion is about time.

// An anvil is a store that answers at once and tells of changes, so that no waiter polls.
type anvil struct {
	*testing.T
	backend *backend
	names   []struct{ inside, most, entered atomic.Int64 }
}

func newAnvil(t *testing.T, names int) *anvil {
	return &anvil{T: t, backend: newBackend(), names: make([]struct{ inside, most, entered atomic.Int64 }, names)}
}

// open adds a Host, which is closed in the end.
func (a *anvil) open() *Host {
	a.Helper()
	s := newFakeStore(a.backend)
	s.always(fault{})
	h, err := New(watchedStore{fakeStore: s}, &Options{Memory: "-"})
	a.ok(err)
	a.Cleanup(func() { a.ok(h.Close(background)) })
	return h
}

func (a *anvil) hosts(n int) (opened []*Host) {
	for range n {
		opened = append(opened, a.open())
	}
	return opened
}

func (a *anvil) ok(err error) {
	a.Helper()
	if err != nil {
		a.Error(err)
	}
}

// enter counts who is inside by a name, with no help of ours.
func (a *anvil) enter(n, weight int) {
	name := &a.names[n]
	now := name.inside.Add(int64(weight))
	for most := name.most.Load(); now > most && !name.most.CompareAndSwap(most, now); most = name.most.Load() {
	}
	name.entered.Add(1)
}

func (a *anvil) leave(n, weight int) { a.names[n].inside.Add(-int64(weight)) }

// strike makes a call in each of so many goroutines so many times.
func strike(goroutines, rounds int, call func(goroutine, round int)) {
	var all sync.WaitGroup
	for g := range goroutines {
		all.Go(func() {
			for round := range rounds {
				call(g, round)
			}
		})
	}
	all.Wait()
}

// Goroutines of several Hosts contend for a few names: nobody else is inside, tokens grow,
// and each comes in.
func TestHammerLeases(t *testing.T) {
	const hosts, each, names, rounds = 4, 3, 3, 3
	// A margin, since a loaded machine has no steady latencies.
	for _, terms := range []Terms{
		{Protocol: core.ProtocolLastWriter, TTL: core.TTL(5 * minute), AcquireMargin: 20 * time.Millisecond},
		{Protocol: core.ProtocolStrict, TTL: core.TTL(5 * minute)},
		{Protocol: core.ProtocolStrict, TTL: core.TTL(5 * minute), Session: true},
	} {
		t.Run(fmt.Sprint(terms.Protocol, terms.Session), func(t *testing.T) {
			a := newAnvil(t, names)
			opened := a.hosts(hosts)
			var tokens [names]atomic.Uint64
			strike(hosts*each, rounds, func(g, round int) {
				n := (g + round) % names
				l, err := opened[g%hosts].Acquire(background, strconv.Itoa(n), &AcquireOptions{Terms: terms})
				if err != nil {
					a.Error(err)
					return
				}
				a.enter(n, 1)
				if token := l.FencingToken(); terms.Protocol == core.ProtocolStrict && tokens[n].Swap(token) >= token {
					a.Errorf("token %d is not new", token)
				}
				a.ok(l.Err())
				a.leave(n, 1)
				a.ok(l.Release(background))
			})
			for n := range a.names {
				same(t, "at once", a.names[n].most.Load(), 1)
				same(t, "entered", a.names[n].entered.Load(), hosts*each*rounds/names)
			}
		})
	}
}

// Callers of several Hosts want permits of different weights: never more than there are
// are held, everybody comes in, and nothing is left.
func TestHammerPermits(t *testing.T) {
	const hosts, each, rounds = 5, 3, 3
	a := newAnvil(t, 1)
	opened := a.hosts(hosts)
	strike(hosts*each, rounds, func(g, round int) {
		weight := 1 + (g+round)%3
		permit, err := opened[g%hosts].AcquirePermit(background, "n", six, &PermitOptions{Terms: Terms{TTL: core.TTL(5 * minute)}, Weight: weight})
		if err != nil {
			a.Error(err)
			return
		}
		a.enter(0, weight)
		a.ok(permit.Err())
		a.leave(0, weight)
		a.ok(permit.Release(background))
	})
	if most := a.names[0].most.Load(); most > 6 {
		t.Errorf("%d at once", most)
	}
	same(t, "entered", a.names[0].entered.Load(), hosts*each*rounds)
	s, err := opened[0].Inspect(background, "n")
	a.ok(err)
	same(t, "left", fmt.Sprint(s.Held, len(s.Holders)), "0 0")
}

// Several Hosts are asked for the same pieces of work: each is done once, and everybody
// has its result.
func TestHammerInvocations(t *testing.T) {
	const hosts, each, names = 4, 3, 5
	for name, terms := range ways {
		t.Run(name, func(t *testing.T) {
			a := newAnvil(t, names)
			terms.TTL, terms.AcquireMargin = core.TTL(5*minute), 20*time.Millisecond
			if terms.Protocol == core.ProtocolStrict {
				terms.AcquireMargin = 0
			}
			opened := a.hosts(hosts)
			strike(hosts*each, names, func(g, round int) {
				n := (g + round) % names
				r, err := opened[g%hosts].Invoke(background, fmt.Sprint("jobs/", n), func(_ context.Context, work *Work) error {
					a.enter(n, 1)
					work.Return(Bytes([]byte(strconv.Itoa(n))))
					return nil
				}, &InvokeOptions{Terms: terms})
				if err != nil {
					a.Error(err)
					return
				}
				b, err := r.Bytes(background, 100)
				a.ok(err)
				same(t, "result", string(b), strconv.Itoa(n))
			})
			for n := range a.names {
				same(t, "runs", a.names[n].entered.Load(), 1)
			}
		})
	}
}

// A Host is closed while it is asked for everything: each caller hears of it, or has had
// what it asked for, which has ended by then. Nothing hangs.
func TestHammerClose(t *testing.T) {
	const rounds, each = 20, 3
	type ends interface {
		Done() <-chan struct{}
		Err() error
	}
	a := newAnvil(t, 1)
	outer, err := a.open().Acquire(background, "kept", &AcquireOptions{Terms: strict})
	a.ok(err)
	calls := []func(h *Host, name string) (ends, error){
		func(h *Host, name string) (ends, error) {
			return h.Acquire(background, name, &AcquireOptions{Terms: strict})
		},
		func(h *Host, name string) (ends, error) {
			return h.Acquire(background, name, &AcquireOptions{Terms: onSession})
		},
		func(h *Host, name string) (ends, error) { return h.AcquirePermit(background, name, View{2, 1}, nil) },
		func(h *Host, _ string) (ends, error) { return h.Accompany(background, outer.Handle(), nil) },
		func(h *Host, name string) (ends, error) {
			return nil, errOf(h.Invoke(background, name, func(ctx context.Context, _ *Work) error {
				<-ctx.Done()
				return context.Cause(ctx)
			}, &InvokeOptions{Terms: strict}))
		},
	}
	for round := range rounds {
		h := a.open()
		begun := make(chan struct{}, each*len(calls))
		var all sync.WaitGroup
		for n := range each * len(calls) {
			all.Go(func() {
				begun <- struct{}{}
				had, err := calls[n%len(calls)](h, fmt.Sprint(round, n%len(calls)))
				if err == nil {
					<-had.Done()
					err = had.Err()
				}
				if !errors.Is(err, ErrClosed) && !errors.Is(err, ErrReleased) {
					t.Errorf("call %d: %v", n%len(calls), err)
				}
			})
		}
		for range cap(begun) * round / rounds {
			<-begun
		}
		a.ok(h.Close(background))
		all.Wait()
	}
}

// One lease, companion and permit are asked and ended by many at once, while they renew.
func TestHammerMembers(t *testing.T) {
	a := newAnvil(t, 1)
	h, other := a.open(), a.open()
	for range 20 {
		l, err := h.Acquire(background, "n", &AcquireOptions{Terms: Terms{Protocol: core.ProtocolStrict, TTL: core.TTL(5 * minute)}})
		a.ok(err)
		c, err := other.Accompany(background, l.Handle(), nil)
		a.ok(err)
		p, err := h.AcquirePermit(background, "s", six, nil)
		a.ok(err)
		strike(8, 3, func(g, _ int) {
			_, _, _, _ = l.Left(), l.Deadline(), l.Epoch(), l.Handle()
			_, _, _, _ = c.Left(), c.Epoch(), p.Left(), p.Deadline()
			switch _, _, _ = l.Err(), c.Err(), p.Err(); g {
			case 5:
				a.ok(c.Leave(background))
			case 6:
				a.ok(p.Release(background))
			case 7:
				a.ok(c.Leave(background))
				a.ok(l.Release(background))
			}
		})
		for _, done := range []<-chan struct{}{l.Done(), c.Done(), p.Done(), l.Context().Done()} {
			<-done
		}
	}
}

// Waiters give up in the instant in which they are served: nothing stays held.
func TestHammerGivingUp(t *testing.T) {
	a := newAnvil(t, 1)
	h := a.open()
	terms := Terms{Protocol: core.ProtocolStrict, TTL: core.TTL(5 * minute)}
	for range 30 {
		held, err := h.Acquire(background, "n", &AcquireOptions{Terms: terms})
		a.ok(err)
		permit, err := h.AcquirePermit(background, "s", View{1, 1}, nil)
		a.ok(err)
		ctx, cancel := context.WithCancel(background)
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				if l, err := h.Acquire(ctx, "n", &AcquireOptions{Terms: terms}); err == nil {
					a.ok(l.Release(background))
				}
			})
			all.Go(func() {
				if p, err := h.AcquirePermit(ctx, "s", View{1, 1}, nil); err == nil {
					a.ok(p.Release(background))
				}
			})
		}
		all.Go(cancel)
		all.Go(func() { a.ok(held.Release(background)) })
		all.Go(func() { a.ok(permit.Release(background)) })
		all.Wait()
	}
	l, err := h.Acquire(background, "n", &AcquireOptions{Terms: terms})
	a.ok(err)
	a.ok(l.Release(background))
}

// Metrics are read, and the store is listed, inspected and watched, beside requests.
func TestHammerReaders(t *testing.T) {
	a := newAnvil(t, 1)
	s, reader := newFakeStore(a.backend), metric.NewManualReader()
	s.always(fault{})
	h, err := New(s, &Options{Memory: "-", Meter: metric.NewMeterProvider(metric.WithReader(reader))})
	a.ok(err)
	strike(8, 20, func(g, round int) {
		name := fmt.Sprint(g)
		switch g {
		case 0:
			var all metricdata.ResourceMetrics
			a.ok(reader.Collect(background, &all))
		case 1:
			for _, err := range h.List(background, "") {
				a.ok(err)
			}
		case 2:
			for _, err := range h.Watch(background, "3") {
				a.ok(err)
				break
			}
		default:
			l, err := h.Acquire(background, name, &AcquireOptions{Terms: []Terms{strict, onSession}[round%2]})
			a.ok(err)
			_, err = h.Inspect(background, name)
			a.ok(err)
			a.ok(l.Release(background))
		}
	})
	a.ok(h.Close(background))
}

// TestHammerEnds: leases are released, and work begins, at the moment at which the Host closes.
func TestHammerEnds(t *testing.T) {
	for range 50 {
		s := newFakeStore(newBackend())
		s.always(fault{})
		h, err := New(s, &Options{Memory: "-", Meter: noop.NewMeterProvider()})
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for i := range 10 {
			l, err := h.Acquire(t.Context(), fmt.Sprint("n/", i), &AcquireOptions{Terms: strict})
			if err != nil {
				t.Fatal(err)
			}
			work, err := h.BeginInvoke(t.Context(), fmt.Sprint("m/", i), nil)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				all.Go(func() {
					<-l.Done()
					_ = l.Release(t.Context())
				})
			}
			all.Go(func() {
				<-l.Done()
				_, _ = work.Next(t.Context())
			})
		}
		if err := h.Close(t.Context()); err != nil {
			t.Error(err)
		}
		all.Wait()
	}
}
