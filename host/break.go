package host

import (
	"context"

	"github.com/mopslock/mopslock/core"
)

// BreakOptions are for Break. Nil is good under lastwriter.
type BreakOptions struct {
	// Why is kept with the break, for people. Strict wants one, of at most 512
	// printable bytes; lastwriter has no room for it.
	Why string
	// Now lets others take the name at once, also while its holder may still
	// believe that it holds it: the one way in which two can hold a strict lease.
	// Lastwriter knows no other.
	Now bool
	// Protocol is whose lease is broken; 0 is whoever's is there.
	Protocol core.Protocol
}

// Break ends somebody's lease, on the record, and returns what the name is then.
// Its holder ends Lost: broken when it next renews, or under lastwriter, where
// the record is released in its name, released. Others can take the name when
// the holder's last sign of life is a TTL old. A lease without a TTL whose
// holder is out of contact is not noticed to be broken by it.
//
// The error is an *Error of Kind Refused, Reason vacant where there is nothing
// to break, or another Reason where the store could not be used; ErrClosed; or
// ctx's cause, and then it is unknown whether the lease was broken.
func (h *Host) Break(ctx context.Context, name string, opts *BreakOptions) (Status, error) {
	if opts == nil {
		opts = &BreakOptions{}
	}
	protocol := opts.Protocol
	if protocol == 0 {
		seen, err := h.Inspect(ctx, name)
		if err != nil {
			return Status{}, err
		}
		protocol = seen.Protocol
	}
	if protocol == core.ProtocolLastWriter {
		return h.breakRecord(ctx, name)
	}
	if err := h.checkKeys(name, core.ProtocolStrict); err != nil {
		return Status{}, err
	}
	cfg, err := h.machineConfig(core.MachineBreaker, core.ProtocolStrict)
	if err != nil {
		return Status{}, err
	}
	cfg.Name, cfg.Why, cfg.Now = name, opts.Why, opts.Now
	h.judge(&cfg)
	if err := h.task(ctx, &cfg, func(*core.Action) {}); err != nil {
		return Status{}, err
	}
	h.keeper.post(message{do: func() { h.keeper.nudge(name, 0) }})
	return h.observe(ctx, name)
}

// breakRecord releases a lock.json in its holder's name.
func (h *Host) breakRecord(ctx context.Context, name string) (Status, error) {
	seen, err := h.inspectRecord(ctx, name)
	switch {
	case err != nil:
		return Status{}, err
	case seen.State == core.ObservedCorrupt: // it frees itself, by its age
		return seen, &Error{Kind: Refused, Name: name, Reason: core.ReasonUnusable, Class: core.ClassOther, Err: errUnreadable}
	case seen.State != core.ObservedHeld && seen.State != core.ObservedStale:
		return seen, &Error{Kind: Refused, Name: name, Reason: core.ReasonVacant, Seen: &seen}
	}
	handle := Handle{Name: name, Holder: seen.Holder, TTL: seen.TTL, Owner: seen.Holder}
	if err := h.ReleaseHandle(ctx, handle, nil); err != nil {
		return Status{}, err
	}
	return h.inspectRecord(ctx, name)
}
