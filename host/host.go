// Package host keeps leases and semaphores in a blob store. It brings clocks, randomness and
// I/O to the client of package core/client, and gives callers a Lease or a Permit.
//
// A Host owns one store and one client, which decides all that this process does there. Package
// host/internal/loop steps the client and has its requests made, by a bounded number of
// goroutines, each within the time limit that the core gave it. A lease costs memory and
// requests, but no goroutine.
//
// Invoke has a piece of work done once for all that ask, and keeps its result in the
// same store. Remote is for what a launcher starts elsewhere.
//
// What it does not do: it decides nothing that the core can decide, it retries
// nothing on its own, and it cannot stop code that never checks. Check Lease.Err, Done
// or Context before you touch what the lease guards.
package host

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/internal/clock"
	"github.com/mopslock/mopslock/host/internal/loop"
	"github.com/mopslock/mopslock/host/internal/memory"
	"github.com/mopslock/mopslock/host/internal/telemetry"
	"github.com/mopslock/mopslock/host/store"
	"github.com/mopslock/mopslock/host/store/local" // and file://
)

// Options are for Open. The zero value, and nil, are good.
type Options struct {
	// Logger gets losses, warnings and failing requests; nil is no log. A handler that blocks
	// delays callers that wait for a lease, but no renewal. The package comment lists messages
	// and keys.
	Logger *slog.Logger
	// Meter gets the metrics of the package comment; nil counts nothing, at no cost.
	// OpenTelemetry's global provider is not used unless it is given. Hosts that share
	// one are added up.
	Meter metric.MeterProvider
	// InFlight bounds the requests under way at once, at 2 or more; 0 is 64. Requests that the
	// store has left without an answer are not counted, up to as many again.
	InFlight int
	// Engine runs the core; nil is Native. It must outlive the Host.
	Engine Engine
	// Clock replaces the machine's clocks, for tests. nil: the machine's.
	Clock Clock
	// Rand replaces the source of ids and jitter, for tests. nil: crypto/rand.
	Rand io.Reader
	// PID is that of the process on whose behalf leases are held, for people; 0 is this one.
	PID int
	// Boot names this boot of this machine: strict leases of the same boot are
	// judged by its clock. "" is this machine's, on Linux and on a directory of a local
	// file system; elsewhere, and beside a Clock of your own, there is none.
	Boot string
	// Memory is the directory of what was observed of strict leases that other
	// machines hold, so that a cron job that looks twice can take a dead one.
	// "" is mopslock in the user's cache directory, "-" is none.
	Memory string
}

// Clock tells the two times that the core works with. Tests bring their own.
type Clock interface {
	// Now reads both clocks. Mono must never go back and must count the time
	// that the machine spent suspended.
	Now() core.Instant
}

const (
	defaultInFlight = 64
	// storePatience is how long a Host waits to hear what its store is like.
	storePatience = time.Second
)

// Host holds leases on one store. Its methods may be called from any goroutine.
type Host struct {
	store     store.Store
	verbs     store.Store // the same, whose requests are counted
	url       string
	clock     Clock
	log       *slog.Logger
	telemetry *telemetry.Recorder
	quiet     bool // nobody wants to be told: there is neither a log nor a meter
	memory    *memory.Memory
	loop      *loop.Loop
	heard     heard
	client    *Client // that hears what is said of no claim; nil: nobody
	terms     clientTerms
	units     question[time.Duration] // the resolution of the store's stamps

	reached    atomic.Bool
	panicked   atomic.Bool // a driver did, and that was logged
	closeStore sync.Once
}

// heard is what the client has said of no claim. It is read and written under the loop's lock.
type heard struct {
	sessions map[uint64]*session // by the client's numbers
	outage   bool                // it was told that the store fails
}

// clientTerms are those of the client's Config that a Host finds out when it is made.
type clientTerms struct {
	inFlight int
	boot     string    // whose clock may judge other processes' leases, or ""
	samples  bool      // the store's stamps are of a clock that may be relied on
	own      bool      // nothing stands between us and the store: a directory, or memory
	inMemory bool      // its calls wait for no network and no disk
	place    string    // store.Place of the URL
	rand     io.Reader // of its seeds
	// host and pid tell people who has written a record.
	host, pid string
}

// Reached reports whether the store has answered anything yet. That an object is not there
// is no such answer to exists: a store that is not there says it as well.
func (h *Host) Reached() bool { return h.reached.Load() }

// Open opens the store at a URL: file:///dir always, s3://, gs://, azblob:// and
// mem:// by importing host/store/s3, gs, azblob or mem. It makes no request
// beyond what the store's driver makes, but asks what file system a directory is on
// (statfs, within a second); a store that cannot be reached shows at the first
// Acquire. Close the Host to release what it holds.
func Open(ctx context.Context, url string, opts *Options) (*Host, error) {
	s, err := store.Open(ctx, url)
	if err != nil {
		return nil, err
	}
	absolute, err := store.Absolute(url)
	if err != nil {
		absolute = url
	}
	h, err := newHost(s, absolute, opts)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return h, nil
}

// New makes a Host on a store that is open already; Close closes it.
func New(s store.Store, opts *Options) (*Host, error) { return newHost(s, "", opts) }

func newHost(s store.Store, url string, opts *Options) (*Host, error) {
	s = store.Guard(s)
	if opts == nil {
		opts = &Options{}
	}
	if opts.InFlight < 0 || opts.InFlight == 1 {
		return nil, fmt.Errorf("mopslock: host: InFlight %d: at least 2, or 0 for %d", opts.InFlight, defaultInFlight)
	}
	h := &Host{store: s, url: url, clock: opts.Clock, log: opts.Logger}
	h.heard.sessions = map[uint64]*session{}
	h.terms = clientTerms{
		inFlight: cmp.Or(opts.InFlight, defaultInFlight), boot: opts.Boot, rand: opts.Rand, samples: h.samplesStoreClock(),
		place: store.Place(url), pid: strconv.Itoa(cmp.Or(opts.PID, os.Getpid())),
	}
	place, _ := s.(store.Orderly)
	orderly := place != nil && patiently(place.Orderly)
	kept, _ := s.(store.Memory)
	_, directory := store.Unguarded(s).(*local.Store)
	mem := strings.HasPrefix(url, "mem:")
	h.terms.own, h.terms.inMemory = directory || mem, mem || kept != nil && patiently(kept.InMemory)
	name, _ := os.Hostname()
	h.terms.host = hostName(name)
	h.quiet = opts.Logger == nil && opts.Meter == nil
	boot, sleep := opts.Boot, (func(time.Duration))(nil)
	if h.clock == nil {
		h.clock, sleep = clock.System{}, clock.PreciseSleep()
		if boot == "" {
			boot, h.terms.boot = boots(s, orderly)
		}
	}
	if h.terms.rand == nil {
		h.terms.rand = rand.Reader
	}
	if h.log == nil {
		h.log = slog.New(slog.DiscardHandler)
	}
	if url != "" {
		h.log = h.log.With("store", store.Redact(url))
	}
	var err error
	if h.telemetry, err = telemetry.New(h.log, opts.Meter, h.clock); err != nil {
		return nil, err
	}
	h.verbs = h.telemetry.Store(s)
	h.memory = memory.New(memoryDir(opts.Memory), url, boot, h.log, h.clock.Now)
	engine := opts.Engine
	if engine == nil {
		engine = Native{}
	}
	h.loop = loop.New(loop.Options{
		Host: driver{h}, Engine: failing{engine}, Clock: h.clock, Sleep: sleep, Slots: 2 * h.terms.inFlight, Transfers: 2 * transfers,
	})
	return h, nil
}

func memoryDir(option string) string {
	switch option {
	case "-":
		return ""
	case "":
		return memory.Directory()
	}
	return option
}

// boots names the boot of this machine if its clock is of use on a store. What we observe is
// dated by our own clock, and is of use where no lease is judged by the store's. What others
// wrote is judged by it only if the store is orderly.
func boots(s store.Store, orderly bool) (remembers, judges string) {
	if steps, _ := store.ClockSteps(s); steps {
		remembers = clock.Boot()
	}
	if orderly {
		judges = clock.Boot()
	}
	return remembers, judges
}

// question is something that a store is asked about itself, by one goroutine at a time: on a
// dead mount the answer does not come.
type question[T any] struct {
	mu    sync.Mutex
	asked *answer[T] // under way
}

type answer[T any] struct {
	come chan struct{}
	is   T
}

// ask waits for the answer for a second; ok is false if none has come.
func (q *question[T]) ask(store func() T) (is T, ok bool) {
	q.mu.Lock()
	asked := q.asked
	if asked == nil {
		asked = &answer[T]{come: make(chan struct{})}
		q.asked = asked
		go func() {
			asked.is = store()
			q.mu.Lock()
			defer q.mu.Unlock()
			q.asked = nil
			close(asked.come)
		}()
	}
	q.mu.Unlock()
	ctx, cancel := loop.Within(context.Background(), storePatience)
	defer cancel()
	select {
	case <-asked.come:
		return asked.is, true
	case <-ctx.Done():
		return is, false
	}
}

// patiently is what a store says of itself, or false if it does not in time.
func patiently(ask func() bool) bool {
	is, ok := new(question[bool]).ask(ask)
	return ok && is
}

// samplesStoreClock reports whether the store's stamps are of a clock that can be relied
// on: there are stamps, and nobody sets that clock while leases are held.
func (h *Host) samplesStoreClock() bool {
	if steps, _ := store.ClockSteps(h.store); steps {
		return false
	}
	unit, _ := h.units.ask(h.store.StampUnit)
	return unit > 0
}

// hostName is a name as records have it: UTF-8, and without what macOS adds.
func hostName(name string) string {
	name = strings.TrimSuffix(strings.ToValidUTF8(name, "?"), ".local")
	return cmp.Or(name, "unknown")
}

// URL is the store's URL, absolute; it may carry secrets, so it is not for
// messages (store.Redact is).
func (h *Host) URL() string { return h.url }

// Close releases what is held, ends what waits, and returns after everything has stopped.
// What could not be released before ctx ends expires by itself, and ctx's error is
// returned. Requests are cancelled then. A request that obeys no cancel, such as a system
// call on a dead mount, is left behind a second after ctx has ended. A second Close waits
// for the first.
func (h *Host) Close(ctx context.Context) error {
	hangs, err := h.loop.Close(ctx)
	h.closeStore.Do(func() {
		if hangs { // the store may hang just so
			go func() {
				h.loop.Wait()
				_ = h.store.Close()
			}()
			return
		}
		err = errors.Join(err, h.store.Close())
	})
	return err
}
