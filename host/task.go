package host

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/internal/telemetry"
)

// task is one machine that the loop steps, and what callers may see of it. There may
// be ten thousand tasks, so what only some need is made on demand.
type task struct {
	loop     *loop
	machine  core.Stepper // nil: see via
	name     string
	protocol core.Protocol
	ttl      core.TTL
	// stopKind is the event that ends the machine when the Host closes; 0: it is
	// dropped.
	stopKind core.EventKind
	// guarded: past the deadline the lease is not relied on, whichever caller asks first.
	guarded   bool
	onWaiting func(Status)
	onContact func(bool)
	// hears takes the machine's notices where it is no lease and no companion.
	hears func(*core.Action)
	// session is what the lease stands on, or wants to; nil: its own beats.
	session *session
	// looked is when it was last known, at a Mono, that no old client has a record
	// under the name; 0 if one has, or nobody asked.
	looked int64
	// beats is the session that it is the machine of.
	beats *session
	// invocation is whose machine it is. via is that one's task, where this task is
	// what callers see of the tenure within.
	invocation *Invocation
	via        *task
	// shared is the semaphore whose machine it is. permit is what was asked of one,
	// where this task is what its caller sees.
	shared *semaphore
	permit *permitRequest

	// The loop's own.
	wakeAt        int64
	index         int // in the heap, -1 outside
	inFlight      [lanes]*request
	failures      *failures // nil: none
	service       bool      // the host's own: nobody waits for its end
	foreign       bool      // its machine is not the engine's
	stopping      bool      // it was told to stop
	silent        bool      // a companion's loss of contact was told
	gone          bool
	waiting       bool
	missed        bool // a change was told while a look was under way
	toldOfRelease bool // it was the one to be told of a release
	watches       []*watching
	counted       bool                       // telemetry has it among what is held
	handover      *telemetry.HandoverTracker // nil: it has not waited, or nobody wants to know
	tidied        chan struct{}              // closed when it has tidied; nil until somebody waits for that

	mu           sync.Mutex
	settled      chan struct{} // closed when it is held, or will never be; nil from then on
	ended        chan struct{} // closed when it is known how it ended; nil until asked for
	written      chan struct{} // closed by the first renewal; nil until asked for
	holder       core.HolderID
	epoch        core.Epoch
	token        core.Epoch
	acquired     int64            // wall
	deadline     int64            // Mono
	instance     *sessionInstance // of the session that it stands on, until whose deadline it is relied on too
	heldDeadline int64            // Mono: while the lease may have been broken it is relied on no longer; 0 is not held
	seen         *Status          // of whom it waits for; nil: nobody was seen, or it is held
	held         bool
	orphan       bool // nobody waits for the answer to its acquire any more
	renewed      bool
	over         bool                    // err is the last word
	err          error                   // not nil: it may not be relied on any more
	ctx          context.Context         // of the lease: over from then on; its caller's until asked for
	cancel       context.CancelCauseFunc // of ctx, from then on
}

// failures are what has gone wrong for a task.
type failures struct {
	lastError error // of the latest request whose outcome is unknown
	engine    error // of the engine that lost the machine
	cause     error // why it was cancelled, if not by its caller
}

// readFailures returns a copy of the failures.
func (t *task) readFailures() failures {
	if t.via != nil {
		return t.via.readFailures()
	}
	if t.failures == nil {
		return failures{}
	}
	return *t.failures
}

// makeFailures returns the failures to be written to. It makes them on demand.
func (t *task) makeFailures() *failures {
	if t.failures == nil {
		t.failures = &failures{}
	}
	return t.failures
}

// newTask makes a machine and its task. also is what else is wrong with
// what was asked, or nil.
func (h *Host) newTask(ctx context.Context, cfg *core.Config, stopKind core.EventKind, also error) (*task, error) {
	machine, err := h.engine.New(*cfg)
	if _, breach := errors.AsType[*core.Error](err); err != nil && !breach {
		return nil, &EngineError{err}
	}
	if also != nil && err == nil {
		h.engine.Drop(machine)
	}
	if err := errors.Join(err, also); err != nil {
		return nil, err
	}
	return &task{
		loop: h.loop, machine: machine, name: cfg.Name, protocol: cfg.Protocol, ttl: cfg.TTL, index: -1,
		stopKind: stopKind, settled: make(chan struct{}), ctx: ctx,
	}, nil
}

// stopEvent is the event that ends the machine.
func (t *task) stopEvent() core.Event {
	return core.Event{Kind: t.stopKind, Brief: t.stopKind == core.EventRelease}
}

// context is of the lease. The lease outlives the call that acquired it; its
// values go on.
func (t *task) context() context.Context {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.cancel == nil {
		t.ctx, t.cancel = context.WithCancelCause(t.within(context.WithoutCancel(t.ctx)))
		if t.err != nil {
			t.cancel(t.err)
		}
	}
	return t.ctx
}

// stop ends the lease's context, if anybody has it. The caller holds mu and has
// set err, so that a context made later is over from the beginning.
func (t *task) cancelContext() {
	if t.cancel != nil {
		t.cancel(t.err)
	}
}

// signal returns a channel of t that is made when it is first asked for, or, if
// what it tells has come already, one that is closed.
func (t *task) signal(which *chan struct{}, come *bool) <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if *which == nil {
		*which = make(chan struct{})
		if *come {
			close(*which)
		}
	}
	return *which
}

// A machine has one request in flight that matters; an invocation one of its own,
// with an odd id, and one of the lease within, with an even one.
const (
	lanes   = 2
	ownLane = 1
)

func (t *task) lane(id core.RequestID) int {
	if t.invocation == nil {
		return 0
	}
	return int(id & ownLane)
}

func (t *task) cancelRequest(lane int) {
	if r := t.inFlight[lane]; r != nil {
		r.cancel()
		t.inFlight[lane] = nil
	}
}

func (t *task) cancelRequests() {
	for lane := range t.inFlight {
		t.cancelRequest(lane)
	}
}

func (t *task) nowHeld(a *core.Action) {
	t.mu.Lock()
	again := t.held
	t.held, t.deadline, t.epoch, t.seen = true, a.At, a.Epoch, nil
	t.instance = t.session.instanceOf(a.Session)
	if !again { // read without the lock by those who saw it settled
		t.holder, t.token, t.acquired = a.Holder, a.Token, a.Wall
		close(t.settled)
		t.settled = nil
	}
	orphan := t.orphan
	t.mu.Unlock()
	switch {
	case again:
		t.setContact(true)
	case orphan:
		t.loop.post(message{to: t, event: t.stopEvent()})
	}
}

func (t *task) nowAdopted(epoch core.Epoch) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.epoch = epoch
}

func (t *task) nowRenewed(deadline int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.deadline = deadline
	if !t.renewed && t.written != nil {
		close(t.written)
	}
	t.renewed = true
}

// setDeadline: somebody on the name uses a shorter TTL, and may judge us by it.
func (t *task) setDeadline(deadline int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.deadline = deadline
}

func (t *task) setContact(contact bool) {
	if t.onContact != nil {
		t.onContact(contact)
	}
}

// invalidate ends what relies on the lease, before anything is written that lets others in:
//
//	us      Release: put(released) . . . . . . . . . answered
//	store                          released
//	other                              get(released) put … held
//
// What works under the lease's Context must have been told by then. Past the deadline
// the lease is not released but lost, and the loop says so.
func (t *task) invalidate() {
	if t.invocation != nil {
		t.invocation.invalidate()
		return
	}
	if t.shared != nil {
		t.shared.invalidate()
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.guarded && t.held && t.err == nil && t.loop.host.clock.Now().Mono < t.relyUntil() {
		t.err = t.inItsName(&Error{Kind: Ended, Name: t.name})
		t.cancelContext()
	}
}

// relyUntil is the Mono until which it may be relied on: its own deadline, or
// that of the session that it stands on, whichever is later. The caller holds mu.
// The session's is read where it stands, so that its renewals cost its ten
// thousand leases nothing.
func (t *task) relyUntil() int64 {
	switch {
	case t.instance == nil:
		return t.deadline
	case t.heldDeadline != 0:
		return t.heldDeadline
	}
	return max(t.deadline, t.instance.until.Load())
}

// reliedUntil is relyUntil for who does not hold mu.
func (t *task) reliedUntil() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.relyUntil()
}

// holdDeadline keeps the deadline of a lease where it is at this moment: the session was
// told that the lease was broken, and later renewals of the session say nothing of that.
func (t *task) holdDeadline() {
	if t.invocation != nil {
		if view := t.invocation.view; view != nil {
			view.holdDeadline()
		}
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.held && t.instance != nil && t.heldDeadline == 0 {
		t.heldDeadline = t.relyUntil()
	}
}

// releaseDeadline ends that when the machine has found out whether it is so. Until then
// the machine wants to be woken at the held deadline, or before.
func (t *task) releaseDeadline(wake int64, woken bool) {
	if t.invocation != nil {
		if view := t.invocation.view; view != nil {
			view.releaseDeadline(wake, woken)
		}
		return
	}
	if t.session == nil || woken && wake <= t.heldDeadline {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.heldDeadline = 0
}

// end says, once, how it ended.
func (t *task) end(err error) {
	t.waiting = false
	t.stopWatching()
	t.uncount()
	switch {
	case t.invocation != nil && !t.isOver():
		t.invocation.finished(err)
	case t.shared != nil:
		t.shared.endAll()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return
	}
	believed := t.err == nil
	t.err, t.over = err, true
	if t.settled != nil {
		close(t.settled)
		t.settled = nil
	}
	if believed {
		t.cancelContext()
	}
	if t.ended != nil {
		close(t.ended)
	}
}

// await waits until the lease is held, or will not be, or nobody waits any more.
func (t *task) await(ctx context.Context) error {
	t.mu.Lock()
	settled := t.settled
	t.mu.Unlock()
	if settled != nil {
		select {
		case <-settled:
		case <-ctx.Done():
			return t.abandon(ctx)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if errors.Is(t.err, ErrReleased) || errors.Is(t.err, &Error{Kind: NotAcquired, Reason: core.ReasonCancelled}) {
		return ErrClosed // nobody else could end it so before the caller had it
	}
	return t.err
}

// abandon gives the acquire up. If it is held this very moment it is released.
func (t *task) abandon(ctx context.Context) error {
	t.mu.Lock()
	t.orphan = t.permit == nil // a permit is given back below
	held, seen := t.held, t.seen
	t.mu.Unlock()
	over := &waitError{&Error{Name: t.name, Seen: seen, of: t.subject()}, context.Cause(ctx)}
	if t.permit != nil {
		t.loop.post(message{do: func() { t.loop.giveBack(t.permit) }})
		return over
	}
	event := core.Event{Kind: core.EventCancel}
	if held || t.stopKind == core.EventLeave {
		event = t.stopEvent()
	}
	if t.stopKind == 0 {
		t.loop.post(message{do: func() { t.loop.drop(t) }})
		return over
	}
	t.loop.post(message{to: t, event: event})
	return over
}

// finish posts the command that ends it and waits for the end.
func (t *task) finish(ctx context.Context, event core.Event) error {
	t.invalidate()
	switch {
	case t.permit != nil:
		t.loop.post(message{do: func() { t.loop.giveBack(t.permit) }})
	case t.via != nil: // its lease is not its own to end
		t.via.invocation.Cancel()
	default:
		t.loop.post(message{to: t, event: event})
	}
	return t.outcome(ctx)
}

// outcome waits for the end and says whether it was a good one.
func (t *task) outcome(ctx context.Context) error {
	ended := t.signal(&t.ended, &t.over)
	select {
	case <-ended:
	case <-ctx.Done():
		select {
		case <-ended: // before ctx, perhaps
		default:
			return context.Cause(ctx)
		}
	}
	return t.failure()
}

// failure is why it ended, or nil if it has not or was ended by us.
func (t *task) failure() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == nil || errors.Is(t.err, ErrReleased) {
		return nil
	}
	return t.err
}

// current is why the task is over, or nil. Past the deadline the answer is never nil,
// whether or not the loop has had time to notice.
//
// It asks again and does not wait for the end, since the loop may be about to tell of a
// renewal that was answered in time.
func (t *task) current() error {
	for {
		t.mu.Lock()
		err, late := t.err, t.guarded && t.loop.host.clock.Now().Mono >= t.relyUntil()
		t.mu.Unlock()
		if err != nil || !late {
			return err
		}
		t.loop.look(t)
	}
}

// left is how long the lease may still be relied on: not at all, whatever its
// deadline, once it is lost or given back.
func (t *task) left() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	until := t.relyUntil()
	left := time.Duration(core.Never)
	if until != core.Never {
		left = time.Duration(until - t.loop.host.clock.Now().Mono)
	}
	if t.err != nil {
		return min(left, 0)
	}
	return left
}

// isOver reports whether its end was told.
func (t *task) isOver() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.over
}

// isWaiting reports whether it is neither held nor over.
func (t *task) isWaiting() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.held && !t.over
}

// version is the epoch that the lease is at by now.
func (t *task) version() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return uint64(t.epoch)
}

// standsOn is the id of the session that the lease stands on, or "".
func (t *task) standsOn() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.instance == nil {
		return ""
	}
	return string(t.instance.id)
}
