// Package host keeps leases in a blob store: it brings clocks, randomness and
// I/O to the machines of package core, and hands callers a Lease.
//
// A Host owns one store and one keeper, a goroutine that steps every machine;
// a lease costs memory and requests, no goroutine. Requests run on a bounded
// number of goroutines, each within the time limit that the core gave it.
//
// What it does not do: it decides nothing that the core can decide, it retries
// nothing on its own, and it cannot stop code that does not ask. A caller that
// touches what the lease guards looks at Lease.Err, Done or Context first.
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

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/store"
	_ "github.com/mopslock/mopslock/host/store/local" // file://
	_ "github.com/mopslock/mopslock/host/store/mem"   // mem://
)

// Options are for Open. The zero value, and nil, are good.
type Options struct {
	// Logger hears of losses, warnings and failing requests. nil: nobody does.
	// Its handler is called by the keeper too, so one that blocks delays renewals.
	Logger *slog.Logger
	// InFlight bounds the requests under way at once; 0 is 64.
	InFlight int
	// Engine runs the core; nil is Native. It must outlive the Host.
	Engine Engine
	// Clock replaces the machine's clocks, for tests. nil: the machine's.
	Clock Clock
	// Rand replaces the source of ids and jitter, for tests. nil: crypto/rand.
	Rand io.Reader
}

const defaultInFlight = 64

// Host holds leases on one store. Its methods may be called from any goroutine.
type Host struct {
	store  store.Store
	url    string
	clock  Clock
	rand   io.Reader
	log    *slog.Logger
	engine Engine
	keeper *keeper
	origin origin

	reached    atomic.Bool
	closeStore sync.Once
}

// Reached reports whether the store has answered anything yet.
func (h *Host) Reached() bool { return h.reached.Load() }

// origin is what our records tell people about their writer.
type origin struct {
	host string
	pid  string
}

// Open opens the store at a URL: file:///dir and mem:// always, s3://, gs://
// and azblob:// by importing host/store/s3, gs or azblob. It makes no request
// beyond what the store's driver makes; a store that cannot be reached shows
// at the first Acquire. Close the Host to release what it holds.
func Open(ctx context.Context, url string, opts *Options) (*Host, error) {
	s, err := store.Open(ctx, url)
	if err != nil {
		return nil, err
	}
	h, err := New(s, opts)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if h.url, err = store.Absolute(url); err != nil {
		h.url = url
	}
	return h, nil
}

// New makes a Host on a store that is open already; Close closes it.
func New(s store.Store, opts *Options) (*Host, error) {
	if opts == nil {
		opts = &Options{}
	}
	if opts.InFlight < 0 {
		return nil, fmt.Errorf("mopslock: host: InFlight %d: at least 1, or 0 for %d", opts.InFlight, defaultInFlight)
	}
	h := &Host{store: s, clock: opts.Clock, rand: opts.Rand, log: opts.Logger, engine: opts.Engine, origin: thisProcess()}
	if h.clock == nil {
		h.clock = systemClock{}
	}
	if h.rand == nil {
		h.rand = rand.Reader
	}
	if h.log == nil {
		h.log = slog.New(slog.DiscardHandler)
	}
	if h.engine == nil {
		h.engine = Native{}
	}
	inFlight := opts.InFlight
	if inFlight == 0 {
		inFlight = defaultInFlight
	}
	h.keeper = newKeeper(h, inFlight)
	return h, nil
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

// Close releases what is held, ends what waits, and returns after everything
// has stopped. What could not be released before ctx ends expires by itself;
// that ctx's error is returned then. Requests are cancelled; one that heeds
// nothing, such as a system call on a dead mount, is left behind a second after
// ctx has ended. A second Close waits for the first.
func (h *Host) Close(ctx context.Context) error {
	err := h.keeper.close(ctx)
	h.closeStore.Do(func() {
		if h.keeper.leftIO { // the store may hang just so
			go func() {
				h.keeper.io.Wait()
				_ = h.store.Close()
			}()
			return
		}
		err = errors.Join(err, h.store.Close())
	})
	return err
}

// Terms are what a caller may say about a lease. The zero value is good.
// Everybody on one name should use one TTL: a holder renews for the shortest
// TTL that it has seen on the name, and mops judges all by its own.
type Terms struct {
	// TTL is how long the lease lives without a renewal; 0 is 88 s. Between
	// 50 ms (5 s on stores whose stamps have whole seconds) and 30 days.
	TTL time.Duration
	// Margin is how much earlier than the TTL the holder gives up; 0 is TTL/10.
	// Below TTL/2.
	Margin time.Duration
	// AcquireMargin is the least time between a claim and its verification; 0
	// is twice what the read and the write took. At most TTL/2.
	AcquireMargin time.Duration
	// FleetExpire is by which TTL others on this name judge us whatever our
	// record says, as mops does; 0 is 88 s, core.None for names without mops.
	FleetExpire time.Duration
	// Renewal is core.RenewalChecked (0 too) or core.RenewalBlind.
	Renewal core.Renewal
	// Expiry is core.ExpiryWall (0 too) or core.ExpiryObserved.
	Expiry core.Expiry
}

func (h *Host) config(kind core.MachineKind, name string, t *Terms) (core.Config, error) {
	if checker, ok := h.store.(store.KeyChecker); ok && core.CheckName(name) == nil {
		if err := checker.CheckKey(name + "/" + core.LockFile); err != nil {
			return core.Config{}, err
		}
	}
	ttl := t.TTL
	if ttl == 0 {
		ttl = core.DefaultTTL
	}
	cfg := core.Config{
		Machine: kind, Protocol: core.ProtocolLastWriter, Name: name,
		TTL: ttl, Margin: t.Margin, AcquireMargin: t.AcquireMargin, FleetExpire: t.FleetExpire,
		Renewal: t.Renewal, Expiry: t.Expiry, StampUnit: h.store.StampUnit(),
		Host: h.origin.host, PID: h.origin.pid, TID: uint64(os.Getpid()),
	}
	if _, err := io.ReadFull(h.rand, cfg.Seed[:]); err != nil {
		return cfg, fmt.Errorf("mopslock: host: no randomness for a holder id: %w", err)
	}
	return cfg, nil
}
