package limiter

import (
	"context"
	"maps"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/mopslock/mopslock/core"
)

// PermitOwner owns permits of any names of a Limiter. All that it holds is given back
// when it is closed, when its context ends, or when neither it nor any Permit or Slot
// of it is reachable. The last is logged as a warning, since a release was forgotten.
type PermitOwner struct{ state *ownerState }

// ownerState is a PermitOwner without the pointer that its user has. Nothing that the
// Limiter or the context keeps may lead to that pointer, or the owner would never be
// unreachable.
//
// The end frees everything, once. An acquire locks the entry and then looks here; the
// end marks the owner dead and takes the names here, and then it locks each entry:
//
//	acquire:  lock entry ─ joins: name noted ─ granted ─ unlock
//	end:                                   dead, names ─ lock entry ─ down
//
//	acquire:                           lock entry ─ joins: dead, refused
//	end:      dead, names ─ lock entry ─ …
type ownerState struct {
	limiter *Limiter
	id      uint64
	stop    func() bool // the context needs to tell no more
	cleanup runtime.Cleanup
	ending  sync.Once
	dead    atomic.Bool // set under mu
	// last is the name that was used last; it is one of names, and needs no lock.
	last atomic.Pointer[entry]
	// crowded: a tidy is due.
	crowded atomic.Bool

	mu sync.Mutex
	// names has every entry of which something is held, unless slots has it, and
	// some of which nothing is. It loses one only under that one's lock.
	names  map[*entry]struct{}
	tidied int // a tidy is due when there are so many names and slots
	// slots has every entry of a Slot, until it is gone.
	slots   map[*entry]struct{}
	waiters map[*waiter]struct{}
}

// Owner makes an owner of permits that ends with ctx. With a ctx that has ended it is
// granted nothing.
func (l *Limiter) Owner(ctx context.Context) *PermitOwner {
	s := &ownerState{limiter: l, id: l.lastID.Add(1), names: map[*entry]struct{}{}, tidied: leastSweep}
	owner := &PermitOwner{s}
	if ctx.Err() != nil {
		s.end()
		return owner
	}
	s.stop = context.AfterFunc(ctx, func() { s.end() })
	s.cleanup = runtime.AddCleanup(owner, (*ownerState).vanish, s)
	return owner
}

// Close gives back all that the owner holds, and returns how many permits that were;
// 0 if it has ended before. Its waiting calls return ErrOwnerEnded, and so does every
// later one.
func (o *PermitOwner) Close() int {
	if o.state.stop != nil {
		o.state.stop()
	}
	freed := o.state.end()
	o.state.cleanup.Stop()
	runtime.KeepAlive(o)
	return int(freed)
}

// TryAcquire takes weight permits (0 is one) of a name, all or none, if with them
// all owners hold no more than the view's limit. Otherwise the error is a *Full;
// ErrWeightExceedsLimit where the weight is more than the limit; or ErrOwnerEnded. After an error
// nothing is held that was not held before. A view or a weight out of range is an error
// of its own.
func (o *PermitOwner) TryAcquire(name string, view View, weight int) (Permit, error) {
	d, err := demandOf(name, view, weight)
	if err != nil {
		return Permit{}, err
	}
	e := o.state.lock(name)
	if !o.state.joins(e) {
		e.mu.Unlock()
		return Permit{}, ErrOwnerEnded
	}
	total, reason := e.acquire(o.state, d)
	waiting := e.waiting()
	e.mu.Unlock()
	if o.state.crowded.Load() {
		o.state.tidy()
	}
	if reason != core.ReasonNone {
		full := &Full{Name: name, Held: int(total), Limit: view.Limit(), Weight: int(d.weight)}
		if o.state.limiter.fifo {
			full.Waiting = waiting
		}
		return Permit{}, full
	}
	return Permit{owner: o, entry: e, total: total, weight: d.weight}, nil
}

// Acquire is TryAcquire that waits while the name is full, until ctx or the owner ends.
// If ctx ends its cause is returned, and what may have been granted in that instant is
// given back. A waiter keeps the view of its call, so another view wakes nobody.
func (o *PermitOwner) Acquire(ctx context.Context, name string, view View, weight int) (Permit, error) {
	d, err := demandOf(name, view, weight)
	if err != nil {
		return Permit{}, err
	}
	if ctx.Err() != nil {
		return Permit{}, context.Cause(ctx)
	}
	e := o.state.lock(name)
	if !o.state.joins(e) {
		e.mu.Unlock()
		return Permit{}, ErrOwnerEnded
	}
	total, reason := e.acquire(o.state, d)
	if reason != core.ReasonNone {
		w := &waiter{demand: d, owner: o.state, entry: e, done: make(chan struct{})}
		if !o.state.wait(w) {
			e.mu.Unlock()
			return Permit{}, ErrOwnerEnded
		}
		e.mu.Unlock()
		total, err = w.await(ctx)
	} else {
		e.mu.Unlock()
	}
	if o.state.crowded.Load() {
		o.state.tidy()
	}
	if err != nil {
		return Permit{}, err
	}
	return Permit{owner: o, entry: e, total: total, weight: d.weight}, nil
}

// await blocks until the waiter is granted, or one of the two contexts ends. The
// call's own counts first, since the owner may have the same one.
func (w *waiter) await(ctx context.Context) (total uint64, err error) {
	select {
	case <-w.done:
	case <-ctx.Done():
	}
	w.owner.leave(w)
	if ctx.Err() != nil {
		w.entry.withdraw(w, context.Cause(ctx))
		return 0, context.Cause(ctx)
	}
	return w.total, w.err
}

// alone makes the permit the only one of its owner, which ends with it.
func (o *PermitOwner) alone(p Permit, err error) (Permit, error) {
	if err != nil {
		o.Close()
		return Permit{}, err
	}
	p.alone = true
	return p, nil
}

// Permit is what was granted: some permits of a name. It may be copied. The zero
// value holds nothing.
type Permit struct {
	owner  *PermitOwner
	entry  *entry
	total  uint64
	weight uint32
	alone  bool
}

// Total is how many permits of the name all owners held, with this one.
func (p Permit) Total() int { return int(p.total) }

// Release gives the permit back. ErrOutOfBuckets says that the owner does not hold
// so many permits of the name, since this one was released before or the owner has
// ended; then nothing changes. Only the number of an owner's permits on a name is
// checked, so an owner of several can release one of them twice, and then lacks another.
func (p Permit) Release() error {
	switch {
	case p.owner == nil:
		return ErrOutOfBuckets
	case p.alone:
		if p.owner.Close() == 0 {
			return ErrOutOfBuckets
		}
		return nil
	}
	p.entry.lock()
	ok := p.entry.release(p.owner.state, p.weight)
	p.entry.mu.Unlock()
	runtime.KeepAlive(p.owner) // or it may vanish before the release
	if !ok {
		return ErrOutOfBuckets
	}
	return nil
}

// Slot is a name that its owner uses often: the name is looked up once, and the Slot's
// methods allocate nothing.
type Slot struct {
	owner *PermitOwner
	state *ownerState
	name  string
	entry atomic.Pointer[entry] // noted by the owner
}

// On looks a name up for its owner. The Slot holds nothing by itself, and may be kept as
// long as the owner.
func (o *PermitOwner) On(name string) *Slot {
	s := &Slot{owner: o, state: o.state, name: name}
	s.resolve().mu.Unlock()
	if o.state.crowded.Load() {
		o.state.tidy()
	}
	return s
}

// TryAcquire takes weight permits (0 is one), all or none. total is how many all owners
// hold then. It is not ok where there is no room, with a view or a weight out of range,
// or once the owner has ended.
func (s *Slot) TryAcquire(capacity, width, weight int) (total int, ok bool) {
	d := demand{narrow(capacity), narrow(width), narrow(max(weight, 1))}
	allowed := weight >= 0 && d.weight > 0 && core.IsView(d.capacity, d.width)
	e := s.lock()
	held, reason := e.buckets.Held(), core.ReasonFull
	if allowed && !s.state.dead.Load() {
		held, reason = e.acquire(s.state, d)
	}
	e.mu.Unlock()
	runtime.KeepAlive(s.owner)
	return int(held), reason == core.ReasonNone
}

// Release gives back weight permits (0 is one) of the name; false, and nothing
// changes, if its owner does not hold so many.
func (s *Slot) Release(weight int) bool {
	less := narrow(max(weight, 1))
	if weight < 0 || less == 0 {
		return false
	}
	e := s.lock()
	ok := e.release(s.state, less)
	e.mu.Unlock()
	runtime.KeepAlive(s.owner)
	return ok
}

func (s *Slot) lock() *entry {
	e := s.entry.Load()
	if !e.mu.TryLock() { // e.lock, and a call less
		e.insist()
	}
	if e.gone {
		e.mu.Unlock()
		return s.resolve()
	}
	return e
}

// resolve returns the entry that the name has now, locked.
func (s *Slot) resolve() *entry {
	e := s.state.limiter.lock(s.name)
	s.state.keep(e, s.entry.Swap(e))
	return e
}

// lock returns the name's entry, locked and not gone.
func (s *ownerState) lock(name string) *entry {
	if e := s.last.Load(); e != nil && e.name == name {
		e.lock()
		if !e.gone {
			return e
		}
		e.mu.Unlock()
	}
	return s.limiter.lock(name)
}

// joins reports whether the owner may acquire of an entry, which is locked: the owner's
// end has not visited the entry yet, and will. The end clears last before it begins.
func (s *ownerState) joins(e *entry) bool { return s.last.Load() == e || s.note(e) }

// note adds an entry, which is locked, to the names; false if the owner has ended.
func (s *ownerState) note(e *entry) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead.Load() {
		return false
	}
	s.names[e] = struct{}{}
	s.last.Store(e)
	s.grown()
	return true
}

// grown asks for a tidy if it is time. The caller holds mu.
func (s *ownerState) grown() {
	if len(s.names)+len(s.slots) >= s.tidied {
		s.crowded.Store(true)
	}
}

// keep notes the entry of a Slot, which is locked, in place of one that is gone, or nil.
func (s *ownerState) keep(e, gone *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead.Load() {
		return
	}
	if s.slots == nil {
		s.slots = map[*entry]struct{}{}
	}
	s.slots[e] = struct{}{}
	if gone != e { // another call may have been here before
		delete(s.slots, gone)
	}
	s.grown()
}

// tidy takes out the names of which nothing is held, and the entries of Slots that are
// gone: a Slot looks its name up again. As with a Limiter's names, a tidy is due when
// there are twice as many as stayed the last time.
func (s *ownerState) tidy() {
	if !s.crowded.CompareAndSwap(true, false) {
		return
	}
	s.mu.Lock()
	known := slices.AppendSeq(slices.Collect(maps.Keys(s.names)), maps.Keys(s.slots))
	s.tidied = math.MaxInt // nobody else until we are done
	s.mu.Unlock()
	for _, e := range known {
		e.lock()
		if e.buckets.HeldBy(s.id) == 0 {
			s.drop(e)
		}
		e.mu.Unlock()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	stayed := len(s.names) + len(s.slots)
	if stayed < len(known)/2 { // maps only grow
		s.names, s.slots = maps.Collect(maps.All(s.names)), maps.Collect(maps.All(s.slots))
	}
	s.tidied = max(leastSweep, 2*stayed)
}

// drop takes out an entry, which is locked, and of which this owner holds nothing.
func (s *ownerState) drop(e *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.names, e)
	s.last.CompareAndSwap(e, nil)
	if e.gone {
		delete(s.slots, e)
	}
}

// wait lets a waiter wait on its entry, which is locked; false if the owner has ended.
func (s *ownerState) wait(w *waiter) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead.Load() {
		return false
	}
	if s.waiters == nil {
		s.waiters = map[*waiter]struct{}{}
	}
	s.waiters[w] = struct{}{}
	w.entry.push(w)
	return true
}

func (s *ownerState) leave(w *waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.waiters, w)
}

// end gives back everything, once; a second call waits for the first.
func (s *ownerState) end() (freed uint64) {
	s.ending.Do(func() { freed = s.down(func(*entry) {}) })
	return freed
}

// down frees what is held, and calls tell with each entry of which something was.
func (s *ownerState) down(tell func(*entry)) (freed uint64) {
	s.mu.Lock()
	s.dead.Store(true)
	names, slots, waiters := s.names, s.slots, s.waiters
	s.names, s.slots, s.waiters = nil, nil, nil
	s.last.Store(nil)
	s.mu.Unlock()
	for w := range waiters { // before it is granted what is freed
		w.entry.lock()
		if w.queued {
			w.entry.settle(w, 0, ErrOwnerEnded)
			w.entry.serve(s.limiter.fifo)
		}
		w.entry.mu.Unlock()
	}
	for _, held := range []map[*entry]struct{}{names, slots} {
		for e := range held {
			e.lock()
			if n := e.buckets.Down(s.id); n > 0 {
				e.serve(s.limiter.fifo)
				tell(e)
				freed += n
			}
			e.mu.Unlock()
		}
	}
	return freed
}

// maxTold is how many names the warning lists.
const maxTold = 16

// vanish is the end of an owner that nobody can reach.
func (s *ownerState) vanish() {
	if s.stop != nil {
		s.stop()
	}
	s.ending.Do(func() {
		var told []string
		names := 0
		freed := s.down(func(e *entry) {
			if names++; len(told) < maxTold {
				told = append(told, e.name)
			}
		})
		if freed > 0 {
			slices.Sort(told)
			s.limiter.log.Warn("a holder has vanished without releasing its permits; they are free again",
				"permits", freed, "names", names, "first", told)
		}
	})
}
