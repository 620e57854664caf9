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

// Holder owns permits of any names of a Limiter. All that it holds is given back
// when it is closed, when its context ends, or when neither it nor a Permit or a
// Slot of it can be reached any more; that last is logged as a warning, since
// somebody has forgotten to release.
type Holder struct{ o *holding }

// holding is a Holder without the pointer that its user has: nothing that the
// Limiter or the context keeps leads to that, or it would never be unreachable.
//
// What its end has to free is never missed, and freed once. Whoever acquires has
// locked the entry, and then it looks here; the end marks the holding dead and
// takes the names here, and then it locks each entry:
//
//	acquire:  lock entry ─ joins: name noted ─ granted ─ unlock
//	end:                                   dead, names ─ lock entry ─ down
//
//	acquire:                           lock entry ─ joins: dead, refused
//	end:      dead, names ─ lock entry ─ …
type holding struct {
	limiter *Limiter
	id      uint64
	stop    func() bool // the context needs to tell no more
	cleanup runtime.Cleanup
	ending  sync.Once
	dead    atomic.Bool // set under mu
	// last is the name that was used last, one of names: it needs no lock.
	last atomic.Pointer[entry]
	// crowded: somebody should tidy.
	crowded atomic.Bool

	mu sync.Mutex
	// names has every entry of which something is held, unless slots has it, and
	// some of which nothing is. It loses one only under that one's lock.
	names  map[*entry]struct{}
	tidied int // as many names and slots call for a tidy
	// slots has every entry of a Slot, until it is gone.
	slots   map[*entry]struct{}
	waiters map[*waiter]struct{}
}

// Holder makes an owner of permits that ends with ctx. With a ctx that has ended
// it grants nothing.
func (l *Limiter) Holder(ctx context.Context) *Holder {
	o := &holding{limiter: l, id: l.lastID.Add(1), names: map[*entry]struct{}{}, tidied: leastSweep}
	h := &Holder{o}
	if ctx.Err() != nil {
		o.end()
		return h
	}
	o.stop = context.AfterFunc(ctx, func() { o.end() })
	o.cleanup = runtime.AddCleanup(h, (*holding).vanish, o)
	return h
}

// Close gives back all that the Holder holds, and returns how many permits that
// were; 0 if it has ended before. Its waiting calls return ErrHolderEnded, and so
// does every later one.
func (h *Holder) Close() int {
	if h.o.stop != nil {
		h.o.stop()
	}
	freed := h.o.end()
	h.o.cleanup.Stop()
	runtime.KeepAlive(h)
	return int(freed)
}

// TryAcquire takes weight permits (0 is one) of a name, all or none, if with them
// no more than view's limit are held, by everybody. Otherwise the error is a *Full;
// or ErrTooHeavy where it could never be; or ErrHolderEnded. After an error
// nothing is held that was not before. A view or a weight that nobody can have is
// an error of its own.
func (h *Holder) TryAcquire(name string, view View, weight int) (Permit, error) {
	d, err := demandOf(name, view, weight)
	if err != nil {
		return Permit{}, err
	}
	e := h.o.lock(name)
	if !h.o.joins(e) {
		e.mu.Unlock()
		return Permit{}, ErrHolderEnded
	}
	total, reason := e.acquire(h.o, d)
	waiting := e.waiting()
	e.mu.Unlock()
	if h.o.crowded.Load() {
		h.o.tidy()
	}
	if reason != core.ReasonNone {
		full := &Full{Name: name, Held: int(total), Limit: view.Limit(), Weight: int(d.weight)}
		if h.o.limiter.fifo {
			full.Waiting = waiting
		}
		return Permit{}, full
	}
	return Permit{holder: h, entry: e, total: total, weight: d.weight}, nil
}

// Acquire is TryAcquire that waits while it is full: as long as ctx does not end,
// and the Holder has not. If ctx ends its cause is returned, and what may have been
// granted in that instant is given back. A resize wakes nobody: a waiter's view is
// that of his call.
func (h *Holder) Acquire(ctx context.Context, name string, view View, weight int) (Permit, error) {
	d, err := demandOf(name, view, weight)
	if err != nil {
		return Permit{}, err
	}
	if ctx.Err() != nil {
		return Permit{}, context.Cause(ctx)
	}
	e := h.o.lock(name)
	if !h.o.joins(e) {
		e.mu.Unlock()
		return Permit{}, ErrHolderEnded
	}
	total, reason := e.acquire(h.o, d)
	if reason != core.ReasonNone {
		w := &waiter{demand: d, holding: h.o, entry: e, done: make(chan struct{})}
		if !h.o.wait(w) {
			e.mu.Unlock()
			return Permit{}, ErrHolderEnded
		}
		e.mu.Unlock()
		total, err = w.await(ctx)
	} else {
		e.mu.Unlock()
	}
	if h.o.crowded.Load() {
		h.o.tidy()
	}
	if err != nil {
		return Permit{}, err
	}
	return Permit{holder: h, entry: e, total: total, weight: d.weight}, nil
}

// await blocks until the waiter is granted, or one of the two contexts ends. The
// call's own comes first, since a holder may have the same.
func (w *waiter) await(ctx context.Context) (total uint64, err error) {
	select {
	case <-w.done:
	case <-ctx.Done():
	}
	w.holding.leave(w)
	if ctx.Err() != nil {
		w.entry.withdraw(w, context.Cause(ctx))
		return 0, context.Cause(ctx)
	}
	return w.total, w.err
}

// alone makes the permit the only one of its holder, which ends with it.
func (h *Holder) alone(p Permit, err error) (Permit, error) {
	if err != nil {
		h.Close()
		return Permit{}, err
	}
	p.alone = true
	return p, nil
}

// Permit is what was granted: some permits of a name. It may be copied; the zero
// value is nothing.
type Permit struct {
	holder *Holder
	entry  *entry
	total  uint64
	weight uint32
	alone  bool
}

// Total is how many permits of the name were held with this one, by everybody.
func (p Permit) Total() int { return int(p.total) }

// Release gives the permit back. ErrOutOfBuckets says that the holder does not
// hold as much of the name, since this was released before or the holder has
// ended; then nothing changes. The permits of one holder on one name are like
// coins: it is their number that is checked, so a holder that has more of them
// can release one of them twice, and lacks another.
func (p Permit) Release() error {
	switch {
	case p.holder == nil:
		return ErrOutOfBuckets
	case p.alone:
		if p.holder.Close() == 0 {
			return ErrOutOfBuckets
		}
		return nil
	}
	p.entry.lock()
	ok := p.entry.release(p.holder.o, p.weight)
	p.entry.mu.Unlock()
	runtime.KeepAlive(p.holder) // or it may have vanished before it was to release
	if !ok {
		return ErrOutOfBuckets
	}
	return nil
}

// Slot is a name that its holder uses often: it is not looked up again, and what
// is done with it allocates nothing.
type Slot struct {
	holder *Holder
	o      *holding
	name   string
	entry  atomic.Pointer[entry] // noted by the holding
}

// On resolves a name for a Holder. It holds nothing by itself, and may be kept as
// long as the Holder.
func (h *Holder) On(name string) *Slot {
	s := &Slot{holder: h, o: h.o, name: name}
	s.resolve().mu.Unlock()
	if h.o.crowded.Load() {
		h.o.tidy()
	}
	return s
}

// TryAcquire takes weight permits (0 is one), all or none. total is how many are
// held then, by everybody. It is not ok where there is no room, nor with a view
// or a weight that nobody can have, nor once the holder has ended.
func (s *Slot) TryAcquire(capacity, width, weight int) (total int, ok bool) {
	d := demand{narrow(capacity), narrow(width), narrow(max(weight, 1))}
	allowed := weight >= 0 && d.weight > 0 && core.IsView(d.capacity, d.width)
	e := s.lock()
	held, reason := e.buckets.Held(), core.ReasonFull
	if allowed && !s.o.dead.Load() {
		held, reason = e.acquire(s.o, d)
	}
	e.mu.Unlock()
	runtime.KeepAlive(s.holder)
	return int(held), reason == core.ReasonNone
}

// Release gives back weight permits (0 is one) of the name; false, and nothing
// changes, if its holder does not hold so many.
func (s *Slot) Release(weight int) bool {
	less := narrow(max(weight, 1))
	if weight < 0 || less == 0 {
		return false
	}
	e := s.lock()
	ok := e.release(s.o, less)
	e.mu.Unlock()
	runtime.KeepAlive(s.holder)
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
	e := s.o.limiter.lock(s.name)
	s.o.keep(e, s.entry.Swap(e))
	return e
}

// lock returns the name's entry, locked and not gone.
func (o *holding) lock(name string) *entry {
	if e := o.last.Load(); e != nil && e.name == name {
		e.lock()
		if !e.gone {
			return e
		}
		e.mu.Unlock()
	}
	return o.limiter.lock(name)
}

// joins reports whether the holding may acquire of an entry, which is locked: its
// end has not been here, and will come by. The end leaves no last before it comes.
func (o *holding) joins(e *entry) bool { return o.last.Load() == e || o.note(e) }

// note takes an entry, which is locked, among the names; false if the holding
// has ended.
func (o *holding) note(e *entry) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.dead.Load() {
		return false
	}
	o.names[e] = struct{}{}
	o.last.Store(e)
	o.grown()
	return true
}

// grown asks for a tidy if it is time. The caller holds mu.
func (o *holding) grown() {
	if len(o.names)+len(o.slots) >= o.tidied {
		o.crowded.Store(true)
	}
}

// keep notes the entry of a Slot, which is locked, in the place of one that is
// gone, or nil.
func (o *holding) keep(e, gone *entry) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.dead.Load() {
		return
	}
	if o.slots == nil {
		o.slots = map[*entry]struct{}{}
	}
	o.slots[e] = struct{}{}
	if gone != e { // it may be that another call was here before
		delete(o.slots, gone)
	}
	o.grown()
}

// tidy takes out the names of which nothing is held, and the entries of Slots that
// are gone: whoever has the Slot looks its name up again. As with a Limiter's names,
// it happens when there are twice as many as stayed the last time.
func (o *holding) tidy() {
	if !o.crowded.CompareAndSwap(true, false) {
		return
	}
	o.mu.Lock()
	known := slices.AppendSeq(slices.Collect(maps.Keys(o.names)), maps.Keys(o.slots))
	o.tidied = math.MaxInt // nobody else until we are done
	o.mu.Unlock()
	for _, e := range known {
		e.lock()
		if e.buckets.HeldBy(o.id) == 0 {
			o.drop(e)
		}
		e.mu.Unlock()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	stayed := len(o.names) + len(o.slots)
	if stayed < len(known)/2 { // maps only grow
		o.names, o.slots = maps.Collect(maps.All(o.names)), maps.Collect(maps.All(o.slots))
	}
	o.tidied = max(leastSweep, 2*stayed)
}

// drop takes out an entry, which is locked, and has nothing of this holding.
func (o *holding) drop(e *entry) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.names, e)
	o.last.CompareAndSwap(e, nil)
	if e.gone {
		delete(o.slots, e)
	}
}

// wait lets a waiter wait on his entry, which is locked; false if the holding
// has ended.
func (o *holding) wait(w *waiter) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.dead.Load() {
		return false
	}
	if o.waiters == nil {
		o.waiters = map[*waiter]struct{}{}
	}
	o.waiters[w] = struct{}{}
	w.entry.push(w)
	return true
}

func (o *holding) leave(w *waiter) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.waiters, w)
}

// end gives back everything, once; whoever comes second waits for the first.
func (o *holding) end() (freed uint64) {
	o.ending.Do(func() { freed = o.down(func(*entry) {}) })
	return freed
}

// down frees what is held, and tells of which names.
func (o *holding) down(tell func(*entry)) (freed uint64) {
	o.mu.Lock()
	o.dead.Store(true)
	names, slots, waiters := o.names, o.slots, o.waiters
	o.names, o.slots, o.waiters = nil, nil, nil
	o.last.Store(nil)
	o.mu.Unlock()
	for w := range waiters { // before he is granted what is freed
		w.entry.lock()
		if w.queued {
			w.entry.settle(w, 0, ErrHolderEnded)
			w.entry.serve(o.limiter.fifo)
		}
		w.entry.mu.Unlock()
	}
	for _, held := range []map[*entry]struct{}{names, slots} {
		for e := range held {
			e.lock()
			if n := e.buckets.Down(o.id); n > 0 {
				e.serve(o.limiter.fifo)
				tell(e)
				freed += n
			}
			e.mu.Unlock()
		}
	}
	return freed
}

// maxTold is how many names a warning has.
const maxTold = 16

// vanish is the end of a Holder that nobody can reach.
func (o *holding) vanish() {
	if o.stop != nil {
		o.stop()
	}
	o.ending.Do(func() {
		var told []string
		names := 0
		freed := o.down(func(e *entry) {
			if names++; len(told) < maxTold {
				told = append(told, e.name)
			}
		})
		if freed > 0 {
			slices.Sort(told)
			o.limiter.log.Warn("a holder has vanished without releasing its permits; they are free again",
				"permits", freed, "names", names, "first", told)
		}
	})
}
