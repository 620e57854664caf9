package host

import (
	"context"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/internal/loop"
	"github.com/mopslock/mopslock/host/internal/telemetry"
)

// AccompanyOptions are for Accompany. The zero value, and nil, are good. The
// handle's TTL wins over Terms'.
type AccompanyOptions struct {
	Terms
	// OnContact is told false when the deadline passed without a renewal, and
	// true when the companion has joined again. It must not block, as OnWaiting of
	// AcquireOptions.
	OnContact func(bool)
}

// Companion keeps a lease alive that another process acquired. It never
// releases it. Losing contact with the store does not end it.
type Companion struct{ of *claim }

// Accompany joins the lease of a handle. It returns when it has joined, with
// an *Error of Kind Lost when the lease is another's or released, of Kind
// NothingToJoin when there is nothing to keep alive (an unreadable store is
// tried for one TTL), or with ctx's cause. After an error nothing is kept.
func (h *Host) Accompany(ctx context.Context, handle Handle, opts *AccompanyOptions) (*Companion, error) {
	if opts == nil {
		opts = &AccompanyOptions{}
	}
	terms := handle.join(&opts.Terms, core.RoleRemote)
	c := h.newClaim(ctx, telemetry.Companion, &terms)
	c.onContact = opts.OnContact
	if err := c.ask(ctx, core.Event{Kind: core.EventAccompany, Terms: &terms}); err != nil {
		return nil, err
	}
	return &Companion{c}, nil
}

// Name is what is leased.
func (c *Companion) Name() string { return c.of.name }

// Holder is the id of the tenure that is kept alive.
func (c *Companion) Holder() string { return c.of.holder }

// Protocol is how the lease is kept.
func (c *Companion) Protocol() core.Protocol { return c.of.protocol }

// Epoch is the newest version of the tenure that is known; 0 under lastwriter.
func (c *Companion) Epoch() uint64 { return c.of.epoch.Load() }

// FencingToken is the tenure's, the same for all who keep it alive; 0 under
// lastwriter, which has none.
func (c *Companion) FencingToken() uint64 { return uint64(c.of.token) }

// Session is the id of the session that the holder's lease stands on, or "".
func (c *Companion) Session() string { return c.of.session }

// Left is how long the lease lives on without another renewal of ours. It is
// negative while contact is lost.
func (c *Companion) Left() time.Duration { return c.of.left() }

// Done is closed when the lease was seen to be another's or released, or after Leave.
func (c *Companion) Done() <-chan struct{} { return c.of.context().Done() }

// Err is nil until Done is closed; then an *Error of Kind Lost, Reason taken or
// released, or of Kind Ended after Leave.
func (c *Companion) Err() error { return c.of.failure() }

// Context is cancelled when Done is closed, with Err as its cause.
func (c *Companion) Context() context.Context { return c.of.context() }

// Leave stops keeping the lease alive. It waits for a write that is under way,
// which could otherwise land after the holder's release. If the companion had
// lost the lease, Leave returns that *Error.
func (c *Companion) Leave(ctx context.Context) error {
	return c.of.finish(ctx, core.EventLeave)
}

// Renew renews the lease of a handle once, as its owner or, without Owner, as a
// companion, and reports until when it may be relied on. An expired lease that
// is still the handle's is revived. Under strict the renewal is a new version of
// the tenure, which RenewHandle tells; the handle's Epoch stays good.
//
// The error is an *Error of Kind Lost (its reason is unreachable if no write was answered
// before the deadline), or of Kind NothingToJoin if there is nothing to renew; or
// ErrClosed, or ctx's cause.
func (h *Host) Renew(ctx context.Context, handle Handle, terms *Terms) (time.Time, error) {
	_, until, err := h.RenewHandle(ctx, handle, terms)
	return until, err
}

// RenewHandle is Renew. It also returns the handle with the version that the renewal
// made, from which its next user goes on, and with the store's fencing token.
func (h *Host) RenewHandle(ctx context.Context, handle Handle, terms *Terms) (Handle, time.Time, error) {
	if terms == nil {
		terms = &Terms{}
	}
	asked := handle.join(terms, handle.role())
	q := h.newQuery(asked.Name, ofLease)
	if err := q.run(ctx, core.Event{Kind: core.EventResume, Terms: &asked}); err != nil {
		return handle, time.Time{}, err
	}
	handle.Epoch = max(handle.Epoch, uint64(q.held.Epoch))
	if handle.protocol().HasRegister() {
		handle.Token = uint64(q.held.Token) // the store's, whatever the text said
	}
	return handle, loop.After(time.Duration(q.held.At - h.clock.Now().Mono)), nil
}

// role is that in which a handle is used.
func (h *Handle) role() core.Role {
	if h.Owner != "" {
		return core.RoleOwner
	}
	return core.RoleRemote
}

// join returns the terms of a claim on the lease of a handle. Those of the lease win over the
// caller's.
func (h *Handle) join(t *Terms, role core.Role) core.Terms {
	mine := *t
	mine.Protocol, mine.Session = h.protocol(), false // it is the version's, which a join copies
	if h.TTL != 0 {
		mine.TTL = h.TTL
	}
	terms := mine.terms(h.Name)
	terms.Holder, terms.Role, terms.Epoch = core.HolderID(h.Holder), role, core.Epoch(h.Epoch)
	if role == core.RoleOwner && terms.Protocol.HasRegister() {
		terms.Owner = h.Owner
	}
	return terms
}

// ReleaseHandle releases the lease of a handle, as its owner or, without
// Owner, as a companion. It returns nil when the lease is released, was
// released before, or is gone. It returns an *Error of Kind Lost if the record is
// another's or could not be reached within the TTL.
func (h *Host) ReleaseHandle(ctx context.Context, handle Handle, terms *Terms) error {
	if terms == nil {
		terms = &Terms{}
	}
	asked := handle.join(terms, handle.role())
	return h.newQuery(asked.Name, ofLease).run(ctx, core.Event{Kind: core.EventRelease, Brief: true, Terms: &asked})
}
