package local

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/store"
	"github.com/mopslock/mopslock/host/store/capability"
	"github.com/mopslock/mopslock/host/store/storetest"
)

// move renames, and ends the test if that fails.
func move(t *testing.T, from, to string) {
	t.Helper()
	must(t, os.Rename(from, to))
}

// verbs calls every verb, and returns what came of each by its name.
func verbs(t *testing.T, s *Store) map[string]error {
	t.Helper()
	ctx := t.Context()
	_, errGet := s.Get(ctx, "n/k")
	_, errAbsent := s.Get(ctx, "n/absent")
	there, errExists := s.Exists(ctx, "n/absent")
	page, _, errList := s.List(ctx, "", "", 0)
	if there || errList != nil && len(page) != 0 {
		t.Error("an answer beside an error")
	}
	stream, _, errOpen := s.Open(ctx, "n/k")
	if errOpen == nil {
		stream.Close()
	}
	return map[string]error{
		"get": errGet, "absent": errAbsent, "exists": errExists, "list": errList, "open": errOpen,
		"put": s.Put(ctx, "n/k", []byte("2"), ""), "overwrite": s.Put(store.Overwriting(ctx), "n/k", []byte("2"), ""),
		"new put": s.Put(ctx, "m/k", nil, ""), "create": s.Create(ctx, "n/c", nil, ""), "exists already": s.Create(ctx, "n/k", nil, ""),
		"delete":       s.Delete(ctx, "n/absent"),
		"put stream":   s.PutFrom(ctx, "n/k", &storetest.Body{Size: 10}, 10, ""),
		"create again": s.CreateFrom(ctx, "n/d", &storetest.Body{Size: 10}, 10, ""),
	}
}

// wantMoved fails unless every verb says that the directory is another one, and has left nothing.
func wantMoved(t *testing.T, s *Store) {
	t.Helper()
	before, _ := os.ReadDir(s.Dir())
	for verb, err := range verbs(t, s) {
		if !errors.Is(err, store.ErrMoved) || !strings.Contains(err.Error(), s.Dir()) || !strings.Contains(err.Error(), "mount it or move it back") {
			t.Errorf("%s: %v", verb, err)
			continue
		}
		wantClass(t, err, core.ClassUnreachable)
	}
	if after, _ := os.ReadDir(s.Dir()); len(after) != len(before) {
		t.Errorf("made: %v, before: %v", after, before)
	}
}

// TestRootIsMadeOnce: where the directory is gone, or another is in its place, nothing is made
// and nothing is answered. With the directory back at its path, all goes on.
func TestRootIsMadeOnce(t *testing.T) {
	for name, replace := range map[string]func(t *testing.T, dir string){
		"moved":   func(*testing.T, string) {},
		"another": func(t *testing.T, dir string) { must(t, os.Mkdir(dir, 0o777)) },
		"a copy without a record": func(t *testing.T, dir string) {
			must(t, os.MkdirAll(filepath.Join(dir, "n"), 0o777), os.WriteFile(filepath.Join(dir, "n/k"), []byte("1"), 0o666))
		},
		"a file": func(t *testing.T, dir string) { must(t, os.WriteFile(dir, nil, 0o666)) },
		"a link to another": func(t *testing.T, dir string) {
			must(t, os.Mkdir(dir+" there", 0o777), os.Symlink(dir+" there", dir))
		},
		"its parent is away": func(t *testing.T, dir string) { move(t, filepath.Dir(dir), filepath.Dir(dir)+" away") },
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "mnt", "store")
			s := open(t, dir)
			must(t, s.Put(t.Context(), "n/k", []byte("1"), ""))
			aside := filepath.Join(filepath.Dir(filepath.Dir(dir)), "aside")
			move(t, dir, aside)
			replace(t, dir)
			wantMoved(t, s)

			must(t, os.RemoveAll(dir), os.MkdirAll(filepath.Dir(dir), 0o777))
			move(t, aside, dir)
			wantFile(t, filepath.Join(dir, "n/k"), "1")
			for verb, err := range verbs(t, s) {
				if err != nil && !errors.Is(err, store.ErrAbsent) && !errors.Is(err, store.ErrExists) {
					t.Errorf("back again: %s: %v", verb, err)
				}
			}
		})
	}
}

// TestRootIsRecognized: a remounted store may have another device and other inodes. The nonce of
// its capability record tells it, from when there is one. Its device and inode do not: what is
// mounted next, or made anew, often has the same.
func TestRootIsRecognized(t *testing.T) {
	record := func(nonce string) []byte { return capability.Record{Nonce: nonce}.Body() }
	for name, test := range map[string]struct {
		write func(t *testing.T, s *Store, dir string) // brings the record about
		nonce string                                   // of what is there later
		is    bool
	}{
		"there when it was opened": {func(*testing.T, *Store, string) {}, "first", true},
		"another":                  {func(*testing.T, *Store, string) {}, "other", false},
		"none":                     {func(*testing.T, *Store, string) {}, "", false},
		"another, with its inode":  {func(*testing.T, *Store, string) {}, "other", false},
		"none, with its inode":     {func(*testing.T, *Store, string) {}, "", false},
		"made by us": {func(t *testing.T, s *Store, _ string) {
			must(t, s.Create(t.Context(), capability.Key, record("second"), ""))
		}, "second", true},
		"made by another process": {func(t *testing.T, s *Store, dir string) {
			must(t, os.MkdirAll(filepath.Join(dir, "_mopslock"), 0o777), os.WriteFile(filepath.Join(dir, capability.Key), record("third"), 0o666))
			must(t, s.Put(t.Context(), "n/k", nil, ""))
		}, "third", true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "store")
			if !strings.HasPrefix(name, "made") {
				must(t, os.MkdirAll(filepath.Join(dir, "_mopslock"), 0o777), os.WriteFile(filepath.Join(dir, capability.Key), record("first"), 0o666))
			}
			s := open(t, dir)
			must(t, s.Put(t.Context(), "n/k", []byte("1"), ""))
			test.write(t, s, dir)
			if strings.HasSuffix(name, "inode") {
				must(t, os.RemoveAll(filepath.Join(dir, "_mopslock")), os.RemoveAll(filepath.Join(dir, "n")))
			} else {
				move(t, dir, dir+" aside")
			}
			must(t, os.MkdirAll(filepath.Join(dir, "_mopslock"), 0o777), os.MkdirAll(filepath.Join(dir, "n"), 0o777), os.WriteFile(filepath.Join(dir, "n/k"), []byte("1"), 0o666))
			if test.nonce != "" {
				must(t, os.WriteFile(filepath.Join(dir, capability.Key), record(test.nonce), 0o666))
			}
			must(t, os.Chtimes(dir, time.Time{}, time.Unix(1, 0))) // all this may take less than a tick of the kernel's clock
			if !test.is {
				wantMoved(t, s)
				return
			}
			must(t, s.Put(store.Overwriting(t.Context()), "n/k", []byte("2"), ""))
			wantFile(t, filepath.Join(dir, "n/k"), "2")
		})
	}
}

// TestRootIsNoFile: a file in the directory's place is not it, even with its inode, which the kernel may use again.
func TestRootIsNoFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s := open(t, dir)
	must(t, os.Remove(dir), os.WriteFile(dir, nil, 0o666))
	info, err := os.Stat(dir)
	must(t, err)
	s.identity.Store(&identity{info: info})
	wantMoved(t, s)
}

// TestRootGoesInAVerb: the directory goes after the temp file was written. Nothing is applied in
// the other place, and no answer is yes.
func TestRootGoesInAVerb(t *testing.T) {
	for _, op := range []string{"put", "create", "put stream", "create again"} {
		dir := filepath.Join(t.TempDir(), "store")
		s := open(t, dir)
		must(t, s.Put(t.Context(), "n/k", []byte("1"), ""))
		s.beforeMove = func(string) {
			s.beforeMove = func(string) {}
			move(t, dir, dir+" aside")
			must(t, os.MkdirAll(filepath.Join(dir, "n"), 0o777))
		}
		err := map[string]func() error{
			"put":          func() error { return s.Put(t.Context(), "n/k", []byte("2"), "") },
			"create":       func() error { return s.Create(t.Context(), "n/c", nil, "") },
			"put stream":   func() error { return s.PutFrom(t.Context(), "n/k", &storetest.Body{Size: 10}, 10, "") },
			"create again": func() error { return s.CreateFrom(t.Context(), "n/c", &storetest.Body{Size: 10}, 10, "") },
		}[op]()
		if entries, _ := os.ReadDir(filepath.Join(dir, "n")); !errors.Is(err, store.ErrMoved) || len(entries) != 0 {
			t.Errorf("%s: %v, %v", op, err, entries)
		}
		wantFile(t, dir+" aside/n/k", "1")
	}
}

// TestRootComesBackInAVerb: the verb has read in the other place. What it found there is no answer.
func TestRootComesBackInAVerb(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s := open(t, dir)
	must(t, s.Put(t.Context(), "n/k", []byte("1"), ""))
	move(t, dir, dir+" aside")
	must(t, os.MkdirAll(filepath.Join(dir, "n"), 0o777), os.WriteFile(filepath.Join(dir, "n/k"), []byte("other"), 0o666))
	must(t, os.Chtimes(filepath.Join(dir, "n/k"), time.Time{}, time.Unix(1, 0))) // so that changed is asked
	s.fine.Store(false)
	s.changed = func(os.FileInfo) int64 {
		move(t, dir, dir+" other")
		move(t, dir+" aside", dir)
		return 1
	}
	if object, err := s.Get(t.Context(), "n/k"); !errors.Is(err, store.ErrMoved) {
		t.Errorf("%q, %v", object.Body, err)
	}
}

// TestRootMustExist: with create=false nothing is made, and reads find no empty store.
func TestRootMustExist(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "mnt")
	at := store.Location{Scheme: "file", Dir: dir}
	opened, err := store.Open(t.Context(), at.String()+"?create=false")
	must(t, err)
	defer opened.Close()
	_, errGet := opened.Get(t.Context(), "n/k")
	_, _, errList := opened.List(t.Context(), "", "", 0)
	for _, err := range []error{errGet, errList, opened.Put(t.Context(), "n/k", nil, "")} {
		wantClass(t, err, core.ClassNoSuchStore)
		if !strings.Contains(err.Error(), "create=false") {
			t.Error(err)
		}
	}
	must(t, os.Mkdir(dir, 0o777), opened.Put(t.Context(), "n/k", nil, ""))
}

// TestWatchAgain: events come again after the directory has gone and another was mounted.
func TestWatchAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s := open(t, dir)
	must(t, s.Put(t.Context(), "n/k", []byte("1"), ""))
	told := watched(t, s, "n/k")
	_ = watched(t, s, "n/other") // which watches the same directory
	move(t, dir, dir+" aside")
	wantMoved(t, s)
	must(t, os.CopyFS(dir+" copy", os.DirFS(dir+" aside")), os.Rename(dir+" copy", dir))
	wantMoved(t, s) // it has no record
	must(t, os.RemoveAll(dir), os.Rename(dir+" aside", dir), s.Put(t.Context(), "m/k", nil, ""))
	await(t, told) // it may have changed meanwhile
	for len(told) > 0 {
		<-told
	}
	must(t, os.WriteFile(filepath.Join(dir, "n/k"), []byte("2"), 0o666))
	await(t, told)
}
