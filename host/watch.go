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

// Watch yields the state of a name, and again at each change of state or
// holder, until ctx ends. A failed read is yielded as an error and does not
// end it, but a name that cannot be one and ErrClosed do. It takes no part:
// nothing is written.
func (h *Host) Watch(ctx context.Context, name string) iter.Seq2[Status, error] {
	return func(yield func(Status, error) bool) {
		if err := core.CheckName(name); err != nil {
			yield(Status{}, err)
			return
		}
		changed := make(chan struct{}, 1)
		if watcher, ok := h.store.(store.Watcher); ok {
			stop, err := watcher.Watch(name+"/"+core.LockFile, func() {
				select {
				case changed <- struct{}{}:
				default:
				}
			})
			if err == nil {
				defer stop()
			}
		}
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
			case first || now.State != last.State || now.Holder != last.Holder || now.Companion != last.Companion:
				first, last = false, now
				if !yield(now, nil) {
					return
				}
			}
			select {
			case <-ctx.Done():
			case <-changed:
			case <-ticker.C:
			}
		}
	}
}
