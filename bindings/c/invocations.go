//go:build cgo && !mopslock_core

package main

// #include "shim.h"
import "C"

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
)

// invocation is one that C has a handle of. A goroutine goes through its steps, so that
// no step ends when a caller stops waiting for it.
type invocation struct {
	*host.Invocation
	hostHandle uint64
	ready      chan *host.Work // a work to begin; there is never a second one before the first has ended
	over       chan struct{}   // closed when err is set
	err        error           // why there is no result, or nil
	forget     func() bool     // detaches it from the cancel handle

	mu        sync.Mutex
	listeners map[*pendingCall]bool // calls that hear whom it waits for
	latest    *host.Status          // for whom it waits, or nil
	works     []uint64              // handles of them
	closed    bool                  // it gives none any more
}

func newInvocation(hostHandle uint64) *invocation {
	return &invocation{
		hostHandle: hostHandle, ready: make(chan *host.Work, 1), over: make(chan struct{}), listeners: map[*pendingCall]bool{},
	}
}

// start goes through the steps of a started invocation. ctx is that of its cancel handle.
func (v *invocation) start(ctx context.Context, started *host.Invocation) {
	v.Invocation = started
	v.forget = context.AfterFunc(ctx, v.Cancel)
	go v.run()
}

func (v *invocation) run() {
	for {
		w, err := v.Next(context.Background())
		if w == nil {
			v.err = err
			close(v.over)
			return
		}
		v.mu.Lock()
		v.latest = nil
		v.mu.Unlock()
		v.ready <- w
	}
}

// next waits for a work; nil is the end. pending is the call that hears of waiting,
// or nil. A work that is ready is returned even if ctx has ended.
func (v *invocation) next(ctx context.Context, pending *pendingCall) (*host.Work, error) {
	if pending != nil {
		v.listen(pending)
		defer v.unlisten(pending)
	}
	patience := ctx.Done()
	for {
		select {
		case <-v.over: // before a work that no caller has begun
			return nil, v.err
		default:
		}
		select {
		case w := <-v.ready:
			return w, nil
		default:
		}
		if patience == nil && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		select {
		case w := <-v.ready:
			return w, nil
		case <-v.over:
		case <-patience:
			patience = nil
		}
	}
}

// listen adds a call that hears whom the invocation waits for, from the latest on.
func (v *invocation) listen(pending *pendingCall) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.listeners[pending] = true
	if v.latest != nil {
		pending.waits(v.latest)
	}
}

func (v *invocation) unlisten(pending *pendingCall) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.listeners, pending)
}

// waits hears from the host's event loop whom the invocation waits for.
func (v *invocation) waits(s host.Status) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.latest = &s
	for pending := range v.listeners {
		pending.waits(&s)
	}
}

func (v *invocation) waitsFor() *host.Status {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.latest
}

// give makes a handle for a work, unless the invocation is closed.
func (v *invocation) give(w *host.Work) (*work, uint64, error) {
	given := &work{Work: w}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return nil, 0, errHandle
	}
	handle := put(given, heldKind, v.hostHandle)
	if handle == 0 {
		return nil, 0, host.ErrClosed
	}
	v.works = append(v.works, handle)
	return given, handle, nil
}

// result is what was found.
func (v *invocation) result() (*host.Result, error) {
	if r := v.Result(); r != nil {
		return r, nil
	}
	return nil, errAbsent
}

// close gives it up, and waits until everything is given back. Unless time was too
// short its works end with it. Their events are queued before close returns.
func (v *invocation) close(ctx context.Context) error {
	v.Cancel()
	err := v.Wait(ctx)
	if code, _ := codeOf(err); err != nil && code == C.MOPSLOCK_ETIMEOUT {
		return err
	}
	v.forget()
	v.mu.Lock()
	defer v.mu.Unlock()
	v.closed = true
	for _, handle := range v.works {
		tellEnd(handle)
		take(handle)
	}
	v.works = nil
	return err
}

// work is one that C has a handle of.
type work struct {
	*host.Work
	said atomic.Bool // that it has ended
}

// end ends the work, once.
func (w *work) end(well bool, source host.Source) error {
	if !w.said.CompareAndSwap(false, true) {
		return errSaid
	}
	switch {
	case well && source != nil:
		w.Return(source)
	case !well && source != nil:
		w.Fail(source)
	}
	if well {
		w.End(nil)
	} else {
		w.End(errFailed)
	}
	return nil
}

// Err is why the work must stop. A remote's may go on until its lease belongs to another
// tenure.
func (w *work) Err() error {
	if w.Lease() == nil {
		return context.Cause(w.Context())
	}
	return w.Work.Err()
}

// Done is closed when Err is no longer nil. It does not look at the clock.
func (w *work) Done() <-chan struct{} { return w.Context().Done() }

// Protocol is the protocol of its lease, or 0.
func (w *work) Protocol() core.Protocol {
	if l := w.Lease(); l != nil {
		return l.Protocol()
	}
	if c := w.Companion(); c != nil {
		return c.Protocol()
	}
	return 0
}

// Session is the session of its lease, or "".
func (w *work) Session() string {
	if l := w.Lease(); l != nil {
		return l.Session()
	}
	if c := w.Companion(); c != nil {
		return c.Session()
	}
	return ""
}
