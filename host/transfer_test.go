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
	"github.com/mopslock/mopslock/host/store/mem"
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
	h, err := New(s, &Options{Clock: &fakeClock{start: time.Now()}, Rand: newRand(9), Memory: "-"})
	w.ok(err)
	w.Cleanup(func() { _ = h.Close(background) })
	return h
}

// A result of any size goes through without being in memory, and can be read
// piece by piece. A directory keeps it in a file.
func TestResultIsStreamed(t *testing.T) {
	const size = 8 << 20
	h, err := Open(background, (&store.Location{Scheme: "file", Dir: t.TempDir()}).String(), &Options{Memory: "-"})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close(background)
	source := &noise{size: size}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r, err := h.Invoke(background, "big", gives(source), nil)
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
	if took := after.TotalAlloc - before.TotalAlloc; took > size/4 { // an SDK makes a buffer a chunk
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

// gives is work that comes to what a source has.
func gives(source Source) Launch {
	return func(_ context.Context, work *Work) error {
		work.Return(source)
		return nil
	}
}

// Files and bytes are sources.
func TestSources(t *testing.T) {
	eachWay(t, func(w *world, terms Terms) {
		p := w.host()
		path := filepath.Join(w.TempDir(), "out")
		w.ok(os.WriteFile(path, []byte("of a file"), 0o600))
		p.comes("file", gives(File(path)), terms, "of a file")
		p.comes("empty", gives(Bytes(nil)), terms, "")
		w.is(errOf(p.invoke("gone", gives(File(path+".gone")), terms)), &Error{Kind: NoResult, Reason: core.ReasonFailed}, fs.ErrNotExist)
	})
}

// A source that fails, at once or halfway, ends the invocation: the store was never the
// fault, so nothing is tried again.
func TestSourceFails(t *testing.T) {
	torn := errors.New("torn tape")
	for name, source := range map[string]*noise{
		"at once": {size: 100, fails: func(int64) error { return torn }},
		"halfway": {size: 60_000, fails: func(at int64) error { return map[bool]error{true: torn}[at > 0] }},
		// What some other store says of its own object says nothing of ours.
		"exists": {size: 100, fails: func(int64) error { return store.ErrExists }},
	} {
		each(t, map[string]func(*world) *Host{
			name + " at once":  func(w *world) *Host { return w.host().Host },
			name + " streamed": func(w *world) *Host { return w.on(mem.Open()) },
		}, func(w *world, _ string, open func(*world) *Host) {
			h, begun := open(w), time.Now()
			err := errOf(h.Invoke(background, "n", gives(source), &InvokeOptions{Terms: strict}))
			w.is(err, &Error{Kind: NoResult, Reason: core.ReasonFailed})
			w.same("its own", errors.Is(err, torn), name != "exists")
			w.same("opened", source.opened.Swap(0), int32(1))
			w.within("after", time.Since(begun), 0, time.Second)
			r, err := h.Invoke(background, "n", returns("again", 0), &InvokeOptions{Terms: strict, Try: true})
			w.ok(err)
			w.holds(r, "again")
		})
	}
}

// streamer is a store that moves bodies of any size.
type streamer interface {
	store.Store
	store.Streamer
}

// small is one that takes no more than a little.
type small struct{ streamer }

func (small) MaxSize() int64 { return 1000 }

// What is too large for a store is said so before anything is sent.
func TestResultTooLarge(t *testing.T) {
	each(t, map[int64]func(*world) store.Store{
		core.MaxRecord: func(w *world) store.Store { return newFakeStore(w.backend) }, // by the six verbs
		1000:           func(*world) store.Store { return small{mem.Open().(streamer)} },
	}, func(w *world, size int64, open func(*world) store.Store) {
		h := w.on(open(w))
		err := errOf(h.Invoke(background, "n", gives(&noise{size: size + 1}), &InvokeOptions{Terms: strict}))
		w.is(err, &Error{Kind: NoResult, Reason: core.ReasonUnusable}, store.ErrTooLarge)
		r, err := h.Invoke(background, "n", gives(&noise{size: size}), &InvokeOptions{Terms: strict})
		w.ok(err)
		all, err := r.Bytes(background, 1<<20)
		w.ok(err)
		w.same("size", int64(len(all)), size)
	})
}

// A result that is too large to be read by the six verbs is not cut.
func TestResultTooLargeToRead(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		w.backend.put("n/result", make([]byte, core.MaxRecord+1))
		r, err := p.invoke("n", w.never, strict)
		w.ok(err)
		w.is(errOf(r.Bytes(background, 1<<20)), store.ErrTooLarge)
		w.backend.remove("n/result")
		w.is(errOf(r.Bytes(background, 1<<20)), store.ErrAbsent)
		w.ok(p.Close(background))
		w.is(errOf(r.Bytes(background, 1)), ErrClosed)
	})
}

// stuck is a store whose first transfers stand still after some bytes, whether or
// not anybody ends them.
type stuck struct {
	streamer
	left   atomic.Int32
	deaf   chan struct{} // or nil: it obeys ctx
	blind  bool          // it takes a create for a put
	flying atomic.Int32
	most   atomic.Int32
}

// stuck adds a Host whose first transfers stand still.
func (w *world) stuck(transfers int32, deaf bool) (*Host, *stuck) {
	s := &stuck{streamer: mem.Open().(streamer)}
	s.left.Store(transfers)
	h := w.on(s)
	if deaf {
		s.deaf = make(chan struct{})
		w.Cleanup(func() { close(s.deaf) })
	}
	return h, s
}

func (s *stuck) Create(ctx context.Context, key string, body []byte, contentType string) error {
	if s.blind {
		return s.Put(ctx, key, body, contentType)
	}
	return s.streamer.Create(ctx, key, body, contentType)
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
	return s.streamer.CreateFrom(ctx, key, body, size, contentType)
}

func (s *stuck) PutFrom(ctx context.Context, key string, body io.Reader, size int64, contentType string) error {
	return s.CreateFrom(ctx, key, body, size, contentType)
}

// A transfer that stands still is ended after a minute and made again; it takes
// no slot from renewals, and there are not many at once.
func TestTransferStalls(t *testing.T) {
	each(t, map[string]bool{"obeys ctx": false, "deaf": true}, func(w *world, _ string, deaf bool) {
		h, _ := w.stuck(1, deaf)
		source := &noise{size: 100_000}
		begun := time.Now()
		r, err := h.Invoke(background, "n", gives(source), &InvokeOptions{Terms: strict})
		w.ok(err)
		w.same("own", r.Own, true)
		w.same("opened", source.opened.Load(), int32(2))
		w.within("after", time.Since(begun), stallLimit*3/2, stallLimit*3/2+2*time.Second)
	})
	bubble(t, func(w *world) {
		h, s := w.stuck(0, false)
		var all sync.WaitGroup
		for n := range 3 * transfers {
			all.Go(func() {
				_, err := h.Invoke(background, fmt.Sprint("n/", n), returns("x", 0), &InvokeOptions{Terms: strict})
				w.ok(err)
			})
		}
		all.Wait()
		w.same("at once", s.most.Load(), int32(transfers))
	})
}

// A caller that gives up while its result is on its way ends the transfer, too; a put, which
// could land on another's result, before the lease is given back. A store that obeys
// nothing does not keep it.
func TestTransferCancelled(t *testing.T) {
	for _, deaf := range []bool{false, true} {
		eachWay(t, func(w *world, terms Terms) {
			h, s := w.stuck(1, deaf)
			if terms.Protocol == core.ProtocolLastWriter {
				s.blind = true
			}
			i, err := h.BeginInvoke(background, "n", &InvokeOptions{Terms: terms})
			w.ok(err)
			source := &noise{size: 1 << 20}
			work := w.next(i)
			work.Return(source)
			work.End(nil)
			w.sleep(time.Second)
			w.same("under way", s.flying.Load(), int32(1))
			begun := time.Now()
			i.Cancel()
			w.is(errOf(i.Next(background)), &Error{Kind: NotAcquired, Reason: core.ReasonCancelled})
			w.ok(i.Wait(background))
			w.within("after", time.Since(begun), 0, 2*time.Second)
			if !deaf {
				w.sleep(time.Second)
				w.same("under way", s.flying.Load(), int32(0))
				w.same("closed", source.closed.Load(), int32(1))
			}
		})
	}
}

// blocked is a source whose Read ends only when it is closed, twice perhaps.
type blocked struct {
	end  chan struct{}
	once sync.Once
}

func (b *blocked) Open() (io.ReadCloser, int64, error) { return b, -1, nil }
func (b *blocked) Close() error                        { b.once.Do(func() { close(b.end) }); return nil }
func (b *blocked) Read([]byte) (int, error)            { <-b.end; return 0, fs.ErrClosed }

// A Read that blocks does not keep Close from ending.
func TestTransferOfBlockedSource(t *testing.T) {
	bubble(t, func(w *world) {
		h := w.on(mem.Open())
		v := w.begin(func() (*Result, error) {
			return h.Invoke(background, "n", gives(&blocked{end: make(chan struct{})}), &InvokeOptions{Terms: strict})
		})
		w.sleep(time.Second)
		w.ok(h.Close(background))
		<-v.ended
		w.is(v.err, ErrClosed)
	})
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
		w.is(errOf(p.invoke("strict", w.never, strict)), ErrIncompatible)
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
		p.store.always(fault{shut: true}) // as a Close beside this does
		w.is(errOf(p.Took(background, "jobs/a")), ErrClosed)
		p.store.heal()
		w.ok(p.Close(background))
		w.is(errOf(p.Took(background, "jobs/a")), ErrClosed)
	})
}
