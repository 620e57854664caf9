//go:build unix

package local

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/store"
)

func TestWhatIsNoFile(t *testing.T) {
	s := open(t, t.TempDir())
	pipe := filepath.Join(s.Dir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o666); err != nil {
		t.Skip(err)
	}
	if err := os.Symlink("nowhere", filepath.Join(s.Dir(), "dangling")); err != nil {
		t.Fatal(err)
	}
	_, err := s.Get(t.Context(), "pipe") // must not hang
	wantClass(t, err, core.ClassOther)
	if errors.Is(err, store.ErrAbsent) {
		t.Fatal(err)
	}
	if _, err := s.Get(t.Context(), "dangling"); !errors.Is(err, store.ErrAbsent) {
		t.Fatal(err)
	}
	if page, _, err := s.List(t.Context(), "", "", 0); len(page) != 0 || err != nil {
		t.Fatal(page, err)
	}
}
