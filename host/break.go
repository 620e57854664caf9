package host

import (
	"context"
	"errors"

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
	// Holder is the one whose lease is broken, by Status.Holder, and no other: pass the one
	// that you have seen. If another holds the name by now nothing is written, and the error
	// is NotAcquired, Reason held. "" breaks the holder of the moment. Lastwriter reads the record
	// just before it writes it: a process that acquires between the two loses the lease all the same.
	Holder string
	// Protocol is whose lease is broken; 0 is whoever's is there.
	Protocol core.Protocol
}

// Break ends somebody's lease, on the record, and returns what the name is then.
// Its holder ends Lost: broken when it next renews, on a directory at once, or under lastwriter, where
// the record is released in its name, released. Others can take the name when
// the holder's last beat is a TTL old. A lease without a TTL whose
// holder is out of contact is not noticed to be broken by it.
//
// The error is an *Error of Kind NotAcquired, Reason vacant where there is nothing
// to break, held where it is not opts.Holder who holds it (Seen says who does), or
// another Reason where the store could not be used; ErrClosed; or ctx's cause, and
// then it is unknown whether the lease was broken.
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
		return h.breakRecord(ctx, name, opts.Holder)
	}
	if err := h.checkKeys(name, core.ProtocolStrict); err != nil {
		return Status{}, err
	}
	cfg, err := h.machineConfig(core.MachineRevocation, core.ProtocolStrict)
	if err != nil {
		return Status{}, err
	}
	cfg.Name, cfg.Why, cfg.Now, cfg.Holder = name, opts.Why, opts.Now, core.HolderID(opts.Holder)
	h.judge(&cfg)
	if err := h.runOnce(ctx, &cfg, func(*core.Action) {}); err != nil {
		return Status{}, ofBreaking(err)
	}
	h.loop.post(message{do: func() { h.loop.wakeOneWaiter(name, 0) }})
	return h.observe(ctx, name)
}

// ofBreaking is the error of a break, whose text says so.
func ofBreaking(err error) error {
	if e, ok := errors.AsType[*Error](err); ok && e.Kind == NotAcquired {
		named := *e
		named.of = ofBreak
		return &named
	}
	return err
}

// breakRecord releases a lock.json in its holder's name, which is holder unless that is "".
func (h *Host) breakRecord(ctx context.Context, name, holder string) (Status, error) {
	seen, err := h.inspectRecord(ctx, name)
	refused := &Error{Kind: NotAcquired, Name: name, of: ofBreak}
	switch {
	case err != nil:
		return Status{}, err
	case seen.State == core.ObservedCorrupt: // it frees itself, by its age
		refused.Reason, refused.Class, refused.Err = core.ReasonUnusable, core.ClassOther, errUnreadable
		return seen, refused
	case seen.State != core.ObservedHeld && seen.State != core.ObservedStale:
		refused.Reason, refused.Seen = core.ReasonVacant, &seen
		return seen, refused
	case holder != "" && seen.Holder != holder:
		refused.Reason, refused.Seen = core.ReasonHeld, &seen
		return seen, refused
	}
	handle := Handle{Name: name, Holder: seen.Holder, TTL: core.TTL(seen.TTL), Owner: seen.Holder}
	err = h.ReleaseHandle(ctx, handle, nil)
	if e, ok := errors.AsType[*Error](err); ok && e.Kind == Lost && e.Reason == core.ReasonTaken { // since we looked
		refused.Reason, refused.Seen = core.ReasonHeld, e.Seen
		return Status{}, refused
	}
	if err != nil {
		return Status{}, err
	}
	return h.inspectRecord(ctx, name)
}
