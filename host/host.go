// Package host keeps leases and semaphores in a blob store. It brings clocks,
// randomness and I/O to the machines of package core, and gives callers a Lease or
// a Permit.
//
// A Host owns one store and one loop, a goroutine that steps every machine. A lease
// costs memory and requests, but no goroutine. Requests run on a bounded number of
// goroutines, each within the time limit that the core gave it.
//
// Under strict a Host may keep all its leases alive by one session, an object that
// beats for all of them. The machines of these leases then wait for nothing, and a
// lease is relied on until the session's deadline. With every event the loop also tells
// strict machines how their session stands, and the newest sample of the store's clock.
//
// A shared semaphore has one machine in a Host, made for its first permit. What is
// asked of it at the same time is written at once. Its permits, which callers hold
// one by one, stand on the session: while they are held they cost no machine and no
// request of their own.
//
// Invoke has a piece of work done once for all that ask, and keeps its result in the
// same store. Remote is for what a launcher starts elsewhere. An Invocation is one
// machine that has a lease, or a companion, within.
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

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/metric"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/internal/clock"
	"github.com/mopslock/mopslock/host/internal/telemetry"
	"github.com/mopslock/mopslock/host/store"
)

// Options are for Open. The zero value, and nil, are good.
type Options struct {
	// Logger gets losses, warnings and failing requests; nil is no log. The loop calls
	// its handler, so a handler that blocks delays renewals. The package comment lists
	// messages and keys.
	Logger *slog.Logger
	// Meter gets the metrics of the package comment; nil counts nothing, at no cost.
	// OpenTelemetry's global provider is not used unless it is given. Hosts that share
	// one are added up.
	Meter metric.MeterProvider
	// InFlight bounds the requests under way at once; 0 is 64.
	InFlight int
	// Engine runs the core; nil is Native. It must outlive the Host.
	Engine Engine
	// Clock replaces the machine's clocks, for tests. nil: the machine's.
	Clock Clock
	// Rand replaces the source of ids and jitter, for tests. nil: crypto/rand.
	Rand io.Reader
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
	// orderlyPatience is how long a Host waits to hear whether its store is orderly.
	orderlyPatience = time.Second
)

// Host holds leases on one store. Its methods may be called from any goroutine.
type Host struct {
	store     store.Store
	verbs     store.Store // the same, whose requests are counted
	url       string
	place     string // store.Place of url
	clock     Clock
	rand      io.Reader
	log       *slog.Logger
	telemetry *telemetry.Recorder
	engine    Engine
	loop      *loop
	origin    origin
	boot      string
	// samplesStoreClock: the store's stamps are of a clock that may be sampled.
	samplesStoreClock bool
	abilities         abilities
	memory            *memory
	preciseSleep      func(time.Duration)    // nil: timers alone
	process           atomic.Pointer[string] // its id, once it is needed

	reached    atomic.Bool
	written    atomic.Bool // the store has taken a write
	panicked   atomic.Bool // a driver did, and that was logged
	closeStore sync.Once
}

// Reached reports whether the store has answered anything yet. That an object is not there
// is no such answer to exists: a store that is not there says it as well.
func (h *Host) Reached() bool { return h.reached.Load() }

// origin is what our records tell people about their writer.
type origin struct {
	host string
	pid  string
}

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
	if opts.InFlight < 0 {
		return nil, fmt.Errorf("mopslock: host: InFlight %d: at least 1, or 0 for %d", opts.InFlight, defaultInFlight)
	}
	h := &Host{store: s, url: url, place: store.Place(url), clock: opts.Clock, rand: opts.Rand, log: opts.Logger, engine: opts.Engine, origin: thisProcess()}
	h.memory = newMemory(opts.Memory, url)
	if h.boot, h.memory.boot = opts.Boot, opts.Boot; h.clock == nil {
		h.clock, h.preciseSleep = clock.System{}, clock.PreciseSleep()
		h.bootsBy(s)
	}
	h.samplesStoreClock = samplesStoreClock(s)
	if h.rand == nil {
		h.rand = rand.Reader
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
	if h.engine == nil {
		h.engine = Native{}
	}
	inFlight := opts.InFlight
	if inFlight == 0 {
		inFlight = defaultInFlight
	}
	h.loop = newLoop(h, inFlight)
	h.memory.log, h.memory.now, h.memory.write = h.log, h.clock.Now, h.loop.io.Go
	return h, nil
}

// bootsBy names the boot of this machine if its clock is of use on a store, unless the boot
// has a name. What we observe is dated by our own clock, and is of use where no lease is
// judged by the store's. What others wrote is judged by it only if the store is orderly; a
// store that does not say so in time, as on a dead mount, is not.
func (h *Host) bootsBy(s store.Store) {
	if h.boot != "" {
		return
	}
	if steps, _ := store.ClockSteps(s); steps {
		h.memory.boot = clock.Boot()
	}
	place, ok := s.(store.Orderly)
	if !ok {
		return
	}
	orderly := make(chan bool, 1)
	go func() { orderly <- place.Orderly() }()
	select {
	case is := <-orderly:
		if is {
			h.boot = clock.Boot()
		}
	case <-time.After(orderlyPatience):
	}
}

// newID is a random id.
func (h *Host) newID() (string, error) {
	id, err := uuid.NewRandomFromReader(h.rand)
	if err != nil {
		return "", fmt.Errorf("mopslock: host: no randomness for an id: %w", err)
	}
	return id.String(), nil
}

// processID is the id of this Host among all that use the store.
func (h *Host) processID() (string, error) {
	if id := h.process.Load(); id != nil {
		return *id, nil
	}
	id, err := h.newID()
	if err == nil {
		h.process.CompareAndSwap(nil, &id)
		id = *h.process.Load()
	}
	return id, err
}

// samplesStoreClock reports whether a store's stamps are of a clock that can be relied
// on: there are stamps, and nobody sets that clock while leases are held.
func samplesStoreClock(s store.Store) bool {
	steps, _ := store.ClockSteps(s)
	return !steps && s.StampUnit() > 0
}

func thisProcess() origin {
	name, _ := os.Hostname()
	return origin{host: hostName(name), pid: strconv.Itoa(os.Getpid())}
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
	h.loop.awaitTidied(ctx, nil)
	err := h.loop.close(ctx)
	h.closeStore.Do(func() {
		if h.loop.leftIO { // the store may hang just so
			go func() {
				h.loop.io.Wait()
				_ = h.store.Close()
			}()
			return
		}
		err = errors.Join(err, h.store.Close())
	})
	return err
}
