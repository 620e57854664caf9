//go:build cgo && !mopslock_core

package main

/*
#include "shim.h"
*/
import "C"

import (
	"bytes"
	"context"
	"errors"
	"unsafe"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
	"github.com/mopslock/mopslock/host/fence"
	"github.com/mopslock/mopslock/host/store"
)

// errChanged is why an update was not written.
var errChanged = &host.Error{Kind: host.NotAcquired, Reason: core.ReasonRaced}

// errBodyNull is for arguments that the C side does not check.
var errBodyNull = badOption("body: is NULL and its length is not 0")

// guardCall is what every call of the guard needs: where, what and under which tenure.
type guardCall struct {
	store  store.Store
	object *fence.Object
	tenure fence.Tenure
	key    string
	ctx    context.Context
	done   func()
}

// guard opens the object of a key. It makes no request to the store.
func guard(handle C.uint64_t, key *C.char, w *C.struct_writer, timeout C.int64_t) (*guardCall, error) {
	h, err := find[*host.Host](handle)
	if err != nil {
		return nil, err
	}
	ctx, done, err := withTimeout(0, timeout, timeoutGuard)
	if err != nil {
		return nil, err
	}
	g := &guardCall{key: C.GoString(key), ctx: ctx, done: done}
	if w != nil {
		g.tenure = fence.Tenure{Token: uint64(w.token), Holder: C.GoString(w.holder)}
	}
	if g.store, err = storeOf(ctx, uint64(handle), h.URL()); err == nil {
		g.object, err = fence.Open(g.store, g.key)
	}
	if err != nil {
		done()
	}
	return g, noticed(ctx, err)
}

// finish tells C of the slot and returns the code of err.
func (g *guardCall) finish(slot *C.mopslock_slot, s *fence.Slot, err error, f *C.struct_fault) C.int {
	err = noticed(g.ctx, err)
	if stale, ok := errors.AsType[*fence.StaleError](err); ok {
		s = &stale.Newest
	}
	if unknown, ok := errors.AsType[*fence.UnknownError](err); ok {
		s = &fence.Slot{Number: unknown.Number, Nonce: unknown.Nonce}
	}
	slot.number, slot.token, slot.written = C.uint64_t(s.Number), C.uint64_t(s.Token), C.uint64_t(s.Written)
	slot.stamp_ns = C.int64_t(s.Stamp)
	fill(slot.holder[:], s.Holder)
	fill(slot.nonce[:], s.Nonce)
	return report(f, err)
}

// finishRead is finish for a slot whose body the caller wants.
func (g *guardCall) finishRead(r *C.struct_reader, slot *C.mopslock_slot, s *fence.Slot, err error, f *C.struct_fault) C.int {
	*r.len = 0
	code := g.finish(slot, s, err, f)
	if code != C.MOPSLOCK_OK {
		return code
	}
	*r.len = C.size_t(len(s.Body))
	if C.size_t(len(s.Body)) > r.cap {
		return report(f, errShort)
	}
	if len(s.Body) > 0 {
		copy(unsafe.Slice((*byte)(r.body), len(s.Body)), s.Body)
	}
	return C.MOPSLOCK_OK
}

// bytesOf copies C's bytes; nil stays nil.
func bytesOf(at unsafe.Pointer, size C.size_t) ([]byte, error) {
	switch {
	case size > C.MOPSLOCK_GUARDED_MAX:
		return nil, badOption("body: has more than MOPSLOCK_GUARDED_MAX bytes")
	case at == nil && size > 0:
		return nil, errBodyNull
	case at == nil:
		return nil, nil
	}
	return append([]byte{}, unsafe.Slice((*byte)(at), int(size))...), nil
}

//export goGuardedRead
func goGuardedRead(handle C.uint64_t, key *C.char, timeout C.int64_t, r *C.struct_reader, slot *C.mopslock_slot, f *C.struct_fault) C.int {
	g, err := guard(handle, key, nil, timeout)
	if err != nil {
		return report(f, err)
	}
	defer g.done()
	s, err := g.object.Read(g.ctx)
	return g.finishRead(r, slot, &s, err, f)
}

//export goGuardedRaise
func goGuardedRaise(handle C.uint64_t, key *C.char, w *C.struct_writer, timeout C.int64_t, r *C.struct_reader, slot *C.mopslock_slot, f *C.struct_fault) C.int {
	g, err := guard(handle, key, w, timeout)
	if err != nil {
		return report(f, err)
	}
	defer g.done()
	s, err := g.object.Raise(g.ctx, g.tenure)
	return g.finishRead(r, slot, &s, err, f)
}

//export goGuardedWrite
func goGuardedWrite(handle C.uint64_t, key *C.char, w *C.struct_writer, timeout C.int64_t, slot *C.mopslock_slot, f *C.struct_fault) C.int {
	body, err := bytesOf(w.body, w.len)
	if err != nil {
		return report(f, err)
	}
	g, err := guard(handle, key, w, timeout)
	if err != nil {
		return report(f, err)
	}
	defer g.done()
	s, err := g.object.Write(g.ctx, g.tenure, body)
	return g.finish(slot, &s, err, f)
}

//export goGuardedUpdate
func goGuardedUpdate(handle C.uint64_t, key *C.char, w *C.struct_writer, timeout C.int64_t, slot *C.mopslock_slot, f *C.struct_fault) C.int {
	body, err := bytesOf(w.body, w.len)
	old, oldErr := bytesOf(w.old, w.old_len)
	if err = errors.Join(err, oldErr); err != nil {
		return report(f, err)
	}
	g, err := guard(handle, key, w, timeout)
	if err != nil {
		return report(f, err)
	}
	defer g.done()
	s, err := g.object.Update(g.ctx, g.tenure, func(now []byte) ([]byte, error) {
		if (now == nil) != (old == nil) || !bytes.Equal(now, old) {
			return nil, errChanged
		}
		return body, nil
	})
	return g.finish(slot, &s, err, f)
}

//export goCreateOnce
func goCreateOnce(handle C.uint64_t, key *C.char, w *C.struct_writer, timeout C.int64_t, won *C.int, slot *C.mopslock_slot, f *C.struct_fault) C.int {
	body, err := bytesOf(w.body, w.len)
	if err != nil {
		return report(f, err)
	}
	g, err := guard(handle, key, w, timeout)
	if err != nil {
		return report(f, err)
	}
	defer g.done()
	s, ours, err := fence.CreateOnce(g.ctx, g.store, g.key, g.tenure, body)
	if ours {
		*won = 1
	}
	return g.finish(slot, &s, err, f)
}

//export goReadOnce
func goReadOnce(handle C.uint64_t, key *C.char, timeout C.int64_t, r *C.struct_reader, slot *C.mopslock_slot, f *C.struct_fault) C.int {
	g, err := guard(handle, key, nil, timeout)
	if err != nil {
		return report(f, err)
	}
	defer g.done()
	s, err := fence.ReadOnce(g.ctx, g.store, g.key)
	return g.finishRead(r, slot, &s, err, f)
}
