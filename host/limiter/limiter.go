// Package limiter limits what one process does at once: names, each with permits.
//
// It touches no store and starts no goroutine. For a limit that processes share, see
// host.AcquirePermit.
//
// A Limiter logs one line, at WARN: "a holder has vanished without releasing its
// permits; they are free again". Its keys: permits is how many are free again, names
// is on how many names, first is some of those names.
package limiter

import (
	"context"
	"errors"
	"hash/maphash"
	"log/slog"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/mopslock/mopslock/core"
)

// Options are for New. The zero value, and nil, are good.
type Options struct {
	// FIFO lets no call overtake another: while calls wait for a name, a later one
	// queues behind them, and TryAcquire is refused. The head of the line then blocks
	// it: a call that wants many permits, or has a small view, keeps all later ones
	// waiting, even those whose own views have room.
	//
	// Without FIFO each waiter is granted when its own view has room, in the order
	// of arrival among those that fit. New calls may barge in, so a call that wants
	// many permits may wait forever beside many that want few.
	FIFO bool
	// Logger gets a line when an owner vanishes with permits; nil is no log. Its
	// handler runs where the runtime runs cleanups, so a handler that blocks delays
	// the cleanups of the whole process.
	Logger *slog.Logger
}

// Limiter limits what this process does at once. It has names, and each name has
// permits, which owners hold. It keeps no limit for a name: each call brings its own
// View of how many permits there may be, and is granted if no more than that are held
// with it. So a call never exceeds the limit that it knows, views may change and differ
// at any time, and a smaller view evicts nobody.
//
// Permits belong to a PermitOwner. They are given back once: when they are released,
// when the owner is closed, when its context ends, or when it is unreachable.
//
// The idea and the counters are Fred Hebert's canal_lock; see buckets.Buckets. A name
// may be any text. The Limiter forgets a name, with its counters, some time after
// nothing is held and nobody waits. The methods of a Limiter, and of all that it makes,
// may be called from any goroutine. There is nothing to close.
type Limiter struct {
	fifo   bool
	log    *slog.Logger
	seed   maphash.Seed
	lastID atomic.Uint64 // of an owner
	shards [shardCount]shard
}

const (
	shardCount = 64
	// leastSweep is how many names a shard, or an owner, has before it looks which
	// of them can be forgotten.
	leastSweep = 16
)

// shard has the entries of some of the names, in a table of chains: Go's map would take
// half as much memory again as all else that a name has. Locks are taken in this order,
// one of each kind at a time: shard, entry, owner.
type shard struct {
	mu    sync.Mutex
	heads []*entry // a power of two of them
	count int      // of entries; a sweep is due when there are as many as heads
	_     [24]byte // two shards do not share a line of the processor's cache
}

// View is the limit that a caller knows of: Capacity permits in each of Width buckets.
// Callers may differ; each is held to its own.
type View struct{ Capacity, Width int }

// Limit is how many permits may be held in this view.
func (v View) Limit() int { return v.Capacity * v.Width }

// Values for errors.Is, of the calls of a Limiter and its owners.
var (
	// ErrFull: there is no room by the caller's view. The error is a *Full.
	ErrFull = errors.New("mopslock: full")
	// ErrWeightExceedsLimit: the weight is more than all permits of the view.
	ErrWeightExceedsLimit = errors.New("mopslock: host: a permit that its view has no room for")
	// ErrOutOfBuckets: the owner does not hold what it should release.
	ErrOutOfBuckets = errors.New("mopslock: out of buckets: the holder does not hold so many permits")
	// ErrOwnerEnded: the PermitOwner was closed, or its context has ended.
	ErrOwnerEnded = errors.New("mopslock: the holder has ended")
)

// Full is why no permits were granted: errors.Is(err, ErrFull).
type Full struct {
	Name   string
	Held   int // permits that all owners held
	Limit  int // of the caller's view
	Weight int // permits that were wanted
	// Waiting is how many calls were first; 0 where the limiter is not FIFO.
	Waiting int
}

// Is reports whether target is ErrFull.
func (f *Full) Is(target error) bool { return target == ErrFull }

// Error says how full it is.
func (f *Full) Error() string {
	text := "mopslock: " + strconv.Quote(f.Name) + " is full: " + strconv.Itoa(f.Held) + "/" + strconv.Itoa(f.Limit) + " held"
	if f.Weight > 1 {
		text += ", " + strconv.Itoa(f.Weight) + " wanted"
	}
	if f.Waiting > 0 {
		text += ", " + strconv.Itoa(f.Waiting) + " waiting"
	}
	return text
}

// New makes a Limiter of which nothing is held.
func New(opts *Options) *Limiter {
	if opts == nil {
		opts = &Options{}
	}
	l := &Limiter{fifo: opts.FIFO, log: opts.Logger, seed: maphash.MakeSeed()}
	if l.log == nil {
		l.log = slog.New(slog.DiscardHandler)
	}
	for i := range l.shards {
		l.shards[i].heads = make([]*entry, leastSweep)
	}
	return l
}

// TryAcquire takes weight permits (0 is one) for the caller alone. They are given
// back when they are released, when ctx ends, or when the Permit is unreachable.
// Errors are those of PermitOwner.TryAcquire, and ctx's cause if it has ended.
func (l *Limiter) TryAcquire(ctx context.Context, name string, view View, weight int) (Permit, error) {
	if ctx.Err() != nil {
		return Permit{}, context.Cause(ctx)
	}
	owner := l.Owner(ctx)
	return owner.alone(owner.TryAcquire(name, view, weight))
}

// Acquire is TryAcquire that waits while it is full, until ctx ends.
func (l *Limiter) Acquire(ctx context.Context, name string, view View, weight int) (Permit, error) {
	if ctx.Err() != nil {
		return Permit{}, context.Cause(ctx)
	}
	owner := l.Owner(ctx)
	return owner.alone(owner.Acquire(ctx, name, view, weight))
}

// Held is how many permits of a name all owners hold.
func (l *Limiter) Held(name string) int {
	held := uint64(0)
	l.look(name, func(e *entry) { held = e.buckets.Held() })
	return int(held)
}

// Waiting is how many calls of Acquire wait for a name.
func (l *Limiter) Waiting(name string) (waiting int) {
	l.look(name, func(e *entry) { waiting = e.waiting() })
	return waiting
}

// Counters are canal_lock's counters of a name: what is held in each bucket that
// was ever reached, and one more than the capacity of the latest grant where a call
// walked past a full bucket since. At most core.MaxCounters are returned, and nil
// for a name that is not known or was forgotten.
func (l *Limiter) Counters(name string) (counters []int) {
	l.look(name, func(e *entry) {
		for _, n := range e.buckets.AppendCounters(nil, core.MaxCounters) {
			counters = append(counters, int(n))
		}
	})
	return counters
}

// Names are those of which something is held or that a call waits for, sorted.
// Shards are read one after the other, so they are not of one instant.
func (l *Limiter) Names() (names []string) {
	for i := range l.shards {
		l.shards[i].each(func(e *entry) {
			e.lock()
			if !e.isIdle() {
				names = append(names, e.name)
			}
			e.mu.Unlock()
		})
	}
	slices.Sort(names)
	return names
}

// look calls see with the name's entry locked, if there is one.
func (l *Limiter) look(name string, see func(*entry)) {
	s, hash := l.shard(name)
	s.mu.Lock()
	e := s.find(name, hash)
	s.mu.Unlock()
	if e != nil { // an entry that is gone meanwhile has nothing held, which is the truth
		e.lock()
		defer e.mu.Unlock()
		see(e)
	}
}

func (l *Limiter) shard(name string) (s *shard, hash uint64) {
	hash = maphash.String(l.seed, name)
	return &l.shards[hash%shardCount], hash / shardCount
}

// lock returns the name's entry, locked and not gone. It makes one if need be.
func (l *Limiter) lock(name string) *entry {
	s, hash := l.shard(name)
	for {
		s.mu.Lock()
		e := s.find(name, hash)
		if e == nil {
			if s.count >= len(s.heads) {
				s.forget(l)
			}
			e = &entry{name: strings.Clone(name)} // not all of what the name was cut from
			s.add(e, hash)
		}
		s.mu.Unlock()
		e.lock()
		if !e.gone {
			return e
		}
		e.mu.Unlock() // swept since we found it: the shard no longer has it
	}
}

func (s *shard) head(hash uint64) **entry { return &s.heads[hash&uint64(len(s.heads)-1)] }

func (s *shard) find(name string, hash uint64) *entry {
	e := *s.head(hash)
	for e != nil && e.name != name {
		e = e.next
	}
	return e
}

func (s *shard) add(e *entry, hash uint64) {
	head := s.head(hash)
	e.next, *head = *head, e
	s.count++
}

// each calls see with the entries.
func (s *shard) each(see func(*entry)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.heads {
		for ; e != nil; e = e.next {
			see(e)
		}
	}
}

// forget sweeps out the names that nobody holds or waits for. The next sweep is due
// when there are twice as many as stay, so that a name costs the same on average,
// however many there are. A call that has an entry in hand sees that it is gone.
func (s *shard) forget(l *Limiter) {
	var kept []*entry
	for _, e := range s.heads {
		for e != nil {
			next := e.next
			if e.next = nil; !e.goes() {
				kept = append(kept, e)
			}
			e = next
		}
	}
	size := leastSweep
	for size < 2*len(kept) {
		size *= 2
	}
	s.heads, s.count = make([]*entry, size), 0
	for _, e := range kept {
		_, hash := l.shard(e.name)
		s.add(e, hash)
	}
}

// demand is what a caller asks for: its view, and how many permits.
type demand struct{ capacity, width, weight uint32 }

// slack is how much may be held while the demand still has room.
func (d demand) slack() uint64 { return uint64(d.capacity)*uint64(d.width) - uint64(d.weight) }

// demandOf checks what a caller asks for.
func demandOf(name string, view View, weight int) (d demand, err error) {
	d = demand{narrow(view.Capacity), narrow(view.Width), narrow(max(weight, 1))}
	if err := core.CheckView(d.capacity, d.width); err != nil {
		return d, err
	}
	if weight < 0 {
		return d, errors.New("mopslock: weight must not be negative")
	}
	if d.weight == 0 || uint64(d.weight) > uint64(d.capacity)*uint64(d.width) {
		return d, &weightExceedsLimit{name, weight, view}
	}
	return d, nil
}

// narrow is n, or 0 where it is no uint32: 0 is no valid view and no valid weight.
func narrow(n int) uint32 {
	if n < 0 || uint64(n) > math.MaxUint32 {
		return 0
	}
	return uint32(n)
}

type weightExceedsLimit struct {
	name   string
	weight int
	view   View
}

func (t *weightExceedsLimit) Is(target error) bool { return target == ErrWeightExceedsLimit }

func (t *weightExceedsLimit) Error() string {
	return "mopslock: " + strconv.Quote(t.name) + ": a weight of " + strconv.Itoa(t.weight) + " is more than all " +
		strconv.Itoa(t.view.Limit()) + " permits"
}
