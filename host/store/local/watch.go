package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/fsnotify/fsnotify"

	"github.com/mopslock/mopslock/host/store"
)

// Watch implements store.Watcher with one fsnotify watcher for the whole store, which the
// first Watch makes. It watches the object's directory. While that is missing, it watches
// the nearest directory above it, even above the store's own. It moves down as
// directories are made and up as they are removed, and gives no notice of a directory
// that is made on the way to the object. An error says that the system has no watches
// left.
func (s *Store) Watch(key string, notify func()) (stop func(), err error) {
	err = checkKey(key)
	if err == nil {
		stop, err = s.watch.add(s.path(key), notify)
	}
	if err != nil {
		return nil, s.fail("watch", key, err)
	}
	return stop, nil
}

// maxQueue bounds the events that wait. Events beyond it become one overflow.
const maxQueue = 4096

// watcher shares one fsnotify.Watcher among all subscriptions of a store.
//
// It has two goroutines: pump takes events from fsnotify and never waits for anything
// else; serve acts on them. serve adds and removes watches, and on some systems fsnotify
// answers that only while another goroutine takes its events.
type watcher struct {
	mu     sync.Mutex // guards the next fields, and calls into fsnotify
	fs     *fsnotify.Watcher
	dirs   map[string]map[*subscription]struct{} // watched directory → its subscriptions
	idle   []string                              // watched directories without any, the one left last at the end
	closed bool
	ended  sync.WaitGroup

	queueMu  sync.Mutex
	queue    []fsnotify.Event
	overflow bool
	signal   chan struct{} // capacity 1; closed by pump at its end
}

// subscription is one Watch.
type subscription struct {
	path   string // of the object
	notify func()
	dir    string // the directory that it watches, or ""
	next   string // the name in dir that leads to path
}

func (w *watcher) add(path string, notify func()) (stop func(), err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.start(); err != nil {
		return nil, err
	}
	sub := &subscription{path: path, notify: notify}
	if err := w.place(sub); err != nil {
		return nil, err
	}
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.leave(sub)
	}, nil
}

// start makes the watcher and its goroutines, once.
func (w *watcher) start() error {
	switch {
	case w.closed:
		return store.ErrClosed
	case w.fs != nil:
		return nil
	}
	inner, err := fsnotify.NewWatcher()
	if err != nil {
		return err
	}
	w.fs = inner
	w.dirs = map[string]map[*subscription]struct{}{}
	w.signal = make(chan struct{}, 1)
	w.ended.Go(w.pump)
	w.ended.Go(w.serve)
	return nil
}

func (w *watcher) close() {
	w.mu.Lock()
	w.closed = true
	inner := w.fs
	w.mu.Unlock()
	if inner != nil {
		inner.Close() // closes its channels: pump ends, and with it serve
		w.ended.Wait()
	}
}

// again notifies all subscriptions, and finds their directories anew: what is at the store's
// path has changed without an event, by a mount or a rename further up.
func (w *watcher) again() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fs != nil && !w.closed {
		w.push(fsnotify.Event{}, true)
	}
}

// pump ends when fsnotify's channels are closed.
func (w *watcher) pump() {
	defer close(w.signal)
	for {
		select {
		case event, ok := <-w.fs.Events:
			if !ok {
				return
			}
			if event.Op != fsnotify.Chmod {
				w.push(event, false)
			}
		case _, ok := <-w.fs.Errors:
			if !ok {
				return
			}
			w.push(fsnotify.Event{}, true) // an overflow, or worse: notify all subscriptions
		}
	}
}

func (w *watcher) push(event fsnotify.Event, overflow bool) {
	w.queueMu.Lock()
	if overflow || len(w.queue) >= maxQueue {
		w.overflow = true
	} else {
		w.queue = append(w.queue, event)
	}
	w.queueMu.Unlock()
	select {
	case w.signal <- struct{}{}:
	default:
	}
}

func (w *watcher) serve() {
	for range w.signal {
		w.queueMu.Lock()
		events, overflow := w.queue, w.overflow
		w.queue, w.overflow = nil, false
		w.queueMu.Unlock()
		for _, sub := range w.settle(events, overflow) {
			sub.notify() // outside the lock: it may call stop
		}
	}
}

// settle moves the subscriptions that events touch to the directories that they must now
// watch, and returns those to notify, each once. A directory that was made on the way to
// an object gives no notice, unless the object was there before the watch:
//
//	us:                 event: N ── watch N ── is N/v there?
//	other:    mkdir N ────────────────────────────────────────── N/v (gives a notice)
func (w *watcher) settle(events []fsnotify.Event, overflow bool) []*subscription {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil
	}
	touched := map[*subscription]bool{}
	if overflow {
		for _, subs := range w.dirs {
			for sub := range subs {
				touched[sub] = true
			}
		}
	}
	for _, event := range events {
		w.touch(event, touched)
	}
	if overflow { // the directories may be others by now
		for sub := range touched {
			w.leave(sub)
		}
		w.forget(0)
	}
	notify := make([]*subscription, 0, len(touched))
	for sub, concerned := range touched {
		if sub.dir != filepath.Dir(sub.path) {
			w.leave(sub)
			_ = w.place(sub) // if this fails, the caller still polls
		}
		if concerned || isThere(sub.path) {
			notify = append(notify, sub)
		}
	}
	return notify
}

// touch collects the subscriptions that an event touches, and whether the event can be
// about the object itself.
func (w *watcher) touch(event fsnotify.Event, touched map[*subscription]bool) {
	dir, name := filepath.Split(event.Name)
	for sub := range w.dirs[filepath.Clean(dir)] {
		if sub.next == name {
			touched[sub] = touched[sub] || sub.dir == filepath.Dir(sub.path)
		}
	}
	// The watched directory itself was removed, and its watch with it. If there is a
	// directory of that name again, it is another one, and needs a watch of its own.
	if !event.Has(fsnotify.Remove) && !event.Has(fsnotify.Rename) {
		return
	}
	subs := w.dirs[event.Name]
	if subs == nil {
		return
	}
	w.end(event.Name)
	for sub := range subs {
		sub.dir = ""
		touched[sub] = true
	}
}

// maxMoves bounds how often place follows directories that come and go.
const maxMoves = 100

// place finds the directory that sub must watch now, and watches it.
//
//	us:    N is missing ── watch root ───────────── N is there? watch N
//	other:                             mkdir N, N/v          (settle notifies of N/v)
//
// A directory may be made after place saw that it is missing, and before place watches
// the one above it. No event tells of that, so place looks again afterwards.
func (w *watcher) place(sub *subscription) error {
	for range maxMoves {
		dir := nearest(filepath.Dir(sub.path))
		if err := w.enter(sub, dir); err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			return err
		}
		if dir == filepath.Dir(sub.path) || !isDir(filepath.Join(dir, sub.next)) {
			return nil
		}
		w.leave(sub)
	}
	return fmt.Errorf("the directories above it come and go")
}

// nearest returns dir or the first directory above it that exists.
func nearest(dir string) string {
	for above := filepath.Dir(dir); !isDir(dir) && above != dir; above = filepath.Dir(dir) {
		dir = above
	}
	return dir
}

// isThere reports whether there is a file. It is also true if the system does not tell.
func isThere(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// enter makes sub watch dir.
func (w *watcher) enter(sub *subscription, dir string) error {
	if w.dirs[dir] == nil {
		if err := w.fs.Add(dir); err != nil {
			return err
		}
		w.dirs[dir] = map[*subscription]struct{}{}
	}
	w.idle = slices.DeleteFunc(w.idle, func(idle string) bool { return idle == dir })
	w.dirs[dir][sub] = struct{}{}
	below := strings.TrimLeft(sub.path[len(dir):], string(filepath.Separator))
	sub.dir = dir
	sub.next, _, _ = strings.Cut(below, string(filepath.Separator))
	return nil
}

// leave undoes enter. The directory stays watched for a while: who takes one name again and
// again would have the kernel begin anew, which takes as long as there are versions of it.
func (w *watcher) leave(sub *subscription) {
	subs := w.dirs[sub.dir]
	if _, in := subs[sub]; !in {
		return
	}
	delete(subs, sub)
	if len(subs) == 0 {
		w.idle = append(w.idle, sub.dir)
		w.forget(maxIdle)
	}
	sub.dir = ""
}

// forget ends the watches of all idle directories but so many.
func (w *watcher) forget(keep int) {
	for len(w.idle) > keep {
		w.end(w.idle[0])
	}
}

// end ends the watch of a directory.
func (w *watcher) end(dir string) {
	w.idle = slices.DeleteFunc(w.idle, func(idle string) bool { return idle == dir })
	delete(w.dirs, dir)
	_ = w.fs.Remove(dir) // already gone with its directory, or closed
}

var _ interface {
	store.Store
	store.Watcher
} = (*Store)(nil)
