package host

import (
	"context"
	"testing"
	"time"
)

// An object may be dated anyhow. That is the world's doing, no fault of ours,
// and must not end the process with all that it holds.
func TestOddlyDatedObject(t *testing.T) {
	for _, stamp := range []int64{-1 << 63, -1 << 60, 1, 1 << 62, 1<<63 - 1} {
		bubble(t, func(w *world) {
			p := w.host()
			w.shelf.put(recordKey("n"), []byte("{"))
			object := w.shelf.objects[recordKey("n")]
			object.Stamp = stamp
			w.shelf.objects[recordKey("n")] = object
			if l, err := p.try("n"); err != nil {
				w.is(err, ErrRefused)
			} else { // dated long ago: an unreadable record so old is taken
				p.release(l)
			}
		})
	}
}

// Close returns when its ctx ends, whatever hangs, and says why. The store is closed by
// the last request that comes back.
func TestCloseOnDeadMount(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		back := make(chan struct{})
		p.store.always(fault{deaf: back})
		w.is(errOf(p.try("n")), ErrRefused)
		waiter := beside(func() error { return errOf(p.Acquire(background, "n", lastWriter)) })
		w.sleep(time.Millisecond)
		w.is(p.Close(w.limited(time.Second)), context.DeadlineExceeded)
		w.is(<-waiter, ErrClosed)
		w.same("closed", p.store.isClosed(), false)
		close(back)
		w.sleep(time.Second)
		w.same("closed", p.store.isClosed(), true)
	})
}
