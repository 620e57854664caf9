//go:build cgo && !mopslock_core

package main

/*
#include "shim.h"
*/
import "C"

import (
	"context"
	"time"

	"github.com/mopslock/mopslock/host"
)

//export goBeginAcquire
func goBeginAcquire(handle C.uint64_t, name *C.char, o *C.mopslock_options, number *C.uint64_t, f *C.struct_fault) C.int {
	c, acquire, err := prepareAcquire(handle, name, o)
	if err != nil {
		return report(f, err)
	}
	return beginCall(uint64(handle), c.done, number, f, func(pending *pendingCall) {
		l, err := acquire(func(s host.Status) { pending.waits(&s) })
		pending.complete(l, err, uint64(handle))
	})
}

//export goBeginAccompany
func goBeginAccompany(handle C.uint64_t, text *C.char, o *C.mopslock_options, number *C.uint64_t, f *C.struct_fault) C.int {
	c, lease, err := beginWith(text, handle, o, timeoutAccompany)
	if err != nil {
		return report(f, err)
	}
	return beginCall(uint64(handle), c.done, number, f, func(pending *pendingCall) {
		joined, err := c.host.Accompany(c.ctx, lease, &host.AccompanyOptions{Terms: c.terms})
		pending.complete(joined, err, uint64(handle))
	})
}

//export goBeginRenew
func goBeginRenew(handle C.uint64_t, text *C.char, o *C.mopslock_options, number *C.uint64_t, f *C.struct_fault) C.int {
	c, lease, err := beginWith(text, handle, o, timeoutRenew)
	if err != nil {
		return report(f, err)
	}
	return beginCall(uint64(handle), c.done, number, f, func(pending *pendingCall) {
		until, err := c.host.Renew(c.ctx, lease, &c.terms)
		pending.end(event{until: until, err: err})
	})
}

//export goBeginRelease
func goBeginRelease(handle C.uint64_t, timeout C.int64_t, number *C.uint64_t, f *C.struct_fault) C.int {
	l, e, err := findEntry[releasable](handle)
	if err != nil {
		return report(f, err)
	}
	return beginFinish(handle, e, timeout, timeoutRelease, l.Release, number, f)
}

//export goBeginLeave
func goBeginLeave(handle C.uint64_t, timeout C.int64_t, number *C.uint64_t, f *C.struct_fault) C.int {
	c, e, err := findEntry[*host.Companion](handle)
	if err != nil {
		return report(f, err)
	}
	return beginFinish(handle, e, timeout, timeoutLeave, c.Leave, number, f)
}

func beginFinish(
	handle C.uint64_t, e entry, timeout C.int64_t, kind timeoutKind, end func(context.Context) error,
	number *C.uint64_t, f *C.struct_fault,
) C.int {
	ctx, done, err := withTimeout(0, timeout, kind)
	if err != nil {
		return report(f, err)
	}
	return beginCall(e.hostHandle, done, number, f, func(pending *pendingCall) {
		pending.end(event{err: finish(ctx, handle, e, end)})
	})
}

// beginCall runs a call on a goroutine of its own, and done after it. run ends the
// call. source is the handle of the host or limiter that has its events.
func beginCall(source uint64, done func(), number *C.uint64_t, f *C.struct_fault, run func(*pendingCall)) C.int {
	var pending *pendingCall
	q, err := queueOf(source)
	if err == nil {
		pending, err = q.begin(newCall())
	}
	if err != nil {
		done()
		return report(f, err)
	}
	*number = C.uint64_t(pending.number)
	go func() {
		defer done()
		run(pending)
	}()
	return C.MOPSLOCK_OK
}

// complete ends a call with what it acquired or joined, or with the error.
func (p *pendingCall) complete(h heldThing, err error, hostHandle uint64) {
	if err != nil {
		p.end(event{err: err})
		return
	}
	handle := put(h, heldKind, hostHandle)
	if handle == 0 { // closed in that moment
		p.end(event{err: host.ErrClosed})
		return
	}
	p.endWith(h, handle)
}

//export goNext
func goNext(handle C.uint64_t, timeout C.int64_t, to *C.mopslock_event, f *C.struct_fault) C.int {
	ctx, done, err := withTimeout(0, timeout, timeoutNext)
	if err != nil {
		return report(f, err)
	}
	defer done()
	e, err := nextEvent(ctx, uint64(handle))
	if err != nil {
		return report(f, err)
	}
	tellEvent(to, e)
	return C.MOPSLOCK_OK
}

// tellEvent writes an event to C: what the call would have returned, and what
// mopslock_last_error would have after it.
func tellEvent(to *C.mopslock_event, e *event) {
	to.kind, to.member, to.held = C.int32_t(e.kind), C.uint64_t(e.handle), C.uint64_t(e.held)
	if e.of != nil {
		to.call = C.uint64_t(e.of.number)
	}
	if !e.until.IsZero() {
		to.left_ns = C.int64_t(time.Until(e.until))
	}
	if e.seen != nil {
		tell(to.seen, e.seen)
	}
	if e.err == nil {
		return
	}
	code, reason := codeOf(e.err)
	to.code, to.reason, to.store_class = code, C.int32_t(reason), C.int32_t(classOf(e.err))
	fill(to.text[:], e.err.Error())
	tellSeen(to.seen, e.err)
}
