//go:build cgo && !mopslock_core

package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"

	"github.com/mopslock/mopslock/host"
)

var errOver = errors.New("over")

// poll is what mopslock_next does with no time.
func poll(t *testing.T, handle uint64) (*event, error) {
	t.Helper()
	ctx, over := context.WithCancelCause(t.Context())
	over(errOver)
	return nextEvent(ctx, handle)
}

func start(t *testing.T, handle uint64) *pendingCall {
	t.Helper()
	q, err := queueOf(handle)
	if err != nil {
		t.Fatal(err)
	}
	pending, err := q.begin(newCall())
	if err != nil {
		t.Fatal(err)
	}
	return pending
}

func open(t *testing.T) (*host.Host, uint64) {
	t.Helper()
	h, err := host.Open(t.Context(), "mem://", nil)
	if err != nil {
		t.Fatal(err)
	}
	return h, putHost(h)
}

func shut(t *testing.T, h *host.Host, handle uint64) {
	t.Helper()
	if err := h.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	take(handle)
	closeQueue(t.Context(), handle)
}

// TestWaitingCoalesces: a caller that asks late gets the latest status once, and none of
// a wait whose call has ended.
func TestWaitingCoalesces(t *testing.T) {
	h, handle := open(t)
	one, two := start(t, handle), start(t, handle)
	one.waits(&host.Status{Holder: "a"})
	two.waits(&host.Status{Holder: "b"})
	one.waits(&host.Status{Holder: "c"})
	want := func(of *pendingCall, kind eventKind, holder string) {
		t.Helper()
		e, err := poll(t, handle)
		if err != nil || e.of != of || e.kind != kind || (holder != "") != (e.seen != nil) || e.seen != nil && e.seen.Holder != holder {
			t.Errorf("%+v, %v; want kind %d of call %d, %q", e, err, kind, of.number, holder)
		}
	}
	want(one, eventWaiting, "c")
	one.waits(&host.Status{Holder: "d"}) // the one before was taken
	want(two, eventWaiting, "b")
	one.end(event{err: errOver})
	one.waits(&host.Status{Holder: "e"})
	two.end(event{})
	want(one, eventWaiting, "d")
	want(one, eventCall, "")
	want(two, eventCall, "")
	if e, err := poll(t, handle); !errors.Is(err, errOver) {
		t.Errorf("%+v, %v", e, err)
	}
	shut(t, h, handle)
}

// TestQueueGoes with the last event of a closed host, or at once if there is none.
func TestQueueGoes(t *testing.T) {
	h, handle := open(t)
	shut(t, h, handle)
	if _, err := queueOf(handle); !errors.Is(err, host.ErrClosed) {
		t.Errorf("a queue that never had anything: %v", err)
	}

	h, handle = open(t)
	pending := start(t, handle)
	q := pending.queue
	pending.end(event{})
	shut(t, h, handle)
	if _, err := q.begin(newCall()); !errors.Is(err, host.ErrClosed) {
		t.Errorf("a call was begun on a closed host: %v", err)
	}
	closeQueue(t.Context(), handle) // as a second close at that moment does
	if e, err := poll(t, handle); err != nil || e.of != pending {
		t.Errorf("%+v, %v", e, err)
	}
	if _, err := poll(t, handle); !errors.Is(err, host.ErrClosed) {
		t.Error(err)
	}
	table.mu.RLock()
	defer table.mu.RUnlock()
	if len(table.queues) != 0 {
		t.Errorf("queues of closed hosts are left: %v", table.queues)
	}
}

// TestCloseLeavesBehind what hangs, and tells of it once it has ended.
func TestCloseLeavesBehind(t *testing.T) {
	h, handle := open(t)
	pending := start(t, handle)
	l, err := h.Acquire(t.Context(), "n", nil)
	if err := errors.Join(err, h.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
	take(handle)
	ctx, over := context.WithCancel(t.Context())
	over()
	closeQueue(ctx, handle) // returns
	if e, err := poll(t, handle); !errors.Is(err, errOver) {
		t.Errorf("%+v, %v", e, err)
	}
	pending.complete(l, nil, handle) // in the last moment, and too late
	if e, err := poll(t, handle); err != nil || e.of != pending || e.err != error(host.ErrClosed) || e.handle != 0 {
		t.Errorf("%+v, %v", e, err)
	}
	if e, err := nextEvent(t.Context(), handle); !errors.Is(err, host.ErrClosed) {
		t.Errorf("%+v, %v", e, err)
	}
}

// TestEndIsToldFirst: before it is known that a lease was ended, and only if.
func TestEndIsToldFirst(t *testing.T) {
	h, handle := open(t)
	for _, over := range []bool{true, false} {
		l, err := h.Acquire(t.Context(), "n", nil)
		if err != nil {
			t.Fatal(err)
		}
		told := false
		e := entry{value: l, ended: func() { told = true }}
		end := l.Release
		if !over {
			end = func(context.Context) error { return timeoutRelease }
		}
		if err := finish(t.Context(), 0, e, end); (err == nil) != over || told != over {
			t.Errorf("over %v: told %v, %v", over, told, err)
		}
	}
	shut(t, h, handle)
}

// TestHeldCostNoGoroutine: each end has its event, and no goroutine waits for it.
func TestHeldCostNoGoroutine(t *testing.T) {
	const leases, requests = 1000, 64 // under way at once
	h, handle := open(t)
	before := runtime.NumGoroutine()
	for i := range leases {
		pending := start(t, handle)
		l, err := h.Acquire(t.Context(), fmt.Sprint(i), nil)
		pending.complete(l, err, handle)
	}
	if now := runtime.NumGoroutine(); now > before+requests+16 {
		t.Errorf("%d goroutines with %d leases, %d before", now, leases, before)
	}
	shut(t, h, handle)
	given, ended := map[uint64]bool{}, map[uint64]bool{}
	for range 2 * leases {
		e, err := poll(t, handle)
		switch {
		case err != nil:
			t.Fatal(err)
		case e.kind == eventCall:
			given[e.handle] = true
		case e.kind == eventEnded && errors.Is(e.err, host.ErrReleased) && given[e.handle]:
			ended[e.handle] = true
		}
	}
	if len(given) != leases || len(ended) != leases {
		t.Errorf("%d given, %d ended", len(given), len(ended))
	}
	if _, err := poll(t, handle); !errors.Is(err, host.ErrClosed) {
		t.Error(err)
	}
}
