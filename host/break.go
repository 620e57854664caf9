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
	// believe that it holds the lease: the one way in which two can hold a strict
	// lease. Under lastwriter every break is one of these.
	Now bool
	// Holder is the only holder, by Status.Holder, whose lease may be broken: pass the one
	// that you have seen. If another holds the name by now nothing is written, and the error
	// is NotAcquired, Reason held. "" breaks the holder of the moment. Lastwriter reads the
	// record just before it writes it: a process that acquires between the two also loses
	// the lease.
	Holder string
	// Protocol is how the lease to break is kept; 0 is however it is.
	Protocol core.Protocol
}

// Break ends another's lease, on the record, and returns the name's state after that. Its
// holder ends Lost, reason broken, when it next renews; on a directory at once. Under
// lastwriter the record is released in the holder's name, and the reason is released.
// Others can take the name when the holder's last beat is a TTL old. The holder of a
// lease without a TTL does not notice the break while it is out of contact.
//
// The error is an *Error of Kind NotAcquired: Reason vacant if there is nothing to break,
// held if another than opts.Holder holds it (Seen says who), or another Reason if the
// store could not be used. It is ErrClosed, or ctx's cause, and then it is unknown
// whether the lease was broken.
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
