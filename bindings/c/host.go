//go:build cgo && !mopslock_core

package main

/*
#include "shim.h"
*/
import "C"

import (
	"context"
	"time"
	"unsafe"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
)

//export goOpen
func goOpen(url *C.char, o *C.mopslock_open_options, handle *C.uint64_t, f *C.struct_fault) C.int {
	if o.reserved != 0 {
		return report(f, badOption("reserved: is not 0"))
	}
	adoptEnvironment()
	ctx, done, err := withTimeout(0, unlimited(o.timeout_ns), timeoutOpen)
	if err != nil {
		return report(f, err)
	}
	defer done()
	engine, err := engineOf(ctx, o.engine)
	if err != nil {
		return report(f, err)
	}
	h, err := host.Open(ctx, C.GoString(url), &host.Options{InFlight: int(o.in_flight), Engine: engine})
	if err != nil {
		return report(f, noticed(ctx, err))
	}
	*handle = C.uint64_t(putHost(h))
	return C.MOPSLOCK_OK
}

// engineOf is the engine with a name; nil is the native one.
func engineOf(ctx context.Context, name *C.char) (host.Engine, error) {
	if name == nil || C.GoString(name) == "native" {
		return nil, nil
	}
	if C.GoString(name) != "wasm" {
		return nil, badOption("engine: is not native or wasm")
	}
	return guest.get(ctx)
}

//export goClose
func goClose(handle C.uint64_t, timeout C.int64_t, f *C.struct_fault) C.int {
	h, err := find[*host.Host](handle)
	if err != nil {
		return report(f, err)
	}
	ctx, done, err := withTimeout(0, timeout, timeoutClose)
	if err != nil {
		return report(f, err)
	}
	defer done()
	endReaders(uint64(handle)) // before the store's end disturbs them
	err = h.Close(ctx)
	endReaders(uint64(handle))
	for _, v := range madeOn[*invocation](uint64(handle)) {
		v.forget()
	}
	take(uint64(handle))
	closeStore(uint64(handle))
	closeQueue(ctx, uint64(handle))
	return report(f, err)
}

//export goCancelNew
func goCancelNew() C.uint64_t {
	ctx, cancel := context.WithCancelCause(context.Background())
	return C.uint64_t(put(&canceller{ctx, cancel}, cancelKind, 0))
}

//export goCancel
func goCancel(handle C.uint64_t, f *C.struct_fault) C.int {
	c, err := find[*canceller](handle)
	if err != nil {
		return report(f, err)
	}
	c.cancel(cancelled{})
	return C.MOPSLOCK_OK
}

//export goCancelFree
func goCancelFree(handle C.uint64_t, f *C.struct_fault) C.int {
	if _, err := find[*canceller](handle); err != nil {
		return report(f, err)
	}
	take(uint64(handle))
	return C.MOPSLOCK_OK
}

//export goAcquire
func goAcquire(handle C.uint64_t, name *C.char, o *C.mopslock_options, lease *C.uint64_t, f *C.struct_fault) C.int {
	c, acquire, err := prepareAcquire(handle, name, o)
	if err != nil {
		return report(f, err)
	}
	defer c.done()
	l, err := acquire(nil)
	if err != nil {
		tellSeen(o.seen, err)
		return report(f, err)
	}
	return keep(l, handle, lease, f)
}

// prepareAcquire checks the arguments and returns the acquire to call; its argument
// hears whom the call waits for.
func prepareAcquire(handle C.uint64_t, name *C.char, o *C.mopslock_options) (*call, func(func(host.Status)) (*host.Lease, error), error) {
	c, err := begin(handle, o, C.MOPSLOCK_FOREVER, "")
	if err != nil {
		return nil, nil, err
	}
	options, acquire := host.AcquireOptions{Terms: c.terms}, c.host.Acquire
	switch {
	case o.wait_ns == C.MOPSLOCK_TRY:
		acquire = c.host.TryAcquire
	case o.wait_ns < 0:
		c.done()
		return nil, nil, badOption("wait_ns: is negative and not MOPSLOCK_TRY")
	default:
		options.Wait = time.Duration(o.wait_ns)
	}
	text := C.GoString(name)
	return c, func(onWaiting func(host.Status)) (*host.Lease, error) {
		options.OnWaiting = onWaiting
		return acquire(c.ctx, text, &options)
	}, nil
}

//export goAccompany
func goAccompany(handle C.uint64_t, text *C.char, o *C.mopslock_options, companion *C.uint64_t, f *C.struct_fault) C.int {
	c, lease, err := beginWith(text, handle, o, timeoutAccompany)
	if err != nil {
		return report(f, err)
	}
	defer c.done()
	joined, err := c.host.Accompany(c.ctx, lease, &host.AccompanyOptions{Terms: c.terms})
	if err != nil {
		tellSeen(o.seen, err)
		return report(f, err)
	}
	return keep(joined, handle, companion, f)
}

//export goRenew
func goRenew(handle C.uint64_t, text *C.char, o *C.mopslock_options, left *C.int64_t, f *C.struct_fault) C.int {
	c, lease, err := beginWith(text, handle, o, timeoutRenew)
	if err != nil {
		return report(f, err)
	}
	defer c.done()
	until, err := c.host.Renew(c.ctx, lease, &c.terms)
	if err != nil {
		tellSeen(o.seen, err)
		return report(f, err)
	}
	*left = C.int64_t(time.Until(until))
	return C.MOPSLOCK_OK
}

//export goReleaseText
func goReleaseText(handle C.uint64_t, text *C.char, o *C.mopslock_options, f *C.struct_fault) C.int {
	c, lease, err := beginWith(text, handle, o, timeoutReleaseText)
	if err != nil {
		return report(f, err)
	}
	defer c.done()
	err = c.host.ReleaseHandle(c.ctx, lease, &c.terms)
	tellSeen(o.seen, err)
	return report(f, err)
}

//export goRelease
func goRelease(handle C.uint64_t, timeout C.int64_t, f *C.struct_fault) C.int {
	l, e, err := findEntry[releasable](handle)
	if err != nil {
		return report(f, err)
	}
	return finishNow(handle, e, timeout, timeoutRelease, l.Release, f)
}

//export goLeave
func goLeave(handle C.uint64_t, timeout C.int64_t, f *C.struct_fault) C.int {
	c, e, err := findEntry[*host.Companion](handle)
	if err != nil {
		return report(f, err)
	}
	return finishNow(handle, e, timeout, timeoutLeave, c.Leave, f)
}

func finishNow(handle C.uint64_t, e entry, timeout C.int64_t, kind timeoutKind, end func(context.Context) error, f *C.struct_fault) C.int {
	ctx, done, err := withTimeout(0, timeout, kind)
	if err != nil {
		return report(f, err)
	}
	defer done()
	return report(f, finish(ctx, handle, e, end))
}

// finish ends what is held, and its handle unless time was too short. The event of
// its end is queued before any caller can know of the end.
func finish(ctx context.Context, handle C.uint64_t, e entry, end func(context.Context) error) error {
	err := end(ctx)
	if e.ended != nil && e.value.(heldThing).Context().Err() != nil {
		e.ended()
	}
	if code, _ := codeOf(err); err == nil || code != C.MOPSLOCK_ETIMEOUT {
		take(uint64(handle))
	}
	return err
}

//export goCheck
func goCheck(handle C.uint64_t, f *C.struct_fault) C.int {
	h, err := find[heldThing](handle)
	if err != nil {
		return report(f, err)
	}
	return report(f, h.Err())
}

//export goWait
func goWait(handle C.uint64_t, timeout C.int64_t, f *C.struct_fault) C.int {
	h, err := find[heldThing](handle)
	if err != nil {
		return report(f, err)
	}
	ctx, done, err := withTimeout(0, timeout, timeoutWait)
	if err != nil {
		return report(f, err)
	}
	defer done()
	select {
	case <-h.Done():
	case <-ctx.Done():
		if err := h.Err(); err != nil { // before ctx, perhaps
			return report(f, err)
		}
		return report(f, context.Cause(ctx))
	}
	return report(f, h.Err())
}

//export goLeft
func goLeft(handle C.uint64_t, left *C.int64_t, f *C.struct_fault) C.int {
	h, err := find[heldThing](handle)
	if err != nil {
		return report(f, err)
	}
	*left = C.int64_t(h.Left())
	return C.MOPSLOCK_OK
}

//export goHolder
func goHolder(handle C.uint64_t, text *C.char, room C.size_t, n *C.size_t, f *C.struct_fault) C.int {
	h, err := find[heldThing](handle)
	if err != nil {
		return report(f, err)
	}
	return write(text, room, n, h.Holder(), f)
}

//export goSession
func goSession(handle C.uint64_t, text *C.char, room C.size_t, n *C.size_t, f *C.struct_fault) C.int {
	h, err := find[heldThing](handle)
	if err != nil {
		return report(f, err)
	}
	return write(text, room, n, h.Session(), f)
}

//export goVersion
func goVersion(handle C.uint64_t, token, epoch *C.uint64_t, protocol *C.int, f *C.struct_fault) C.int {
	h, err := find[heldThing](handle)
	if err != nil {
		return report(f, err)
	}
	*token, *epoch, *protocol = C.uint64_t(h.FencingToken()), C.uint64_t(h.Epoch()), C.int(h.Protocol())
	return C.MOPSLOCK_OK
}

//export goLeaseText
func goLeaseText(handle C.uint64_t, text *C.char, room C.size_t, n *C.size_t, f *C.struct_fault) C.int {
	l, err := find[interface{ Handle() host.Handle }](handle) // a lease or a work
	if err != nil {
		return report(f, err)
	}
	lease := l.Handle()
	if lease.Holder == "" { // a work without a lease
		return report(f, errHandle)
	}
	return write(text, room, n, lease.String(), f)
}

//export goInspect
func goInspect(handle C.uint64_t, name *C.char, timeout C.int64_t, status *C.mopslock_status, f *C.struct_fault) C.int {
	s, err := look(handle, name, timeout)
	if err == nil {
		tell(status, s)
	}
	return report(f, err)
}

func look(handle C.uint64_t, name *C.char, timeout C.int64_t) (*host.Status, error) {
	h, err := find[*host.Host](handle)
	if err != nil {
		return nil, err
	}
	ctx, done, err := withTimeout(0, timeout, timeoutInspect)
	if err != nil {
		return nil, err
	}
	defer done()
	s, err := h.Inspect(ctx, C.GoString(name))
	if ended := context.Cause(ctx); err != nil && ended != nil {
		err = ended // the store's error only shows that it noticed
	}
	return &s, err
}

// keep gives a handle to what was acquired or joined. If the host was closed in that
// moment, the close has ended it, and there is nothing to keep.
func keep(h heldThing, hostHandle C.uint64_t, handle *C.uint64_t, f *C.struct_fault) C.int {
	*handle = C.uint64_t(put(h, heldKind, uint64(hostHandle)))
	if *handle == 0 {
		return report(f, host.ErrClosed)
	}
	return C.MOPSLOCK_OK
}

// call is the beginning of acquire and of the calls on a lease's text. The caller must
// call done.
type call struct {
	host  *host.Host
	terms host.Terms
	ctx   context.Context
	done  func()
}

func begin(handle C.uint64_t, o *C.mopslock_options, timeout C.int64_t, kind timeoutKind) (*call, error) {
	h, err := find[*host.Host](handle)
	if err != nil {
		return nil, err
	}
	c := &call{host: h, terms: host.Terms{
		TTL: core.TTL(o.ttl_ns), Margin: time.Duration(o.margin_ns),
		AcquireMargin: time.Duration(o.acquire_margin_ns), FleetExpire: core.TTL(o.fleet_expire_ns),
	}}
	if o.blind|o.observed|1 != 1 {
		return nil, badOption("blind and observed: are 0 or 1")
	}
	if o.blind == 1 {
		c.terms.Renewal = core.RenewalBlind
	}
	if o.observed == 1 {
		c.terms.Expiry = core.ExpiryObserved
	}
	if o.session|1 != 1 {
		return nil, badOption("session: is 0 or 1")
	}
	if c.terms.Protocol, err = protocolOf(o.protocol); err != nil {
		return nil, err
	}
	c.terms.Session = o.session == 1
	if o.label != nil {
		c.terms.Label = C.GoString(o.label)
	}
	c.ctx, c.done, err = withTimeout(o.cancel, unlimited(timeout), kind)
	return c, err
}

// protocolOf is the protocol of an option; 0 is auto.
func protocolOf(number C.int32_t) (core.Protocol, error) {
	switch number {
	case C.MOPSLOCK_PROTOCOL_AUTO, C.MOPSLOCK_PROTOCOL_LASTWRITER, C.MOPSLOCK_PROTOCOL_STRICT:
		return core.Protocol(number), nil
	}
	return 0, badOption("protocol: is none of enum mopslock_protocol")
}

// beginWith is begin for the lease of a text.
func beginWith(text *C.char, handle C.uint64_t, o *C.mopslock_options, kind timeoutKind) (*call, host.Handle, error) {
	c, err := begin(handle, o, o.timeout_ns, kind)
	if err != nil {
		return nil, host.Handle{}, err
	}
	lease, err := host.ParseHandle(C.GoString(text))
	if err != nil {
		c.done()
	}
	return c, lease, err
}

// unlimited turns an option's timeout, where 0 is no limit, into an argument's.
func unlimited(timeout C.int64_t) C.int64_t {
	if timeout == 0 {
		return C.MOPSLOCK_FOREVER
	}
	return timeout
}

// withTimeout makes the context of one call; kind is its cause once the time is over.
func withTimeout(cancel C.uint64_t, timeout C.int64_t, kind timeoutKind) (context.Context, func(), error) {
	ctx, nothing := context.Background(), func() {}
	if cancel != 0 {
		c, err := find[*canceller](cancel)
		if err != nil {
			return ctx, nothing, err
		}
		ctx = c.ctx
	}
	switch {
	case timeout < C.MOPSLOCK_FOREVER:
		return ctx, nothing, badOption("timeout_ns: is negative and not MOPSLOCK_FOREVER")
	case timeout == C.MOPSLOCK_FOREVER:
		return ctx, nothing, nil
	}
	ctx, done := context.WithTimeoutCause(ctx, time.Duration(timeout), kind)
	return ctx, done, nil
}

// write puts a text and its NUL into the caller's buffer, completely or not at all.
func write(text *C.char, room C.size_t, n *C.size_t, s string, f *C.struct_fault) C.int {
	if room <= C.size_t(len(s)) {
		*n = C.size_t(len(s) + 1)
		return report(f, errShort)
	}
	*n = C.size_t(len(s))
	putText(unsafe.Slice((*byte)(unsafe.Pointer(text)), len(s)+1), s)
	return C.MOPSLOCK_OK
}
