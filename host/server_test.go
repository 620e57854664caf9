package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mopslock/mopslock/host/store"
	"github.com/mopslock/mopslock/host/store/mem"
)

// far is the real server that this run of the tests keeps its objects on, or nil:
// memory, and directories. `go test ./host -args -store=s3` asks for one.
var far *farStore

// farStore is a server's bucket. It is used out of every bubble: a bubble's time
// stands still while one of its goroutines waits for something outside, so that
// requests take none of it, and what is timed stays exact. Sockets, signatures and
// the SDKs' own goroutines see the time of the world.
//
//	bubble:   put ─ half its latency ─┐           ┌─ half its latency ─ answered
//	bubble's time:  00:00.000  .005   │   .005    │  .010
//	outside:                          └─ request ─┘
type farStore struct {
	kind    string
	missing error // why nothing runs on it
	url     func(prefix string) string
	stop    func() error

	bucket store.Store
	lanes  chan lane
	given  atomic.Int64 // prefixes
}

// lane is a goroutine outside of every bubble. So are its channels, which a bubble
// may use but does not take for its own: who waits on them is not idle.
type lane struct {
	work chan func()
	done chan struct{}
}

// lanesAtOnce bounds the requests under way at once.
const lanesAtOnce = 64

func openFar(kind string) (*farStore, error) {
	f, err := startFar(kind)
	if err != nil || f.missing != nil {
		return f, err
	}
	f.kind = kind
	if f.bucket, err = store.Open(context.Background(), f.url("host")); err != nil {
		return nil, errors.Join(err, f.stop())
	}
	f.lanes = make(chan lane, lanesAtOnce)
	for range lanesAtOnce {
		l := lane{work: make(chan func()), done: make(chan struct{})}
		go func() {
			for work := range l.work {
				work()
				l.done <- struct{}{}
			}
		}()
		f.lanes <- l
	}
	return f, nil
}

// end stops the server, and what runs beside the bubbles.
func (f *farStore) end() {
	if f.missing != nil {
		return
	}
	for range lanesAtOnce {
		l := <-f.lanes
		close(l.work)
	}
	if err := errors.Join(f.bucket.Close(), f.stop()); err != nil {
		fmt.Fprintln(os.Stderr, "host:", err)
	}
}

// need skips the test where the server is not installed.
func (f *farStore) need(t testing.TB) {
	t.Helper()
	if f != nil && f.missing != nil {
		t.Skip(f.missing)
	}
}

// prefix is one that nothing else has.
func (f *farStore) prefix() string { return fmt.Sprintf("%d/", f.given.Add(1)) }

// outside does it out of the caller's bubble.
func (f *farStore) outside(do func()) {
	l := <-f.lanes
	l.work <- do
	<-l.done
	f.lanes <- l
}

// farLimit is how long a request may take, in the world's time.
const farLimit = 30 * time.Second

// drawer is what one shelf has on the server. What the server says is held against
// what the shelf knows of itself: it answers one request after the other, so they
// may not differ.
type drawer struct {
	testing.TB
	prefix string
}

// ask makes one request, whose error may only be one of these.
func (d *drawer) ask(verb, key string, request func(ctx context.Context, key string) error, may ...error) (err error) {
	far.outside(func() {
		ctx, cancel := context.WithTimeout(context.Background(), farLimit)
		defer cancel()
		err = request(ctx, d.prefix+key)
	})
	if err == nil {
		return nil
	}
	for _, fine := range may {
		if errors.Is(err, fine) {
			return err
		}
	}
	d.Errorf("the server, asked to %s %s: %v", verb, key, err)
	return err
}

func (d *drawer) get(key string, want store.Object, there bool) (store.Object, bool) {
	var got store.Object
	err := d.ask("get", key, func(ctx context.Context, key string) (err error) {
		got, err = far.bucket.Get(ctx, key)
		return err
	}, store.ErrAbsent)
	if cut := want.Body[:min(len(want.Body), store.MaxBody)]; there != (err == nil) || !bytes.Equal(got.Body, cut) {
		d.Errorf("the server has %q (%v) at %s; %q (there: %v) was written", got.Body, err, key, want.Body, there)
	}
	return store.Object{Body: got.Body, Stamp: want.Stamp}, err == nil
}

func (d *drawer) exists(key string, want bool) (got bool) {
	_ = d.ask("exists", key, func(ctx context.Context, key string) (err error) {
		got, err = far.bucket.Exists(ctx, key)
		return err
	})
	if got != want {
		d.Errorf("the server says that it is %v that there is %s", got, key)
	}
	return got
}

func (d *drawer) put(key string, body []byte) {
	_ = d.ask("put", key, func(ctx context.Context, key string) error {
		return far.bucket.Put(ctx, key, body, "")
	})
}

func (d *drawer) create(key string, body []byte, there bool) bool {
	err := d.ask("create", key, func(ctx context.Context, key string) error {
		return far.bucket.Create(ctx, key, body, "")
	}, store.ErrExists)
	if there == (err == nil) {
		d.Errorf("the server, asked to create %s: %v; there: %v", key, err, there)
	}
	return err == nil
}

func (d *drawer) check(key string) error {
	if checker, ok := far.bucket.(store.KeyChecker); ok {
		return checker.CheckKey(d.prefix + key)
	}
	return nil
}

func (d *drawer) remove(key string) {
	_ = d.ask("delete", key, far.bucket.Delete)
}

func (d *drawer) list(prefix, after string, limit int, want []store.Info, wantMore bool) (page []store.Info, more bool) {
	_ = d.ask("list", prefix, func(ctx context.Context, prefix string) (err error) {
		if after != "" {
			after = d.prefix + after
		}
		page, more, err = far.bucket.List(ctx, prefix, after, limit)
		return err
	})
	same := len(page) == len(want) && more == wantMore
	for i := range page {
		page[i].Key = page[i].Key[len(d.prefix):]
		if same = same && page[i].Key == want[i].Key; same {
			page[i].Stamp = want[i].Stamp
		}
	}
	if !same {
		d.Errorf("the server lists %v (more: %v) of %s after %s; there is %v (more: %v)", page, more, prefix, after, want, wantMore)
	}
	return page, more
}

// clear empties the shelf: some servers look at all that there is for a list.
func (s *shelf) clear() {
	if s.far != nil {
		for key := range s.objects {
			s.far.remove(key)
		}
	}
}

// streams is a store that moves bodies of any size, and takes no time.
func (w *world) streams() store.Store {
	if far == nil {
		return mem.Open()
	}
	s := newFakeStore(w.shelf)
	s.always(fault{})
	return streaming{s}
}

// streaming reads and writes bodies in the bubble, where the other end of them is,
// and has them moved outside of it.
type streaming struct{ *fakeStore }

func (streaming) MaxSize() int64 { return 1 << 30 }

func (s streaming) Open(ctx context.Context, key string) (io.ReadCloser, store.Info, error) {
	var body []byte
	var stamp int64
	err := s.do(ctx, "get", key, nil, func() error {
		s.shelf.mu.Lock()
		defer s.shelf.mu.Unlock()
		stamp = s.shelf.objects[key].Stamp
		return s.shelf.far.ask("read", key, func(ctx context.Context, key string) error {
			r, _, err := far.bucket.(store.Streamer).Open(ctx, key)
			if err == nil {
				body, err = io.ReadAll(r)
				err = errors.Join(err, r.Close())
			}
			return err
		}, store.ErrAbsent)
	})
	return io.NopCloser(bytes.NewReader(body)), store.Info{Key: key, Size: int64(len(body)), Stamp: stamp}, err
}

func (s streaming) CreateFrom(ctx context.Context, key string, body io.Reader, size int64, contentType string) error {
	return s.write(ctx, "create", key, body, size, func(ctx context.Context, key string, body io.Reader, size int64) error {
		return far.bucket.(store.Streamer).CreateFrom(ctx, key, body, size, contentType)
	})
}

func (s streaming) PutFrom(ctx context.Context, key string, body io.Reader, size int64, contentType string) error {
	return s.write(ctx, "put", key, body, size, func(ctx context.Context, key string, body io.Reader, size int64) error {
		return far.bucket.(store.Streamer).PutFrom(ctx, key, body, size, contentType)
	})
}

func (s streaming) write(ctx context.Context, verb, key string, body io.Reader, size int64, send func(context.Context, string, io.Reader, int64) error) error {
	source, err := store.NewSource(ctx, body, size, s.MaxSize(), nil, nil)
	var all []byte
	if err == nil {
		all, err = io.ReadAll(source)
	}
	if err != nil {
		return store.Fail(verb, key, store.ClassOf(err), err)
	}
	return s.do(ctx, verb, key, all, func() error {
		s.shelf.mu.Lock()
		defer s.shelf.mu.Unlock()
		err := s.shelf.far.ask(verb, key, func(ctx context.Context, key string) error {
			return send(ctx, key, bytes.NewReader(all), size)
		}, store.ErrExists)
		if err == nil {
			s.shelf.objects[key] = store.Object{Body: all, Stamp: time.Now().UnixNano()}
			return nil
		}
		return store.ErrExists
	})
}

// ownURL is the URL of a store for a test alone: a directory, or a part of the
// server's bucket.
func ownURL(t testing.TB) string {
	t.Helper()
	if far == nil {
		return "file://" + filepath.ToSlash(t.TempDir())
	}
	far.need(t)
	return far.url("open/" + far.prefix())
}

// ofDirectories skips a test on a server.
func ofDirectories(t testing.TB, why string) {
	t.Helper()
	if far != nil {
		t.Skip("of directories only: " + why)
	}
}

// nests reports whether there can be an object and others below it. The S3 server of
// the tests keeps objects in files, and says no.
func (f *farStore) nests() bool { return f == nil || f.kind != "s3" }

// fewer is how many of something there are where each costs requests to a server:
// a twentieth, and some at least.
func fewer(many int) int {
	if far == nil {
		return many
	}
	return max(many/20, min(many, 4))
}

// TestTimeStandsStill: a request to the server takes no time of a bubble, and what
// was to happen then does not happen during it.
func TestTimeStandsStill(t *testing.T) {
	if far == nil {
		t.Skip("no server is asked; -args -store=s3 asks one")
	}
	bubble(t, func(w *world) {
		begun := time.Now()
		rang := atomic.Bool{}
		time.AfterFunc(time.Nanosecond, func() { rang.Store(true) })
		var all sync.WaitGroup
		for n := range 2 * lanesAtOnce {
			all.Go(func() {
				w.shelf.put(fmt.Sprint("n", n), []byte("x"))
				if rang.Load() {
					w.Error("time went on during a request")
				}
			})
		}
		all.Wait()
		w.same("took", time.Since(begun), time.Duration(0))
		w.sleep(time.Nanosecond)
		w.same("rang", rang.Load(), true)
	})
}
