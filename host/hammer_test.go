package host

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/store"
)

// openURL opens a Host on a store, and closes it in the end.
func openURL(t testing.TB, url string, opts *Options) *Host {
	t.Helper()
	if opts == nil {
		opts = &Options{Engine: engine}
	}
	h, err := Open(context.Background(), url, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return h
}

// Eight hosts contend for three names of one directory, two goroutines each,
// with real clocks, files and file events. Inside each critical section nobody
// else is, and all names are served.
func TestHammerDirectory(t *testing.T) {
	// An acquire margin, since a loaded machine has no steady latencies.
	for _, terms := range []Terms{
		{Protocol: core.ProtocolLastWriter, TTL: 30 * time.Second, AcquireMargin: 150 * time.Millisecond},
		{TTL: 30 * time.Second},
		{TTL: 30 * time.Second, Session: true},
	} {
		t.Run(fmt.Sprint(terms.Protocol, terms.Session), func(t *testing.T) { hammerDirectory(t, terms) })
	}
}

func hammerDirectory(t *testing.T, terms Terms) {
	const hosts, each, names = 8, 2, 3
	h := hammer{T: t, terms: terms, tokens: make([]atomic.Uint64, names), inside: make([]atomic.Int32, names), entered: make([]atomic.Int32, names)}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	url, begun := ownURL(t), time.Now()
	var all sync.WaitGroup
	for i := range hosts {
		host := openURL(t, url, nil)
		for j := range each {
			all.Go(func() { h.strike(ctx, host, i+j) })
		}
	}
	for n := range names {
		eventually(t, fmt.Sprintf("name %d is handed over", n), func() bool { return h.entered[n].Load() >= 2 })
	}
	eventually(t, "a second", func() bool { return time.Since(begun) > time.Second })
	cancel()
	all.Wait()
	for n := range names {
		t.Logf("name %d was entered %d times", n, h.entered[n].Load())
	}
}

// hammer counts who is inside the critical section of each name.
type hammer struct {
	*testing.T
	terms           Terms
	inside, entered []atomic.Int32
	tokens          []atomic.Uint64
}

func (h *hammer) strike(ctx context.Context, host *Host, first int) {
	for i := first; ; i++ {
		n := i % len(h.inside)
		l, err := host.Acquire(ctx, "n"+strconv.Itoa(n), &AcquireOptions{Terms: h.terms})
		if errors.Is(err, context.Canceled) {
			return
		}
		if err != nil {
			h.Errorf("acquire: %v", err)
			return
		}
		if h.inside[n].Add(1) != 1 {
			h.Error("two are inside")
		}
		h.entered[n].Add(1)
		if token := l.FencingToken(); l.Protocol() == core.ProtocolStrict && h.tokens[n].Swap(token) >= token {
			h.Errorf("token %d is not new", token)
		}
		if err := l.Err(); err != nil {
			h.Errorf("inside: %v", err)
		}
		h.inside[n].Add(-1)
		if err := l.Release(context.Background()); err != nil {
			h.Errorf("release: %v", err)
		}
	}
}

// counted counts the gets of a directory's store, which still tells of changes.
type counted struct {
	store.Store
	store.Watcher
	gets atomic.Int64
}

func (c *counted) Get(ctx context.Context, key string) (store.Object, error) {
	c.gets.Add(1)
	return c.Store.Get(ctx, key)
}

// frozen is a clock that stands still once it is told to: no timer of any
// machine is ever due again, so no poll comes.
type frozen struct {
	clock systemClock
	at    atomic.Pointer[core.Instant]
}

func (f *frozen) Now() core.Instant {
	if at := f.at.Load(); at != nil {
		return *at
	}
	return f.clock.Now()
}

// A waiter on a directory is woken by the file event: its clock stands still,
// so that it never polls.
func TestFileEventWakes(t *testing.T) {
	ofDirectories(t, "it waits for a file event")
	url := ownURL(t)
	a := openURL(t, url, nil)
	held, err := a.Acquire(context.Background(), "n", lastWriter)
	if err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(context.Background(), url)
	if err != nil {
		t.Fatal(err)
	}
	watcher, ok := s.(store.Watcher)
	if !ok {
		t.Fatal("directories tell of no changes")
	}
	c, clock := &counted{Store: s, Watcher: watcher}, &frozen{}
	b, err := New(c, &Options{Engine: engine, Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close(context.Background())
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	waiting := make(chan struct{})
	got := make(chan error, 1)
	go func() {
		_, err := b.Acquire(ctx, "n", &AcquireOptions{OnWaiting: func(Status) {
			now := clock.Now()
			clock.at.Store(&now)
			close(waiting)
		}})
		got <- err
	}()
	<-waiting
	eventually(t, "the look after the watch has begun", func() bool { return c.gets.Load() >= 2 })
	if err := held.Release(context.Background()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the look after the event", func() bool { return c.gets.Load() >= 3 })
	clock.at.Store(nil) // the claim waits by the clock
	if err := <-got; err != nil {
		t.Fatal(err)
	}
}

// eventually polls, within bounds, for what real files and events bring about.
func eventually(t *testing.T, what string, true func() bool) {
	t.Helper()
	for range 10_000 {
		if true() {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatalf("never came: %s", what)
}

// A directory that is missing is made by the first claim; one that cannot be
// used says why at once.
func TestDirectoryThatCannotBe(t *testing.T) {
	ofDirectories(t, "nobody makes a bucket by writing to it")
	dir := ownURL(t)
	h := openURL(t, dir+"/made/here", nil)
	l, err := h.TryAcquire(context.Background(), "n", &AcquireOptions{Terms: Terms{Protocol: core.ProtocolLastWriter, TTL: time.Minute}})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Release(context.Background()); err != nil {
		t.Fatal(err)
	}
	file := openURL(t, dir+"/made/here/n/"+core.LockFile, nil)
	_, err = file.TryAcquire(context.Background(), "n", &AcquireOptions{Terms: Terms{Protocol: core.ProtocolLastWriter, TTL: time.Minute}})
	if e, ok := errors.AsType[*Error](err); !ok || e.Reason != core.ReasonUnusable || e.Class != core.ClassNoSuchStore {
		t.Fatal(err)
	}
}

// Under strict it is woken by the next version, whose directory is not there yet
// when it begins to watch. Its clock stands still from then on.
func TestStrictFileEventWakes(t *testing.T) {
	ofDirectories(t, "it waits for a file event")
	url := ownURL(t)
	a := openURL(t, url, nil)
	held, err := a.Acquire(t.Context(), "n", nil)
	if err != nil {
		t.Fatal(err)
	}
	clock := &frozen{}
	b := openURL(t, url, &Options{Engine: engine, Clock: clock, Memory: "-"})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	waiting := make(chan struct{})
	got := make(chan error, 1)
	go func() {
		_, err := b.Acquire(ctx, "n", &AcquireOptions{OnWaiting: func(Status) {
			now := clock.Now()
			clock.at.Store(&now)
			close(waiting)
		}})
		got <- err
	}()
	<-waiting
	if err := held.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-got; err != nil {
		t.Fatal(err)
	}
	clock.at.Store(nil)
}
