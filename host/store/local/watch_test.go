package local

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/mopslock/mopslock/host/store"
)

// watched returns the notices of a key.
func watched(t *testing.T, s *Store, key string) <-chan struct{} {
	t.Helper()
	told := make(chan struct{}, 10)
	_, err := s.Watch(key, func() { told <- struct{}{} })
	must(t, err)
	return told
}

// await waits for a notice, and ends a test that hangs.
func await(t *testing.T, told <-chan struct{}) {
	t.Helper()
	select {
	case <-told:
	case <-time.After(time.Minute):
		t.Fatal("no notice")
	}
}

// TestWatchOverflowTellsEverybody: if the kernel has lost events, every subscription is notified.
func TestWatchOverflowTellsEverybody(t *testing.T) {
	s := open(t, t.TempDir())
	must(t, s.Put(t.Context(), "n/k", nil, ""))
	var all []<-chan struct{}
	for _, key := range []string{"n/k", "n/other", "not/yet"} {
		all = append(all, watched(t, s, key))
	}
	s.watch.push(fsnotify.Event{}, true)
	for _, told := range all {
		await(t, told)
	}
}

// TestWatchOnTheWay: a directory that is made on the way to an object gives no notice.
// With a notice, a waiter under strict would look while the version for which it waits is
// being written, and would not look when it is there.
func TestWatchOnTheWay(t *testing.T) {
	s := open(t, t.TempDir())
	must(t, s.Put(t.Context(), "n/k", nil, ""))
	told, passed := watched(t, s, "n/d/e/v"), watched(t, s, "n/k")
	must(t, os.MkdirAll(s.path("n/d/e"), 0o777))
	for range 2 { // after the second notice, all notices of the first delete have come
		must(t, s.Delete(t.Context(), "n/k"))
		await(t, passed)
		must(t, s.Put(t.Context(), "n/k", nil, ""))
		await(t, passed)
	}
	if n := len(told); n != 0 {
		t.Fatalf("%d notices of directories", n)
	}
	must(t, s.Create(t.Context(), "n/d/e/v", nil, ""))
	await(t, told)
}

// TestWatchTooLate: an object that was made before its directory was watched gives a notice.
func TestWatchTooLate(t *testing.T) {
	s := open(t, t.TempDir())
	must(t, s.Put(t.Context(), "n/k", nil, ""))
	told := watched(t, s, "n/d/e/v")
	s.watch.mu.Lock() // the watcher handles no event meanwhile
	err := s.Create(t.Context(), "n/d/e/v", nil, "")
	s.watch.mu.Unlock()
	must(t, err)
	await(t, told)
}

// TestWatchLeavesNothing: few directories stay watched after the last stop, and none after Close.
func TestWatchLeavesNothing(t *testing.T) {
	s := open(t, t.TempDir())
	must(t, s.Put(t.Context(), "n/k", nil, ""))
	var stops []func()
	for _, key := range []string{"n/k", "n/k", "n/l", "m/x/y"} {
		stop, err := s.Watch(key, func() {})
		must(t, err)
		stops = append(stops, stop)
	}
	if n := len(s.watch.fs.WatchList()); n != 2 { // n, and the root for m/x/y
		t.Fatalf("watching %v", s.watch.fs.WatchList())
	}
	for _, stop := range stops {
		stop()
	}
	for i := range 2 * maxIdle {
		key := fmt.Sprintf("d%d/k", i)
		must(t, s.Put(t.Context(), key, nil, ""))
		stop, err := s.Watch(key, func() {})
		must(t, err)
		stop()
	}
	s.watch.mu.Lock()
	if w := &s.watch; len(w.fs.WatchList()) != maxIdle || len(w.dirs) != maxIdle || len(w.idle) != maxIdle {
		t.Errorf("still watching %v, %v, %v", w.fs.WatchList(), w.dirs, w.idle)
	}
	s.watch.mu.Unlock()
	s.Close() // waits for both goroutines
	if _, err := s.Watch("n/k", func() {}); !errors.Is(err, store.ErrClosed) {
		t.Fatal(err)
	}
	stops[0]()
}

// TestWatchIdle: where any may, a directory that is left and entered again stays watched. If it was removed and
// made again meanwhile, or all may be others, it is watched anew.
func TestWatchIdle(t *testing.T) {
	for name, between := range map[string]func(s *Store){
		"nothing": func(*Store) {},
		"removed": func(s *Store) { must(t, os.RemoveAll(s.path("n")), s.Put(t.Context(), "n/k", nil, "")) },
		"mounted": func(s *Store) {
			move(t, s.root, s.root+" aside")
			must(t, os.CopyFS(s.root, os.DirFS(s.root+" aside")))
			s.watch.settle(nil, true) // as after again
		},
		"moved": func(s *Store) {
			move(t, s.path("n"), s.path("m"))
			must(t, s.Put(t.Context(), "n/k", nil, ""), os.RemoveAll(s.path("m")))
		},
	} {
		s := open(t, t.TempDir())
		must(t, s.Put(t.Context(), "n/k", nil, ""))
		stop, err := s.Watch("n/k", func() {})
		must(t, err)
		stop()
		s.watch.mu.Lock()
		if stays := s.watch.dirs[s.path("n")] != nil; stays != (maxIdle > 0) {
			t.Errorf("%s: stays watched: %t", name, stays)
		}
		s.watch.mu.Unlock()
		between(s)
		told := watched(t, s, "n/k")
		must(t, os.WriteFile(s.path("n/k"), []byte("2"), 0o666))
		await(t, told)
	}
}
