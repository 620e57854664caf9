package host

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/machines"
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
	// as 2 KiB have room for them. The loop calls it, on which all leases of the Host
	// depend: it must neither block nor call methods of the Host, of its leases or of
	// its permits.
	OnWaiting func(Status)
}

// Permit is a share of a semaphore's capacity that is held until Release, the
// Host's Close, or its loss with the Host's session. Its methods may be called
// from any goroutine.
type Permit struct {
	task   *task // what callers see of it: its machine is the name's
	weight int
}

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
	cfg, err := h.semaphoreConfig(name, &Terms{})
	if limit > maxLimit {
		err = errors.Join(err, badTerms(fmt.Sprintf("limit %d: at most %d, or 0 for none", limit, uint64(maxLimit))))
	}
	if err != nil {
		return err
	}
	_, err = h.ask(ctx, &cfg, core.Event{Kind: core.EventLimit, StoreLimit: limit}, nil)
	if errors.Is(err, errDone) {
		return nil
	}
	return err
}

// maxLimit is what the largest view has room for.
const maxLimit = core.MaxCapacity * core.MaxWidth

// Name is the semaphore's.
func (p *Permit) Name() string { return p.task.name }

// Holder is the id of this permit among the holders, fresh for each.
func (p *Permit) Holder() string { return string(p.task.holder) }

// FencingToken is the version of the semaphore that has let the permit in. It grows
// from one to the next, but is the same for those that were let in together.
func (p *Permit) FencingToken() uint64 { return uint64(p.task.token) }

// Session is the id of the session that the permit stands on.
func (p *Permit) Session() string { return p.task.standsOn() }

// Weight is how many permits it takes.
func (p *Permit) Weight() int { return p.weight }

// Total is how many permits were held on the name when it was let in, with it and
// with those that were let in together.
func (p *Permit) Total() uint64 { return p.task.permit.total }

// Left is how long it may be relied on unless the session is renewed before,
// counting the time that the machine sleeps; 0 or less once Err is not nil.
func (p *Permit) Left() time.Duration { return p.task.left() }

// Deadline is when the permit must be considered lost unless the session is renewed
// before. Once Err is not nil it is not after now.
func (p *Permit) Deadline() time.Time { return time.Now().Add(p.task.left()) }

// Done is closed when the permit is lost, at the session's deadline at the latest,
// or when Release or the Host's Close begins: once others may be let in, no caller
// here may rely on it.
func (p *Permit) Done() <-chan struct{} { return p.task.context().Done() }

// Err is nil while the permit may be relied on. Afterwards it is an *Error of Kind
// Lost with the reason (unreachable or expired, as the session; taken, if another process
// took it out of the record), or of Kind Ended from Release or Close on, or ErrClosed.
// Err looks at the clock itself: past the deadline it is never nil.
func (p *Permit) Err() error { return p.task.current() }

// Context is cancelled when Done is closed; its cause is what Err says then. It has the values of AcquirePermit's ctx.
func (p *Permit) Context() context.Context { return p.task.context() }

// Release gives the permit back and returns nil when the store has said so, or when
// it was given back before. If the permit was lost before, Release returns that *Error. If
// ctx ends first, Release returns its cause; the Host goes on trying as long as the session
// is renewed, and the permit ends with that by itself. On a store that takes the session's
// beat and nothing more, that may be long: give ctx an end.
func (p *Permit) Release(ctx context.Context) error {
	return p.task.finish(ctx, core.Event{})
}

func (h *Host) acquirePermit(ctx context.Context, name string, view View, opts *PermitOptions, wait time.Duration) (*Permit, error) {
	cfg, err := h.semaphoreConfig(name, &opts.Terms)
	if err := errors.Join(err, checkPermit(view, opts)); err != nil {
		return nil, err
	}
	question := h.telemetry.Ask(telemetry.Permit)
	t, err := h.ask(ctx, &cfg, core.Event{
		Kind: core.EventAcquire, Wait: wait, Label: []byte(opts.Label),
		Capacity: uint32(view.Capacity), Width: uint32(view.Width), Weight: uint32(opts.Weight), Spare: uint32(opts.Spare),
	}, opts.OnWaiting)
	answered(ctx, question, cfg.Protocol, err)
	if err != nil {
		return nil, err
	}
	return &Permit{task: t, weight: max(1, opts.Weight)}, nil
}

// semaphoreConfig is the Config of a name's machine, and what is wrong with it.
func (h *Host) semaphoreConfig(name string, t *Terms) (core.Config, error) {
	var wrong error
	if t.Protocol != 0 && t.Protocol != core.ProtocolStrict {
		wrong = badTerms("protocol: only strict has semaphores; leave it out")
	}
	terms := *t
	terms.Session = false // what stands on one is told below
	cfg, err := h.config(core.MachineSemaphore, name, core.ProtocolStrict, &terms)
	if err != nil {
		return cfg, errors.Join(err, wrong)
	}
	cfg.OnSession = true
	_, err = machines.New(cfg)
	cfg.Label = "" // each permit has its own
	return cfg, errors.Join(err, wrong)
}

// checkPermit lists what is wrong with a permit, before any I/O.
func checkPermit(v View, opts *PermitOptions) error {
	var wrong []error
	require := func(ok bool, format string, args ...any) {
		if !ok {
			wrong = append(wrong, badTerms(fmt.Sprintf(format, args...)))
		}
	}
	capacity, width, weight, spare := v.Capacity, v.Width, opts.Weight, opts.Spare
	require(capacity >= 1 && capacity <= core.MaxCapacity, "capacity %d: from 1 to %d", capacity, core.MaxCapacity)
	require(width >= 1 && width <= core.MaxWidth, "width %d: from 1 to %d", width, core.MaxWidth)
	require(weight >= 0, "weight %d: at least 1, or 0 for 1", weight)
	require(spare >= 0, "spare %d: not negative", spare)
	require(opts.Wait >= 0, "wait %v: not negative; 0 is until there is room", opts.Wait)
	if len(wrong) > 0 {
		return errors.Join(wrong...)
	}
	weight = max(1, weight)
	most, need := uint64(capacity)*uint64(width), uint64(weight)+uint64(spare)
	if need > most {
		return &weightExceedsLimitError{core.Error{Code: core.ErrorConfig, Text: fmt.Sprintf(
			"weight %d and spare %d: more than the %d of capacity %d x width %d, so there is never room", weight, spare, most, capacity, width,
		)}}
	}
	if uint64(max(weight, spare)) > math.MaxUint32 {
		return badTerms(fmt.Sprintf("weight %d, spare %d: at most %d", weight, spare, uint32(math.MaxUint32)))
	}
	return nil
}

// weightExceedsLimitError is a *core.Error that is ErrWeightExceedsLimit.
type weightExceedsLimitError struct{ config core.Error }

// Error says what is too much.
func (e *weightExceedsLimitError) Error() string { return e.config.Error() }

// Unwrap returns both errors that it is.
func (e *weightExceedsLimitError) Unwrap() []error { return []error{&e.config, ErrWeightExceedsLimit} }

// ask asks a semaphore's machine for a permit or a limit, and waits for it.
func (h *Host) ask(ctx context.Context, cfg *core.Config, first core.Event, onWaiting func(Status)) (*task, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	t := &task{
		loop: h.loop, name: cfg.Name, protocol: cfg.Protocol, ttl: cfg.TTL, index: -1,
		guarded: true, settled: make(chan struct{}), ctx: ctx,
	}
	t.permit = &permitRequest{view: t, first: first, onWaiting: onWaiting}
	begun, patience := h.clock.Now().Mono, first.Wait
	if t.permit.isLimit() {
		patience = core.Forever
	}
	honoured, err := h.createIsHonoured(ctx, cfg.Name, patience)
	if err == nil && !honoured {
		err = h.incompatible(cfg.Name)
	}
	if err != nil {
		return nil, t.inItsName(err)
	}
	if wait := &t.permit.first.Wait; *wait > 0 {
		*wait = max(0, *wait-time.Duration(h.clock.Now().Mono-begun))
	}
	if err := h.loop.let(func() { h.loop.requestPermit(cfg, t.permit) }); err != nil {
		return nil, err
	}
	return t, t.await(ctx)
}
