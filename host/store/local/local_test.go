package local

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/store"
	"github.com/mopslock/mopslock/host/store/storetest"
)

func open(t testing.TB, dir string) *Store {
	t.Helper()
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func wantClass(t *testing.T, err error, class core.Class) {
	t.Helper()
	var e *store.Error
	if !errors.As(err, &e) || e.Class != class {
		t.Fatalf("error %v; want class %d", err, class)
	}
}

// noTemps fails if a file that was being written is left anywhere below dir.
func noTemps(t *testing.T, dir string) {
	t.Helper()
	_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && isTemp(e.Name()) {
			t.Errorf("left behind: %s", path)
		}
		return nil
	})
}

func TestConformance(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store {
		dir := t.TempDir()
		t.Cleanup(func() { noTemps(t, dir) })
		return open(t, dir)
	})
}

func TestConformanceByURL(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store {
		at := store.Location{Scheme: "file", Dir: filepath.Join(t.TempDir(), "with space %", "#dir")}
		s, err := store.Open(t.Context(), at.String()+"?prefix=not/yet/made")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	})
}

// TestObjectsAreAtTheirKeys: mops reads and writes the same path, and so must
// be able to (mode), and there is nothing else in the directory.
func TestObjectsAreAtTheirKeys(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	key := "a memo/100%/ü/lock/lock.json"
	if err := s.Put(t.Context(), key, []byte("ours"), core.LockFileType); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, key)
	if body, err := os.ReadFile(path); err != nil || string(body) != "ours" {
		t.Fatalf("%q, %v", body, err)
	}
	if entries, _ := os.ReadDir(filepath.Dir(path)); len(entries) != 1 {
		t.Fatalf("beside it: %v", entries)
	}
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	theirs, _ := os.Stat(plain)
	for _, err := range []error{
		s.Put(t.Context(), "put", nil, ""), s.Create(t.Context(), "create", nil, ""),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"put", "create"} {
		if ours, err := os.Stat(filepath.Join(dir, name)); err != nil || ours.Mode() != theirs.Mode() {
			t.Fatalf("mode %v, want %v (%v)", ours.Mode(), theirs.Mode(), err)
		}
	}
	if err := os.WriteFile(path, []byte("theirs"), 0o666); err != nil { // as mops does, in place
		t.Fatal(err)
	}
	if object, err := s.Get(t.Context(), key); err != nil || string(object.Body) != "theirs" {
		t.Fatalf("%q, %v", object.Body, err)
	}
}

func TestOpenAndReadsMakeNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "nope", "deeper")
	s := open(t, dir)
	_, err := s.Get(t.Context(), "k")
	if !errors.Is(err, store.ErrAbsent) {
		t.Fatal(err)
	}
	if there, err := s.Exists(t.Context(), "k"); there || err != nil {
		t.Fatal(there, err)
	}
	if page, more, err := s.List(t.Context(), "", "", 0); len(page) != 0 || more || err != nil {
		t.Fatal(page, more, err)
	}
	if err := s.Delete(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Watch("k", func() {}); !errors.Is(err, store.ErrAbsent) {
		t.Fatalf("watch: %v", err)
	}
	_ = s.StampUnit()
	if _, err := os.Stat(filepath.Dir(dir)); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("made: %v", err)
	}
	if err := s.Create(t.Context(), "k", nil, ""); err != nil { // the first write makes it
		t.Fatal(err)
	}
	if _, err := s.Watch("k", func() {}); err != nil {
		t.Fatal(err)
	}
}

// TestLateWriteIsNotApplied: the process was stopped between its temp file and
// its rename. Its context does not know yet that the deadline is past.
func TestLateWriteIsNotApplied(t *testing.T) {
	for _, stopped := range []struct {
		name string
		wake func(now time.Time) time.Time
	}{
		{"stopped", func(now time.Time) time.Time { return now.Add(2 * time.Hour) }},
		// A suspended machine: only the wall clock went on.
		{"suspended", func(now time.Time) time.Time { return now.Round(0).Add(2 * time.Hour) }},
	} {
		t.Run(stopped.name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir)
			if err := s.Put(t.Context(), "n/lock.json", []byte("old"), ""); err != nil {
				t.Fatal(err)
			}
			other := open(t, dir)
			s.beforeMove = func(op string) {
				if op == "put" {
					if err := other.Put(context.Background(), "n/lock.json", []byte("theirs"), ""); err != nil {
						t.Error(err)
					}
				}
				s.now = func() time.Time { return stopped.wake(time.Now()) }
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			for _, err := range []error{
				s.Put(ctx, "n/lock.json", []byte("late"), ""),
				s.Create(ctx, "n/v", []byte("late"), ""),
				s.Delete(ctx, "n/lock.json"),
			} {
				if ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
					t.Fatalf("error %v; context %v", err, ctx.Err())
				}
				wantClass(t, err, core.ClassUnreachable)
			}
			page, _, err := other.List(t.Context(), "", "", 0)
			if err != nil || len(page) != 1 {
				t.Fatal(page, err)
			}
			object, err := other.Get(t.Context(), "n/lock.json")
			if err != nil || string(object.Body) != "theirs" {
				t.Fatalf("%q, %v", object.Body, err)
			}
			noTemps(t, dir)
		})
	}
}

// TestDirectoryVanishes: a Delete elsewhere removes the directory that a write
// has just made, again and again.
func TestDirectoryVanishes(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	times := 0
	s.beforeMove = func(string) {
		if times++; times < maxTries {
			os.RemoveAll(filepath.Join(dir, "n"))
		}
	}
	if err := s.Put(t.Context(), "n/m/k", []byte("put"), ""); err != nil {
		t.Fatal(err)
	}
	times = 0
	if err := s.Create(t.Context(), "n/m/c", []byte("created"), ""); err != nil {
		t.Fatal(err)
	}
	times = -1000
	err := s.Put(t.Context(), "n/m/k", []byte("put"), "") // it ends
	wantClass(t, err, core.ClassOther)
}

// TestDeleteAgainstWrites: writers make what deleters prune.
func TestDeleteAgainstWrites(t *testing.T) {
	s := open(t, t.TempDir())
	var all sync.WaitGroup
	for _, key := range []string{"n/v/1", "n/v/2", "n/w"} {
		all.Go(func() {
			for range 150 {
				if err := s.Put(t.Context(), key, []byte(key), ""); err != nil {
					t.Error(err)
				}
				if object, err := s.Get(t.Context(), key); err != nil || string(object.Body) != key {
					t.Errorf("%q, %v", object.Body, err)
				}
				if err := s.Delete(t.Context(), key); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if entries, _ := os.ReadDir(s.Dir()); len(entries) != 0 {
		t.Fatalf("left: %v", entries)
	}
	if _, err := os.Stat(s.Dir()); err != nil {
		t.Fatalf("the store's own directory is gone: %v", err)
	}
}

func TestTempFilesAreHiddenAndSwept(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	if err := s.Put(t.Context(), "n/k", nil, ""); err != nil {
		t.Fatal(err)
	}
	young := filepath.Join(dir, "n", tempPrefix+"young")
	stale := filepath.Join(dir, "n", tempPrefix+"stale")
	for _, path := range []string{young, stale} {
		if err := os.WriteFile(path, []byte("half"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	dayAgo := time.Now().Add(-tempLife - time.Minute)
	if err := os.Chtimes(stale, dayAgo, dayAgo); err != nil {
		t.Fatal(err)
	}
	page, more, err := s.List(t.Context(), "n/", "", 0)
	if err != nil || more || len(page) != 1 || page[0].Key != "n/k" {
		t.Fatal(page, more, err)
	}
	if _, err := os.Stat(stale); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("stale temp file: %v", err)
	}
	if _, err := os.Stat(young); err != nil {
		t.Fatalf("young temp file: %v", err)
	}
	for _, key := range []string{"n/" + tempPrefix + "young", tempPrefix + "dir/k"} {
		_, err := s.Get(t.Context(), key)
		for _, err := range []error{err, s.Put(t.Context(), key, nil, ""), s.Delete(t.Context(), key)} {
			if !errors.Is(err, store.ErrKey) {
				t.Fatal(err)
			}
		}
	}
	if _, err := os.Stat(young); err != nil {
		t.Fatal(err)
	}
}

func TestKeyBelowAKey(t *testing.T) {
	s := open(t, t.TempDir())
	if err := s.Put(t.Context(), "a", []byte("a"), ""); err != nil {
		t.Fatal(err)
	}
	if err := s.Put(t.Context(), "d/x", []byte("x"), ""); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		s.Put(t.Context(), "a/b", nil, ""), s.Create(t.Context(), "a/b", nil, ""), s.Put(t.Context(), "a/b/c", nil, ""),
		s.Put(t.Context(), "d", nil, ""), s.Create(t.Context(), "d", nil, ""),
	} {
		wantClass(t, err, core.ClassNoSuchStore)
		if errors.Is(err, store.ErrExists) || errors.Is(err, store.ErrAbsent) || !strings.Contains(err.Error(), "another below it") {
			t.Fatal(err)
		}
	}
	for _, key := range []string{"a/b", "a/b/c", "d"} {
		if _, err := s.Get(t.Context(), key); !errors.Is(err, store.ErrAbsent) {
			t.Fatal(err)
		}
		if there, err := s.Exists(t.Context(), key); there || err != nil {
			t.Fatal(there, err)
		}
		if err := s.Delete(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	if page, _, err := s.List(t.Context(), "a/", "", 0); len(page) != 0 || err != nil {
		t.Fatal(page, err)
	}
	noTemps(t, s.Dir())
}

func TestStoreThatCannotBeMade(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{file, filepath.Join(file, "below")} {
		s := open(t, dir)
		wantClass(t, s.Put(t.Context(), "k", nil, ""), core.ClassNoSuchStore)
		wantClass(t, s.Create(t.Context(), "k", nil, ""), core.ClassNoSuchStore)
	}
	wantClass(t, open(t, "/proc/nope").Put(t.Context(), "k", nil, ""), core.ClassNoSuchStore)
}

func TestNotPermitted(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root is permitted everything")
	}
	dir := t.TempDir()
	s := open(t, dir)
	if err := s.Put(t.Context(), "n/k", nil, ""); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, "n"), 0); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(filepath.Join(dir, "n"), 0o777)
	_, errGet := s.Get(t.Context(), "n/k")
	_, _, errList := s.List(t.Context(), "", "", 0)
	for _, err := range []error{errGet, errList, s.Put(t.Context(), "n/k", nil, ""), s.Create(t.Context(), "n/c", nil, "")} {
		wantClass(t, err, core.ClassUnauthorized)
	}
}

// TestInjected: what a kernel may say that a test cannot make it say.
func TestInjected(t *testing.T) {
	s := open(t, t.TempDir())
	for errno, class := range map[syscall.Errno]core.Class{
		syscall.EACCES: core.ClassUnauthorized, syscall.EPERM: core.ClassUnauthorized, syscall.EROFS: core.ClassReadOnly,
		syscall.ENOSPC: core.ClassFull, syscall.EDQUOT: core.ClassFull, syscall.EIO: core.ClassOther,
		syscall.ESTALE: core.ClassUnreachable, syscall.ENOTCONN: core.ClassUnreachable,
	} {
		err := s.fail("put", "n/k", &fs.PathError{Op: "open", Path: s.path("n/k"), Err: errno})
		wantClass(t, err, class)
		if !strings.HasPrefix(err.Error(), `mopslock: store: put "n/k": open /`) || !strings.HasSuffix(err.Error(), ")") {
			t.Fatal(err)
		}
	}
	gone := open(t, filepath.Join(s.Dir(), "gone"))
	wantClass(t, gone.fail("put", "k", syscall.EACCES), core.ClassNoSuchStore)
	wantClass(t, gone.fail("put", "k", syscall.EROFS), core.ClassReadOnly)
}

func TestStampUnit(t *testing.T) {
	dir := t.TempDir()
	s := open(t, filepath.Join(dir, "not", "made"))
	whole := time.Unix(1_700_000_000, 0)
	if err := os.Chtimes(dir, whole, whole); err != nil {
		t.Fatal(err)
	}
	s.changed = func(fs.FileInfo) int64 { return 0 }
	if unit := s.StampUnit(); unit != time.Second {
		t.Fatalf("with whole seconds only: %v", unit)
	}
	if unit := open(t, dir).StampUnit(); runtime.GOOS == "linux" && unit != tick {
		t.Fatalf("a directory as an archive leaves it: %v", unit)
	}
	fraction := whole.Add(time.Millisecond)
	if err := os.Chtimes(dir, fraction, fraction); err != nil {
		t.Fatal(err)
	}
	if unit := s.StampUnit(); unit != tick {
		t.Fatalf("with fractions: %v", unit)
	}
}

func TestWatchOverflowTellsEverybody(t *testing.T) {
	s := open(t, t.TempDir())
	if err := s.Put(t.Context(), "n/k", nil, ""); err != nil {
		t.Fatal(err)
	}
	told := make(chan string, 10)
	for _, key := range []string{"n/k", "n/other", "not/yet"} {
		if _, err := s.Watch(key, func() { told <- key }); err != nil {
			t.Fatal(err)
		}
	}
	s.watch.push(emptyEvent, true)
	seen := map[string]bool{}
	for len(seen) < 3 {
		select {
		case key := <-told:
			seen[key] = true
		case <-time.After(20 * time.Second):
			t.Fatalf("told only %v", seen)
		}
	}
}

// TestWatchOnTheWay: a directory that is made on the way to an object is no change of
// the object. It would have a waiter of strict look while the version that it waits
// for is being written, and not look when that is there.
func TestWatchOnTheWay(t *testing.T) {
	s := open(t, t.TempDir())
	if err := s.Put(t.Context(), "n/k", nil, ""); err != nil {
		t.Fatal(err)
	}
	told, passed := make(chan struct{}, 10), make(chan struct{}, 10)
	for key, to := range map[string]chan struct{}{"n/d/e/v": told, "n/k": passed} {
		if _, err := s.Watch(key, func() { to <- struct{}{} }); err != nil {
			t.Fatal(err)
		}
	}
	await := func(notices <-chan struct{}) {
		t.Helper()
		select {
		case <-notices:
		case <-time.After(20 * time.Second):
			t.Fatal("no notice")
		}
	}
	if err := os.MkdirAll(s.path("n/d/e"), 0o777); err != nil {
		t.Fatal(err)
	}
	for range 2 { // when the second is told, all is that came with the first
		if err := s.Delete(t.Context(), "n/k"); err != nil {
			t.Fatal(err)
		}
		await(passed)
		if err := s.Put(t.Context(), "n/k", nil, ""); err != nil {
			t.Fatal(err)
		}
		await(passed)
	}
	if n := len(told); n != 0 {
		t.Fatalf("%d notices of directories", n)
	}
	if err := s.Create(t.Context(), "n/d/e/v", nil, ""); err != nil {
		t.Fatal(err)
	}
	await(told)
}

// TestWatchTooLate: an object whose directory was not watched yet when it was made.
func TestWatchTooLate(t *testing.T) {
	s := open(t, t.TempDir())
	if err := s.Put(t.Context(), "n/k", nil, ""); err != nil {
		t.Fatal(err)
	}
	told := make(chan struct{}, 10)
	if _, err := s.Watch("n/d/e/v", func() { told <- struct{}{} }); err != nil {
		t.Fatal(err)
	}
	s.watch.mu.Lock() // no event is acted on meanwhile
	err := s.Create(t.Context(), "n/d/e/v", nil, "")
	s.watch.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-told:
	case <-time.After(20 * time.Second):
		t.Fatal("no notice")
	}
}

// TestWatchLeavesNothing: the last to stop ends the watch, and Close the rest.
func TestWatchLeavesNothing(t *testing.T) {
	s := open(t, t.TempDir())
	if err := s.Put(t.Context(), "n/k", nil, ""); err != nil {
		t.Fatal(err)
	}
	var stops []func()
	for _, key := range []string{"n/k", "n/k", "n/l", "m/x/y"} {
		stop, err := s.Watch(key, func() {})
		if err != nil {
			t.Fatal(err)
		}
		stops = append(stops, stop)
	}
	if n := len(s.watch.fs.WatchList()); n != 2 { // n, and the root for m/x/y
		t.Fatalf("watching %v", s.watch.fs.WatchList())
	}
	for _, stop := range stops {
		stop()
	}
	if n := len(s.watch.fs.WatchList()) + len(s.watch.dirs); n != 0 {
		t.Fatalf("still watching %v", s.watch.fs.WatchList())
	}
	s.Close() // waits for both goroutines
	if _, err := s.Watch("n/k", func() {}); !errors.Is(err, store.ErrClosed) {
		t.Fatal(err)
	}
	stops[0]()
}

// A file where the directory should be is not an empty store.
func TestFileInPlaceOfTheStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := open(t, path)
	_, err := s.Get(t.Context(), "n/lock.json")
	wantClass(t, err, core.ClassNoSuchStore)
	_, _, err = s.List(t.Context(), "", "", 0)
	wantClass(t, err, core.ClassNoSuchStore)
}
