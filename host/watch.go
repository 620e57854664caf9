package host

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/store"
)

// watchPoll is how often Watch reads a record of a store that tells of nothing.
const watchPoll = time.Second

// Watch yields the state of a name, and again at each change of state, holder or
// version, until ctx ends. A failed read is yielded as an error and does not
// end it, but a name that cannot be one and ErrClosed do. It takes no part:
// nothing is written.
func (h *Host) Watch(ctx context.Context, name string) iter.Seq2[Status, error] {
	return func(yield func(Status, error) bool) {
		if err := core.CheckName(name); err != nil {
			yield(Status{}, err)
			return
		}
		keys := &keyWatch{host: h, name: name, changed: make(chan struct{}, 1)}
		defer keys.stop()
		keys.watchKey("record", recordKey(name))
		ticker := time.NewTicker(watchPoll)
		defer ticker.Stop()
		var last Status
		first := true
		for ctx.Err() == nil {
			now, err := h.Inspect(ctx, name)
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				if !yield(now, err) || errors.Is(err, ErrClosed) {
					return
				}
			case first || now.State != last.State || now.Holder != last.Holder || now.Companion != last.Companion ||
				now.Epoch != last.Epoch:
				first, last = false, now
				keys.watchKey("version", versionKey(name, core.Epoch(now.Epoch)+1))
				if !yield(now, nil) {
					return
				}
			}
			select {
			case <-ctx.Done():
			case <-keys.changed:
			case <-ticker.C:
			}
		}
	}
}

// keyWatch has a local directory tell of changes: of the record of a name, and of its
// next version.
type keyWatch struct {
	host    *Host
	name    string
	changed chan struct{}
	keys    map[string]string
	ends    map[string]func()
}

// watchKey watches a key, and no longer the earlier one of its kind.
func (w *keyWatch) watchKey(kind, key string) {
	watcher, ok := w.host.store.(store.Watcher)
	if !ok || w.keys[kind] == key {
		return
	}
	if w.keys == nil {
		w.keys, w.ends = map[string]string{}, map[string]func(){}
	}
	if end := w.ends[kind]; end != nil {
		end()
	}
	w.keys[kind], w.ends[kind] = key, nil
	end, err := watcher.Watch(key, func() {
		select {
		case w.changed <- struct{}{}:
		default:
		}
	})
	if err == nil {
		w.ends[kind] = end
	}
}

func (w *keyWatch) stop() {
	for _, end := range w.ends {
		if end != nil {
			end()
		}
	}
}
