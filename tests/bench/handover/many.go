package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
	"github.com/mopslock/mopslock/host/store"
)

// interval is how often a waiter of the default TTL polls in the end, and settled is how
// long it takes until it does.
const (
	interval = core.PollCap
	settled  = 3 * interval
)

// many has one Host hold a name for each sample, and another wait for them, on a store
// that tells of no changes: its waiters poll.
func many(ctx context.Context, j *job) (samples []time.Duration, err error) {
	holder, err := j.host(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closing(holder)) }()
	bare, err := store.Open(ctx, j.url)
	if err != nil {
		return nil, err
	}
	ledger := &ledger{until: map[string]time.Time{}}
	waiter, err := host.New(quiet{bare, ledger}, &host.Options{Memory: "-"})
	if err != nil {
		return nil, errors.Join(err, bare.Close())
	}
	defer func() { err = errors.Join(err, closing(waiter)) }()
	ledger.from = time.Now().Add(settled)
	samples, err = j.handOverAll(ctx, holder, waiter, ledger)
	if err == nil && j.asked != "" {
		err = os.WriteFile(j.asked, fmt.Appendln(nil, ledger.perInterval()), 0o600)
	}
	return samples, err
}

func (j *job) handOverAll(ctx context.Context, holder, waiter *host.Host, seen *ledger) (samples []time.Duration, err error) {
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range j.samples {
		all.Go(func() {
			name := fmt.Sprint(name, i)
			took, errOne := j.handOverOne(ctx, holder, waiter, name, seen)
			mu.Lock()
			defer mu.Unlock()
			samples, err = append(samples, took), errors.Join(err, errOne)
		})
	}
	all.Wait()
	return samples, err
}

func (j *job) handOverOne(ctx context.Context, holder, waiter *host.Host, name string, seen *ledger) (time.Duration, error) {
	l, err := j.acquire(ctx, holder, name)
	if err != nil {
		return 0, err
	}
	got, err := j.await(ctx, waiter, name)
	if err != nil {
		return 0, err
	}
	if err := j.hold(ctx); err != nil {
		return 0, err
	}
	seen.ends(name)
	next, took, err := handOver(ctx, l, got)
	if err != nil {
		return 0, err
	}
	return took, next.Release(ctx)
}

// ledger counts the waiters' requests between the instant from which they poll as seldom
// as they ever do, and the release of their leases.
type ledger struct {
	from time.Time

	mu     sync.Mutex
	until  map[string]time.Time // of a name
	waited time.Duration        // all of them
	asked  int
}

func (l *ledger) note(key string) {
	now := time.Now()
	name, _, _ := strings.Cut(key, "/")
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, over := l.until[name]; !over && now.After(l.from) {
		l.asked++
	}
}

func (l *ledger) ends(name string) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.until[name] = now
	l.waited += max(0, now.Sub(l.from))
}

func (l *ledger) perInterval() float64 {
	return float64(l.asked) * float64(interval) / float64(l.waited)
}

// quiet is a store that tells of no changes, and whose requests are counted.
type quiet struct {
	store.Store

	seen *ledger
}

// A quiet store is judged by the same clocks as the store itself.

func (q quiet) ClockSteps() (steps bool, why string) { return store.ClockSteps(q.Store) }

func (q quiet) Orderly() bool {
	place, ok := q.Store.(store.Orderly)
	return ok && place.Orderly()
}

func (q quiet) Get(ctx context.Context, key string) (store.Object, error) {
	q.seen.note(key)
	return q.Store.Get(ctx, key)
}

func (q quiet) Put(ctx context.Context, key string, body []byte, contentType string) error {
	q.seen.note(key)
	return q.Store.Put(ctx, key, body, contentType)
}

func (q quiet) Create(ctx context.Context, key string, body []byte, contentType string) error {
	q.seen.note(key)
	return q.Store.Create(ctx, key, body, contentType)
}

func (q quiet) Exists(ctx context.Context, key string) (bool, error) {
	q.seen.note(key)
	return q.Store.Exists(ctx, key)
}

func (q quiet) List(ctx context.Context, prefix, after string, limit int) ([]store.Info, bool, error) {
	q.seen.note(prefix)
	return q.Store.List(ctx, prefix, after, limit)
}

func (q quiet) Delete(ctx context.Context, key string) error {
	q.seen.note(key)
	return q.Store.Delete(ctx, key)
}
