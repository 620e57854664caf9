//go:build cgo && !mopslock_core

package main

/*
#include "shim.h"
*/
import "C"

import (
	"context"
	"path/filepath"
	"time"
	"unsafe"

	"github.com/mopslock/mopslock/host"
)

//export goInvoke
func goInvoke(handle C.uint64_t, name *C.char, o *C.mopslock_options, to *C.uint64_t, f *C.struct_fault) C.int {
	c, err := beginInvocation(handle, o)
	if err != nil {
		return report(f, err)
	}
	options := host.InvokeOptions{Terms: c.terms, MemoFailures: o.memo_failures == 1}
	switch {
	case o.wait_ns == C.MOPSLOCK_TRY:
		options.Try = true
	case o.wait_ns < 0:
		return report(f, badOption("wait_ns: is negative and not MOPSLOCK_TRY"))
	default:
		options.Wait = time.Duration(o.wait_ns)
	}
	v := newInvocation(uint64(handle))
	options.OnWaiting = v.waits
	started, err := c.host.BeginInvoke(context.Background(), C.GoString(name), &options)
	return keepInvocation(v, c, started, err, to, f)
}

//export goRemote
func goRemote(handle C.uint64_t, name, text *C.char, o *C.mopslock_options, to *C.uint64_t, f *C.struct_fault) C.int {
	c, err := beginInvocation(handle, o)
	if err != nil {
		return report(f, err)
	}
	options := host.RemoteOptions{
		Terms: c.terms, MemoFailures: o.memo_failures == 1, WithoutLease: o.without_lease == 1,
	}
	var lease host.Handle
	if text != nil {
		if lease, err = host.ParseHandle(C.GoString(text)); err != nil {
			return report(f, err)
		}
	}
	called := lease.Name
	if name != nil {
		called = C.GoString(name)
	}
	started, err := c.host.BeginRemote(context.Background(), called, lease, &options)
	return keepInvocation(newInvocation(uint64(handle)), c, started, err, to, f)
}

func beginInvocation(handle C.uint64_t, o *C.mopslock_options) (*call, error) {
	c, err := begin(handle, o, C.MOPSLOCK_FOREVER, "")
	if err != nil {
		return nil, err
	}
	if o.memo_failures|o.without_lease|1 != 1 {
		return nil, badOption("memo_failures and without_lease: are 0 or 1")
	}
	return c, nil
}

func keepInvocation(v *invocation, c *call, started *host.Invocation, err error, to *C.uint64_t, f *C.struct_fault) C.int {
	if err != nil {
		return report(f, err)
	}
	v.start(c.ctx, started)
	if *to = C.uint64_t(put(v, invocationKind, v.hostHandle)); *to == 0 { // closed in that moment
		v.forget()
		return report(f, host.ErrClosed)
	}
	return C.MOPSLOCK_OK
}

//export goWork
func goWork(handle C.uint64_t, timeout C.int64_t, seen *C.mopslock_status, to *C.uint64_t, f *C.struct_fault) C.int {
	v, err := find[*invocation](handle)
	if err != nil {
		return report(f, err)
	}
	ctx, done, err := withTimeout(0, timeout, timeoutWork)
	if err != nil {
		return report(f, err)
	}
	defer done()
	w, err := v.next(ctx, nil)
	if err != nil {
		if latest := v.waitsFor(); latest != nil {
			tell(seen, latest)
		}
		tellSeen(seen, err)
		return report(f, err)
	}
	if w == nil {
		return C.MOPSLOCK_OK
	}
	_, given, err := v.give(w)
	*to = C.uint64_t(given)
	return report(f, err)
}

//export goBeginWork
func goBeginWork(handle C.uint64_t, number *C.uint64_t, f *C.struct_fault) C.int {
	v, err := find[*invocation](handle)
	if err != nil {
		return report(f, err)
	}
	return beginCall(v.hostHandle, func() {}, number, f, func(pending *pendingCall) {
		w, err := v.next(context.Background(), pending)
		if err != nil || w == nil {
			pending.end(event{err: err})
			return
		}
		of, given, err := v.give(w)
		if err != nil {
			pending.end(event{err: err})
			return
		}
		pending.endWith(of, given)
	})
}

//export goEnded
func goEnded(handle C.uint64_t, well C.int, body unsafe.Pointer, size C.size_t, path *C.char, f *C.struct_fault) C.int {
	w, err := find[*work](handle)
	if err != nil {
		return report(f, err)
	}
	var source host.Source
	switch {
	case body != nil && path != nil:
		return report(f, errBodies)
	case body != nil:
		source = host.Bytes(append([]byte{}, unsafe.Slice((*byte)(body), int(size))...))
	case path != nil:
		file, err := filepath.Abs(C.GoString(path)) // the working directory may change before it is read
		if err != nil {
			return report(f, err)
		}
		source = host.File(file)
	}
	return report(f, w.end(well == 1, source))
}

//export goInvocationResult
func goInvocationResult(handle C.uint64_t, to *C.mopslock_result, f *C.struct_fault) C.int {
	v, err := find[*invocation](handle)
	if err != nil {
		return report(f, err)
	}
	result, err := v.result()
	if err != nil {
		return report(f, err)
	}
	if result.Failed {
		to.failed = 1
	}
	if result.Own {
		to.own = 1
	}
	fill(to.key[:], result.Key)
	return C.MOPSLOCK_OK
}

//export goResultOpen
func goResultOpen(handle C.uint64_t, timeout C.int64_t, to *C.uint64_t, length *C.int64_t, f *C.struct_fault) C.int {
	v, err := find[*invocation](handle)
	if err != nil {
		return report(f, err)
	}
	result, err := v.result()
	if err != nil {
		return report(f, err)
	}
	r, size, err := openResult(result, timeout)
	if err != nil {
		return report(f, err)
	}
	reading := put(r, readerKind, v.hostHandle)
	if reading == 0 { // closed in that moment
		r.close(host.ErrClosed)
		return report(f, host.ErrClosed)
	}
	*to, *length = C.uint64_t(reading), C.int64_t(size)
	return C.MOPSLOCK_OK
}

//export goResultRead
func goResultRead(handle C.uint64_t, timeout C.int64_t, body unsafe.Pointer, room C.size_t, n *C.size_t, f *C.struct_fault) C.int {
	r, err := find[*reader](handle)
	if err != nil || room == 0 {
		return report(f, err)
	}
	read, err := r.read(unsafe.Slice((*byte)(body), int(room)), timeout)
	*n = C.size_t(read)
	return report(f, err)
}

//export goResultClose
func goResultClose(handle C.uint64_t, f *C.struct_fault) C.int {
	r, err := find[*reader](handle)
	if err != nil {
		return report(f, err)
	}
	take(uint64(handle))
	r.close(errReader)
	return C.MOPSLOCK_OK
}

//export goGiveUp
func goGiveUp(handle C.uint64_t, f *C.struct_fault) C.int {
	v, err := find[*invocation](handle)
	if err != nil {
		return report(f, err)
	}
	v.Cancel()
	return C.MOPSLOCK_OK
}

//export goInvocationClose
func goInvocationClose(handle C.uint64_t, timeout C.int64_t, f *C.struct_fault) C.int {
	v, e, err := findEntry[*invocation](handle)
	if err != nil {
		return report(f, err)
	}
	return finishNow(handle, e, timeout, timeoutInvocation, v.close, f)
}

//export goBeginInvocationClose
func goBeginInvocationClose(handle C.uint64_t, timeout C.int64_t, number *C.uint64_t, f *C.struct_fault) C.int {
	v, e, err := findEntry[*invocation](handle)
	if err != nil {
		return report(f, err)
	}
	return beginFinish(handle, e, timeout, timeoutInvocation, v.close, number, f)
}
