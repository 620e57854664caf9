package host

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/wasm"
)

// engine is what every Host of these tests runs on: nil, which is Native, or
// what `go test ./host -args -engine=wasm` asks for.
var engine Engine

func TestMain(m *testing.M) {
	on := flag.String("engine", "native", "native or wasm")
	kept := flag.String("store", "", "s3, gs or azblob; memory and directories without")
	flag.Parse()
	os.Exit(func() int {
		if *on == "wasm" {
			dir, err := os.MkdirTemp("", "mopslock-host-")
			if err != nil {
				panic("host: " + err.Error())
			}
			defer os.RemoveAll(dir)
			opened, err := wasm.Open(context.Background(), &wasm.Options{CacheDir: dir})
			if err != nil {
				panic("host: " + err.Error())
			}
			engine = opened
		}
		if *kept != "" {
			opened, err := openFar(*kept)
			if err != nil {
				fmt.Fprintln(os.Stderr, "host:", err)
				return 1
			}
			far = opened
			defer far.end()
		}
		return m.Run()
	}())
}

// A world is one shelf of objects, and hosts that each see it through a store
// of their own, with faults of its own, and by clocks of their own. It lives in
// a synctest bubble: sleeping costs nothing and time is exact.
type world struct {
	*testing.T
	shelf *shelf
	hosts int
}

// bubble runs a test in a world. That no goroutine is left behind is checked by
// synctest itself.
func bubble(t *testing.T, test func(w *world)) {
	t.Helper()
	far.need(t)
	s := newShelf(t)
	inBubble(t, func(t *testing.T) { test(&world{T: t, shelf: s}) })
	s.clear()
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

// party is a Host with all that a test does to it.
type party struct {
	*Host
	world *world
	store *fakeStore
	clock *fakeClock
	log   *logBuffer
}

// host adds a Host, which is closed in the end.
func (w *world) host() *party { return w.hostWith(nil) }

func (w *world) hostWith(change func(*Options)) *party {
	w.Helper()
	w.hosts++
	p := &party{world: w, store: newFakeStore(w.shelf), clock: &fakeClock{start: time.Now()}, log: &logBuffer{}}
	opts := &Options{
		Engine: engine, Clock: p.clock, Rand: newRand(uint64(w.hosts)), Memory: "-",
		Logger: slog.New(slog.NewTextHandler(p.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	if change != nil {
		change(opts)
	}
	h, err := New(p.store, opts)
	w.ok(err)
	p.Host = h
	w.Cleanup(func() { // still in the bubble
		p.store.heal()
		if err := h.Close(context.Background()); err != nil && !h.keeper.isForced() {
			w.Errorf("close: %v", err)
		}
	})
	return p
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

// fakeClock follows the bubble's time. jump is a machine that was suspended;
// wall is how wrong its wall clock is.
type fakeClock struct {
	mu         sync.Mutex
	start      time.Time
	mono, wall time.Duration
	tick       time.Duration // from one reading to the next, as on a real machine
}

func (c *fakeClock) Now() core.Instant {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mono += c.tick
	now := time.Now()
	return core.Instant{Mono: int64(now.Sub(c.start) + c.mono), Wall: now.UnixNano() + int64(c.mono+c.wall)}
}

func (c *fakeClock) jump(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mono += d
}

func (c *fakeClock) offset(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall = d
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

func (w *world) same(what string, got, want any) {
	w.Helper()
	if got != want {
		w.Fatalf("%s: %v, want %v", what, got, want)
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

// idle fails the test unless the keeper keeps nothing.
func (p *party) idle() {
	p.world.Helper()
	if n := p.members(); n != 0 {
		p.world.Fatalf("the keeper still keeps %d members", n)
	}
}

func (p *party) members() int {
	count := make(chan int)
	p.keeper.post(message{do: func() { count <- p.keeper.count }})
	select {
	case n := <-count:
		return n
	case <-p.keeper.stopped:
		return p.keeper.count
	}
}

const minute = time.Minute

// terms is what the tests of lastwriter hold leases by: deadline 54 s, renewals
// each 16.7 to 20 s. lastWriter is them for those that want nothing but lastwriter.
var (
	terms      = Terms{Protocol: core.ProtocolLastWriter, TTL: minute}
	lastWriter = &AcquireOptions{Terms: Terms{Protocol: core.ProtocolLastWriter}}
)

func (p *party) acquire(name string) *Lease {
	p.world.Helper()
	l, err := p.Acquire(context.Background(), name, &AcquireOptions{Terms: terms})
	p.world.ok(err)
	return l
}

func (p *party) try(name string) (*Lease, error) {
	return p.TryAcquire(context.Background(), name, &AcquireOptions{Terms: terms})
}

func (p *party) release(l *Lease) {
	p.world.Helper()
	p.world.ok(l.Release(context.Background()))
}

// status is what the record of a name is, without a request.
func (w *world) status(name string) Status {
	object, ok := w.shelf.get(name + "/" + core.LockFile)
	return inspected(name, core.Instant{Wall: time.Now().UnixNano()}, object.Body, !ok, object.Stamp)
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

func (w *world) place(name string, r record) { w.shelf.put(name+"/"+core.LockFile, r.body()) }

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
