package host

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/machines"
	"github.com/mopslock/mopslock/host/store"
)

// A world is one backend, and hosts that each see it through a store
// of their own, with faults of its own, and by clocks of their own. It lives in
// a synctest bubble: sleeping costs nothing and time is exact.
type world struct {
	*testing.T
	backend *backend
	hosts   int
}

// bubble runs a test in a world. That no goroutine is left behind is checked by
// synctest itself.
func bubble(t *testing.T, test func(w *world)) {
	t.Helper()
	inBubble(t, func(t *testing.T) { test(&world{T: t, backend: newBackend()}) })
}

// inBubble is synctest.Test, on one processor where the race detector watches. The
// detector keeps one stack for all timers of a bubble, and with two processors of two
// timers that are due at once the one is run by the bubble and the other by who looks
// at its channel: they corrupt it, and the process dies of SIGSEGV (Go 1.26.8). A race
// is seen all the same: it is judged by what happens before what.
func inBubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	if raceDetector {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	}
	synctest.Test(t, test)
}

// actor is a Host with all that a test does to it.
type actor struct {
	*Host
	world *world
	store *fakeStore
	clock *fakeClock
	log   *logBuffer
}

// host adds a Host, which is closed in the end.
func (w *world) host() *actor { return w.hostWith(nil) }

func (w *world) hostWith(change func(*Options)) *actor {
	return w.hostOn(func(s *fakeStore) store.Store { return s }, change)
}

// watching adds a Host on a store that tells of changes, or has no watches left.
func (w *world) watching(refuse error) *actor {
	return w.hostOn(func(s *fakeStore) store.Store { return watchedStore{s, refuse} }, nil)
}

func (w *world) hostOn(wrap func(*fakeStore) store.Store, change func(*Options)) *actor {
	w.Helper()
	return w.hostAt("", wrap, change)
}

// hostAt adds a Host on a store with a URL.
func (w *world) hostAt(url string, wrap func(*fakeStore) store.Store, change func(*Options)) *actor {
	w.Helper()
	w.hosts++
	p := &actor{world: w, store: newFakeStore(w.backend), clock: &fakeClock{start: time.Now()}, log: &logBuffer{}}
	opts := &Options{
		Clock: p.clock, Rand: newRand(uint64(w.hosts)), Memory: "-",
		Logger: slog.New(slog.NewTextHandler(p.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	if change != nil {
		change(opts)
	}
	h, err := newHost(wrap(p.store), url, opts)
	w.ok(err)
	p.Host = h
	w.Cleanup(func() { // still in the bubble
		p.store.heal()
		closed := h.loop.IsClosing() // by the test, which may have forced it
		if err := h.Close(background); err != nil && !closed {
			w.Errorf("close: %v", err)
		}
	})
	return p
}

// unwatched fails the test if a key with that part is watched still.
func (w *world) unwatched(part string) {
	w.Helper()
	w.backend.mu.Lock()
	defer w.backend.mu.Unlock()
	for key, told := range w.backend.watchers {
		if len(told) > 0 && strings.Contains(key, part) {
			w.Errorf("%s is watched still", key)
		}
	}
}

// newRand is a source of randomness that is the same in every run.
func newRand(seed uint64) io.Reader {
	return &lockedRand{source: rand.NewChaCha8([32]byte{byte(seed)})}
}

type lockedRand struct {
	mu     sync.Mutex
	source *rand.ChaCha8
}

func (r *lockedRand) Read(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.source.Read(b)
}

type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// fakeClock follows the bubble's time. jump is a machine that was suspended.
type fakeClock struct {
	mu    sync.Mutex
	start time.Time
	mono  time.Duration
	tick  time.Duration // from one reading to the next, as on a real machine
}

func (c *fakeClock) Now() core.Instant {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mono += c.tick
	now := time.Now()
	return core.Instant{Mono: int64(now.Sub(c.start) + c.mono), Wall: now.UnixNano() + int64(c.mono)}
}

func (c *fakeClock) jump(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mono += d
}

// What tests say.

func (w *world) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// is fails the test unless err is every one of the targets.
func (w *world) is(err error, targets ...error) {
	w.Helper()
	for _, target := range targets {
		if !errors.Is(err, target) {
			w.Fatalf("error %v; want %v (%+v)", err, target, target)
		}
	}
}

// says fails the test unless err is the target, and its text has every part.
func (w *world) says(err, target error, parts ...string) {
	w.Helper()
	w.is(err, target)
	w.has(err.Error(), parts...)
}

func (w *world) same(what string, got, want any) {
	w.Helper()
	if got != want {
		w.Fatalf("%s: %v, want %v", what, got, want)
	}
}

// within fails the test unless so long a time lies between two bounds.
func (w *world) within(what string, took, least, most time.Duration) {
	w.Helper()
	if took < least || took > most {
		w.Errorf("%s: %v, want from %v to %v", what, took, least, most)
	}
}

func same[V any](t interface {
	Helper()
	Errorf(format string, args ...any)
}, what string, got, want V,
) {
	t.Helper()
	if g, w := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want); g != w {
		t.Errorf("%s: %s, not %s", what, g, w)
	}
}

// has fails the test unless a text has every part.
func (w *world) has(text string, parts ...string) {
	w.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			w.Errorf("%q is not in:\n%.2000s", part, text)
		}
	}
}

// limited is a context that ends after so long, and with the test.
func (w *world) limited(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(background, d)
	w.Cleanup(cancel)
	return ctx
}

// beside makes a call in a goroutine of its own, and gives what it became.
func beside[T any](call func() T) <-chan T {
	came := make(chan T, 1)
	go func() { came <- call() }()
	return came
}

// errOf is what a call failed for.
func errOf[T any](_ T, err error) error { return err }

// each runs a test for each case of a table, in a world of its own.
func each[K comparable, V any](t *testing.T, cases map[K]V, test func(*world, K, V)) {
	t.Helper()
	for name, c := range cases {
		t.Run(fmt.Sprint(name), func(t *testing.T) { bubble(t, func(w *world) { test(w, name, c) }) })
	}
}

// sleep lets so much time pass, and everything happen that is then due.
func (w *world) sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// until sleeps in steps until something is true, within bounds.
func (w *world) until(step time.Duration, true func() bool) {
	w.Helper()
	for range 100_000 {
		if true() {
			return
		}
		w.sleep(step)
	}
	w.Fatal("that never came")
}

// idle fails the test unless the loop has no task.
func (p *actor) idle() {
	p.world.Helper()
	if n := p.tasks(); n != 0 {
		p.world.Fatalf("the loop still has %d tasks", n)
	}
}

func (p *actor) tasks() int { return p.loop.Claims() }

const minute = time.Minute

var background = context.Background()

// terms, strict and onSession are what the tests hold leases by: deadline 54 s, renewals
// each 16.7 to 20 s. lastWriter is for those that want nothing but lastwriter.
var (
	terms      = Terms{Protocol: core.ProtocolLastWriter, TTL: core.TTL(minute)}
	strict     = Terms{Protocol: core.ProtocolStrict, TTL: core.TTL(minute)}
	onSession  = Terms{Protocol: core.ProtocolStrict, TTL: core.TTL(minute), Session: true}
	lastWriter = &AcquireOptions{Terms: Terms{Protocol: core.ProtocolLastWriter}}
)

func (p *actor) hold(name string, by Terms) *Lease {
	p.world.Helper()
	l, err := p.Acquire(background, name, &AcquireOptions{Terms: by})
	p.world.ok(err)
	return l
}

func (p *actor) acquire(name string) *Lease   { return p.hold(name, terms) }
func (p *actor) strictly(name string) *Lease  { return p.hold(name, strict) }
func (p *actor) sessional(name string) *Lease { return p.hold(name, onSession) }

func (p *actor) tried(name string, by Terms) (*Lease, error) {
	return p.TryAcquire(background, name, &AcquireOptions{Terms: by})
}

func (p *actor) try(name string) (*Lease, error)         { return p.tried(name, terms) }
func (p *actor) tryStrictly(name string) (*Lease, error) { return p.tried(name, strict) }

// free fails the test unless a name can be acquired at once, and gives it back.
func (p *actor) free(name string, by Terms) {
	p.world.Helper()
	l, err := p.TryAcquire(background, name, &AcquireOptions{Terms: by})
	p.world.ok(err)
	p.release(l)
}

func (p *actor) release(l *Lease) {
	p.world.Helper()
	p.world.ok(l.Release(background))
}

// joins accompanies a tenure.
func (p *actor) joins(h Handle) *Companion {
	p.world.Helper()
	c, err := p.Accompany(background, h, nil)
	p.world.ok(err)
	p.world.sleep(latency) // its first renewal is under way
	return c
}

// sees is what a Host is told of a name.
func (p *actor) sees(name string) Status {
	p.world.Helper()
	s, err := p.Inspect(background, name)
	p.world.ok(err)
	return s
}

func (p *actor) breaks(name string, opts *BreakOptions) {
	p.world.Helper()
	_, err := p.Break(background, name, opts)
	p.world.ok(err)
}

// resolves fails the test unless auto keeps a name by that protocol.
func (p *actor) resolves(name string, want core.Protocol) {
	p.world.Helper()
	l, err := p.Acquire(background, name, nil)
	p.world.ok(err)
	p.world.same("protocol", l.Protocol(), want)
	p.release(l)
}

// status is what the record of a name is, without a request.
func (w *world) status(name string) Status {
	object, ok := w.backend.get(name + "/" + core.LockFile)
	now := core.Instant{Wall: time.Now().UnixNano()}
	seen := machines.Inspect(now, object.Body, !ok, object.Stamp)
	return newStatus(name, core.ProtocolLastWriter, &seen, now)
}

func (w *world) state(name string, want core.Observation) {
	w.Helper()
	if got := w.status(name); got.State != want {
		w.Fatalf("record is %v (holder %q), want %v", got.State, got.Holder, want)
	}
}

// record is a lock.json as mops writes it. Empty texts stay empty.
type record struct {
	writer            string
	written, acquired time.Time
	released          time.Time
	expire            time.Duration
	count             int
	remote            bool
}

func (r record) body() []byte {
	stamp := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return core.FormatStamp(t.UnixNano())
	}
	name := ""
	if r.remote {
		name = ",\n  \"writer_name\": \"remote\""
	}
	writer, _ := json.Marshal(r.writer)
	return fmt.Appendf(nil, `{
  "writer_id": %s,
  "written_at": %q,
  "expire_s": %v,
  "write_count": %d,
  "hostname": "thathost",
  "pid": "99",
  "tid": 7,
  "first_written_at": %q,
  "first_acquired_at": %q,
  "released_at": %q%s
}`, writer, stamp(r.written), r.expire.Seconds(), r.count, stamp(r.written), stamp(r.acquired), stamp(r.released), name)
}

func (w *world) place(name string, r record) { w.backend.put(name+"/"+core.LockFile, r.body()) }

// theirs is somebody else's lease, as fresh as can be.
func theirs() record {
	return record{writer: "somebody.else", written: time.Now(), acquired: time.Now(), expire: minute, count: 3}
}

// goroutines counts those of this bubble. runtime.NumGoroutine also counts
// others', and for a moment those that have just ended; stacks are taken with
// the world stopped, ours first: "goroutine 5 [running, synctest bubble 2]:".
func goroutines() int {
	synctest.Wait()
	buf := make([]byte, 1<<20)
	stacks := buf[:runtime.Stack(buf, true)]
	_, bubble, _ := bytes.Cut(stacks, []byte("[running"))
	bubble, _, _ = bytes.Cut(bubble, []byte("\n"))
	return bytes.Count(stacks, bubble)
}
