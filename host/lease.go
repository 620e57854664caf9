package host

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/internal/loop"
	"github.com/mopslock/mopslock/host/internal/telemetry"
)

// AcquireOptions are for Acquire and TryAcquire. The zero value, and nil, are good.
type AcquireOptions struct {
	Terms
	// Wait is the longest to wait for a lease that another holds; 0 is until it
	// is held. Never negative. TryAcquire does not wait.
	Wait time.Duration
	// OnWaiting is told who holds the lease, when the wait begins and at every
	// change, by one goroutine for all callbacks of the Host, in order. It must not block:
	// callers that wait for their leases wait for it, so a call that waits, such as Release, would
	// never return. No renewal depends on it.
	OnWaiting func(Status)
}

// Lease is the exclusive right to a name. The Host keeps it alive until Release, the
// Host's Close, or its loss. Its methods may be called from any goroutine.
type Lease struct{ of *claim }

// Acquire takes the lease on a name, and waits while another holds it. It
// returns when the lease is held, when opts.Wait is over, when the store refuses
// for good (at once), or has answered no read or taken no write for 5 s, or when
// ctx ends. The lease lives on when ctx ends later.
//
// The error is an *Error of Kind NotAcquired; of Kind Lost if the lease was lost before
// it could be returned; ErrClosed; or one that wraps ctx's cause and says who held the
// lease. After an error nothing is held, and what the attempt may have left in the store
// is released or expires.
//
// A caller whose ctx is the Context of a lease of this store on the same name, still held,
// would wait for itself. It gets NotAcquired, Reason held, as soon as that is seen.
func (h *Host) Acquire(ctx context.Context, name string, opts *AcquireOptions) (*Lease, error) {
	if opts == nil {
		opts = &AcquireOptions{}
	}
	wait := min(opts.Wait, core.MaxWait)
	if wait == 0 {
		wait = core.Forever
	}
	return h.acquire(ctx, name, opts, wait)
}

// TryAcquire is Acquire without waiting. If another holds the lease, errors.Is(err,
// ErrNotAcquired), and the Error's Seen says who it is.
func (h *Host) TryAcquire(ctx context.Context, name string, opts *AcquireOptions) (*Lease, error) {
	if opts == nil {
		opts = &AcquireOptions{}
	}
	return h.acquire(ctx, name, opts, 0)
}

func (h *Host) acquire(ctx context.Context, name string, opts *AcquireOptions, wait time.Duration) (*Lease, error) {
	terms := opts.terms(name)
	command := core.Event{Kind: core.EventAcquire, Wait: wait, Terms: &terms}
	if opts.Wait < 0 {
		return nil, h.refuse(command, fmt.Errorf("mopslock: host: wait %v: not negative; 0 is until it is held", opts.Wait))
	}
	c := h.newClaim(ctx, telemetry.Lease, &terms)
	c.asking.onWaiting = opts.OnWaiting
	command.Body = h.memory.Recall(name)
	if err := c.ask(ctx, command); err != nil {
		return nil, err
	}
	return &Lease{c}, nil
}

// Name is what is leased.
func (l *Lease) Name() string { return l.of.name }

// Holder is the id of this tenure, fresh for each acquire.
func (l *Lease) Holder() string { return l.of.holder }

// Protocol is how the lease is kept.
func (l *Lease) Protocol() core.Protocol { return l.of.protocol }

// Epoch is the newest version of the tenure that is known. It grows when a
// companion joins. It is 0 under lastwriter, which has no versions.
func (l *Lease) Epoch() uint64 { return l.of.epoch.Load() }

// FencingToken grows from each tenure to the next, and is the same for the whole
// of one. It is 0 under lastwriter, which has no tokens.
func (l *Lease) FencingToken() uint64 { return uint64(l.of.token) }

// Session is the id of the session that the lease stands on, or "".
func (l *Lease) Session() string { return l.of.session }

// Acquired is when the lease was verified, by this machine's wall clock.
func (l *Lease) Acquired() time.Time { return wallTime(l.of.acquired) }

// Deadline is when the lease must be considered lost unless it is renewed
// before. Renewals move it. Once Err is not nil it is not after now. For a lease
// without an end it is centuries away.
func (l *Lease) Deadline() time.Time { return loop.After(l.of.left()) }

// Left is how long it is to the Deadline, counting the time that the machine
// sleeps. It is negative past the Deadline, and 0 or less once Err is not nil.
func (l *Lease) Left() time.Duration { return l.of.left() }

// Done is closed when the lease is lost, or when Release or the Host's Close
// begins: once others may be let in, no caller here may rely on it.
func (l *Lease) Done() <-chan struct{} { return l.of.context().Done() }

// Err is nil while the lease may be relied on. Afterwards it is an *Error of Kind
// Lost with the reason, or of Kind Ended from Release or Close on, with the reason
// released once the store has said so. It is ErrClosed if the Host was closed
// before the lease could be released. Err looks at the clock itself: past the
// deadline it is never nil.
func (l *Lease) Err() error { return l.of.current() }

// Context is cancelled when Done is closed; its cause is what Err says then. It has
// the values of Acquire's ctx.
func (l *Lease) Context() context.Context { return l.of.context() }

// Release ends the lease and returns nil when the store has said so, or when
// an earlier Release had ended it. If the lease was lost before, Release returns that
// *Error. If ctx ends first, Release returns its cause; the Host goes on trying until the
// deadline, after which the lease expires by itself.
func (l *Lease) Release(ctx context.Context) error {
	return l.of.finish(ctx, core.EventRelease)
}

// Settle leaves the lease to another process, which has its OwnerHandle: this Host renews and
// releases it no more, and Err is ErrReleased. It waits for the removal of the name's
// superseded versions, which the acquire may have begun: until ctx ends, and half a second at
// most.
func (l *Lease) Settle(ctx context.Context) { _ = l.of.finish(ctx, core.EventLeave) }

// TTL is how long the lease lives without a renewal, as its record says, or
// core.TTLEndless.
func (l *Lease) TTL() core.TTL { return l.of.ttl }

// Handle is what a companion needs to accompany this lease.
func (l *Lease) Handle() Handle {
	return Handle{
		Name: l.Name(), Store: l.of.host.url, Holder: l.Holder(),
		Protocol: l.Protocol(), Epoch: l.Epoch(), Token: l.FencingToken(), TTL: l.TTL(), Acquired: l.Acquired(),
	}
}

// OwnerHandle is what this owner, and no other, needs to come back to the
// lease from another process: to renew or to release it.
func (l *Lease) OwnerHandle() Handle {
	handle := l.Handle()
	handle.Owner = handle.Holder // in a register the tenure's id is that of its first owner
	if !handle.Protocol.HasRegister() {
		handle.Owner = uuid.NewString()
	}
	return handle
}
