//go:build cgo && !mopslock_core

package main

/*
#include "shim.h"
*/
import "C"

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
	"unsafe"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
	"github.com/mopslock/mopslock/host/fence"
	"github.com/mopslock/mopslock/host/limiter"
	"github.com/mopslock/mopslock/host/store"
)

var (
	errHandle = errors.New("mopslock: the handle names nothing, or something of another kind")
	errShort  = errors.New("mopslock: the buffer is too short for the text and its NUL")
	errFailed = errors.New("mopslock_ended said so")
	errReader = fmt.Errorf("mopslock: the reader was closed while it read (%w)", context.Canceled)
	errBodies = badOption("body and path: are both given; a work has one output")
	errAbsent = errors.New("mopslock: there is no result, or none yet; mopslock_work waits for it")
	errSaid   = errors.New("mopslock: mopslock_ended was called for this work before")

	errLimiterFreed = errors.New("mopslock: the limiter was freed")
)

// cancelled is the cause of a context that mopslock_cancel ended.
type cancelled struct{}

func (cancelled) Error() string { return "mopslock: mopslock_cancel was called" }

func (cancelled) Unwrap() error { return context.Canceled }

// timeoutKind is the cause of a context that timeout_ns ended. The host hands it
// through. Its text tells people what became of the call.
type timeoutKind string

const (
	timeoutOpen        timeoutKind = "the host was open; what was begun for it, as compiling the WASM engine, goes on and serves the next"
	timeoutClose       timeoutKind = "everything was released; the host is closed, and what it still held expires by itself, a TTL after its last renewal"
	timeoutRelease     timeoutKind = "the store said that the lease is released; the host goes on trying, and the handle is still good"
	timeoutLeave       timeoutKind = "the companion had left; the host goes on ending it, and the handle is still good"
	timeoutWait        timeoutKind = "anything happened; the lease may still be relied on"
	timeoutInspect     timeoutKind = "the store answered; nothing was changed"
	timeoutAccompany   timeoutKind = "the lease was joined; nothing is kept alive"
	timeoutList        timeoutKind = "every lease was told of; nothing was changed"
	timeoutBreak       timeoutKind = "the lease was known to be broken; it may be, or not: look at it"
	timeoutGuard       timeoutKind = "anything was sent to the store; nothing was written"
	timeoutNext        timeoutKind = "anything happened; what was begun goes on"
	timeoutRenew       timeoutKind = "the store said that the lease is renewed; it may be, or not"
	timeoutWork        timeoutKind = "there was work to do or an end; the invocation goes on"
	timeoutInvocation  timeoutKind = "the store said that the lease was given back; the host goes on trying, and the handle is still good"
	timeoutResult      timeoutKind = "the store answered; the result is where it was"
	timeoutRead        timeoutKind = "more of the result came; open it again"
	timeoutRoom        timeoutKind = "there was room for the permit; nothing is held"
	timeoutLimit       timeoutKind = "the store said that it has the limit; it may, or not: look at it"
	timeoutReleaseText timeoutKind = "the store said that the lease is released; the host goes on trying until the lease's TTL is over"
)

func (l timeoutKind) Error() string { return "mopslock: timeout_ns was over before " + string(l) }

func (timeoutKind) Unwrap() error { return context.DeadlineExceeded }

// noticed is the cause of ctx's end if err is only how a driver noticed that, otherwise
// err.
func noticed(ctx context.Context, err error) error {
	if ended := ctx.Err(); ended != nil && errors.Is(err, ended) {
		return context.Cause(ctx)
	}
	return err
}

// badOption is the error for an invalid option.
func badOption(what string) error { return errors.New("mopslock: options: " + what) }

// report stores an error for mopslock_last_error and returns its code.
func report(f *C.struct_fault, err error) C.int {
	if err == nil {
		return C.MOPSLOCK_OK
	}
	code, reason := codeOf(err)
	f.reason, f.class = C.int32_t(reason), C.int32_t(classOf(err))
	fill(f.text[:], err.Error())
	return code
}

// codeOf is the code that a caller acts on, and the core's reason if there is one.
func codeOf(err error) (C.int, core.Reason) {
	if e, ok := errors.AsType[*host.Error](err); ok {
		return codeOfLease(e), e.Reason
	}
	code := codeOfCall(err)
	return code, reasonOf[code]
}

// reasonOf has the codes of calls that also have a reason.
var reasonOf = map[C.int]core.Reason{
	C.MOPSLOCK_ECANCELLED:      core.ReasonCancelled,
	C.MOPSLOCK_EFULL:           core.ReasonFull,
	C.MOPSLOCK_ETOO_HEAVY:      core.ReasonTooHeavy,
	C.MOPSLOCK_EOUT_OF_BUCKETS: core.ReasonOutOfBuckets,
}

// classOf is how the store failed. An error whose code is not the store's may wrap a
// store's error, such as ErrURL. Then the store was not asked, and there is no class.
func classOf(err error) core.Class {
	if e, ok := errors.AsType[*host.Error](err); ok {
		return e.Class
	}
	failed, ofStore := errors.AsType[*store.Error](err)
	if !ofStore || codeOfCall(err) != codeOfStore(failed.Class) {
		return core.ClassNone
	}
	return failed.Class
}

// codeOfCall is the code of a call's error. Every error that is not listed is about the
// arguments.
func codeOfCall(err error) C.int {
	_, engine := errors.AsType[*host.EngineError](err)
	failed, ofStore := errors.AsType[*store.Error](err)
	switch {
	case engine:
		return C.MOPSLOCK_EENGINE
	case errors.Is(err, errHandle):
		return C.MOPSLOCK_EHANDLE
	case errors.Is(err, errShort):
		return C.MOPSLOCK_ESHORT
	case errors.Is(err, errSaid), errors.Is(err, limiter.ErrOwnerEnded):
		return C.MOPSLOCK_EENDED
	case errors.Is(err, host.ErrWeightExceedsLimit), errors.Is(err, limiter.ErrWeightExceedsLimit): // before that it is a *core.Error
		return C.MOPSLOCK_ETOO_HEAVY
	case errors.Is(err, host.ErrFull), errors.Is(err, limiter.ErrFull):
		return C.MOPSLOCK_EFULL
	case errors.Is(err, limiter.ErrOutOfBuckets):
		return C.MOPSLOCK_EOUT_OF_BUCKETS
	case errors.Is(err, fence.ErrStale):
		return C.MOPSLOCK_ESTALE
	case errors.Is(err, fence.ErrUnknown): // before what the store said, which is behind it
		return C.MOPSLOCK_EUNKNOWN
	case errors.Is(err, fence.ErrForeign), errors.Is(err, fence.ErrCorrupt), errors.Is(err, fence.ErrNewer),
		errors.Is(err, errors.ErrUnsupported):
		return C.MOPSLOCK_EUNFIT
	case errors.Is(err, store.ErrAbsent), errors.Is(err, errAbsent):
		return C.MOPSLOCK_EVACANT
	case errors.Is(err, store.ErrURL), errors.Is(err, store.ErrKey):
		return C.MOPSLOCK_EINVAL
	case errors.Is(err, store.ErrClosed), errors.Is(err, host.ErrClosed), errors.Is(err, errLimiterFreed):
		return C.MOPSLOCK_ECLOSED
	case ofStore: // before a timeout that is behind it
		return codeOfStore(failed.Class)
	case errors.Is(err, context.DeadlineExceeded):
		return C.MOPSLOCK_ETIMEOUT
	case errors.Is(err, context.Canceled):
		return C.MOPSLOCK_ECANCELLED
	}
	return C.MOPSLOCK_EINVAL
}

func codeOfLease(e *host.Error) C.int {
	switch e.Kind {
	case host.Lost:
		return C.MOPSLOCK_ELOST
	case host.NothingToJoin:
		return C.MOPSLOCK_ECANNOT_MAINTAIN
	case host.Ended:
		return C.MOPSLOCK_EENDED
	case host.Incompatible:
		return C.MOPSLOCK_EUNFIT
	case host.NoResult:
		return C.MOPSLOCK_ENORESULT
	}
	if _, ok := errors.AsType[*host.EngineError](e.Err); ok {
		return C.MOPSLOCK_EENGINE
	}
	switch e.Reason {
	case core.ReasonHeld, core.ReasonRaced:
		return C.MOPSLOCK_EHELD
	case core.ReasonFull:
		return C.MOPSLOCK_EFULL
	case core.ReasonTooHeavy:
		return C.MOPSLOCK_ETOO_HEAVY
	case core.ReasonCrowded:
		return C.MOPSLOCK_ECROWDED
	case core.ReasonVacant:
		return C.MOPSLOCK_EVACANT
	case core.ReasonLimit:
		return C.MOPSLOCK_ETIMEOUT
	case core.ReasonCancelled:
		return C.MOPSLOCK_ECANCELLED
	}
	return codeOfStore(e.Class)
}

func codeOfStore(class core.Class) C.int {
	switch class {
	case core.ClassUnauthorized:
		return C.MOPSLOCK_EUNAUTHORIZED
	case core.ClassNoSuchStore:
		return C.MOPSLOCK_ENOSTORE
	case core.ClassUnreachable:
		return C.MOPSLOCK_EUNREACHABLE
	}
	return C.MOPSLOCK_ESTORE
}

// tellSeen writes which process holds the lease, or took it, if the error says so.
func tellSeen(to *C.mopslock_status, err error) {
	if e, ok := errors.AsType[*host.Error](err); ok && e.Seen != nil {
		tell(to, e.Seen)
	}
}

func tell(to *C.mopslock_status, s *host.Status) {
	to.state = C.int32_t(s.State)
	if s.Companion {
		to.companion = 1
	}
	to.ttl_ns, to.age_ns, to.left_ns = C.int64_t(s.TTL), C.int64_t(s.Age), C.int64_t(s.Left)
	to.acquired_ns, to.written_ns, to.released_ns = instant(s.Acquired), instant(s.Written), instant(s.Released)
	fill(to.holder[:], s.Holder)
	fill(to.host[:], s.Host)
	fill(to.pid[:], s.PID)
	to.epoch, to.token, to.protocol = C.uint64_t(s.Epoch), C.uint64_t(s.Token), C.int32_t(s.Protocol)
	if s.Clock == "store" {
		to.store_clock = 1
	}
	fill(to.companions[:], strings.Join(s.Companions, ","))
	fill(to.label[:], s.Label)
	fill(to.session[:], s.Session)
	fill(to.why[:], s.Why)
	fill(to.by[:], s.By)
	to.capacity, to.width = C.uint32_t(s.Capacity), C.uint32_t(s.Width)
	to.held, to.limit, to.holders = C.uint64_t(s.Held), C.uint64_t(s.Limit), C.uint64_t(len(s.Holders))
}

// heldOf is how many permits are held on a full semaphore.
func heldOf(err error) uint64 {
	if e, ok := errors.AsType[*host.Error](err); ok && e.Reason == core.ReasonFull && e.Seen != nil {
		return e.Seen.Held
	}
	return 0
}

func instant(t time.Time) C.int64_t {
	if t.IsZero() {
		return 0
	}
	return C.int64_t(t.UnixNano())
}

func fill(to []C.char, s string) {
	putText(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(to))), len(to)), s)
}

// putText writes s and a NUL, cut between two characters to fit.
func putText(to []byte, s string) {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "?"), "\x00", "?")
	end := min(len(s), len(to)-1)
	for end < len(s) && end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	copy(to, s[:end])
	to[end] = 0
}
