package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/machines"
	"github.com/mopslock/mopslock/host/store"
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
	// change. The loop calls it, on which all leases of the Host depend: it must
	// neither block nor call methods of the Host or of its leases.
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
	terms := opts.Terms
	err := errors.Join(checkWork(name), h.checkTerms(core.MachineInvocation, name, &terms))
	if opts.Wait < 0 || opts.Try && opts.Wait != 0 {
		err = errors.Join(err, fmt.Errorf("mopslock: host: wait %v: not negative, and 0 to try once; 0 is until there is a result", opts.Wait))
	}
	i, err := h.newInvocation(ctx, name, err)
	if err != nil {
		return nil, err
	}
	i.memoFailures, i.onWaiting = opts.MemoFailures, opts.OnWaiting
	begun := h.clock.Now().Mono
	i.plan = func(ctx context.Context) (wanted, error) {
		if memo, err := h.hasRecord(ctx, name+"/lock", wait); err != nil || memo {
			return wanted{}, cmp.Or(err, error(&Error{Kind: Incompatible, Name: name, Reason: core.ReasonKind, of: ofMemo}))
		}
		left := wait
		if wait > 0 {
			left = max(0, wait-time.Duration(h.clock.Now().Mono-begun))
		}
		w, err := h.settle(ctx, core.MachineInvocation, name, &terms, left)
		if notWritable(err) && h.hasResult(ctx, name, i.memoFailures, left) {
			// What the store honours cannot be tried, but this result needs no lease. Without a
			// result err stands: no protocol may be chosen unseen.
			w.wait = left
			w.Config, err = h.config(core.MachineInvocation, name, core.ProtocolStrict, &terms)
		} else if err == nil {
			w.Creates, err = h.firstWins(ctx, name, w.Protocol, left)
		}
		w.MemoFailures = i.memoFailures
		return w, err
	}
	return i, nil
}

// hasResult reports whether there is a result, which can be read without a lease.
func (h *Host) hasResult(ctx context.Context, name string, failures bool, wait time.Duration) bool {
	there, err := h.exists(ctx, name, resultKey(name), wait)
	if err == nil && !there && failures {
		there, err = h.exists(ctx, name, failureKey(name), wait)
	}
	return err == nil && there
}

// notWritable reports that a store that may be read refuses to be written.
func notWritable(err error) bool {
	refusal, ok := errors.AsType[*store.Error](err)
	return ok && refusal.Op == "create" && (refusal.Class == core.ClassUnauthorized || refusal.Class == core.ClassReadOnly)
}

// BeginRemote is Remote step by step, as BeginInvoke is Invoke. The name must be
// the handle's, if that has one. With opts.WithoutLease the handle may be zero:
// then no lease is looked for.
func (h *Host) BeginRemote(ctx context.Context, name string, handle Handle, opts *RemoteOptions) (*Invocation, error) {
	if opts == nil {
		opts = &RemoteOptions{}
	}
	terms := opts.Terms
	protocol := handle.protocol()
	if handle.Holder == "" { // there is no lease, which any protocol keeps alike
		protocol, handle, terms = core.ProtocolLastWriter, Handle{Name: handle.Name}, Terms{}
	}
	cfg, err := h.config(core.MachineInvocation, name, protocol, handle.terms(&terms))
	cfg.Role, cfg.Holder, cfg.Epoch = core.RoleRemote, core.HolderID(handle.Holder), core.Epoch(handle.Epoch)
	cfg.WithoutLease, cfg.MemoFailures = opts.WithoutLease, opts.MemoFailures
	if err == nil {
		_, err = machines.New(cfg) // of no engine: it says what is wrong, and asks nothing
	}
	if handle.Name != "" && handle.Name != name {
		err = errors.Join(err, badTerms(fmt.Sprintf("name %q: the lease is that of %q; use its name", name, handle.Name)))
	}
	i, err := h.newInvocation(ctx, name, errors.Join(checkWork(name), err))
	if err != nil {
		return nil, err
	}
	i.remote, i.handle, i.onContact = true, handle, opts.OnContact
	i.withoutLease, i.memoFailures = opts.WithoutLease, opts.MemoFailures
	i.handle.Owner = ""
	i.plan = func(ctx context.Context) (w wanted, err error) {
		w.Config = cfg
		w.Creates, err = i.remoteFirstWins(ctx, protocol, cfg.TTL.Duration())
		return w, err
	}
	return i, nil
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
	ctx, cancel := context.WithCancelCause(work.view.within(ctx))
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
	ctx, cancel := context.WithTimeout(context.Background(), releasePatience)
	defer cancel()
	_ = i.Wait(ctx)
}
