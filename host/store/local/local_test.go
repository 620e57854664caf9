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

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func wantClass(t *testing.T, err error, class core.Class) {
	t.Helper()
	var e *store.Error
	if !errors.As(err, &e) || e.Class != class {
		t.Fatalf("error %v; want class %d", err, class)
	}
}

func wantFile(t *testing.T, path, want string) {
	t.Helper()
	if body, err := os.ReadFile(path); err != nil || string(body) != want {
		t.Fatalf("%s: %q, %v; want %q", path, body, err, want)
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

// TestHammerConformance also runs with the race detector.
func TestHammerConformance(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store {
		at := store.Location{Scheme: "file", Dir: filepath.Join(t.TempDir(), "with space %", "#dir")}
		s, err := store.Open(t.Context(), at.String()+"?prefix=not/yet/made")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			s.Close()
			noTemps(t, at.Dir)
		})
		return s
	})
}

// TestObjectsAreAtTheirKeys: mops reads and writes the same path, so the file's mode must
// allow that, and there is nothing else in the directory.
func TestObjectsAreAtTheirKeys(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	key := "a memo/100%/ü/lock/lock.json"
	path := filepath.Join(dir, key)
	must(t, s.Put(t.Context(), key, []byte("ours"), core.LockFileType))
	wantFile(t, path, "ours")
	if entries, _ := os.ReadDir(filepath.Dir(path)); len(entries) != 1 {
		t.Fatalf("beside it: %v", entries)
	}
	must(t, os.WriteFile(filepath.Join(dir, "plain"), nil, 0o666), s.Put(t.Context(), "put", nil, ""), s.Create(t.Context(), "create", nil, ""))
	theirs, _ := os.Stat(filepath.Join(dir, "plain"))
	for _, name := range []string{"put", "create"} {
		if ours, err := os.Stat(filepath.Join(dir, name)); err != nil || ours.Mode() != theirs.Mode() {
			t.Fatalf("mode %v, want %v (%v)", ours.Mode(), theirs.Mode(), err)
		}
	}
	must(t, os.WriteFile(path, []byte("theirs"), 0o666)) // as mops does, in place
	if object, err := s.Get(t.Context(), key); err != nil || string(object.Body) != "theirs" {
		t.Fatalf("%q, %v", object.Body, err)
	}
}

// TestReadsMakeNothing: opening a store makes its directory, and reads make none below it. The
// first write notifies those that watched before.
func TestReadsMakeNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "nope", "deeper")
	s := open(t, dir)
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		t.Fatal(err)
	}
	if _, err := s.Get(t.Context(), "k"); !errors.Is(err, store.ErrAbsent) {
		t.Fatal(err)
	}
	if there, err := s.Exists(t.Context(), "k"); there || err != nil {
		t.Fatal(there, err)
	}
	if page, more, err := s.List(t.Context(), "", "", 0); len(page) != 0 || more || err != nil {
		t.Fatal(page, more, err)
	}
	must(t, s.Delete(t.Context(), "k"))
	told := watched(t, s, "n/k")
	_ = s.StampUnit()
	if entries, err := os.ReadDir(dir); len(entries) != 0 || err != nil {
		t.Fatalf("made: %v, %v", entries, err)
	}
	must(t, s.Create(t.Context(), "n/k", nil, ""))
	await(t, told)
}

// TestLateWriteIsNotApplied: the process was stopped between its temp file and its rename
// (with a stream, after the whole body). Its context does not know yet that the deadline
// has passed.
func TestLateWriteIsNotApplied(t *testing.T) {
	for name, wake := range map[string]func(now time.Time) time.Time{
		"stopped": func(now time.Time) time.Time { return now.Add(2 * time.Hour) },
		// A suspended machine: only the wall clock went on.
		"suspended": func(now time.Time) time.Time { return now.Round(0).Add(2 * time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s, other := open(t, dir), open(t, dir)
			must(t, s.Put(t.Context(), "n/lock.json", []byte("theirs"), ""))
			s.beforeMove = func(op string) {
				if op == "put" {
					must(t, other.Put(context.Background(), "n/lock.json", []byte("theirs"), ""))
				}
				s.now = func() time.Time { return wake(time.Now()) }
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			const size = 1 << 20
			for _, write := range []func() error{
				func() error { return s.Put(ctx, "n/lock.json", []byte("late"), "") },
				func() error { return s.Create(ctx, "n/v", []byte("late"), "") },
				func() error { return s.Delete(ctx, "n/lock.json") },
				func() error { return s.PutFrom(ctx, "n/lock.json", &storetest.Body{Size: size}, size, "") },
				func() error { return s.CreateFrom(ctx, "n/v", &storetest.Body{Size: size}, size, "") },
			} {
				s.now = time.Now
				err := write()
				if ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
					t.Fatalf("error %v; context %v", err, ctx.Err())
				}
				wantClass(t, err, core.ClassUnreachable)
			}
			if page, _, err := other.List(t.Context(), "", "", 0); err != nil || len(page) != 1 {
				t.Fatal(page, err)
			}
			wantFile(t, filepath.Join(dir, "n", "lock.json"), "theirs")
			noTemps(t, dir)
		})
	}
}

// TestDirectoryVanishes: again and again, a Delete elsewhere removes the directory that a
// write has just made. With a stream it can do so only before the temp file is there.
func TestDirectoryVanishes(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	times := 0
	s.beforeMove = func(string) {
		if times++; times < maxTries {
			os.RemoveAll(filepath.Join(dir, "n"))
		}
	}
	must(t, s.Put(t.Context(), "n/m/k", []byte("put"), ""))
	times = 0
	must(t, s.Create(t.Context(), "n/m/c", []byte("created"), ""))
	times = -1000
	err := s.Put(t.Context(), "n/m/k", []byte("put"), "") // it gives up in the end
	wantClass(t, err, core.ClassOther)

	s.beforeMove = func(string) {}
	must(t, s.CreateFrom(t.Context(), "n/m/s", &storetest.Body{Size: 1000, After: func(read int64) error {
		if read == 0 { // a Delete of an absent object also removes empty directories
			return s.Delete(t.Context(), "n/m/other")
		}
		return nil
	}}, 1000, ""))
	if runtime.GOOS == "windows" {
		return // an open file's directory cannot be removed there
	}
	err = s.PutFrom(t.Context(), "n/m/s", &storetest.Body{Size: 1000, After: func(int64) error {
		return os.RemoveAll(filepath.Join(dir, "n"))
	}}, 1000, "")
	wantClass(t, err, core.ClassOther) // the directory was removed by force: unknown, and the body is not read again
	if errors.Is(err, store.ErrBody) || errors.Is(err, store.ErrAbsent) {
		t.Fatal(err)
	}
}

// TestHammerDeletes: writers make directories while deleters remove them.
func TestHammerDeletes(t *testing.T) {
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
	if entries, err := os.ReadDir(s.Dir()); len(entries) != 0 || err != nil {
		t.Fatalf("left: %v, %v", entries, err)
	}
}

// TestTempFilesAreHiddenAndSwept: the temp file of a killed writer is no object, has no key,
// and a list that finds it a day old removes it.
func TestTempFilesAreHiddenAndSwept(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	young, stale := filepath.Join(dir, "n", tempPrefix+"young"), filepath.Join(dir, "n", tempPrefix+"stale")
	dayAgo := time.Now().Add(-tempLife - time.Minute)
	must(t, s.Put(t.Context(), "n/k", nil, ""), os.WriteFile(young, []byte("half"), 0o666),
		os.WriteFile(stale, []byte("half"), 0o666), os.Chtimes(stale, dayAgo, dayAgo))
	page, more, err := s.List(t.Context(), "n/", "", 0)
	if err != nil || more || len(page) != 1 || page[0].Key != "n/k" {
		t.Fatal(page, more, err)
	}
	for _, key := range []string{"n/" + tempPrefix + "young", tempPrefix + "dir/k"} {
		_, err := s.Get(t.Context(), key)
		for _, err := range []error{err, s.Put(t.Context(), key, nil, ""), s.Delete(t.Context(), key)} {
			if !errors.Is(err, store.ErrKey) {
				t.Fatal(err)
			}
		}
	}
	wantFile(t, young, "half")
	if _, err := os.Stat(stale); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("stale temp file: %v", err)
	}
}

// TestKeyBelowAKey: an object and others below its key cannot both be files. A write that
// would need that fails with a reason, and reads find nothing.
func TestKeyBelowAKey(t *testing.T) {
	s := open(t, t.TempDir())
	must(t, s.Put(t.Context(), "a", []byte("a"), ""), s.Put(t.Context(), "d/x", []byte("x"), ""))
	for _, key := range []string{"a/b", "a/b/c", "d"} {
		for _, err := range []error{
			s.Put(t.Context(), key, nil, ""), s.Create(t.Context(), key, nil, ""),
			s.PutFrom(t.Context(), key, &storetest.Body{}, 0, ""), s.CreateFrom(t.Context(), key, &storetest.Body{}, 0, ""),
		} {
			wantClass(t, err, core.ClassNoSuchStore)
			if errors.Is(err, store.ErrExists) || errors.Is(err, store.ErrAbsent) || !strings.Contains(err.Error(), "another below it") {
				t.Fatal(err)
			}
		}
		_, errGet := s.Get(t.Context(), key)
		_, _, errOpen := s.Open(t.Context(), key)
		there, errExists := s.Exists(t.Context(), key)
		if there || !errors.Is(errGet, store.ErrAbsent) || !errors.Is(errOpen, store.ErrAbsent) {
			t.Fatal(there, errGet, errOpen)
		}
		must(t, errExists, s.Delete(t.Context(), key))
	}
	if page, _, err := s.List(t.Context(), "a/", "", 0); len(page) != 0 || err != nil {
		t.Fatal(page, err)
	}
	noTemps(t, s.Dir())
}

// TestStoreThatCannotBeMade: a file where the directory should be is not an empty store.
func TestStoreThatCannotBeMade(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o666))
	for _, dir := range []string{file, filepath.Join(file, "below"), "/proc/nope"} {
		s := open(t, dir)
		wantClass(t, s.Put(t.Context(), "k", nil, ""), core.ClassNoSuchStore)
		wantClass(t, s.Create(t.Context(), "k", nil, ""), core.ClassNoSuchStore)
	}
	_, err := open(t, file).Get(t.Context(), "n/lock.json")
	wantClass(t, err, core.ClassNoSuchStore)
	_, _, err = open(t, file).List(t.Context(), "", "", 0)
	wantClass(t, err, core.ClassNoSuchStore)
}

// TestInjected: errors that a kernel may return, but that a test cannot bring about.
func TestInjected(t *testing.T) {
	s := open(t, t.TempDir())
	for errno, class := range map[syscall.Errno]core.Class{
		syscall.EACCES: core.ClassUnauthorized, syscall.EPERM: core.ClassUnauthorized, syscall.EROFS: core.ClassReadOnly,
		syscall.ENOSPC: core.ClassFull, syscall.EDQUOT: core.ClassFull, syscall.EIO: core.ClassOther,
		syscall.ESTALE: core.ClassUnreachable, syscall.ENOTCONN: core.ClassUnreachable,
	} {
		err := s.fail("put", "n/k", &fs.PathError{Op: "open", Path: s.path("n/k"), Err: errno})
		wantClass(t, err, class)
		if !strings.HasPrefix(err.Error(), `mopslock: store: put "n/k": open `+s.path("n/k")) || !strings.HasSuffix(err.Error(), ")") {
			t.Fatal(err)
		}
	}
	gone, err := openAt(filepath.Join(s.Dir(), "gone"), true)
	must(t, err)
	wantClass(t, gone.fail("put", "k", syscall.EACCES), core.ClassNoSuchStore)
	wantClass(t, gone.fail("put", "k", syscall.EROFS), core.ClassReadOnly)
}

// TestStampUnit: StampUnit tells a file system whose stamps have fractions from one with
// whole seconds, even if an archive has set the directory's time to a whole second.
func TestStampUnit(t *testing.T) {
	dir := t.TempDir()
	s, err := openAt(filepath.Join(dir, "not", "made"), true)
	must(t, err)
	whole := time.Unix(1_700_000_000, 0)
	must(t, os.Chtimes(dir, whole, whole))
	s.changed = func(fs.FileInfo) int64 { return 0 }
	if unit := s.StampUnit(); unit != time.Second {
		t.Fatalf("with whole seconds only: %v", unit)
	}
	if unit := open(t, dir).StampUnit(); runtime.GOOS == "linux" && unit != tick {
		t.Fatalf("a directory as an archive leaves it: %v", unit)
	}
	fraction := whole.Add(time.Millisecond)
	must(t, os.Chtimes(dir, fraction, fraction))
	if unit := s.StampUnit(); unit != tick {
		t.Fatalf("with fractions: %v", unit)
	}
}

// TestOverwriteMakesNoDirectory: the object that a Put overwrites was there. If somebody has
// removed its directory since, none is made.
func TestOverwriteMakesNoDirectory(t *testing.T) {
	dir := t.TempDir()
	s, again := open(t, dir), store.Overwriting(t.Context())
	must(t, s.Put(t.Context(), "n/d/beat", []byte("1"), ""), s.Put(again, "n/d/beat", []byte("2"), ""))
	wantFile(t, filepath.Join(dir, "n/d/beat"), "2")
	must(t, os.RemoveAll(filepath.Join(dir, "n")))
	if err := s.Put(again, "n/d/beat", []byte("3"), ""); !errors.Is(err, store.ErrAbsent) {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "n")); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("made again: %v", err)
	}
	must(t, s.Put(t.Context(), "n/d/beat", []byte("4"), ""))
}
