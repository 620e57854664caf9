package host

import (
	"context"
	"time"

	"github.com/mopslock/mopslock/host/internal/loop"
)

// Work is one attempt at a piece of work: what is to be launched now, and the
// lease that is held for it. Its methods may be called from any goroutine.
type Work struct {
	invocation *Invocation
	view       *claim // the lease or the companion; nil without a lease

	// ctx is a remote's, whose work outlives most ends of its lease; who holds a
	// lease has the lease's own.
	ctx    context.Context
	cancel context.CancelCauseFunc

	// Under the invocation's mu.
	result  Source
	failure Source
	err     error
	over    bool
}

// Name is what the work is leased by.
func (w *Work) Name() string { return w.invocation.name }

// Lease is the lease that the work is done under; nil for a remote. To Release it
// gives the whole invocation up.
func (w *Work) Lease() *Lease {
	if w.view == nil || w.invocation.asked.remote {
		return nil
	}
	return &Lease{w.view}
}

// Companion is what keeps a remote's lease alive; nil without one. To Leave it
// gives the whole invocation up.
func (w *Work) Companion() *Companion {
	if w.view == nil || !w.invocation.asked.remote {
		return nil
	}
	return &Companion{w.view}
}

// Handle is what a remote needs to do the work under this lease; the zero Handle
// without one.
func (w *Work) Handle() Handle {
	if l := w.Lease(); l != nil {
		return l.Handle()
	}
	if w.view == nil {
		return Handle{}
	}
	handle := w.invocation.asked.handle
	handle.Epoch = max(handle.Epoch, w.view.epoch.Load())
	return handle
}

// Context ends when the lease is lost or given back, with an *Error as its cause:
// who works on does so without being the only one. A remote's ends only when the
// lease is another's (Lost, Reason taken or broken), or at the end of the
// invocation. It has the values of the ctx that the invocation was begun with.
func (w *Work) Context() context.Context {
	if w.ctx != nil {
		return w.ctx
	}
	return w.view.context()
}

// Err says why the lease is not ours any more, or nil, as Lease.Err and
// Companion.Err do: past a lease's deadline it is never nil. Without a lease it
// is nil until Context ends.
func (w *Work) Err() error {
	switch {
	case w.view == nil && w.ctx.Err() == nil:
		return nil
	case w.view == nil:
		return context.Cause(w.ctx)
	}
	return w.view.current()
}

// FencingToken grows from each tenure to the next, and is the same for holder and
// remotes: 0 under lastwriter, which has none, and without a lease.
func (w *Work) FencingToken() uint64 {
	if w.view == nil {
		return 0
	}
	return uint64(w.view.token)
}

// Epoch is the newest version of the tenure that is known; 0 under lastwriter and
// without a lease.
func (w *Work) Epoch() uint64 {
	if w.view == nil {
		return 0
	}
	return w.view.epoch.Load()
}

// Holder is the id of the tenure; "" without a lease.
func (w *Work) Holder() string {
	if w.view == nil {
		return ""
	}
	return w.view.holder
}

// Deadline is Lease.Deadline; zero without a lease.
func (w *Work) Deadline() time.Time {
	if w.view == nil {
		return time.Time{}
	}
	return loop.After(w.view.left())
}

// Left is Lease.Left, or Companion.Left; 0 without a lease.
func (w *Work) Left() time.Duration {
	if w.view == nil {
		return 0
	}
	return w.view.left()
}

// Return gives the result of the work. It is stored, if there is no result by then,
// once the work has ended well; the latest call counts.
func (w *Work) Return(result Source) {
	w.invocation.mu.Lock()
	defer w.invocation.mu.Unlock()
	w.result = result
}

// Fail says what is to be kept of a failure, if there are MemoFailures and the
// work ends with an error.
func (w *Work) Fail(failure Source) {
	w.invocation.mu.Lock()
	defer w.invocation.mu.Unlock()
	w.failure = failure
}

// End says that the work has ended, well if err is nil. Invoke and Remote call it
// themselves. A second End, and one after the invocation is over, are ignored.
func (w *Work) End(err error) {
	i := w.invocation
	i.mu.Lock()
	if w.over || i.work != w {
		i.mu.Unlock()
		return
	}
	w.over, w.err = true, err
	ended := i.deliver(w)
	i.mu.Unlock()
	i.host.loop.Command(i, ended, nil)
}
