package host

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/store"
)

// noise is a Source of so many bytes that are made while they are read, and
// counts how it is used.
type noise struct {
	size   int64
	opened atomic.Int32
	closed atomic.Int32
	fails  func(at int64) error // or nil
}

func (n *noise) Open() (io.ReadCloser, int64, error) {
	n.opened.Add(1)
	return &noiseBody{of: n}, n.size, nil
}

type noiseBody struct {
	of   *noise
	read int64
	once sync.Once
}

func (b *noiseBody) Read(p []byte) (int, error) {
	if b.of.fails != nil {
		if err := b.of.fails(b.read); err != nil {
			return 0, err
		}
	}
	n := min(int64(len(p)), b.of.size-b.read)
	for i := range p[:n] {
		p[i] = byte((b.read + int64(i)) * 31 >> 3)
	}
	if b.read += n; n == 0 {
		return 0, io.EOF
	}
	return int(n), nil
}

func (b *noiseBody) Close() error {
	b.once.Do(func() { b.of.closed.Add(1) })
	return nil
}

func (n *noise) sum() hash.Hash {
	sum := sha256.New()
	_, _ = io.Copy(sum, &noiseBody{of: &noise{size: n.size}})
	return sum
}

// on is a host on a store of its own.
func (w *world) on(s store.Store) *Host {
	w.Helper()
	h, err := New(s, &Options{Engine: engine, Clock: &fakeClock{start: time.Now()}, Rand: newRand(9), Memory: "-"})
	w.ok(err)
	w.Cleanup(func() { _ = h.Close(context.Background()) })
	return h
}

// A result of any size goes through without being in memory, and can be read
// piece by piece. A directory keeps it in a file.
func TestResultIsStreamed(t *testing.T) {
	const size = 64 << 20
	h, err := Open(background, ownURL(t), &Options{Engine: engine, Memory: "-"})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close(background)
	source := &noise{size: size}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r, err := h.Invoke(background, "big", func(_ context.Context, work *Work) error {
		work.Return(source)
		return nil
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	body, n, err := r.Open(background)
	if err != nil || n != size {
		t.Fatal(n, err)
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, body); err != nil {
		t.Fatal(err)
	}
	if err := body.Close(); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > size/4 && engine == nil && far == nil { // an SDK makes a buffer a chunk
		t.Errorf("%d bytes were allocated for %d", took, size)
	}
	if !bytes.Equal(sum.Sum(nil), source.sum().Sum(nil)) {
		t.Error("other bytes came back")
	}
	if source.opened.Load() != 1 || source.closed.Load() != 1 {
		t.Errorf("opened %d times, closed %d times", source.opened.Load(), source.closed.Load())
	}
	if _, err := r.Bytes(background, size-1); err == nil || !strings.Contains(err.Error(), "more than the") {
		t.Error(err)
	}
	all, err := r.Bytes(background, size)
	if err != nil || len(all) != size {
		t.Error(len(all), err)
	}
}

// Files and bytes are sources.
func TestSources(t *testing.T) {
	eachWay(t, func(w *world, terms Terms) {
		p := w.host()
		path := filepath.Join(w.TempDir(), "out")
		w.ok(os.WriteFile(path, []byte("of a file"), 0o600))
		r, err := p.invoke("file", func(_ context.Context, work *Work) error {
			work.Return(File(path))
			return nil
		}, terms)
		w.ok(err)
		w.holds(r, "of a file")
		r, err = p.invoke("empty", func(_ context.Context, work *Work) error {
			work.Return(Bytes(nil))
			return nil
		}, terms)
		w.ok(err)
		w.holds(r, "")
		_, err = p.invoke("gone", func(_ context.Context, work *Work) error {
			work.Return(File(path + ".gone"))
			return nil
		}, terms)
		w.is(err, &Error{Kind: NoResult, Reason: core.ReasonFailed}, fs.ErrNotExist)
	})
}

// A source that fails, or is longer or shorter than it said, ends the invocation:
// the store was never the fault, so nothing is tried again.
func TestSourceFails(t *testing.T) {
	torn := errors.New("torn tape")
	for name, source := range map[string]*noise{
		"at once": {size: 100, fails: func(int64) error { return torn }},
		"halfway": {size: 60_000, fails: func(at int64) error {
			if at > 0 {
				return torn
			}
			return nil
		}},
		// What some other store says of its own object says nothing of ours.
		"exists": {size: 100, fails: func(int64) error { return store.ErrExists }},
	} {
		for _, streams := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " streamed ", streams), func(t *testing.T) {
				bubble(t, func(w *world) {
					var h *Host
					if h = w.host().Host; streams {
						h = w.on(w.streams())
					}
					begun := time.Now()
					_, err := h.Invoke(background, "n", func(_ context.Context, work *Work) error {
						work.Return(source)
						return nil
					}, &InvokeOptions{Terms: strict})
					w.is(err, &Error{Kind: NoResult, Reason: core.ReasonFailed})
					if name != "exists" {
						w.is(err, torn)
					}
					w.same("opened", source.opened.Swap(0), int32(1))
					if took := time.Since(begun); took > time.Second {
						w.Errorf("after %v", took)
					}
					r, err := h.Invoke(background, "n", returns("again", 0), &InvokeOptions{Terms: strict, Try: true})
					w.ok(err)
					w.holds(r, "again")
				})
			})
		}
	}
}

// small is a store that streams, but takes no more than a little.
type small struct{ store.Store }

func (small) MaxSize() int64 { return 1000 }

func (s small) Open(ctx context.Context, key string) (io.ReadCloser, store.Info, error) {
	return s.Store.(store.Streamer).Open(ctx, key)
}

func (s small) CreateFrom(ctx context.Context, key string, body io.Reader, size int64, contentType string) error {
	return s.Store.(store.Streamer).CreateFrom(ctx, key, body, size, contentType)
}

func (s small) PutFrom(ctx context.Context, key string, body io.Reader, size int64, contentType string) error {
	return s.Store.(store.Streamer).PutFrom(ctx, key, body, size, contentType)
}

// What is too large for a store is said so before anything is sent.
func TestResultTooLarge(t *testing.T) {
	for _, test := range []struct {
		name  string
		store func(*world) store.Store
		size  int64
	}{
		{"six verbs", func(w *world) store.Store { return newFakeStore(w.shelf) }, core.MaxRecord + 1},
		{"streams", func(w *world) store.Store { return small{w.streams()} }, 1001},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(w *world) {
				h := w.on(test.store(w))
				for _, size := range []int64{test.size, test.size - 1} {
					source := &noise{size: size}
					r, err := h.Invoke(background, "n", func(_ context.Context, work *Work) error {
						work.Return(source)
						return nil
					}, &InvokeOptions{Terms: strict})
					if size == test.size {
						w.is(err, &Error{Kind: NoResult, Reason: core.ReasonUnusable}, store.ErrTooLarge)
						continue
					}
					w.ok(err)
					all, err := r.Bytes(background, 1<<20)
					w.ok(err)
					w.same("size", int64(len(all)), size)
				}
			})
		})
	}
}

// A result that is too large to be read by the six verbs is not cut.
func TestResultTooLargeToRead(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		w.shelf.put("n/result", make([]byte, core.MaxRecord+1))
		r, err := p.invoke("n", w.never, strict)
		w.ok(err)
		_, err = r.Bytes(background, 1<<20)
		w.is(err, store.ErrTooLarge)
		w.shelf.remove("n/result")
		_, err = r.Bytes(background, 1<<20)
		w.is(err, store.ErrAbsent)
		w.ok(p.Close(background))
		_, err = r.Bytes(background, 1)
		w.is(err, ErrClosed)
	})
}

// stuck is a store whose first transfers stand still after some bytes, whether or
// not anybody ends them.
type stuck struct {
	store.Store
	left   atomic.Int32
	deaf   chan struct{} // or nil: it heeds ctx
	flying atomic.Int32
	most   atomic.Int32
}

func (*stuck) MaxSize() int64 { return 1 << 30 }

func (s *stuck) Open(ctx context.Context, key string) (io.ReadCloser, store.Info, error) {
	return s.Store.(store.Streamer).Open(ctx, key)
}

func (s *stuck) CreateFrom(ctx context.Context, key string, body io.Reader, size int64, contentType string) error {
	s.most.Store(max(s.most.Load(), s.flying.Add(1)))
	defer s.flying.Add(-1)
	if s.left.Add(-1) >= 0 {
		_, _ = io.CopyN(io.Discard, body, 1000)
		if s.deaf != nil {
			<-s.deaf
		}
		<-ctx.Done()
		return store.Fail("create", key, store.ClassOf(ctx.Err()), ctx.Err())
	}
	<-time.After(stallLimit / 2)
	return s.Store.(store.Streamer).CreateFrom(ctx, key, body, size, contentType)
}

func (s *stuck) PutFrom(ctx context.Context, key string, body io.Reader, size int64, contentType string) error {
	return s.CreateFrom(ctx, key, body, size, contentType)
}

// A transfer that stands still is ended after a minute and made again; it takes
// no slot from renewals, and there are not many at once.
func TestTransferStalls(t *testing.T) {
	for _, deaf := range []bool{false, true} {
		t.Run(fmt.Sprint("deaf ", deaf), func(t *testing.T) {
			bubble(t, func(w *world) {
				s := &stuck{Store: w.streams()}
				s.left.Store(1)
				if deaf {
					s.deaf = make(chan struct{})
					defer close(s.deaf)
				}
				h := w.on(s)
				source := &noise{size: 100_000}
				begun := time.Now()
				r, err := h.Invoke(background, "n", func(_ context.Context, work *Work) error {
					work.Return(source)
					return nil
				}, &InvokeOptions{Terms: strict})
				w.ok(err)
				w.same("own", r.Own, true)
				w.same("opened", source.opened.Load(), int32(2))
				if took := time.Since(begun); took < stallLimit*3/2 || took > stallLimit*3/2+2*time.Second {
					w.Errorf("after %v", took)
				}
			})
		})
	}
	bubble(t, func(w *world) {
		s := &stuck{Store: w.streams()}
		h := w.on(s)
		var all sync.WaitGroup
		for n := range 3 * transfers {
			all.Go(func() {
				_, err := h.Invoke(background, fmt.Sprint("n/", n), returns("x", 0), &InvokeOptions{Terms: strict})
				if err != nil {
					w.Error(err)
				}
			})
		}
		all.Wait()
		w.same("at once", s.most.Load(), int32(transfers))
	})
}

// Who gives up while his result is on its way ends the transfer, too; a put, which
// could land on another's result, before the lease is given back.
func TestTransferCancelled(t *testing.T) {
	eachWay(t, func(w *world, terms Terms) {
		s := &stuck{Store: w.streams()}
		s.left.Store(1)
		h := w.on(s)
		if terms.Protocol == core.ProtocolLastWriter {
			h.abilities.creates.Store(createIgnored)
		}
		i, err := h.BeginInvoke(background, "n", &InvokeOptions{Terms: terms})
		w.ok(err)
		work, err := i.Next(background)
		w.ok(err)
		source := &noise{size: 1 << 20}
		work.Return(source)
		work.End(nil)
		w.sleep(time.Second)
		w.same("under way", s.flying.Load(), int32(1))
		i.Cancel()
		w.sleep(time.Second)
		w.same("under way", s.flying.Load(), int32(0))
		w.same("closed", source.closed.Load(), int32(1))
		_, err = i.Next(background)
		w.is(err, &Error{Kind: Refused, Reason: core.ReasonCancelled})
		w.ok(i.Wait(background))
	})
}

// A store that heeds nothing does not keep who gives up.
func TestTransferCancelledDeaf(t *testing.T) {
	eachWay(t, func(w *world, terms Terms) {
		s := &stuck{Store: w.streams(), deaf: make(chan struct{})}
		defer close(s.deaf)
		s.left.Store(1)
		h := w.on(s)
		if terms.Protocol == core.ProtocolLastWriter {
			h.abilities.creates.Store(createIgnored)
		}
		i, err := h.BeginInvoke(background, "n", &InvokeOptions{Terms: terms})
		w.ok(err)
		work, err := i.Next(background)
		w.ok(err)
		work.Return(Bytes([]byte("x")))
		work.End(nil)
		w.sleep(time.Second)
		begun := time.Now()
		i.Cancel()
		_, err = i.Next(background)
		w.is(err, &Error{Kind: Refused, Reason: core.ReasonCancelled})
		w.ok(i.Wait(background))
		if took := time.Since(begun); took > 2*time.Second {
			w.Errorf("after %v", took)
		}
	})
}

// blocked is a source whose Read ends only when it is closed.
type blocked struct{ end chan struct{} }

func (b *blocked) Open() (io.ReadCloser, int64, error) { return b, -1, nil }
func (b *blocked) Close() error                        { close(b.end); return nil }
func (b *blocked) Read([]byte) (int, error)            { <-b.end; return 0, fs.ErrClosed }

// A Read that blocks does not keep Close from ending.
func TestTransferOfBlockedSource(t *testing.T) {
	bubble(t, func(w *world) {
		h := w.on(w.streams())
		v := w.begin(func() (*Result, error) {
			return h.Invoke(background, "n", func(_ context.Context, work *Work) error {
				work.Return(&onceClosed{blocked: &blocked{make(chan struct{})}})
				return nil
			}, &InvokeOptions{Terms: strict})
		})
		w.sleep(time.Second)
		w.ok(h.Close(background))
		<-v.ended
		w.is(v.err, ErrClosed)
	})
}

// onceClosed is a source that may be closed twice.
type onceClosed struct {
	*blocked
	once sync.Once
}

func (b *onceClosed) Open() (io.ReadCloser, int64, error) { return b, -1, nil }

func (b *onceClosed) Close() error {
	b.once.Do(func() { _ = b.blocked.Close() })
	return nil
}

// On a store that does not honour create the result is put, after a look.
func TestResultIsPut(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		p.store.overwrites = true
		terms := ways["lastwriter"]
		r, err := p.invoke("n", returns("x", 0), terms)
		w.ok(err)
		w.same("own", r.Own, true)
		w.holds(r, "x")
		if asked := p.asked(); !strings.Contains(asked, "exists:result put:result") {
			w.Error(asked)
		}
		_, err = p.invoke("strict", w.never, strict)
		w.is(err, ErrUnfit)
	})
}

// Took tells how long siblings took, by the store's clock.
func TestTook(t *testing.T) {
	eachWay(t, func(w *world, terms Terms) {
		p := w.host()
		p.store.page = 1000
		took, err := p.Took(background, "jobs/a")
		w.ok(err)
		w.same("none", len(took), 0)
		for n := range 3 {
			_, err := p.invoke(fmt.Sprint("jobs/", n), returns("x", time.Duration(n+1)*time.Second), terms)
			w.ok(err)
		}
		_, err = p.invoke("jobs/deeper/1", returns("x", time.Hour), terms)
		w.ok(err)
		v := w.begin(func() (*Result, error) { return p.invoke("jobs/a", returns("x", minute), terms) })
		w.sleep(5 * time.Second)
		p.store.forget()
		took, err = p.Took(background, "jobs/a")
		w.ok(err)
		w.same("one request", p.store.verbs(), "list")
		v.comesTo("x")
		if terms.Protocol == core.ProtocolLastWriter { // whose record is as old as its release
			return
		}
		w.same("siblings", len(took), 3)
		for n := range took {
			if want := time.Duration(n+1) * time.Second; took[n] < want || took[n] > want+10*latency {
				w.Errorf("%v for %v", took[n], want)
			}
		}
		_, err = p.Took(background, "")
		w.same("no name", err != nil, true)
		w.ok(p.Close(background))
		_, err = p.Took(background, "jobs/a")
		w.is(err, ErrClosed)
	})
}
