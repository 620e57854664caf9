// Package bench measures leases on a store: how long they take, how many a second, and what they ask of
// the store. Its leases have names of its own, and it deletes what it has written.
//
// It opens no store and prints nothing.
package bench

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
	"github.com/mopslock/mopslock/host/store"
)

// namePrefix begins the names of all leases of every bench.
const namePrefix = "mopslock-bench/"

// MaxParallel is the most workers of a bench.
const MaxParallel = 256

const (
	maxLeases    = 50_000 // of one protocol: each leaves two objects until the end
	holdShare    = 4      // a fourth of a protocol's time is for renewals, another for hand-overs
	sweepLimit   = time.Minute
	releaseLimit = 5 * time.Second           // for one lease, also when the bench is over
	heldTTL      = core.TTL(2 * time.Second) // of held leases, on stores with fine stamps
	handoverHold = 300 * time.Millisecond    // between two hand-overs
)

// Options say how to measure. Every field is needed.
type Options struct {
	Parallel int           // how many workers, at most MaxParallel
	Length   time.Duration // of one protocol
	// NewHost makes a Host on the store, and CloseHost closes it.
	NewHost   func(store.Store) (*host.Host, error)
	CloseHost func(*host.Host)
	// AtEnd returns a context for a release or the deletion, which a second signal ends.
	AtEnd func(context.Context) (context.Context, context.CancelFunc)
}

// Bench is one measurement.
type Bench struct {
	Options
	store  store.Store
	counts *countedStore
	seen   store.Store // what hosts see
	prefix string

	began bool // there may be something to delete

	mu    sync.Mutex
	state string
	now   *Result
}

// New returns a bench of the store.
func New(s store.Store, options Options) *Bench {
	b := &Bench{Options: options, store: s, prefix: namePrefix + rand.Text() + "/"}
	b.counts, b.seen = counted(s)
	return b
}

// Prefix is the prefix of all that it writes.
func (b *Bench) Prefix() string { return b.prefix }

// Run measures one protocol: it acquires and releases leases, it holds leases, and it hands leases over.
// When ctx ends, it returns what it has measured by then.
func (b *Bench) Run(ctx context.Context, protocol core.Protocol) (*Result, error) {
	h, err := b.NewHost(b.seen)
	if err != nil {
		return nil, err
	}
	defer b.CloseHost(h)
	other, err := b.NewHost(b.seen)
	if err != nil {
		return nil, err
	}
	defer b.CloseHost(other)
	r := &Result{Protocol: protocol.String()}
	b.mu.Lock()
	b.now = r
	b.mu.Unlock()
	terms := host.Terms{Protocol: protocol}
	b.began = true
	for _, each := range []*host.Host{h, other} { // what a process asks once is no cost of a lease
		l, err := each.Acquire(ctx, b.prefix+r.Protocol+"/first", &host.AcquireOptions{Terms: terms})
		if err == nil {
			err = b.release(ctx, l)
		}
		if err != nil {
			return nil, err
		}
	}
	share := b.Length / holdShare
	err = b.cycle(ctx, h, terms, b.Length-2*share, r)
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

// cycle lets parallel workers acquire and release, each a name of its own.
func (b *Bench) cycle(ctx context.Context, h *host.Host, terms host.Terms, length time.Duration, r *Result) error {
	b.say("acquiring and releasing")
	b.counts.forget()
	ctx, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	begun := time.Now()
	failures := make(chan error, b.Parallel)
	var all sync.WaitGroup
	for worker := range b.Parallel {
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

func (b *Bench) wantsMore(r *Result) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return r.Leases < maxLeases
}

// once acquires and releases. It counts a failure that may pass, and returns one that will not.
func (b *Bench) once(ctx context.Context, h *host.Host, name string, terms host.Terms, r *Result) error {
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

// release releases, also when ctx is over, but not for long: otherwise the lease expires. A second
// signal ends it.
func (b *Bench) release(ctx context.Context, l *host.Lease) error {
	ctx, stop := b.AtEnd(context.WithoutCancel(ctx))
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, releaseLimit)
	defer cancel()
	return l.Release(ctx)
}

// hold holds leases with the shortest TTL that the store allows, and measures their renewals.
func (b *Bench) hold(ctx context.Context, h *host.Host, terms host.Terms, length time.Duration, r *Result) error {
	b.say("holding")
	terms.TTL = heldTTL
	if b.store.StampUnit() >= core.CoarseStamp {
		terms.TTL = core.TTL(core.MinTTLCoarse)
	}
	held := make([]*host.Lease, b.Parallel)
	errs := make([]error, b.Parallel)
	var all sync.WaitGroup
	for n := range b.Parallel {
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
	case <-time.After(max(length, terms.TTL.Duration()/2)): // one renewal at least
	}
	b.counts.mu.Lock()
	renewed := slices.Clone(b.counts.renewed)
	b.counts.mu.Unlock()
	b.mu.Lock()
	r.Renew.took = renewed
	b.mu.Unlock()
	for _, l := range held {
		all.Go(func() { _ = b.release(ctx, l) }) // otherwise it expires
	}
	all.Wait()
	return nil
}

// handOver lets two hosts hand one lease to and fro. It measures from the beginning of a release to the
// waiter's acquire.
func (b *Bench) handOver(ctx context.Context, one, two *host.Host, terms host.Terms, length time.Duration, r *Result) error {
	b.say("handing over")
	outer := ctx
	ctx, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	name := b.prefix + r.Protocol + "/handed"
	l, err := one.Acquire(outer, name, &host.AcquireOptions{Terms: terms})
	if err != nil {
		return cutOff(outer, err)
	}
	limit, stop := context.WithTimeout(outer, length+2*core.PollCap) // of the last hand-over
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
		case <-time.After(handoverHold):
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

// cutOff returns nil for an error that is only the end of ctx.
func cutOff(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// say sets what the progress line says.
func (b *Bench) say(state string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.state = state
}

// Sweep deletes all that the bench has written. Its names are never used again, so nobody needs their
// last versions. It returns how many objects are still there, or -1 if that is unknown. A second
// signal ends it.
func (b *Bench) Sweep() int {
	if !b.began {
		return 0
	}
	b.say("cleaning up")
	ctx, stop := b.AtEnd(context.Background())
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

// Progress says how far it is.
func (b *Bench) Progress(since time.Duration) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	text := fmt.Sprintf("%v: ", since.Round(100*time.Millisecond))
	if b.now != nil {
		text += fmt.Sprintf("%s: %d leases, ", b.now.Protocol, b.now.Leases)
	}
	return text + b.state
}
