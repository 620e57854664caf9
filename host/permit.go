package host

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/internal/loop"
	"github.com/mopslock/mopslock/host/internal/telemetry"
)

// View is the limit that a caller gives for a name: Capacity permits in each of Width
// buckets. Callers may give different views; each is held to its own.
type View struct{ Capacity, Width int }

// Limit is how many permits may be held in this view.
func (v View) Limit() int { return v.Capacity * v.Width }

// PermitOptions are for AcquirePermit and TryAcquirePermit. The zero value, and
// nil, are good.
type PermitOptions struct {
	// Terms are those of the Host's session, on which permits always stand: one of
	// this TTL and Margin, shared with the leases of the same. Session may be left
	// out, Protocol must be strict or 0, and lastwriter's terms are ignored. Expiry
	// and StampSpread are those of the first permit of a name while this Host has
	// permits of it, or waits for some. Label is the permit's own.
	Terms
	// Weight is how many permits it takes, all or none; 0 is one.
	Weight int
	// Spare leaves so many permits to callers that spare fewer: a share that is kept
	// for a class of callers.
	Spare int
	// Wait is the longest to wait for room; 0 is until there is some. Never
	// negative. TryAcquirePermit does not wait.
	Wait time.Duration
	// OnWaiting is told once, when there is no room, who holds the permits, as far
	// as 2 KiB have room for them. It must not block, as that of AcquireOptions.
	OnWaiting func(Status)
}

// Permit is a share of a semaphore's capacity that is held until Release, the
// Host's Close, or its loss with the Host's session. Its methods may be called
// from any goroutine.
type Permit struct{ of *claim }

// AcquirePermit takes a permit of the semaphore on a name. It waits while what is held in
// the store leaves no room for the permit by the caller's view. It returns when the permit
// is held, when opts.Wait is over, when the store refuses for good (at once), or has answered
// no read or taken no write for 5 s, or when ctx ends. The permit lives on when ctx ends later.
//
// Every fault of the arguments is told at once, before any request; a weight and spare
// that the view has no room for are also ErrWeightExceedsLimit. Otherwise the error is
//
//   - an *Error of Kind NotAcquired: Reason full (ErrFull) if the wait was over and there
//     was no room, crowded (ErrRecordFull) if the record has no room for another holder;
//   - of Kind Incompatible if the store does not honour create-if-absent, or the name is a lease's;
//   - of Kind Lost if the permit was let in and its session was lost before this returned;
//   - ErrClosed, or one that wraps ctx's cause.
//
// After an error nothing is held, and what may have been left in the store is taken out,
// or ends with the session.
//
// Callers of one Host that wait at the same time are let in together, by one write. A
// caller that does not fit is passed over by those that do, until it has waited for a TTL.
func (h *Host) AcquirePermit(ctx context.Context, name string, view View, opts *PermitOptions) (*Permit, error) {
	if opts == nil {
		opts = &PermitOptions{}
	}
	wait := min(opts.Wait, core.MaxWait)
	if wait == 0 {
		wait = core.Forever
	}
	return h.acquirePermit(ctx, name, view, opts, wait)
}

// TryAcquirePermit is AcquirePermit without waiting. If there is no room, errors.Is(err,
// ErrFull), and the Error's Seen says how much is held, and by whom.
func (h *Host) TryAcquirePermit(ctx context.Context, name string, view View, opts *PermitOptions) (*Permit, error) {
	if opts == nil {
		opts = &PermitOptions{}
	}
	return h.acquirePermit(ctx, name, view, opts, 0)
}

// SetLimit keeps a limit in the store: no caller's view of the name counts for more. 0
// removes it. It evicts no holder. It returns nil when the store has the limit. The error is
// an *Error of Kind NotAcquired or Incompatible, ErrClosed, or ctx's cause; then it is unknown
// whether the store has taken the limit.
func (h *Host) SetLimit(ctx context.Context, name string, limit uint64) error {
	terms := (&Terms{}).semaphore(name)
	return h.newQuery(name, ofLimit).run(ctx, core.Event{Kind: core.EventLimit, StoreLimit: limit, Terms: &terms})
}

// Name is the semaphore's.
func (p *Permit) Name() string { return p.of.name }

// Holder is the id of this permit among the holders, fresh for each.
func (p *Permit) Holder() string { return p.of.holder }

// FencingToken is the version of the semaphore that has let the permit in. It grows
// from one to the next, but is the same for those that were let in together.
func (p *Permit) FencingToken() uint64 { return uint64(p.of.token) }

// Session is the id of the session that the permit stands on.
func (p *Permit) Session() string { return p.of.session }

// Weight is how many permits it takes.
func (p *Permit) Weight() int { return int(p.of.weight) }

// Total is how many permits were held on the name when it was let in, with it and
// with those that were let in together.
func (p *Permit) Total() uint64 { return p.of.total }

// Left is how long it may be relied on unless the session is renewed before,
// counting the time that the machine sleeps; 0 or less once Err is not nil.
func (p *Permit) Left() time.Duration { return p.of.left() }

// Deadline is when the permit must be considered lost unless the session is renewed
// before. Once Err is not nil it is not after now.
func (p *Permit) Deadline() time.Time { return loop.After(p.of.left()) }

// Done is closed when the permit is lost, at the session's deadline at the latest,
// or when Release or the Host's Close begins: once others may be let in, no caller
// here may rely on it.
func (p *Permit) Done() <-chan struct{} { return p.of.context().Done() }

// Err is nil while the permit may be relied on. Afterwards it is an *Error of Kind
// Lost with the reason (unreachable or expired, as the session; taken, if another process
// took it out of the record), or of Kind Ended from Release or Close on, or ErrClosed.
// Err looks at the clock itself: past the deadline it is never nil.
func (p *Permit) Err() error { return p.of.current() }

// Context is cancelled when Done is closed; its cause is what Err says then. It has the values of AcquirePermit's ctx.
func (p *Permit) Context() context.Context { return p.of.context() }

// Release gives the permit back and returns nil when the store has said so, or when
// it was given back before. If the permit was lost before, Release returns that *Error. If
// ctx ends first, Release returns its cause; the Host goes on trying as long as the session
// is renewed, and the permit ends with that by itself. On a store that takes the session's
// beat and nothing more, that may be long: give ctx an end.
func (p *Permit) Release(ctx context.Context) error {
	return p.of.finish(ctx, core.EventRelease)
}

func (h *Host) acquirePermit(ctx context.Context, name string, view View, opts *PermitOptions, wait time.Duration) (*Permit, error) {
	terms := opts.semaphore(name)
	if err := checkPermit(view, opts); err != nil {
		return nil, h.refuse(core.Event{Kind: core.EventPermit, Capacity: 1, Width: 1, Label: []byte(opts.Label), Terms: &terms}, err)
	}
	c := h.newClaim(ctx, telemetry.Permit, &terms)
	c.asking.onWaiting, c.weight = opts.OnWaiting, max(1, fitting(opts.Weight))
	err := c.ask(ctx, core.Event{
		Kind: core.EventPermit, Wait: wait, Label: []byte(opts.Label), Terms: &terms,
		Capacity: uint32(view.Capacity), Width: uint32(view.Width), Weight: fitting(opts.Weight), Spare: fitting(opts.Spare),
	})
	if err != nil {
		return nil, err
	}
	return &Permit{c}, nil
}

// semaphore returns the terms of a permit, which stands on a session and has a label of its
// own.
func (t *Terms) semaphore(name string) core.Terms {
	mine := *t
	mine.Session, mine.Label = false, ""
	mine.AcquireMargin, mine.FleetExpire, mine.Renewal = 0, 0, 0
	return mine.terms(name)
}

// checkPermit lists what a message has no room for.
func checkPermit(v View, opts *PermitOptions) error {
	var wrong []error
	require := func(ok bool, format string, args ...any) {
		if !ok {
			wrong = append(wrong, badTerms(fmt.Sprintf(format, args...)))
		}
	}
	require(v.Capacity >= 1 && v.Capacity <= core.MaxCapacity, "capacity %d: from 1 to %d", v.Capacity, core.MaxCapacity)
	require(v.Width >= 1 && v.Width <= core.MaxWidth, "width %d: from 1 to %d", v.Width, core.MaxWidth)
	require(opts.Weight >= 0, "weight %d: at least 1, or 0 for 1", opts.Weight)
	require(opts.Spare >= 0, "spare %d: not negative", opts.Spare)
	require(opts.Wait >= 0, "wait %v: not negative; 0 is until there is room", opts.Wait)
	if len(wrong) == 0 && uint64(v.Limit()) >= math.MaxUint32 { // in a smaller view there is no room, which the client says
		require(max(opts.Weight, opts.Spare) <= math.MaxUint32, "weight %d, spare %d: at most %d", opts.Weight, opts.Spare, uint32(math.MaxUint32))
	}
	return errors.Join(wrong...)
}

// fitting is a number as far as a message has room for it.
func fitting(n int) uint32 { return uint32(min(uint64(n), math.MaxUint32)) }
