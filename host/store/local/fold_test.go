package local

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/store"
)

// folding is a store on a file system that folds case: that of this system, or one made of symbolic links that nobody sees.
func folding(t *testing.T) (s *Store, also func(key, as string)) {
	s = open(t, t.TempDir())
	must(t, os.WriteFile(filepath.Join(s.root, "probe"), nil, 0o666))
	if _, err := os.Lstat(filepath.Join(s.root, "PROBE")); err == nil {
		return s, func(string, string) {}
	}
	s.spelling.names = func(dir string) (names []string, err error) {
		entries, err := os.ReadDir(dir)
		for _, e := range entries {
			if e.Type()&os.ModeSymlink == 0 {
				names = append(names, e.Name())
			}
		}
		return names, err
	}
	return s, func(key, as string) {
		must(t, os.Symlink(filepath.Base(key), filepath.Join(s.root, filepath.FromSlash(as))))
	}
}

// TestTwoSpellings: two names that differ only in case are not one. The second is refused, in each verb that reads, and
// when it creates below a directory that the first has made meanwhile.
func TestTwoSpellings(t *testing.T) {
	s, also := folding(t)
	must(t, s.Put(t.Context(), "n/V/one", []byte("of n"), ""))
	also("n", "N")
	also("n/V", "n/v")
	also("n/V/one", "n/V/ONE")
	refuses := func(what string, err error) {
		t.Helper()
		wantClass(t, err, core.ClassNoSuchStore)
		if !errors.Is(err, errFolded) || errors.Is(err, store.ErrAbsent) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for range 2 { // the second time from memory
		if object, err := s.Get(t.Context(), "n/V/one"); err != nil || string(object.Body) != "of n" {
			t.Fatal(object, err)
		}
		for _, key := range []string{"N/V/one", "n/v/one", "n/V/ONE"} {
			_, errGet := s.Get(t.Context(), key)
			refuses("get "+key, errGet)
			_, errExists := s.Exists(t.Context(), key)
			refuses("exists "+key, errExists)
			_, _, errOpen := s.Open(t.Context(), key)
			refuses("open "+key, errOpen)
		}
	}
	refuses("create", s.Create(t.Context(), "N/V/two", nil, ""))
	refuses("create", s.CreateFrom(t.Context(), "N/V/three", strings.NewReader(""), 0, ""))
	must(t, os.RemoveAll(filepath.Join(s.root, "n")))
	if runtime.GOOS == "windows" {
		must(t, s.Put(t.Context(), "N/V/one", []byte("of N"), "")) // the spelling is that of who makes it anew
		_, err := s.Get(t.Context(), "N/V/one")
		must(t, err)
	}
}

// TestCaseTold: where files differ by case, nothing is refused, no directory is read, and after the first file nothing is
// looked for.
func TestCaseTold(t *testing.T) {
	s := open(t, t.TempDir())
	must(t, s.Put(t.Context(), "n/v", nil, ""))
	if _, err := os.Lstat(filepath.Join(s.root, "N")); err == nil {
		t.Skip("this file system folds case")
	}
	s.spelling.names = func(string) ([]string, error) { panic("a directory is read") }
	_, err := s.Get(t.Context(), "n/v")
	must(t, err)
	s.spelling.stat = func(path string) (fs.FileInfo, error) { panic("it looks for " + path) }
	must(t, s.Put(t.Context(), "N/V", []byte("N"), ""))
	for key, want := range map[string]string{"n/v": "", "N/V": "N"} {
		if object, err := s.Get(t.Context(), key); err != nil || string(object.Body) != want {
			t.Error(key, object, err)
		}
	}
}

// TestCaseUnsure: a file that another process replaces or removes between two looks does not tell that case is told, and
// neither does a letter whose other case this file system does not know.
func TestCaseUnsure(t *testing.T) {
	for what, meanwhile := range map[string]func(s *Store) error{
		"replaced": func(s *Store) error { return s.Put(context.Background(), "n/V/one", []byte("anew"), "") },
		"removed":  func(s *Store) error { return os.Remove(s.path("n/V/one")) },
	} {
		s, also := folding(t)
		must(t, s.Put(t.Context(), "n/V/one", nil, ""))
		must(t, s.Put(t.Context(), "n/V/ſ", nil, ""))
		also("n", "N")
		also("n/V", "n/v")
		also("n/V/one", "n/v/ONE")
		looks := 0
		s.spelling.stat = func(path string) (fs.FileInfo, error) {
			if looks++; looks == 2 {
				must(t, meanwhile(s))
			}
			return os.Stat(path)
		}
		_, _ = s.Get(t.Context(), "n/V/one")
		if got := s.spelling.folds.Load(); got != unknown {
			t.Errorf("%s: %d", what, got)
		}
		_, err := s.Get(t.Context(), "n/V/ſ")
		must(t, err)
		if got := s.spelling.folds.Load(); got != folds {
			t.Errorf("%s: %d", what, got)
		}
	}
}
