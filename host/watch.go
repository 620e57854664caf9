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
		ring := &bell{host: h, name: name, rung: make(chan struct{}, 1)}
		defer ring.stop()
		ring.hang("record", recordKey(name))
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
				ring.hang("version", versionKey(name, core.Epoch(now.Epoch)+1))
				if !yield(now, nil) {
					return
				}
			}
			select {
			case <-ctx.Done():
			case <-ring.rung:
			case <-ticker.C:
			}
		}
	}
}

// bell rings when a local directory tells of a change: of the record of a name,
// or of its next version.
type bell struct {
	host *Host
	name string
	rung chan struct{}
	keys map[string]string
	ends map[string]func()
}

// hang watches a key in the place of an earlier one of its kind.
func (b *bell) hang(kind, key string) {
	watcher, ok := b.host.store.(store.Watcher)
	if !ok || b.keys[kind] == key {
		return
	}
	if b.keys == nil {
		b.keys, b.ends = map[string]string{}, map[string]func(){}
	}
	if end := b.ends[kind]; end != nil {
		end()
	}
	b.keys[kind], b.ends[kind] = key, nil
	end, err := watcher.Watch(key, func() {
		select {
		case b.rung <- struct{}{}:
		default:
		}
	})
	if err == nil {
		b.ends[kind] = end
	}
}

func (b *bell) stop() {
	for _, end := range b.ends {
		if end != nil {
			end()
		}
	}
}
