package host

import (
	"cmp"
	"context"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/internal/telemetry"
)

// AccompanyOptions are for Accompany. The zero value, and nil, are good. The
// handle's TTL wins over Terms'.
type AccompanyOptions struct {
	Terms
	// OnContact is told false when the deadline passed without a renewal, and
	// true when the companion has joined again. It is called by the loop, on
	// which all leases of the Host depend, and must neither block nor call
	// methods of the Host or of its leases.
	OnContact func(bool)
}

// Companion keeps a lease alive that another process acquired. It never
// releases it. Losing contact with the store does not end it.
type Companion struct{ task *task }

// Accompany joins the lease of a handle. It returns when it has joined, with
// an *Error of Kind Lost when the lease is another's or released, of Kind
// NothingToJoin when there is nothing to keep alive (an unreadable store is
// tried for one TTL), or with ctx's cause. After an error nothing is kept.
func (h *Host) Accompany(ctx context.Context, handle Handle, opts *AccompanyOptions) (*Companion, error) {
	if opts == nil {
		opts = &AccompanyOptions{}
	}
	question := h.telemetry.Ask(telemetry.Companion)
	t, err := h.join(ctx, handle, &opts.Terms, core.RoleRemote, opts.OnContact)
	answered(ctx, question, handle.protocol(), err)
	if err != nil {
		return nil, err
	}
	return &Companion{t}, nil
}

func (h *Host) join(ctx context.Context, handle Handle, terms *Terms, role core.Role, onContact func(bool)) (*task, error) {
	cfg, err := h.config(core.MachineCompanion, handle.Name, handle.protocol(), handle.terms(terms))
	if err != nil {
		return nil, err
	}
	cfg.Holder, cfg.Role, cfg.Epoch = core.HolderID(handle.Holder), role, core.Epoch(handle.Epoch)
	if role == core.RoleOwner && cfg.Protocol == core.ProtocolStrict {
		cfg.Owner = handle.Owner
	}
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	t, err := h.newTask(ctx, &cfg, core.EventLeave, nil)
	if err != nil {
		return nil, err
	}
	t.onContact = onContact
	if err := h.loop.add(t, core.Event{Kind: core.EventAccompany}); err != nil {
		return nil, err
	}
	return t, t.await(ctx)
}

// Name is what is leased.
func (c *Companion) Name() string { return c.task.name }

// Holder is the id of the tenure that is kept alive.
func (c *Companion) Holder() string { return string(c.task.holder) }

// Protocol is how the lease is kept.
func (c *Companion) Protocol() core.Protocol { return c.task.protocol }

// Epoch is the newest version of the tenure that is known; 0 under lastwriter.
func (c *Companion) Epoch() uint64 { return c.task.version() }

// FencingToken is the tenure's, the same for all who keep it alive; 0 under
// lastwriter, which has none.
func (c *Companion) FencingToken() uint64 { return uint64(c.task.token) }

// Session is the id of the session that the holder's lease stands on, or "".
func (c *Companion) Session() string { return c.task.standsOn() }

// Left is how long the lease lives on without another renewal of ours. It is
// negative while contact is lost.
func (c *Companion) Left() time.Duration { return c.task.left() }

// Done is closed when the lease was seen to be another's or released, or after Leave.
func (c *Companion) Done() <-chan struct{} { return c.task.context().Done() }

// Err is nil until Done is closed; then an *Error of Kind Lost, Reason taken or
// released, or of Kind Ended after Leave.
func (c *Companion) Err() error {
	c.task.mu.Lock()
	defer c.task.mu.Unlock()
	return c.task.err
}

// Context is cancelled when Done is closed, with Err as its cause.
func (c *Companion) Context() context.Context { return c.task.context() }

// Leave stops keeping the lease alive. It waits for a write that is under way,
// which could otherwise land after the holder's release. If the companion had
// lost the lease, Leave returns that *Error.
func (c *Companion) Leave(ctx context.Context) error {
	return c.task.finish(ctx, core.Event{Kind: core.EventLeave})
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
	role := core.RoleRemote
	if handle.Owner != "" {
		role = core.RoleOwner
	}
	silent := make(chan struct{}, 1)
	t, err := h.join(ctx, handle, terms, role, func(bool) {
		select {
		case silent <- struct{}{}:
		default:
		}
	})
	if err != nil {
		return handle, time.Time{}, err
	}
	if t.protocol == core.ProtocolLastWriter { // under strict joining was a write, and is the renewal
		if err := t.awaitRenewal(ctx, silent); err != nil {
			return handle, time.Time{}, err
		}
	}
	until := time.Now().Add(t.left())
	handle.Epoch = max(handle.Epoch, t.version())
	if handle.protocol() == core.ProtocolStrict {
		handle.Token = uint64(t.token) // the store's, whatever the text said
	}
	_ = t.finish(ctx, core.Event{Kind: core.EventLeave}) // the renewal stands, whatever becomes of this
	return handle, until, nil
}

// awaitRenewal waits for the first renewal, the loss of contact, or an end.
func (t *task) awaitRenewal(ctx context.Context, silent <-chan struct{}) error {
	select {
	case <-t.signal(&t.written, &t.renewed):
		return nil
	case <-t.signal(&t.ended, &t.over):
		return cmp.Or(t.failure(), error(ErrClosed))
	case <-silent: // a companion would go on trying
		_ = t.abandon(ctx)
		return &Error{Kind: Lost, Name: t.name, Reason: core.ReasonUnreachable}
	case <-ctx.Done():
		return t.abandon(ctx)
	}
}

// terms are those of the lease, which win over the caller's.
func (h *Handle) terms(t *Terms) *Terms {
	mine := *t
	mine.Session = false // it is the version's, which a join copies
	if h.TTL != 0 {
		mine.TTL = h.TTL
	}
	return &mine
}

// ReleaseHandle releases the lease of a handle, as its owner or, without
// Owner, as a companion. It returns nil when the lease is released, was
// released before, or is gone. It returns an *Error of Kind Lost if the record is
// another's or could not be reached within the TTL.
func (h *Host) ReleaseHandle(ctx context.Context, handle Handle, terms *Terms) error {
	if terms == nil {
		terms = &Terms{}
	}
	cfg, err := h.config(core.MachineLease, handle.Name, handle.protocol(), handle.terms(terms))
	if err != nil {
		return err
	}
	cfg.Holder, cfg.Role, cfg.Epoch = core.HolderID(handle.Holder), core.RoleRemote, core.Epoch(handle.Epoch)
	if handle.Owner != "" {
		cfg.Role = core.RoleOwner
	}
	if cfg.Protocol == core.ProtocolStrict {
		cfg.Owner = handle.Owner
	}
	var noHolder error
	if handle.Holder == "" { // a lease machine takes that for an acquire
		noHolder = &core.Error{Code: core.ErrorConfig, Text: "holder: a release needs the tenure that it ends"}
	}
	t, err := h.newTask(ctx, &cfg, core.EventRelease, noHolder)
	if err != nil {
		return err
	}
	if err := h.loop.add(t, core.Event{Kind: core.EventRelease, Brief: true}); err != nil {
		return err
	}
	return t.outcome(ctx)
}
