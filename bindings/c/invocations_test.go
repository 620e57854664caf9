//go:build cgo && !mopslock_core

package main

import (
	"context"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/mopslock/mopslock/host"
)

// invoked is an invocation as goInvoke makes it, and its handle.
func invoked(t *testing.T, ctx context.Context, h *host.Host, hostHandle uint64, name string) (*invocation, uint64) {
	t.Helper()
	v := newInvocation(hostHandle)
	started, err := h.BeginInvoke(t.Context(), name, &host.InvokeOptions{OnWaiting: v.waits})
	if err != nil {
		t.Fatal(err)
	}
	v.start(ctx, started)
	return v, put(v, invocationKind, hostHandle)
}

func given(t *testing.T, v *invocation) (*work, uint64) {
	t.Helper()
	w, err := v.next(t.Context(), nil)
	if err != nil || w == nil {
		t.Fatalf("%v, %v", w, err)
	}
	of, handle, err := v.give(w)
	if err != nil {
		t.Fatal(err)
	}
	return of, handle
}

// TestPatienceEndsNoStep: a step goes on when no call asks for it any more, and the next
// call gets what it gave. A work that is ready comes before the end of the call's time.
func TestPatienceEndsNoStep(t *testing.T) {
	h, hostHandle := open(t)
	none, over := context.WithCancelCause(t.Context())
	over(errOver)
	v, _ := invoked(t, t.Context(), h, hostHandle, "n")
	var w *host.Work
	for w == nil { // a bound is the test's own
		var err error
		if w, err = v.next(none, nil); err != nil && !errors.Is(err, errOver) {
			t.Fatal(err)
		}
		runtime.Gosched()
	}
	w.Return(host.Bytes([]byte("x")))
	w.End(nil)
	<-v.over
	if w, err := v.next(none, nil); w != nil || err != nil {
		t.Errorf("%v, %v after the end", w, err)
	}
	if r, err := v.result(); err != nil || !r.Own {
		t.Errorf("%+v, %v", r, err)
	}
	shut(t, h, hostHandle)
}

// TestWaitingIsToldToAll calls that listen, from the latest status on.
func TestWaitingIsToldToAll(t *testing.T) {
	h, hostHandle := open(t)
	v, _ := invoked(t, t.Context(), h, hostHandle, "n")
	one, two := start(t, hostHandle), start(t, hostHandle)
	v.waits(host.Status{Holder: "a"})
	v.listen(one)
	v.listen(two)
	v.waits(host.Status{Holder: "b"})
	v.unlisten(one)
	v.waits(host.Status{Holder: "c"})
	for want, of := range map[string]*pendingCall{"b": one, "c": two} {
		if of.waiting == nil || of.waiting.seen.Holder != want {
			t.Errorf("%+v, want %q", of.waiting, want)
		}
	}
	one.end(event{})
	two.end(event{})
	shut(t, h, hostHandle)
	for { // its events go with the queue
		if _, err := poll(t, hostHandle); err != nil {
			break
		}
	}
}

// TestCloseEndsWorks: their handles are void, the events of their end come before, and no
// work is given afterwards, not even one that came in that moment.
func TestCloseEndsWorks(t *testing.T) {
	h, hostHandle := open(t)
	v, handle := invoked(t, t.Context(), h, hostHandle, "n")
	w, held := given(t, v)
	told := false
	onEnd(held, func() { told = w.Err() != nil })
	if err := v.close(t.Context()); err != nil || !told {
		t.Errorf("%v, told %v", err, told)
	}
	take(handle)
	for _, gone := range []uint64{handle, held} {
		table.mu.RLock()
		if _, live := table.live[gone]; live {
			t.Errorf("handle %d is left", gone)
		}
		table.mu.RUnlock()
	}
	if _, _, err := v.give(w.Work); !errors.Is(err, errHandle) {
		t.Errorf("a closed invocation gives: %v", err)
	}
	if err := w.end(true, nil); err != nil {
		t.Error(err)
	}
	if err := w.end(true, nil); !errors.Is(err, errSaid) {
		t.Error(err)
	}

	// Of a host that was closed in that moment there is nothing to give.
	v, _ = invoked(t, t.Context(), h, hostHandle, "n")
	w, _ = given(t, v)
	shut(t, h, hostHandle)
	if _, _, err := v.give(w.Work); !errors.Is(err, host.ErrClosed) {
		t.Errorf("a closed host gives: %v", err)
	}
	if _, err := v.next(t.Context(), nil); !errors.Is(err, host.ErrClosed) {
		t.Error(err)
	}
}

// TestGivenUpComesFirst: a work that was given up is not begun, and what was closed
// is held by no cancel handle.
func TestGivenUpComesFirst(t *testing.T) {
	h, hostHandle := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	v, _ := invoked(t, ctx, h, hostHandle, "n")
	for len(v.ready) == 0 {
		runtime.Gosched()
	}
	cancel()
	<-v.over
	w, err := v.next(t.Context(), nil)
	if code, _ := codeOf(err); w != nil || int(code) != -34 {
		t.Errorf("%v, %v", w, err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	v, _ = invoked(t, ctx, h, hostHandle, "n")
	if err := v.close(t.Context()); err != nil || v.forget() {
		t.Errorf("%v, or the cancel handle would still end it", err)
	}
	cancel()
	shut(t, h, hostHandle)
}

// slowBody gives some bytes, and then waits for the end of ctx, as a store does that
// has nothing to send.
type slowBody struct {
	io.Reader
	ctx    context.Context
	closed chan struct{}
}

func (b *slowBody) Read(to []byte) (int, error) {
	n, err := b.Reader.Read(to)
	if errors.Is(err, io.EOF) {
		<-b.ctx.Done()
		return 0, b.ctx.Err()
	}
	return n, err
}

func (b *slowBody) Close() error {
	close(b.closed)
	return nil
}

func newSlow() (*reader, chan struct{}) {
	r, closed := &reader{turn: make(chan struct{}, 1)}, make(chan struct{})
	r.ctx, r.stop = context.WithCancelCause(context.Background())
	r.body = &slowBody{strings.NewReader("abc"), r.ctx, closed}
	return r, closed
}

// TestReader: what came is good, whatever comes then, and nothing comes after an end.
func TestReader(t *testing.T) {
	r, closed := newSlow()
	var to [8]byte
	if n, err := r.read(to[:2], 1e15); string(to[:n]) != "ab" || err != nil {
		t.Errorf("%q, %v", to[:n], err)
	}
	if n, err := r.read(to[:], 1e15); string(to[:n]) != "c" || err != nil {
		t.Errorf("%q, %v", to[:n], err)
	}
	for range 2 {
		if n, err := r.read(to[:], 1); n != 0 || !errors.Is(err, timeoutRead) {
			t.Errorf("%d, %v", n, err)
		}
	}
	r.close(errReader)
	r.close(errReader) // as the end of the host may
	<-closed

	r, closed = newSlow()
	read := make(chan error)
	for range 2 { // one of them waits for its turn
		go func() {
			var err error
			for n := 1; n > 0; {
				n, err = r.read(make([]byte, 8), -1)
			}
			read <- err
		}()
	}
	for len(r.turn) == 0 {
		runtime.Gosched()
	}
	r.close(errReader)
	for range 2 {
		if err := <-read; !errors.Is(err, errReader) {
			t.Error(err)
		}
	}
	<-closed
	if n, err := r.read(to[:], -1); n != 0 || !errors.Is(err, errReader) {
		t.Errorf("%d, %v after the close", n, err)
	}
}

// TestInvocationsEnd: no goroutine of a closed one is left.
func TestInvocationsEnd(t *testing.T) {
	h, hostHandle := open(t)
	before := runtime.NumGoroutine()
	var all []*invocation
	for range 200 {
		v, _ := invoked(t, t.Context(), h, hostHandle, "n")
		all = append(all, v)
	}
	for _, v := range all {
		if err := v.close(t.Context()); err != nil {
			t.Error(err)
		}
		<-v.over
	}
	for runtime.NumGoroutine() > before+100 { // requests, which end by themselves
		runtime.Gosched()
	}
	shut(t, h, hostHandle)
}
