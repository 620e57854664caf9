package host

import (
	"context"
	"fmt"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/internal/loop"
)

// InvokeOptions are for Invoke and BeginInvoke. The zero value, and nil, are good.
type InvokeOptions struct {
	// Terms are of the lease that is held while the work runs. A TTL is always
	// needed: core.TTLEndless is refused.
	Terms
	// Wait is the longest to wait for another's result or lease; 0 is until there is
	// one of them. Never negative. It does not bound the work itself.
	Wait time.Duration
	// Try looks for a result and tries for the lease once: if another holds it,
	// errors.Is(err, ErrNotAcquired) at once. Wait must be 0.
	Try bool
	// MemoFailures keeps what failed work hands to Work.Fail, and takes what another
	// kept as an answer: a Result with Failed true.
	MemoFailures bool
	// OnWaiting is told who holds the lease, when the wait begins and at every
	// change. It must not block, as that of AcquireOptions.
	OnWaiting func(Status)
}

// RemoteOptions are for Remote and BeginRemote. The zero value, and nil, are
// good. The handle's TTL wins over Terms'.
type RemoteOptions struct {
	Terms
	// WithoutLease does the work even if the lease cannot be maintained.
	WithoutLease bool
	// MemoFailures is as InvokeOptions have it.
	MemoFailures bool
	// OnContact is as AccompanyOptions have it.
	OnContact func(bool)
}

// Launch starts a piece of work, waits for its end and hands its result to
// work.Return, unless another process stores it. An error says that the work
// failed. ctx ends with the caller's ctx, or when the lease is lost, and has the
// *Error as its cause then; of a remote only when the lease is another's.
type Launch func(ctx context.Context, work *Work) error

// Invoke returns the result of the work that name stands for, and never has the
// same work done twice at once. If there is a result, Invoke returns it. Otherwise it
// acquires the lease on name, looks again, and launches the work. What the work returns
// is stored if there is no result by then; all callers get the first result. If another
// holds the lease, Invoke waits for its result, or for the lease. If the launcher ends
// without a result while a remote that it started keeps the lease alive, Invoke goes on
// waiting for the remote's.
//
// Invoke calls launch on this goroutine, and again if the lease was lost and won again
// while there was no result. If launch panics, the lease is released first.
//
// A result is returned at once; the lease is given back meanwhile, for which the
// Host's Close waits. The error is an *Error of Kind NoResult, whose Err is launch's own;
// of Kind NotAcquired if nothing was launched; of Kind Incompatible; ErrClosed; or one that
// wraps ctx's cause. After an error the lease is released, unless the store did not
// answer for 5 s: then the Host goes on trying, and the lease expires.
func (h *Host) Invoke(ctx context.Context, name string, launch Launch, opts *InvokeOptions) (*Result, error) {
	i, err := h.BeginInvoke(ctx, name, opts)
	if err != nil {
		return nil, err
	}
	return i.drive(ctx, launch)
}

// Remote is what a launcher starts elsewhere does: the work under the lease of a
// handle, which it keeps alive meanwhile as a Companion does, and its result,
// stored if there is none. A result that is there is returned, without the work.
//
// A remote that comes late runs nothing. The error is then an *Error of Kind Lost, Reason
// taken, broken or released, and is no failure of the remote. Kind NothingToJoin says
// that there is no lease to keep alive. With opts.WithoutLease the work is done all the
// same, and a handle with only a Name is enough. Other errors are Invoke's. A remote that
// loses contact, or whose lease is released, works on. If the lease becomes another's,
// launch's ctx ends, nothing is stored, and the error is of Kind NoResult, Reason taken
// or broken.
func (h *Host) Remote(ctx context.Context, handle Handle, launch Launch, opts *RemoteOptions) (*Result, error) {
	i, err := h.BeginRemote(ctx, handle.Name, handle, opts)
	if err != nil {
		return nil, err
	}
	return i.drive(ctx, launch)
}

// BeginInvoke is Invoke step by step: Next says when to do what. It asks nothing of the
// store before the first Next. A fault of the name or opts is an error here. Of ctx only
// the values live on, in the contexts of works.
func (h *Host) BeginInvoke(ctx context.Context, name string, opts *InvokeOptions) (*Invocation, error) {
	if opts == nil {
		opts = &InvokeOptions{}
	}
	wait := min(opts.Wait, core.MaxWait)
	if wait == 0 && !opts.Try {
		wait = core.Forever
	}
	terms := opts.terms(name)
	terms.MemoFailures = opts.MemoFailures
	command := core.Event{Kind: core.EventInvoke, Wait: wait, Terms: &terms}
	var also error
	if opts.Wait < 0 || opts.Try && opts.Wait != 0 {
		also = fmt.Errorf("mopslock: host: wait %v: not negative, and 0 to try once; 0 is until there is a result", opts.Wait)
	}
	if err := h.refuse(command, also); err != nil {
		return nil, err
	}
	return h.newInvocation(ctx, name, asked{command: command, onWaiting: opts.OnWaiting})
}

// BeginRemote is Remote step by step, as BeginInvoke is Invoke. The name must be
// the handle's, if that has one. With opts.WithoutLease the handle may be zero:
// then no lease is looked for.
func (h *Host) BeginRemote(ctx context.Context, name string, handle Handle, opts *RemoteOptions) (*Invocation, error) {
	if opts == nil {
		opts = &RemoteOptions{}
	}
	terms := handle.join(&opts.Terms, core.RoleRemote)
	terms.Name, terms.WithoutLease, terms.MemoFailures = name, opts.WithoutLease, opts.MemoFailures
	if handle.Holder == "" { // the client wants no more then
		terms.Protocol, terms.Epoch = 0, 0
	}
	command := core.Event{Kind: core.EventRemote, Terms: &terms}
	var also error
	if handle.Name != "" && handle.Name != name {
		also = badTerms(fmt.Sprintf("name %q: the lease is that of %q; use its name", name, handle.Name))
	}
	if err := h.refuse(command, also); err != nil {
		return nil, err
	}
	handle.Owner = ""
	return h.newInvocation(ctx, name, asked{remote: true, handle: handle, command: command, onContact: opts.OnContact})
}

// releasePatience is how long the end of an attempt waits for the lease to be
// given back: a caller that begins another at once must not be refused by itself.
const releasePatience = 5 * time.Second

// drive does what Next says.
func (i *Invocation) drive(ctx context.Context, launch Launch) (*Result, error) {
	for {
		work, err := i.Next(ctx)
		switch {
		case work != nil:
			i.perform(ctx, work, launch)
			continue
		case err == nil:
			return i.Result(), nil
		case ctx.Err() != nil && !i.isDecided():
			i.Cancel() // no caller waits any more
			if !i.hasLaunched() {
				return nil, err
			}
		}
		i.linger()
		return nil, err
	}
}

// perform launches a piece of work. If launch does not return, the lease is
// released before the panic goes on.
func (i *Invocation) perform(ctx context.Context, work *Work, launch Launch) {
	if work.view != nil {
		ctx = work.view.within(ctx)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	lost := work.Context()
	stop := context.AfterFunc(lost, func() { cancel(context.Cause(lost)) })
	defer stop()
	returned := false
	defer func() {
		if !returned {
			i.Cancel()
			i.linger()
		}
	}()
	err := launch(ctx, work)
	returned = true
	if ctx.Err() == nil || lost.Err() != nil { // otherwise the caller has given up, as Next says
		work.End(err)
	}
}

// linger waits for the lease to be given back, but not for long.
func (i *Invocation) linger() {
	ctx, cancel := loop.Within(context.Background(), releasePatience)
	defer cancel()
	_ = i.Wait(ctx)
}
