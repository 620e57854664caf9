//go:build cgo && !mopslock_core

package main

import (
	"context"
	"sync"
	"time"

	"github.com/mopslock/mopslock/host"
)

// eventKind has the numbers of enum mopslock_event_kind.
type eventKind int32

const (
	eventCall    eventKind = 1
	eventEnded   eventKind = 2
	eventWaiting eventKind = 3
)

// event is what mopslock_next returns once.
type event struct {
	kind   eventKind
	of     *pendingCall // of a call or a wait
	handle uint64       // of what the call gave, or of what has ended
	err    error        // of a call or an end
	until  time.Time    // of a renewal
	seen   *host.Status // of a wait
	held   uint64       // of a permit's call
}

// events is the queue of one host. A push never waits. A begun call has at most
// three events in it: whom it waits for, its own end, and the end of what it gave.
//
// The queue ends in two steps. From close on nothing begins. It is over when every
// event that was still to come has come.
type events struct {
	mu      sync.Mutex
	queue   []*event
	closed  bool
	over    bool
	ended   chan struct{}  // closed when it is over
	changed chan struct{}  // has a value when there may be something to take
	coming  sync.WaitGroup // ends of calls under way, and of what they gave
}

// pendingCall is a call that mopslock_begin_... began and that has not ended. Its
// queue's lock guards its fields.
type pendingCall struct {
	queue   *events
	number  uint64
	waiting *event // in the queue, or nil
	ended   bool
}

func newEvents() *events {
	return &events{ended: make(chan struct{}), changed: make(chan struct{}, 1)}
}

// begin makes a call. The caller must end it.
func (q *events) begin(number uint64) (*pendingCall, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return nil, host.ErrClosed
	}
	q.coming.Add(1)
	return &pendingCall{queue: q, number: number}, nil
}

// waits tells whom the call waits for. It replaces an event that was not taken yet.
// The host's event loop calls it, even for a moment after the call was given up.
func (p *pendingCall) waits(seen *host.Status) {
	q := p.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case p.ended:
	case p.waiting != nil:
		p.waiting.seen = seen
	default:
		p.waiting = &event{kind: eventWaiting, of: p, seen: seen}
		q.push(p.waiting)
	}
}

// end queues the event of the call's end.
func (p *pendingCall) end(e event) {
	e.kind, e.of = eventCall, p
	q := p.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	p.ended = true
	q.push(&e)
	q.coming.Done()
}

// endWith is end for a call that gave something to hold. The end of that has an event of
// its own, once: when its context ends, which needs no goroutine until then, or when
// onEnd's function is called before a later event.
func (p *pendingCall) endWith(h heldThing, handle uint64) {
	q := p.queue
	tell := sync.OnceFunc(func() {
		err := h.Err()
		q.mu.Lock()
		defer q.mu.Unlock()
		q.push(&event{kind: eventEnded, handle: handle, err: err})
		q.coming.Done()
	})
	q.coming.Add(1)
	onEnd(handle, tell)
	p.end(event{handle: handle, held: totalOf(h)})
	context.AfterFunc(h.Context(), tell)
}

// push needs the lock.
func (q *events) push(e *event) {
	q.queue = append(q.queue, e)
	q.notify()
}

func (q *events) notify() {
	select {
	case q.changed <- struct{}{}:
	default:
	}
}

// next takes an event, or waits for one until ctx ends. It looks before it asks
// ctx. A notification wakes only one waiter, so that waiter notifies the next one.
func (q *events) next(ctx context.Context) (*event, error) {
	for {
		e, more := q.take()
		if more {
			q.notify()
		}
		switch {
		case e != nil:
			return e, nil
		case more:
			return nil, host.ErrClosed
		}
		select {
		case <-q.changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// take returns the first event or nil, and whether another waiter would find
// something.
func (q *events) take() (first *event, more bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.queue) > 0 {
		first, q.queue[0] = q.queue[0], nil
		q.queue = q.queue[1:]
	}
	if first != nil && first.kind == eventWaiting {
		first.of.waiting = nil
	}
	return first, len(q.queue) > 0 || q.over
}

// closeGrace is how long a close whose time is over still waits for calls that are
// about to end. The host gives its requests as long.
const closeGrace = time.Second

// close lets nothing begin any more, and waits until every begun call has ended.
// Once the host is closed that is soon. If a call hangs in the system, on a dead
// mount, close does not wait for it beyond ctx; its event comes late. close reports
// whether there is nothing left to take.
func (q *events) close(ctx context.Context) bool {
	q.mu.Lock()
	first := !q.closed
	q.closed = true
	q.mu.Unlock()
	if first {
		go q.finish()
	}
	select {
	case <-q.ended:
	case <-ctx.Done():
		timer := time.NewTimer(closeGrace)
		defer timer.Stop()
		select {
		case <-q.ended:
		case <-timer.C:
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.over && len(q.queue) == 0
}

func (q *events) finish() {
	q.coming.Wait()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.over = true
	q.notify()
	close(q.ended)
}
