package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mopslock/mopslock/host/store"
)

// List implements store.Store. It reads whole directories, but only those that can
// hold keys beyond after. So the cost of a page grows with the number of files in its
// directories. List does not show temp files, and removes those of writers that crashed
// more than a day ago. It shows symbolic links to files, and follows links to
// directories only if prefix leads through them. It does not show files whose names
// cannot be keys.
func (s *Store) List(ctx context.Context, prefix, after string, limit int) ([]store.Info, bool, error) {
	err := store.CheckPrefix(prefix)
	if err == nil && s.closed.Load() {
		err = store.ErrClosed
	}
	if err == nil {
		err = s.enterRoot()
	}
	if err == nil {
		err = s.checkRoot()
	}
	if err != nil {
		return nil, false, s.fail("list", prefix, err)
	}
	w := walk{store: s, ctx: ctx, prefix: prefix, after: after, limit: store.PageSize(limit)}
	err = w.dir(prefix[:strings.LastIndexByte(prefix, '/')+1])
	if err := s.done("list", prefix, err); err != nil {
		return nil, false, err
	}
	return w.page, w.more, nil
}

// walk is one List under way.
type walk struct {
	store         *Store
	ctx           context.Context
	prefix, after string
	limit         int
	page          []store.Info
	more          bool
}

// dir lists below rel, which is "" or ends in a slash.
func (w *walk) dir(rel string) error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	var entries []fs.DirEntry
	err := patiently(func() (err error) {
		entries, err = os.ReadDir(w.store.path(rel))
		return err
	})
	if err = absentIfMissing(err); err != nil {
		if errors.Is(err, store.ErrAbsent) {
			return nil // never made, or removed since we saw it
		}
		return err
	}
	for _, e := range inKeyOrder(entries) {
		if err := w.entry(rel, e); err != nil || w.more {
			return err
		}
	}
	return nil
}

// inKeyOrder sorts entries in the order of their keys. All keys below a directory d
// begin with "d/", so "d-x" and "d.x" come before them.
func inKeyOrder(entries []fs.DirEntry) []fs.DirEntry {
	name := func(e fs.DirEntry) string {
		if e.IsDir() {
			return e.Name() + "/"
		}
		return e.Name()
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(name(a), name(b)) })
	return entries
}

func (w *walk) entry(rel string, e fs.DirEntry) error {
	key := rel + e.Name()
	switch {
	case isTemp(e.Name()):
		w.store.sweep(key, e)
		return nil
	case e.IsDir():
		if !w.mayHold(key + "/") {
			return nil
		}
		return w.dir(key + "/")
	case !strings.HasPrefix(key, w.prefix) || key <= w.after || checkKey(key) != nil:
		return nil
	}
	info, err := os.Stat(w.store.path(key))
	if err == nil {
		err = regular(info)
	}
	if err = absentIfMissing(err); errors.Is(err, store.ErrAbsent) || errors.Is(err, errNotRegular) {
		return nil // removed meanwhile, a dangling link, a link to a directory, a pipe
	}
	if err != nil {
		return fmt.Errorf("%w (the list would lack it)", err)
	}
	if len(w.page) == w.limit {
		w.more = true
		return nil
	}
	w.page = append(w.page, store.Info{Key: key, Size: info.Size(), Stamp: w.store.stamp(info)})
	return nil
}

// mayHold reports whether a key that begins with sub can be on the page.
func (w *walk) mayHold(sub string) bool {
	if !strings.HasPrefix(sub, w.prefix) && !strings.HasPrefix(w.prefix, sub) {
		return false
	}
	return sub > w.after || strings.HasPrefix(w.after, sub)
}

// sweep removes a temp file that was not written for a day. Its writer has crashed. If
// the writer was only stopped, its rename finds no file, and its deadline has passed
// anyway (mayMove).
func (s *Store) sweep(key string, e fs.DirEntry) {
	info, err := e.Info()
	if err != nil || !info.Mode().IsRegular() || s.now().Sub(info.ModTime()) < tempLife {
		return
	}
	os.Remove(filepath.Join(s.root, filepath.FromSlash(key))) // if this fails, the next List tries again
}
