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

// A user that can make links in the directory is trusted. So we follow links to read and to
// list, and on the way to an object, as host/store/README.md says. But our own puts and
// deletes are of the link itself, not of its target.
func TestLinks(t *testing.T) {
	outside := t.TempDir()
	s := open(t, t.TempDir())
	theirs := filepath.Join(outside, "theirs")
	must(t, os.WriteFile(theirs, []byte("theirs"), 0o600), os.Mkdir(filepath.Join(outside, "team"), 0o700))
	if err := os.Symlink(theirs, filepath.Join(s.Dir(), "link")); err != nil {
		t.Skip("no links: ", err)
	}
	must(t, os.Symlink(filepath.Join(outside, "nowhere"), filepath.Join(s.Dir(), "dangling")),
		os.Symlink(filepath.Join(outside, "team"), filepath.Join(s.Dir(), "team")))

	object, err := s.Get(t.Context(), "link")
	if err != nil || string(object.Body) != "theirs" {
		t.Errorf("get: %q, %v", object.Body, err)
	}
	for _, key := range []string{"link", "dangling"} {
		if err := s.Create(t.Context(), key, []byte("ours"), ""); !errors.Is(err, store.ErrExists) {
			t.Errorf("create %s: %v", key, err)
		}
	}
	// A put replaces the link, and a delete removes it.
	must(t, s.Put(t.Context(), "link", []byte("ours"), ""), s.Put(t.Context(), "dangling", []byte("ours"), ""))
	must(t, s.Delete(t.Context(), "link"), s.Delete(t.Context(), "dangling"))
	if body, err := os.ReadFile(theirs); err != nil || string(body) != "theirs" {
		t.Errorf("the link's target is %q, %v", body, err)
	}
	if _, err := os.Lstat(filepath.Join(outside, "nowhere")); err == nil {
		t.Error("the target of a dangling link was made")
	}
}

// A link to a directory is not removed when the directory becomes empty: otherwise a
// directory of this machine alone would replace it.
func TestLinkedDirectoryStays(t *testing.T) {
	outside := t.TempDir()
	s := open(t, t.TempDir())
	if err := os.Symlink(outside, filepath.Join(s.Dir(), "team")); err != nil {
		t.Skip("no links: ", err)
	}
	must(t, s.Create(t.Context(), "team/n/lock.json", []byte("ours"), ""), s.Delete(t.Context(), "team/n/lock.json"))
	if info, err := os.Lstat(filepath.Join(s.Dir(), "team")); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link: %v, %v", info, err)
	}
	if _, err := os.Lstat(filepath.Join(outside, "n")); err == nil {
		t.Error("the empty directory was left")
	}
}

// TestWhatIsNoFile: a pipe is no object, does not block a read, and is not absent either.
func TestWhatIsNoFile(t *testing.T) {
	s := open(t, t.TempDir())
	pipe := filepath.Join(s.Dir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o666); err != nil {
		t.Skip("this system makes no pipes: ", err)
	}
	must(t, os.Symlink("nowhere", filepath.Join(s.Dir(), "dangling")))
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
