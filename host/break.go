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
	q := h.newQuery(name, ofBreak)
	err := q.run(ctx, core.Event{Kind: core.EventBreak, Terms: &core.Terms{
		Name: name, Protocol: opts.Protocol, Why: opts.Why, Now: opts.Now, Holder: core.HolderID(opts.Holder),
	}})
	switch e, ok := errors.AsType[*Error](err); {
	case ok && e.Kind == NotAcquired && e.Seen != nil && e.Reason != core.ReasonUnusable:
		return *e.Seen, err
	case ok && e.Reason == core.ReasonUnusable && e.Seen != nil && e.Seen.State == core.ObservedCorrupt: // it frees itself, by its age
		e.Err = errUnreadable
		return *e.Seen, err
	case err != nil:
		return Status{}, err
	case q.seen == nil: // it is broken, and could not be read after that
		return Status{Name: name, Protocol: opts.Protocol}, nil
	}
	return *q.seen, nil
}
