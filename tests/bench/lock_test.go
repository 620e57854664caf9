//go:build unix

package main

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
	"github.com/mopslock/mopslock/host/store"
)

// lockTTL has 10,000 leases renew each three seconds and a third, by beats of their own.
const lockTTL = 10 * time.Second

// timed is an Engine that measures for how long the Host's lock is held: from a step of the client to
// the last one that it asks for at once. What the Host does with the actions is not
// counted; it makes no request and calls nobody there.
type timed struct {
	host.Native
	begun time.Time // of the turn
	turns []time.Duration
}

// New implements host.Engine.
func (e *timed) New(cfg core.Config) (core.Stepper, error) {
	client, err := e.Native.New(cfg)
	return &timedClient{client, e}, err
}

type timedClient struct {
	core.Stepper
	of *timed
}

// Step implements core.Stepper.
func (c *timedClient) Step(now core.Instant, ev core.Event) ([]core.Action, error) {
	if c.of.begun.IsZero() {
		c.of.begun = time.Now()
	}
	actions, err := c.Stepper.Step(now, ev)
	if !slices.ContainsFunc(actions, func(a core.Action) bool { return a.Kind == core.ActionMore }) {
		c.of.turns = append(c.of.turns, time.Since(c.of.begun))
		c.of.begun = time.Time{}
	}
	return actions, err
}

// BenchmarkLockHeld has one process renew 10,000 leases, each by its own beat.
func BenchmarkLockHeld(b *testing.B) {
	s, err := store.Open(context.Background(), "file://"+b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	engine := &timed{}
	h, err := host.New(s, &host.Options{Engine: engine, Memory: "-"})
	if err != nil {
		b.Fatal(err)
	}
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	each(func(i int) {
		terms := host.Terms{Protocol: core.ProtocolStrict, TTL: core.TTL(lockTTL)}
		if _, err := h.Acquire(context.Background(), fmt.Sprintf("lock/%05d", i), &host.AcquireOptions{Terms: terms}); err != nil {
			b.Error(err)
		}
	})
	for b.Loop() {
		<-time.After(lockTTL)
	}
	_ = h.Close(gone) // without waiting until so many are released; then nobody steps any more
	slices.Sort(engine.turns)
	b.ReportMetric(float64(engine.turns[len(engine.turns)*999/1000]), "ns/p99.9")
}
