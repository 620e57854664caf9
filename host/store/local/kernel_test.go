package local

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// A directory that is not there yet is on the file system of the nearest one above it. If
// the system does not tell, the file system is not one of ours.
func TestOrderly(t *testing.T) {
	for name, c := range map[string]struct {
		there string // of /a/b/c
		ours  bool
		err   error
		asked int
	}{
		"it is there":     {"/a/b/c", true, nil, 1},
		"its parent is":   {"/a/b", true, nil, 2},
		"of a network":    {"/a", false, nil, 3},
		"cannot be asked": {"/a/b", false, fs.ErrPermission, 2},
		"nothing is":      {"", false, nil, 4},
	} {
		s, err := Open("/a/b/c")
		if err != nil {
			t.Fatal(err)
		}
		asked := 0
		s.isOurs = func(dir string) (bool, error) {
			if asked++; dir != filepath.FromSlash(c.there) {
				return false, fs.ErrNotExist
			}
			return c.ours, c.err
		}
		if runtime.GOOS == "windows" {
			t.Skip("paths have volumes")
		}
		if s.Orderly() != c.ours || asked != c.asked {
			t.Errorf("%s: %t after %d questions", name, s.Orderly(), asked)
		}
	}
}

// isOurs tells this kernel's own file systems from others, and isMemory those in memory.
func TestIsOurs(t *testing.T) {
	for path, want := range map[string]bool{"/dev/shm": true, "/proc": false} {
		if _, err := os.Stat(path); runtime.GOOS != "linux" || err != nil {
			t.Skip("no such file systems here")
		}
		for _, is := range []func(string) (bool, error){isOurs, isMemory} {
			if got, err := is(path); err != nil || got != want {
				t.Errorf("%s: %t, %v", path, got, err)
			}
		}
	}
	if _, err := isOurs(filepath.Join(t.TempDir(), "none")); runtime.GOOS == "linux" && !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
