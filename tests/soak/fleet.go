//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
)

// plan is what a soak does.
type plan struct {
	length, every, ttl     time.Duration
	leases, alone, waiters int
	churn                  float64 // leases given back and taken again a second
}

const (
	crowd    = 4  // waiters on each name that is waited for
	callers  = 64 // that acquire at once, in the beginning
	turn     = 500 * time.Millisecond
	pauseFor = time.Second // from giving a name that has waiters to asking for it again
	lateTick = 100 * time.Millisecond

	closeLimit = 2 * time.Minute
)

// fleet is one process full of leases. One Host keeps them, another waits for some of
// them: it hears of a release as another process does, by the directory's events.
//
//	keeper    0 ... with waiters ... | ... on the session, without waiters ... | ... alone
//	waiting   four waiters a name; after its turn a waiter moves on to the next name
//
// The leases that stand alone, and the last one on the session, are never given back:
// the time that they have left tells how late their renewals are.
type fleet struct {
	plan
	keeper, waiting *host.Host
	counts          *sdk.ManualReader
	crowded         int // names that are waited for

	mu   sync.Mutex
	held []*host.Lease // nil: given back, and not taken again yet

	turns, lost            atomic.Int64
	lateSession, lateAlone atomic.Int64 // ns, the most since the last sample
	failed                 chan error
	all                    sync.WaitGroup
	before                 done // at the sample before
}

// done is what was done so far.
type done struct {
	at, turns, processor float64
	requests             map[string]float64 // by verb
}

func newFleet(ctx context.Context, url string, p plan) (*fleet, error) {
	f := &fleet{
		plan: p, counts: sdk.NewManualReader(), crowded: min(p.waiters/crowd, p.leases/2),
		held: make([]*host.Lease, p.leases), failed: make(chan error, 1),
	}
	opts := &host.Options{Meter: sdk.NewMeterProvider(sdk.WithReader(f.counts)), Memory: "-"}
	var err error
	if f.keeper, err = host.Open(ctx, url, opts); err != nil {
		return nil, err
	}
	if f.waiting, err = host.Open(ctx, url, opts); err != nil {
		return nil, errors.Join(err, f.keeper.Close(ctx))
	}
	return f, nil
}

// close releases what is held. Its caller has told all goroutines to end.
func (f *fleet) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeLimit)
	defer cancel()
	f.all.Wait()
	return errors.Join(f.waiting.Close(ctx), f.keeper.Close(ctx))
}

func (f *fleet) name(i int) string { return fmt.Sprintf("soak/%05d", i) }

func (f *fleet) isAlone(i int) bool { return i >= f.leases-f.alone }

func (f *fleet) terms(i int) *host.AcquireOptions {
	return &host.AcquireOptions{Terms: host.Terms{Protocol: core.ProtocolStrict, TTL: core.TTL(f.ttl), Session: !f.isAlone(i)}}
}

// fill acquires everything.
func (f *fleet) fill(ctx context.Context) error {
	var next atomic.Int64
	for range callers {
		f.all.Go(func() {
			for i := int(next.Add(1)) - 1; i < f.leases && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				f.take(ctx, i)
			}
		})
	}
	f.all.Wait()
	select {
	case err := <-f.failed:
		return err
	default:
		return ctx.Err()
	}
}

// fail ends the soak; the first error says why.
func (f *fleet) fail(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	select {
	case f.failed <- err:
	default:
	}
}

func (f *fleet) take(ctx context.Context, i int) {
	lease, err := f.keeper.Acquire(ctx, f.name(i), f.terms(i))
	if err != nil {
		f.fail(ctx, fmt.Errorf("acquire %s: %w", f.name(i), err))
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held[i] = lease
}

// give releases a lease, unless it is given back already.
func (f *fleet) give(ctx context.Context, i int) bool {
	f.mu.Lock()
	lease := f.held[i]
	f.held[i] = nil
	f.mu.Unlock()
	if lease == nil {
		return false
	}
	if err := lease.Release(ctx); err != nil {
		f.count(ctx, err)
		return false
	}
	return true
}

// count counts a loss; anything else that goes wrong ends the soak.
func (f *fleet) count(ctx context.Context, err error) {
	if errors.Is(err, &host.Error{Kind: host.Lost}) {
		f.lost.Add(1)
		return
	}
	f.fail(ctx, err)
}

// begin starts the waiters, the churn and the measuring of late renewals.
func (f *fleet) begin(ctx context.Context) {
	for w := range f.waiters {
		if f.crowded > 0 {
			f.all.Go(func() { f.wait(ctx, w%f.crowded) })
		}
	}
	f.all.Go(func() { f.turnOver(ctx) })
	f.all.Go(func() { f.watchLateness(ctx) })
}

// wait takes turn after turn, each on the next name.
func (f *fleet) wait(ctx context.Context, i int) {
	for ; ctx.Err() == nil; i = (i + 1) % f.crowded {
		lease, err := f.waiting.Acquire(ctx, f.name(i), f.terms(i))
		if err != nil {
			f.fail(ctx, fmt.Errorf("wait for %s: %w", f.name(i), err))
			return
		}
		f.turns.Add(1)
		rest(ctx, turn)
		if err := lease.Release(ctx); err != nil {
			f.count(ctx, err)
		}
	}
}

// turnOver gives leases back and takes them again: in turns one that has waiters and one
// that has none. There is at most one caller a lease.
func (f *fleet) turnOver(ctx context.Context) {
	tick := time.NewTicker(time.Duration(float64(time.Second) / f.churn))
	defer tick.Stop()
	steady := f.leases - f.alone - 1 - f.crowded
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		switch {
		case n%2 == 0 && f.crowded > 0:
			i := n / 2 % f.crowded
			f.all.Go(func() {
				if f.give(ctx, i) {
					rest(ctx, pauseFor)
					f.take(ctx, i)
				}
			})
		case steady > 0:
			i := f.crowded + n/2%steady
			f.all.Go(func() {
				if f.give(ctx, i) {
					f.take(ctx, i)
				}
			})
		}
	}
}

// rest waits for a while.
func rest(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// watchLateness looks ten times a second how much time each lease has left. A renewal is
// due a third of the TTL after the one before was sent: the time that is missing beyond
// that third is how late it is.
//
//	sent             due            deadline
//	|----- TTL/3 -----|-- late --|     |        left = deadline - now
//	|------------ TTL - margin --------|
func (f *fleet) watchLateness(ctx context.Context) {
	span := f.ttl - f.ttl/core.MarginShare
	for ; ctx.Err() == nil; rest(ctx, lateTick) {
		f.mu.Lock()
		last := slices.Clone(f.held[f.leases-f.alone-1:])
		f.mu.Unlock()
		for i, lease := range last {
			if lease == nil {
				continue
			}
			to := &f.lateAlone
			if i == 0 {
				to = &f.lateSession
			}
			to.Store(max(to.Load(), int64(span-f.ttl/3-lease.Left())))
		}
	}
}

// sample is the state now, and what was done since the last sample.
func (f *fleet) sample(at float64) sample {
	values := map[string]float64{
		qLateSession: float64(f.lateSession.Swap(0)) / 1e6, qLateAlone: float64(f.lateAlone.Swap(0)) / 1e6,
	}
	process(values)
	held := 0
	f.mu.Lock()
	for i, lease := range f.held {
		switch {
		case lease == nil:
		case lease.Err() != nil:
			f.lost.Add(1)
			f.held[i] = nil
		default:
			held++
		}
	}
	f.mu.Unlock()
	values[qHeld], values[qLost] = float64(held), float64(f.lost.Load())
	now := done{at, float64(f.turns.Load()), processor(), f.requests()}
	if gone := at - f.before.at; f.before.requests != nil {
		values[qTurns] = (now.turns - f.before.turns) / gone
		values[qProcessor] = 100 * (now.processor - f.before.processor) / gone
		for _, verb := range verbs {
			values[verb] = (now.requests[verb] - f.before.requests[verb]) / gone
		}
	}
	f.before = now
	return sample{at, values}
}

// requests counts all requests so far, by verb.
func (f *fleet) requests() map[string]float64 {
	by := map[string]float64{}
	var all metricdata.ResourceMetrics
	if err := f.counts.Collect(context.Background(), &all); err != nil {
		return by
	}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			sum, ok := m.Data.(metricdata.Sum[int64])
			if !ok || m.Name != "mopslock.requests" {
				continue
			}
			for _, point := range sum.DataPoints {
				verb, _ := point.Attributes.Value("verb")
				by[verb.AsString()] += float64(point.Value)
			}
		}
	}
	return by
}
