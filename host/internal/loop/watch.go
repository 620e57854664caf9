package loop

import "github.com/mopslock/mopslock/core"

// watching is a key of which the store tells changes.
type watching struct {
	stop func() // nil while the watch is being made
	over bool
}

// watch begins to watch a key. That may hang on a dead mount, so it is done beside the lock.
// When it has begun the client is told of a change: what changed before was not told.
func (l *Loop) watch(key string) {
	w := &watching{}
	l.watches[key] = w
	l.spawn(func() {
		stop, ok := l.host.Watch(key, func() { l.changed(key, w) })
		if !ok {
			return
		}
		l.mu.Lock()
		w.stop = stop
		if w.over {
			l.spawn(stop)
		}
		l.mu.Unlock()
		l.changed(key, w)
	})
}

// changed tells the client of a change.
func (l *Loop) changed(key string, w *watching) {
	l.mu.Lock()
	defer l.unlock()
	if !w.over {
		l.tell(core.Event{Kind: core.EventChanged, Key: []byte(key)})
	}
}

// unwatch ends a watch. One that is being made is ended when it is there.
func (l *Loop) unwatch(key string) {
	w := l.watches[key]
	if w == nil {
		return
	}
	delete(l.watches, key)
	w.over = true
	if w.stop != nil {
		l.spawn(w.stop)
	}
}

// unwatchAll ends all watches.
func (l *Loop) unwatchAll() {
	for key := range l.watches {
		l.unwatch(key)
	}
}
