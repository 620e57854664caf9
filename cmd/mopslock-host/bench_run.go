package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
	"github.com/mopslock/mopslock/host/doctor"
	"github.com/mopslock/mopslock/host/store"
)

// benchPrefix begins the names of all leases of benches.
const benchPrefix = "mopslock-bench/"

// Of a bench.
const (
	maxBenchLeases = 50_000 // of one protocol: each leaves two objects until the end
	maxParallel    = 256
	holdShare      = 4 // a fourth of a protocol's time is for renewals, and one for hand-overs
	sweepLimit     = time.Minute
	releaseLimit   = 5 * time.Second        // of one lease, of a bench that is over or not
	heldTTL        = 2 * time.Second        // of leases that are held, on stores with fine stamps
	benchHold      = 300 * time.Millisecond // between two hand-overs
)

// bench is one run of the command.
type bench struct {
	app      *app
	store    store.Store
	counts   *countedStore
	seen     store.Store // what hosts see
	prefix   string
	parallel int
	length   time.Duration // of one protocol

	began bool // there may be something to delete

	mu    sync.Mutex
	state string
	now   *benchResult
}

// benchResult is what one protocol came to.
type benchResult struct {
	latest time.Time // lease that was counted; what hung after it is no part of the rate

	Protocol string         `json:"protocol"`
	Leases   int            `json:"leases"`
	PerS     float64        `json:"leases_per_s"`
	Acquire  timing         `json:"acquire"`
	Renew    timing         `json:"renew"`
	Release  timing         `json:"release"`
	Handover timing         `json:"hand_over"`
	Requests map[string]int `json:"requests"`
	// USD is what a thousand of the leases that were acquired and released cost in
	// requests, at S3's list prices.
	USD    float64 `json:"usd_per_1000_leases"`
	Failed int     `json:"failed"`
}

// timing is of how many, and how long they took.
type timing struct {
	took []time.Duration

	Count int     `json:"count"`
	P50   float64 `json:"p50_ms"`
	P90   float64 `json:"p90_ms"`
	P99   float64 `json:"p99_ms"`
}

func (t *timing) settle() {
	slices.Sort(t.took)
	of := func(percent int) float64 {
		return math.Round(float64(doctor.Quantile(t.took, percent))/float64(time.Microsecond)) / 1e3
	}
	t.Count, t.P50, t.P90, t.P99 = len(t.took), of(50), of(90), of(99)
}

func newBench(a *app, s store.Store, parallel int, length time.Duration) *bench {
	b := &bench{app: a, store: s, prefix: benchPrefix + rand.Text() + "/", parallel: parallel, length: length}
	b.counts, b.seen = counted(s)
	return b
}

// host is one that shares the store with others.
func (b *bench) host() (*host.Host, error) {
	h, err := host.New(b.seen, &host.Options{Logger: b.app.console.Logger(), Engine: b.app.core(), Memory: "-", InFlight: max(64, b.parallel), Clock: b.app.clock})
	if err == nil {
		b.app.engine.users++
	}
	return h, err
}

// run is one protocol's share: leases acquired and released, leases held, and leases
// that change hands. What there is when ctx ends is the result.
func (b *bench) run(ctx context.Context, protocol core.Protocol) (*benchResult, error) {
	h, err := b.host()
	if err != nil {
		return nil, err
	}
	defer b.app.close(h)
	other, err := b.host()
	if err != nil {
		return nil, err
	}
	defer b.app.close(other)
	r := &benchResult{Protocol: protocol.String()}
	b.mu.Lock()
	b.now = r
	b.mu.Unlock()
	terms := host.Terms{Protocol: protocol}
	for _, each := range []*host.Host{h, other} { // what every process asks once is not what a lease costs
		if _, err := each.Resolve(ctx, b.prefix+"first", protocol); err != nil {
			return nil, err
		}
	}
	b.began = true
	share := b.length / holdShare
	err = b.cycle(ctx, h, terms, b.length-2*share, r)
	if err == nil {
		err = b.hold(ctx, h, terms, share, r)
	}
	if err == nil {
		err = b.handOver(ctx, h, other, terms, share, r)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, t := range []*timing{&r.Acquire, &r.Renew, &r.Release, &r.Handover} {
		t.settle()
	}
	return r, err
}

// cycle has parallel workers acquire and release, each a name of its own.
func (b *bench) cycle(ctx context.Context, h *host.Host, terms host.Terms, length time.Duration, r *benchResult) error {
	b.say("acquiring and releasing")
	b.counts.forget()
	ctx, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	begun := time.Now()
	failures := make(chan error, b.parallel)
	var all sync.WaitGroup
	for worker := range b.parallel {
		all.Go(func() {
			name := fmt.Sprintf("%s%s/%d", b.prefix, r.Protocol, worker)
			for ctx.Err() == nil && b.wantsMore(r) {
				if err := b.once(ctx, h, name, terms, r); err != nil {
					failures <- err
					return
				}
			}
		})
	}
	all.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.counts.mu.Lock()
	defer b.counts.mu.Unlock()
	if r.Requests = b.counts.asked; r.Leases > 0 {
		r.PerS = r.rate(begun)
		r.USD = math.Round(usdOf(r.Requests)/float64(r.Leases)*1000*1e6) / 1e6
	}
	select {
	case err := <-failures:
		return err
	default:
		return nil
	}
}

// rate is how many leases a second there were since begun, to one decimal. The time
// after the latest one, in which the store may have been silent, does not count.
func (r *benchResult) rate(begun time.Time) float64 {
	return math.Round(float64(r.Leases)/r.latest.Sub(begun).Seconds()*10) / 10
}

func (b *bench) wantsMore(r *benchResult) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return r.Leases < maxBenchLeases
}

// once acquires and releases. What fails for a moment counts; what will go on failing
// is an error.
func (b *bench) once(ctx context.Context, h *host.Host, name string, terms host.Terms, r *benchResult) error {
	begun := time.Now()
	l, err := h.Acquire(ctx, name, &host.AcquireOptions{Terms: terms})
	acquired := time.Now()
	if err == nil {
		err = b.release(ctx, l)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case err == nil:
		r.Leases, r.latest = r.Leases+1, time.Now()
		r.Acquire.took = append(r.Acquire.took, acquired.Sub(begun))
		r.Release.took = append(r.Release.took, time.Since(acquired))
		return nil
	case ctx.Err() != nil: // cut off in the middle
		return nil
	}
	r.Failed++
	if e, ok := errors.AsType[*host.Error](err); ok && e.Kind != host.Lost && e.Reason != core.ReasonRaced {
		return err
	}
	return nil
}

// release releases, also when ctx is over, but not for long: a lease that stays expires.
// A second signal ends it.
func (b *bench) release(ctx context.Context, l *host.Lease) error {
	ctx, stop := b.app.signals.ReleaseContext(context.WithoutCancel(ctx))
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, releaseLimit)
	defer cancel()
	return l.Release(ctx)
}

// hold holds leases with the shortest TTL that the store allows, and times what
// their renewals ask of it.
func (b *bench) hold(ctx context.Context, h *host.Host, terms host.Terms, length time.Duration, r *benchResult) error {
	b.say("holding")
	terms.TTL = heldTTL
	if b.store.StampUnit() >= core.CoarseStamp {
		terms.TTL = core.MinTTLCoarse
	}
	held := make([]*host.Lease, b.parallel)
	errs := make([]error, b.parallel)
	var all sync.WaitGroup
	for n := range b.parallel {
		all.Go(func() {
			name := fmt.Sprintf("%s%s/held/%d", b.prefix, r.Protocol, n)
			held[n], errs[n] = h.Acquire(ctx, name, &host.AcquireOptions{Terms: terms})
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return cutOff(ctx, err)
	}
	b.counts.forget()
	select {
	case <-ctx.Done():
	case <-time.After(max(length, terms.TTL/2)): // one renewal at least
	}
	b.counts.mu.Lock()
	renewed := slices.Clone(b.counts.renewed)
	b.counts.mu.Unlock()
	b.mu.Lock()
	r.Renew.took = renewed
	b.mu.Unlock()
	for _, l := range held {
		all.Go(func() { _ = b.release(ctx, l) }) // else it expires
	}
	all.Wait()
	return nil
}

// handOver has two hosts hand one lease to and fro: how long after a release begins
// does the one who waits have it?
func (b *bench) handOver(ctx context.Context, one, two *host.Host, terms host.Terms, length time.Duration, r *benchResult) error {
	b.say("handing over")
	outer := ctx
	ctx, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	name := b.prefix + r.Protocol + "/handed"
	l, err := one.Acquire(outer, name, &host.AcquireOptions{Terms: terms})
	if err != nil {
		return cutOff(outer, err)
	}
	limit, stop := context.WithTimeout(outer, length+2*core.PollCap) // of the last one that is waited for
	defer stop()
	for ctx.Err() == nil {
		one, two = two, one
		got := make(chan *host.Lease, 1)
		var failed error
		go func() {
			var next *host.Lease
			next, failed = one.Acquire(limit, name, &host.AcquireOptions{Terms: terms})
			got <- next
		}()
		select {
		case <-ctx.Done():
		case <-time.After(benchHold):
		}
		begun := time.Now()
		if err := b.release(outer, l); err != nil {
			stop()
			<-got
			return err
		}
		if l = <-got; l == nil {
			return cutOff(limit, failed)
		}
		b.mu.Lock()
		r.Handover.took = append(r.Handover.took, time.Since(begun))
		b.mu.Unlock()
	}
	return b.release(outer, l)
}

// cutOff is nil for an error that is only the end of ctx.
func cutOff(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// say is what it does now.
func (b *bench) say(state string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.state = state
}

// sweep deletes what the bench has left: no name of it is ever used again, so that
// nobody needs its last versions. It returns how many objects are still there, or -1
// if that cannot be told. A second signal ends it.
func (b *bench) sweep() int {
	if !b.began {
		return 0
	}
	b.say("cleaning up")
	ctx, stop := b.app.signals.ReleaseContext(context.Background())
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, sweepLimit)
	defer cancel()
	for ctx.Err() == nil {
		page, _, err := b.store.List(ctx, b.prefix, "", 0)
		if err != nil || len(page) == 0 {
			if err != nil {
				return -1
			}
			return 0
		}
		keys := make(chan string)
		var failed sync.Map
		var all sync.WaitGroup
		for range 16 {
			all.Go(func() {
				for key := range keys {
					if err := b.store.Delete(ctx, key); err != nil {
						failed.Store(key, err)
					}
				}
			})
		}
		for _, info := range page {
			keys <- info.Key
		}
		close(keys)
		all.Wait()
		count := 0
		failed.Range(func(any, any) bool { count++; return true })
		if count == len(page) {
			return count
		}
	}
	return -1
}

// usdOf is what requests cost at S3's list prices.
func usdOf(requests map[string]int) float64 {
	return doctor.USD(float64(requests["put"]+requests["create"]+requests["list"]), float64(requests["get"]+requests["exists"]))
}
