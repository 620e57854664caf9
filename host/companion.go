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
	// true when the companion has joined again. It is called by the keeper, on
	// which all leases of the Host depend, and must neither block nor call
	// methods of the Host or of its leases.
	OnContact func(bool)
}

// Companion keeps a lease alive that another process acquired. It never
// releases it. Losing contact with the store does not end it.
type Companion struct{ member *member }

// Accompany joins the lease of a handle. It returns when it has joined, with
// an *Error of Kind Lost when the lease is another's or released, of Kind
// CannotMaintain when there is nothing to keep alive (an unreadable store is
// tried for one TTL), or with ctx's cause. After an error nothing is kept.
func (h *Host) Accompany(ctx context.Context, handle Handle, opts *AccompanyOptions) (*Companion, error) {
	if opts == nil {
		opts = &AccompanyOptions{}
	}
	question := h.telemetry.Ask(telemetry.Companion)
	m, err := h.join(ctx, handle, &opts.Terms, core.RoleRemote, opts.OnContact)
	answered(ctx, question, handle.protocol(), err)
	if err != nil {
		return nil, err
	}
	return &Companion{m}, nil
}

func (h *Host) join(ctx context.Context, handle Handle, terms *Terms, role core.Role, onContact func(bool)) (*member, error) {
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
	m, err := h.newMember(ctx, &cfg, core.EventLeave, nil)
	if err != nil {
		return nil, err
	}
	m.onContact = onContact
	if err := h.keeper.add(m, core.Event{Kind: core.EventAccompany}); err != nil {
		return nil, err
	}
	return m, m.await(ctx)
}

// Name is what is leased.
func (c *Companion) Name() string { return c.member.name }

// Holder is the id of the tenure that is kept alive.
func (c *Companion) Holder() string { return string(c.member.holder) }

// Protocol is how the lease is kept.
func (c *Companion) Protocol() core.Protocol { return c.member.protocol }

// Epoch is the newest version of the tenure that is known; 0 under lastwriter.
func (c *Companion) Epoch() uint64 { return c.member.version() }

// FencingToken is the tenure's, the same for all who keep it alive; 0 under
// lastwriter, which has none.
func (c *Companion) FencingToken() uint64 { return uint64(c.member.token) }

// Session is the id of the session that the holder's lease stands on, or "".
func (c *Companion) Session() string { return c.member.standsOn() }

// Left is how long the lease lives on without another renewal of ours;
// negative while contact is lost.
func (c *Companion) Left() time.Duration { return c.member.left() }

// Done is closed when the lease was seen to be another's or released, or after Leave.
func (c *Companion) Done() <-chan struct{} { return c.member.context().Done() }

// Err is nil until Done is closed; then an *Error of Kind Lost, Reason taken or
// released, or of Kind Ended after Leave.
func (c *Companion) Err() error {
	c.member.mu.Lock()
	defer c.member.mu.Unlock()
	return c.member.err
}

// Context is cancelled when Done is closed, with Err as its cause.
func (c *Companion) Context() context.Context { return c.member.context() }

// Leave stops keeping the lease alive. It waits for a write that is under way,
// which could otherwise land after the holder's release. A companion that had
// lost the lease returns that *Error.
func (c *Companion) Leave(ctx context.Context) error {
	return c.member.finish(ctx, core.Event{Kind: core.EventLeave})
}

// Renew renews the lease of a handle once, as its owner or, without Owner, as a
// companion, and reports until when it may be relied on. An expired lease that
// is still the handle's is revived. Under strict the renewal is a new version of
// the tenure, which RenewHandle tells; the handle's Epoch stays good. The error is an *Error: of Kind Lost (its
// reason is unreachable if no write was answered before the deadline), or
// CannotMaintain where there is nothing to renew; or ErrClosed, or ctx's cause.
func (h *Host) Renew(ctx context.Context, handle Handle, terms *Terms) (time.Time, error) {
	_, until, err := h.RenewHandle(ctx, handle, terms)
	return until, err
}

// RenewHandle is Renew, and returns the handle with the version that the renewal
// made, from which whoever uses it next goes on, and the store's fencing token.
func (h *Host) RenewHandle(ctx context.Context, handle Handle, terms *Terms) (Handle, time.Time, error) {
	if terms == nil {
		terms = &Terms{}
	}
	role := core.RoleRemote
	if handle.Owner != "" {
		role = core.RoleOwner
	}
	silent := make(chan struct{}, 1)
	m, err := h.join(ctx, handle, terms, role, func(bool) {
		select {
		case silent <- struct{}{}:
		default:
		}
	})
	if err != nil {
		return handle, time.Time{}, err
	}
	if m.protocol == core.ProtocolLastWriter { // under strict joining was a write, and is the renewal
		if err := m.awaitRenewal(ctx, silent); err != nil {
			return handle, time.Time{}, err
		}
	}
	until := time.Now().Add(m.left())
	handle.Epoch = max(handle.Epoch, m.version())
	if handle.protocol() == core.ProtocolStrict {
		handle.Token = uint64(m.token) // the store's, whatever the text said
	}
	_ = m.finish(ctx, core.Event{Kind: core.EventLeave}) // the renewal stands, whatever becomes of this
	return handle, until, nil
}

// awaitRenewal waits for the first renewal, the loss of contact, or an end.
func (m *member) awaitRenewal(ctx context.Context, silent <-chan struct{}) error {
	select {
	case <-m.signal(&m.written, &m.renewed):
		return nil
	case <-m.signal(&m.ended, &m.over):
		return cmp.Or(m.failure(), error(ErrClosed))
	case <-silent: // a companion would go on trying
		_ = m.abandon(ctx)
		return &Error{Kind: Lost, Name: m.name, Reason: core.ReasonUnreachable}
	case <-ctx.Done():
		return m.abandon(ctx)
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
// released before, or is gone; an *Error of Kind Lost when the record is
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
	if handle.Holder == "" { // to a lease machine that is one who acquires
		noHolder = &core.Error{Code: core.ErrorConfig, Text: "holder: a release needs the tenure that it ends"}
	}
	m, err := h.newMember(ctx, &cfg, core.EventRelease, noHolder)
	if err != nil {
		return err
	}
	if err := h.keeper.add(m, core.Event{Kind: core.EventRelease, Brief: true}); err != nil {
		return err
	}
	return m.outcome(ctx)
}
