package limiter

import (
	"runtime"
	"sync"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/buckets"
)

// entry is one name of a Limiter. There are many, so a test counts its size. What every
// call touches comes first, to be in one line of the processor's cache.
type entry struct {
	mu      sync.Mutex
	line    *line // nil while nobody waits
	gone    bool  // its shard has forgotten it; it is never used again
	buckets buckets.Buckets[uint64]
	name    string // never changes
	next    *entry // of the same chain; guarded by the shard's lock
}

// line is the waiters for a name, in order of arrival.
type line struct {
	first, last *waiter
	length      int
	// most bounds the slack of each of them from above: while more is held, there
	// is room for nobody, and nobody needs to be examined.
	most uint64
}

// waiter is a call of Acquire that waits, in its caller's goroutine. Its fields
// are guarded by the entry's lock until done is closed.
type waiter struct {
	demand
	owner      *ownerState
	entry      *entry
	prev, next *waiter
	queued     bool
	done       chan struct{}
	total      uint64 // held with it, if err is nil then
	err        error
}

// lock is mu.Lock without sleep. What is done under the lock takes less time than to be
// put to sleep and woken, and a mutex that has sleepers hands itself from one to the next,
// at a wake each. A call that tries in vain lets others run, which frees the lock.
func (e *entry) lock() {
	if !e.mu.TryLock() {
		e.insist()
	}
}

// insist tries again after pauses that double, and then lets others run: each look at the
// lock takes its line of the cache away from the call that has it.
func (e *entry) insist() {
	for pause := shortestPause; !e.mu.TryLock(); pause *= 2 {
		if pause > longestPause {
			runtime.Gosched()
			pause = shortestPause
		}
		for range pause { // Go's compiler leaves it as it is
		}
	}
}

// Turns of an empty loop, some tenths of a nanosecond each.
const (
	shortestPause = 8
	longestPause  = 1024
)

func (e *entry) isIdle() bool { return e.buckets.Held() == 0 && e.line == nil }

// goes marks the entry as gone if it is idle. An entry that is locked is in use.
func (e *entry) goes() bool {
	if !e.mu.TryLock() {
		return false
	}
	defer e.mu.Unlock()
	e.gone = e.isIdle()
	return e.gone
}

func (e *entry) waiting() int {
	if e.line == nil {
		return 0
	}
	return e.line.length
}

// acquire grants a demand that is not too heavy, or says ReasonFull.
func (e *entry) acquire(s *ownerState, d demand) (total uint64, reason core.Reason) {
	if e.line != nil && s.limiter.fifo {
		return e.buckets.Held(), core.ReasonFull
	}
	return e.buckets.Acquire(d.capacity, d.width, d.weight, s.id)
}

// release takes permits back, and hands them to the waiters.
func (e *entry) release(s *ownerState, weight uint32) bool {
	ok := e.buckets.Release(s.id, weight)
	if ok && e.line != nil {
		e.serve(s.limiter.fifo)
	}
	return ok
}

// push queues a waiter.
func (e *entry) push(w *waiter) {
	if e.line == nil {
		e.line = &line{}
	}
	q := e.line
	if w.prev = q.last; w.prev == nil {
		q.first = w
	} else {
		w.prev.next = w
	}
	q.last, w.queued = w, true
	q.length++
	q.most = max(q.most, w.slack())
}

// settle takes a waiter out of the queue and wakes it with its outcome.
func (e *entry) settle(w *waiter, total uint64, err error) {
	q := e.line
	if w.prev == nil {
		q.first = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		q.last = w.prev
	} else {
		w.next.prev = w.prev
	}
	if q.length--; q.length == 0 {
		e.line = nil
	}
	w.prev, w.next, w.queued = nil, nil, false
	w.total, w.err = total, err
	close(w.done)
}

// serve grants the waiters that there is room for, in order of arrival. Those that do
// not fit are passed over, unless the limiter is FIFO. It is called whenever less is held,
// or a waiter has left the queue, so that no waiter waits whose turn it is.
func (e *entry) serve(fifo bool) {
	q := e.line
	if q == nil {
		return
	}
	most := uint64(0) // slack of those that were passed over
	w := q.first
	for w != nil && e.buckets.Held() <= q.most {
		next := w.next
		switch {
		case e.buckets.Held() <= w.slack():
			e.grant(w)
		case fifo:
			return
		default:
			most = max(most, w.slack())
		}
		w = next
	}
	if w == nil {
		q.most = most
	}
}

// grant gives a waiter what there is room for, if its owner has not ended.
func (e *entry) grant(w *waiter) {
	if !w.owner.joins(e) {
		e.settle(w, 0, ErrOwnerEnded)
		return
	}
	total, _ := e.buckets.Acquire(w.capacity, w.width, w.weight, w.owner.id)
	e.settle(w, total, nil)
}

// withdraw takes a waiter out whose call is over, and gives back what it was
// granted in the same instant:
//
//	release:   lock ─ grant w ─ unlock
//	w:                ctx ends ────────── lock ─ granted: release it ─ unlock
func (e *entry) withdraw(w *waiter, err error) {
	e.lock()
	defer e.mu.Unlock()
	switch {
	case w.queued:
		e.settle(w, 0, err)
		e.serve(w.owner.limiter.fifo) // it may have stood in the others' way
	case w.err == nil:
		e.release(w.owner, w.weight) // nothing, if its owner was closed meanwhile
	}
}
