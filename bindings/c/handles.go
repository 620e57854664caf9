//go:build cgo && !mopslock_core

package main

// #include <stdint.h>
import "C"

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
	"github.com/mopslock/mopslock/host/store"
)

// heldThing is a lease, a companion, a work or a permit: what the header calls a
// member.
type heldThing interface {
	Holder() string
	Protocol() core.Protocol
	Epoch() uint64
	FencingToken() uint64
	Session() string
	Left() time.Duration
	Done() <-chan struct{}
	Err() error
	Context() context.Context
}

// canceller ends calls from elsewhere.
type canceller struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
}

// A handle is a number, followed by its kind in kindBits bits. Each kind counts from
// 1 and gives no number twice. So a closed host differs from one that never was.
const (
	kindBits = 4
	kindMask = 1<<kindBits - 1

	callKind        = 0 // of a begun call; no function takes it
	hostKind        = 1
	heldKind        = 2
	cancelKind      = 3
	invocationKind  = 4
	readerKind      = 5
	limiterKind     = 6
	limitHolderKind = 7
	limitPermitKind = 8
	limitSlotKind   = 9
)

// table has the live handles. Like cores, it lives as long as the library is loaded.
var table struct {
	mu   sync.RWMutex
	last [kindMask + 1]uint64 // of each kind
	live map[uint64]entry
	// queues are those of hosts and limiters. A closed one stays until it is empty.
	queues map[uint64]*events
	// stores are the guard's, for hosts that have used it.
	stores map[uint64]store.Store
}

type entry struct {
	// value is a *host.Host, *host.Lease, *host.Companion, permit, *canceller, *invocation,
	// *work, *reader, *cLimiter, *limitHolder, *limitPermit or *limitSlot.
	value      any
	hostHandle uint64 // of the host that it was made on, or 0
	ended      func() // queues the event of the end of what a begun call gave, or nil
}

// put gives a new handle to a value. It returns 0 if the host that the value was
// made on has been closed meanwhile.
func put(value any, kind, hostHandle uint64) uint64 {
	table.mu.Lock()
	defer table.mu.Unlock()
	if table.live == nil {
		table.live = map[uint64]entry{}
	}
	if hostHandle != 0 && table.live[hostHandle].value == nil {
		return 0
	}
	handle := number(kind)
	table.live[handle] = entry{value: value, hostHandle: hostHandle}
	return handle
}

// number makes a new handle. It needs the lock.
func number(kind uint64) uint64 {
	table.last[kind]++
	return table.last[kind]<<kindBits | kind
}

// putHost gives a handle to a host, and a queue.
func putHost(h *host.Host) uint64 {
	handle := put(h, hostKind, 0)
	putQueue(handle)
	return handle
}

func putQueue(source uint64) {
	table.mu.Lock()
	defer table.mu.Unlock()
	if table.queues == nil {
		table.queues = map[uint64]*events{}
	}
	table.queues[source] = newEvents()
}

// storeOf is a second connection to a host's store, for what is no lease: the first
// belongs to the host's event loop. The first call that wants it opens it.
func storeOf(ctx context.Context, handle uint64, url string) (store.Store, error) {
	table.mu.RLock()
	s := table.stores[handle]
	table.mu.RUnlock()
	if s != nil {
		return s, nil
	}
	s, err := store.Open(ctx, url)
	if err != nil {
		return nil, err
	}
	table.mu.Lock()
	defer table.mu.Unlock()
	first := table.stores[handle]
	switch {
	case first != nil: // another call was faster
		return first, s.Close()
	case table.live[handle].value == nil:
		return nil, errors.Join(host.ErrClosed, s.Close())
	}
	if table.stores == nil {
		table.stores = map[uint64]store.Store{}
	}
	table.stores[handle] = s
	return s, nil
}

// closeStore closes what storeOf opened. A call under way fails.
func closeStore(handle uint64) {
	table.mu.Lock()
	s := table.stores[handle]
	delete(table.stores, handle)
	table.mu.Unlock()
	if s != nil {
		_ = s.Close()
	}
}

func newCall() uint64 {
	table.mu.Lock()
	defer table.mu.Unlock()
	return number(callKind)
}

// queueOf is the queue of a host or limiter. A closed one with no events left has none.
func queueOf(host uint64) (*events, error) {
	table.mu.RLock()
	defer table.mu.RUnlock()
	if q := table.queues[host]; q != nil {
		return q, nil
	}
	return nil, noHost(host)
}

// nextEvent takes an event of a host, or waits for one until ctx ends. If there will
// never be another one, it drops the queue.
func nextEvent(ctx context.Context, handle uint64) (*event, error) {
	q, err := queueOf(handle)
	if err != nil {
		return nil, err
	}
	e, err := q.next(ctx)
	if errors.Is(err, host.ErrClosed) {
		dropQueue(handle)
	}
	return e, err
}

// closeQueue ends a closed host's queue. It stays if it has events.
func closeQueue(ctx context.Context, host uint64) {
	if q, err := queueOf(host); err == nil && q.close(ctx) {
		dropQueue(host)
	}
}

func dropQueue(host uint64) {
	table.mu.Lock()
	defer table.mu.Unlock()
	delete(table.queues, host)
}

// onEnd stores the function that queues the end of what is held.
func onEnd(handle uint64, tell func()) {
	table.mu.Lock()
	defer table.mu.Unlock()
	if e, live := table.live[handle]; live {
		e.ended = tell
		table.live[handle] = e
	}
}

// tellEnd queues the end of what a begun call gave, unless it is queued already.
func tellEnd(handle uint64) {
	table.mu.RLock()
	e := table.live[handle]
	table.mu.RUnlock()
	if e.ended != nil {
		e.ended()
	}
}

// madeOn are the values of one kind that were made on a host.
func madeOn[T any](host uint64) (found []T) {
	table.mu.RLock()
	defer table.mu.RUnlock()
	for _, e := range table.live {
		if value, ok := e.value.(T); ok && e.hostHandle == host {
			found = append(found, value)
		}
	}
	return found
}

// take forgets a handle, and with a host the handles of everything made on it.
func take(handle uint64) {
	table.mu.Lock()
	defer table.mu.Unlock()
	delete(table.live, handle)
	if handle&kindMask != hostKind {
		return
	}
	for made, e := range table.live {
		if e.hostHandle == handle {
			delete(table.live, made)
		}
	}
}

// takeAll forgets handles on which nothing was made.
func takeAll(handles map[uint64]struct{}) {
	table.mu.Lock()
	defer table.mu.Unlock()
	for handle := range handles {
		delete(table.live, handle)
	}
}

// find returns what a handle stands for, if that is a T.
func find[T any](handle C.uint64_t) (T, error) {
	value, _, err := findEntry[T](handle)
	return value, err
}

func findEntry[T any](handle C.uint64_t) (T, entry, error) {
	table.mu.RLock()
	defer table.mu.RUnlock()
	h := uint64(handle)
	e, live := table.live[h]
	value, ok := e.value.(T)
	switch {
	case ok:
		return value, e, nil
	case !live:
		return value, e, noHost(h)
	}
	return value, e, errHandle
}

// noHost is the error for a handle that is not live. A closed host and a freed limiter
// have errors of their own. It needs the lock.
func noHost(handle uint64) error {
	number, kind := handle>>kindBits, handle&kindMask
	switch {
	case number < 1 || number > table.last[kind]:
		return errHandle
	case kind == hostKind:
		return host.ErrClosed
	case kind == limiterKind:
		return errLimiterFreed
	}
	return errHandle
}
