//go:build cgo && !mopslock_core

package main

/*
#include "shim.h"
*/
import "C"

import (
	"context"
	"errors"
	"unsafe"

	"github.com/mopslock/mopslock/host"
)

//export goBreak
func goBreak(handle C.uint64_t, name *C.char, o *C.mopslock_break_options, f *C.struct_fault) C.int {
	h, err := find[*host.Host](handle)
	if err != nil {
		return report(f, err)
	}
	options := host.BreakOptions{Now: o.now == 1}
	if o.now|1 != 1 {
		return report(f, badOption("now: is 0 or 1"))
	}
	if options.Protocol, err = protocolOf(o.protocol); err != nil {
		return report(f, err)
	}
	if o.why != nil {
		options.Why = C.GoString(o.why)
	}
	if o.holder != nil {
		options.Holder = C.GoString(o.holder)
	}
	ctx, done, err := withTimeout(0, unlimited(o.timeout_ns), timeoutBreak)
	if err != nil {
		return report(f, err)
	}
	defer done()
	s, err := h.Break(ctx, C.GoString(name), &options)
	if err != nil {
		tellSeen(o.seen, err)
		return report(f, noticed(ctx, err))
	}
	tell(o.seen, &s)
	return C.MOPSLOCK_OK
}

//export goList
func goList(handle C.uint64_t, prefix *C.char, timeout C.int64_t, v *C.struct_visitor, f *C.struct_fault) C.int {
	h, err := find[*host.Host](handle)
	if err != nil {
		return report(f, err)
	}
	ctx, done, err := withTimeout(0, timeout, timeoutList)
	if err != nil {
		return report(f, err)
	}
	defer done()
	for s, err := range h.List(ctx, C.GoString(prefix)) {
		if err != nil && (s.Name == "" || errors.Is(err, host.ErrClosed) || ctx.Err() != nil) {
			if ended := context.Cause(ctx); ended != nil {
				err = ended // the store's error only shows that it noticed
			}
			return report(f, err)
		}
		if visit(v, &s, err, f) {
			return C.MOPSLOCK_OK
		}
	}
	return report(f, context.Cause(ctx))
}

// visit calls the caller's function for one lease, and reports whether that ends the
// list.
func visit(v *C.struct_visitor, s *host.Status, err error, f *C.struct_fault) bool {
	var status C.mopslock_status
	status.size = C.sizeof_mopslock_status
	if err == nil {
		tell(&status, s)
	}
	name := make([]byte, len(s.Name)+1)
	putText(name, s.Name)
	return C.called_for(v, (*C.char)(unsafe.Pointer(&name[0])), &status, report(f, err)) != 0
}
