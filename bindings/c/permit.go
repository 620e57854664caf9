//go:build cgo && !mopslock_core

package main

/*
#include "shim.h"
*/
import "C"

import (
	"context"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
)

// permit is held like a lease.
type permit struct{ *host.Permit }

func (permit) Protocol() core.Protocol { return core.ProtocolStrict }

// Epoch never changes: a permit has no companions.
func (p permit) Epoch() uint64 { return p.FencingToken() }

// totalOf is how much was held with a permit; 0 of other things.
func totalOf(h heldThing) uint64 {
	if p, ok := h.(permit); ok {
		return p.Total()
	}
	return 0
}

// releasable is what mopslock_release takes: a lease or a permit.
type releasable interface {
	heldThing
	Release(ctx context.Context) error
}

//export goPermit
func goPermit(handle C.uint64_t, name *C.char, o *C.mopslock_options, to *C.uint64_t, f *C.struct_fault) C.int {
	c, acquire, err := preparePermit(handle, name, o)
	if err != nil {
		return report(f, err)
	}
	defer c.done()
	p, err := acquire(nil)
	if err != nil {
		tellSeen(o.seen, err)
		return report(f, err)
	}
	return keep(permit{p}, handle, to, f)
}

//export goBeginPermit
func goBeginPermit(handle C.uint64_t, name *C.char, o *C.mopslock_options, number *C.uint64_t, f *C.struct_fault) C.int {
	c, acquire, err := preparePermit(handle, name, o)
	if err != nil {
		return report(f, err)
	}
	return beginCall(uint64(handle), c.done, number, f, func(pending *pendingCall) {
		p, err := acquire(func(s host.Status) { pending.waits(&s) })
		if err != nil {
			pending.end(event{err: err, held: heldOf(err)})
			return
		}
		pending.complete(permit{p}, nil, uint64(handle))
	})
}

// preparePermit is prepareAcquire for a permit.
func preparePermit(handle C.uint64_t, name *C.char, o *C.mopslock_options) (*call, func(func(host.Status)) (*host.Permit, error), error) {
	c, err := begin(handle, o, C.MOPSLOCK_FOREVER, "")
	if err != nil {
		return nil, nil, err
	}
	options, acquire := host.PermitOptions{Terms: c.terms, Weight: int(o.weight), Spare: int(o.spare)}, c.host.AcquirePermit
	switch {
	case o.wait_ns == C.MOPSLOCK_TRY:
		acquire = c.host.TryAcquirePermit
	case o.wait_ns < 0:
		c.done()
		return nil, nil, badOption("wait_ns: is negative and not MOPSLOCK_TRY")
	default:
		options.Wait = time.Duration(o.wait_ns)
	}
	text, view := C.GoString(name), host.View{Capacity: int(o.capacity), Width: int(o.width)}
	return c, func(onWaiting func(host.Status)) (*host.Permit, error) {
		options.OnWaiting = onWaiting
		return acquire(c.ctx, text, view, &options)
	}, nil
}

//export goPermitTotal
func goPermitTotal(handle C.uint64_t, total *C.uint64_t, f *C.struct_fault) C.int {
	p, err := find[permit](handle)
	if err != nil {
		return report(f, err)
	}
	*total = C.uint64_t(p.Total())
	return C.MOPSLOCK_OK
}

//export goSetLimit
func goSetLimit(handle C.uint64_t, name *C.char, limit C.uint64_t, timeout C.int64_t, f *C.struct_fault) C.int {
	h, err := find[*host.Host](handle)
	if err != nil {
		return report(f, err)
	}
	ctx, done, err := withTimeout(0, timeout, timeoutLimit)
	if err != nil {
		return report(f, err)
	}
	defer done()
	return report(f, noticed(ctx, h.SetLimit(ctx, C.GoString(name), uint64(limit))))
}

//export goInspectHolders
func goInspectHolders(
	handle C.uint64_t, name *C.char, timeout C.int64_t, status *C.mopslock_status, v *C.struct_holder_visitor,
	f *C.struct_fault,
) C.int {
	s, err := look(handle, name, timeout)
	if err != nil {
		return report(f, err)
	}
	tell(status, s)
	C.told_of(v, status)
	for i := range s.Holders {
		if visitHolder(v, &s.Holders[i]) {
			break
		}
	}
	return C.MOPSLOCK_OK
}

// visitHolder calls the caller's function for one permit, and reports whether that ends
// the visits.
func visitHolder(v *C.struct_holder_visitor, p *host.PermitHolder) bool {
	var holder C.mopslock_permit_holder
	holder.size = C.sizeof_mopslock_permit_holder
	holder.weight = C.uint64_t(p.Weight)
	if p.Stale {
		holder.stale = 1
	}
	fill(holder.id[:], p.ID)
	fill(holder.session[:], p.Session)
	fill(holder.host[:], p.Host)
	fill(holder.pid[:], p.PID)
	fill(holder.label[:], p.Label)
	return C.called_for_holder(v, &holder) != 0
}
