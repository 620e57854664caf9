package client

import (
	"slices"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
	"github.com/mopslock/mopslock/core/internal/outbox"
)

// watches are the keys of which the host tells changes, and who wants to know.
type watches map[string]*watch

// watch is one of them.
type watch struct {
	base.Shared
	key   string
	begun bool // the host has said that it watches
	by    []watcher
}

// watcher embeds a watching: a claim, or the unit of a session, whose next call it is, or of semaphores.
type watcher interface {
	core.Part
	watched() *watching
}

// watching is what a watcher watches.
type watching struct{ keys []*watch }

// watched implements watcher.
func (w *watching) watched() *watching { return w }

// isTold reports whether the host tells of each change: it has said that it watches.
func (w *watching) isTold() bool {
	return len(w.keys) > 0 && !slices.ContainsFunc(w.keys, func(one *watch) bool { return !one.begun })
}

// set has a watcher watch these keys and no others.
func (s watches) set(out *outbox.Outbox, by watcher, keys ...string) {
	of := by.watched()
	if slices.EqualFunc(of.keys, keys, func(w *watch, key string) bool { return w.key == key }) {
		return
	}
	old := of.keys
	of.keys = nil
	for _, key := range keys {
		w := s[key]
		if w == nil {
			w = &watch{key: key}
			s[key] = w
			out.Emit(core.ActionWatch).Key = key
		}
		if of.keys = append(of.keys, w); !slices.Contains(old, w) {
			w.by = append(w.by, by)
		}
	}
	for _, w := range old {
		if slices.Contains(of.keys, w) {
			continue
		}
		if w.by = without(w.by, by); len(w.by) == 0 {
			delete(s, w.key)
			out.Emit(core.ActionUnwatch).Key = w.key
		}
	}
}

// changed is who watches a key, and whether this is the host's first word on it: that it watches.
func (s watches) changed(key string) (by []watcher, first bool) {
	w := s[key]
	if w == nil {
		return nil, false
	}
	first, w.begun = !w.begun, true
	return w.by, first
}

// without takes one out of a list, and nil is a list of none.
func without[T comparable](all []T, one T) []T {
	if i := slices.Index(all, one); i >= 0 {
		all = cut(all, i)
	}
	if len(all) == 0 {
		return nil
	}
	return all
}

// cut takes out what stands at an index: at once if that is the first, as who has waited longest is.
func cut[T any](all []T, i int) []T {
	if i == 0 {
		return rest(all)
	}
	return slices.Delete(all, i, i+1)
}

// rest is a queue without its first, which the queue's room keeps no longer.
func rest[T any](queue []T) []T {
	clear(queue[:1])
	return queue[1:]
}
