//go:build cgo && !mopslock_core

package main

/*
#include "shim.h"
*/
import "C"

import (
	"context"
	"unsafe"

	"github.com/mopslock/mopslock/host/limiter"
)

//export goLimiterNew
func goLimiterNew(fifo C.int) C.uint64_t { return C.uint64_t(putLimiter(fifo == 1)) }

//export goLimiterFree
func goLimiterFree(handle C.uint64_t, f *C.struct_fault) C.int {
	l, err := find[*cLimiter](handle)
	if err != nil {
		return report(f, err)
	}
	l.free()
	return C.MOPSLOCK_OK
}

//export goLimiterHolder
func goLimiterHolder(handle C.uint64_t, to *C.uint64_t, f *C.struct_fault) C.int {
	l, err := find[*cLimiter](handle)
	if err != nil {
		return report(f, err)
	}
	if *to = C.uint64_t(l.holder()); *to == 0 {
		return report(f, errLimiterFreed)
	}
	return C.MOPSLOCK_OK
}

//export goLimiterHolderFree
func goLimiterHolderFree(handle C.uint64_t, freed *C.uint64_t, f *C.struct_fault) C.int {
	o, err := find[*limitHolder](handle)
	if err != nil {
		return report(f, err)
	}
	*freed = C.uint64_t(o.free())
	return C.MOPSLOCK_OK
}

//export goLimiterAcquire
func goLimiterAcquire(
	handle C.uint64_t, name *C.char, r *C.struct_permit_request, permit, held *C.uint64_t, f *C.struct_fault,
) C.int {
	o, ctx, err := prepareLimiterAcquire(handle, r)
	if err != nil {
		return report(f, err)
	}
	given, total, err := o.give(ctx, C.GoString(name), viewOf(r), int(r.weight), r.wait_ns)
	*permit, *held = C.uint64_t(given), C.uint64_t(total)
	return report(f, err)
}

//export goBeginLimiterAcquire
func goBeginLimiterAcquire(handle C.uint64_t, name *C.char, r *C.struct_permit_request, number *C.uint64_t, f *C.struct_fault) C.int {
	o, ctx, err := prepareLimiterAcquire(handle, r)
	if err != nil {
		return report(f, err)
	}
	text, view, weight, wait := C.GoString(name), viewOf(r), int(r.weight), r.wait_ns
	return beginCall(o.of.handle, func() {}, number, f, func(pending *pendingCall) {
		given, total, err := o.give(ctx, text, view, weight, wait)
		pending.end(event{handle: given, held: total, err: err})
	})
}

// prepareLimiterAcquire finds the holder, checks the wait and makes the context.
func prepareLimiterAcquire(handle C.uint64_t, r *C.struct_permit_request) (*limitHolder, context.Context, error) {
	o, err := find[*limitHolder](handle)
	if err != nil {
		return nil, nil, err
	}
	if r.wait_ns < C.MOPSLOCK_TRY {
		return nil, nil, badOption("wait_ns: is negative and not MOPSLOCK_TRY")
	}
	ctx, _, err := withTimeout(r.cancel, C.MOPSLOCK_FOREVER, "")
	return o, ctx, err
}

func viewOf(r *C.struct_permit_request) limiter.View {
	return limiter.View{Capacity: int(r.capacity), Width: int(r.width)}
}

//export goLimiterRelease
func goLimiterRelease(handle C.uint64_t, f *C.struct_fault) C.int {
	p, err := find[*limitPermit](handle)
	if err != nil {
		return report(f, err)
	}
	return report(f, p.release(uint64(handle)))
}

//export goLimiterSlot
func goLimiterSlot(handle C.uint64_t, name *C.char, to *C.uint64_t, f *C.struct_fault) C.int {
	o, err := find[*limitHolder](handle)
	if err != nil {
		return report(f, err)
	}
	if *to = C.uint64_t(o.keep(&limitSlot{o.On(C.GoString(name)), o}, limitSlotKind)); *to == 0 {
		return report(f, errHandle)
	}
	return C.MOPSLOCK_OK
}

//export goLimiterSlotTry
func goLimiterSlotTry(handle C.uint64_t, capacity, width, weight C.uint32_t, held *C.uint64_t, f *C.struct_fault) C.int {
	s, err := find[*limitSlot](handle)
	if err != nil {
		return report(f, err)
	}
	total, err := s.acquire(limiter.View{Capacity: int(capacity), Width: int(width)}, int(weight))
	*held = C.uint64_t(total)
	return report(f, err)
}

//export goLimiterSlotRelease
func goLimiterSlotRelease(handle C.uint64_t, weight C.uint32_t, f *C.struct_fault) C.int {
	s, err := find[*limitSlot](handle)
	if err != nil {
		return report(f, err)
	}
	if !s.Release(int(weight)) {
		return report(f, limiter.ErrOutOfBuckets)
	}
	return C.MOPSLOCK_OK
}

//export goLimiterHeld
func goLimiterHeld(handle C.uint64_t, name *C.char, held, waiting *C.uint64_t, f *C.struct_fault) C.int {
	l, err := find[*cLimiter](handle)
	if err != nil {
		return report(f, err)
	}
	text := C.GoString(name)
	*held, *waiting = C.uint64_t(l.Held(text)), C.uint64_t(l.Waiting(text))
	return C.MOPSLOCK_OK
}

//export goLimiterCounters
func goLimiterCounters(handle C.uint64_t, name *C.char, counters *C.uint32_t, room C.size_t, n *C.size_t, f *C.struct_fault) C.int {
	l, err := find[*cLimiter](handle)
	if err != nil {
		return report(f, err)
	}
	found := l.Counters(C.GoString(name))
	if *n = C.size_t(len(found)); *n > room {
		return report(f, errShort)
	}
	for i, count := range found {
		unsafe.Slice(counters, len(found))[i] = C.uint32_t(count)
	}
	return C.MOPSLOCK_OK
}
