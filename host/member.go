package host

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/internal/telemetry"
)

// member is one machine in the keeper's care, and what callers may see of it.
// There may be ten thousand of them, so what only some need is made on demand.
type member struct {
	keeper   *keeper
	machine  core.Stepper // nil: see via
	name     string
	protocol core.Protocol
	ttl      time.Duration
	// farewell is the command that ends the machine when the Host closes; 0: it
	// is dropped.
	farewell core.EventKind
	// guarded: past the deadline nothing is believed, whoever asks first.
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
	// invocation is whose machine it is. via is that member, where this one is what
	// callers see of the tenure within.
	invocation *Invocation
	via        *member
	// shared is the semaphore whose machine it is. claim is what was asked of one,
	// where this is what its caller sees.
	shared *semaphore
	claim  *claim

	// The keeper's own.
	wakeAt   int64
	index    int // in the heap, -1 outside
	inFlight [lanes]*request
	ill      *illness // nil: all went well
	service  bool     // the host's own: nobody waits for its end
	foreign  bool     // its machine is not the engine's
	leaving  bool     // it was told to end
	silent   bool     // a companion's loss of contact was told
	gone     bool
	waiting  bool
	missed   bool // a change was told while a look was under way
	nudged   bool // it was the one to be told of a release
	watches  []*watching
	counted  bool                // telemetry has it among what is held
	lookout  *telemetry.Handover // nil: it has not waited, or nobody wants to know
	tidied   chan struct{}       // closed when it has tidied; nil until somebody waits for that

	mu       sync.Mutex
	settled  chan struct{} // closed when it is held, or will never be; nil from then on
	ended    chan struct{} // closed when it is known how it ended; nil until asked for
	written  chan struct{} // closed by the first renewal; nil until asked for
	holder   core.HolderID
	epoch    core.Epoch
	token    core.Epoch
	acquired int64   // wall
	deadline int64   // Mono
	life     *life   // of the session that it stands on: it is believed that long, too
	frozen   int64   // Mono: while it may have been broken it is believed no longer; 0 is not
	seen     *Status // of whom it waits for; nil: nobody was seen, or it is held
	held     bool
	orphan   bool // nobody waits for the answer to its acquire any more
	renewed  bool
	over     bool                    // err is the last word
	err      error                   // not nil: it may not be relied on any more
	ctx      context.Context         // of the lease: over from then on; its caller's until asked for
	cancel   context.CancelCauseFunc // of ctx, from then on
}

// illness is what has gone wrong for a member.
type illness struct {
	failed   error // of the latest request whose outcome is unknown
	stranded error // of the engine that lost the machine
	cause    error // why it was cancelled, if not by its caller
}

// troubles is a copy to read.
func (m *member) troubles() illness {
	if m.via != nil {
		return m.via.troubles()
	}
	if m.ill == nil {
		return illness{}
	}
	return *m.ill
}

// trouble is there to be written.
func (m *member) trouble() *illness {
	if m.ill == nil {
		m.ill = &illness{}
	}
	return m.ill
}

// newMember makes a machine and its member. also is what else is wrong with
// what was asked, or nil.
func (h *Host) newMember(ctx context.Context, cfg *core.Config, farewell core.EventKind, also error) (*member, error) {
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
	return &member{
		keeper: h.keeper, machine: machine, name: cfg.Name, protocol: cfg.Protocol, ttl: cfg.TTL, index: -1,
		farewell: farewell, settled: make(chan struct{}), ctx: ctx,
	}, nil
}

// goodbye is the event that ends the machine.
func (m *member) goodbye() core.Event {
	return core.Event{Kind: m.farewell, Brief: m.farewell == core.EventRelease}
}

// context is of the lease. The lease outlives the call that acquired it; its
// values go on.
func (m *member) context() context.Context {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cancel == nil {
		m.ctx, m.cancel = context.WithCancelCause(m.within(context.WithoutCancel(m.ctx)))
		if m.err != nil {
			m.cancel(m.err)
		}
	}
	return m.ctx
}

// stop ends the lease's context, if anybody has it. The caller holds mu and has
// set err, so that a context made later is over from the beginning.
func (m *member) stop() {
	if m.cancel != nil {
		m.cancel(m.err)
	}
}

// signal returns a channel of m that is made when it is first asked for, or, if
// what it tells has come already, one that is closed.
func (m *member) signal(which *chan struct{}, come *bool) <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
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

func (m *member) lane(id core.RequestID) int {
	if m.invocation == nil {
		return 0
	}
	return int(id & ownLane)
}

func (m *member) cancelRequest(lane int) {
	if r := m.inFlight[lane]; r != nil {
		r.cancel()
		m.inFlight[lane] = nil
	}
}

func (m *member) cancelRequests() {
	for lane := range m.inFlight {
		m.cancelRequest(lane)
	}
}

func (m *member) nowHeld(a *core.Action) {
	m.mu.Lock()
	again := m.held
	m.held, m.deadline, m.epoch, m.seen = true, a.At, a.Epoch, nil
	m.life = m.session.lifeOf(a.Session)
	if !again { // read without the lock by those who saw it settled
		m.holder, m.token, m.acquired = a.Holder, a.Token, a.Wall
		close(m.settled)
		m.settled = nil
	}
	orphan := m.orphan
	m.mu.Unlock()
	switch {
	case again:
		m.setContact(true)
	case orphan:
		m.keeper.post(message{to: m, event: m.goodbye()})
	}
}

func (m *member) nowAdopted(epoch core.Epoch) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.epoch = epoch
}

func (m *member) nowRenewed(deadline int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.deadline = deadline
	if !m.renewed && m.written != nil {
		close(m.written)
	}
	m.renewed = true
}

// setDeadline: somebody on the name uses a shorter TTL, and may judge us by it.
func (m *member) setDeadline(deadline int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.deadline = deadline
}

func (m *member) setContact(contact bool) {
	if m.onContact != nil {
		m.onContact(contact)
	}
}

// letGo ends belief, before anything is written that lets others in:
//
//	us      Release: put(released) . . . . . . . . . answered
//	store                          released
//	other                              get(released) put … held
//
// Whoever works under the lease's Context must have heard of it by then. Past
// the deadline it is not released but lost, and the keeper says so.
func (m *member) letGo() {
	if m.invocation != nil {
		m.invocation.letGo()
		return
	}
	if m.shared != nil {
		m.shared.letGo()
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.guarded && m.held && m.err == nil && m.keeper.host.clock.Now().Mono < m.relyUntil() {
		m.err = m.inItsName(&Error{Kind: Ended, Name: m.name})
		m.stop()
	}
}

// relyUntil is the Mono until which it may be relied on: its own deadline, or
// that of the session that it stands on, whichever is later. The caller holds mu.
// The session's is read where it stands, so that its renewals cost its ten
// thousand leases nothing.
func (m *member) relyUntil() int64 {
	switch {
	case m.life == nil:
		return m.deadline
	case m.frozen != 0:
		return m.frozen
	}
	return max(m.deadline, m.life.until.Load())
}

// reliedUntil is relyUntil for who does not hold mu.
func (m *member) reliedUntil() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.relyUntil()
}

// freeze keeps a lease from being believed any longer than it is at this moment:
// its session was told that it was broken, and later renewals of the session say
// nothing of that.
func (m *member) freeze() {
	if m.invocation != nil {
		if view := m.invocation.view; view != nil {
			view.freeze()
		}
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.held && m.life != nil && m.frozen == 0 {
		m.frozen = m.relyUntil()
	}
}

// thaw ends that when the machine has found out: until then it wants to be woken
// at that deadline, or before.
func (m *member) thaw(wake int64, woken bool) {
	if m.invocation != nil {
		if view := m.invocation.view; view != nil {
			view.thaw(wake, woken)
		}
		return
	}
	if m.session == nil || woken && wake <= m.frozen {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.frozen = 0
}

// end says, once, how it ended.
func (m *member) end(err error) {
	m.waiting = false
	m.stopWatching()
	m.uncount()
	switch {
	case m.invocation != nil && !m.isOver():
		m.invocation.finished(err)
	case m.shared != nil:
		m.shared.endAll()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.over {
		return
	}
	believed := m.err == nil
	m.err, m.over = err, true
	if m.settled != nil {
		close(m.settled)
		m.settled = nil
	}
	if believed {
		m.stop()
	}
	if m.ended != nil {
		close(m.ended)
	}
}

// await waits until the lease is held, or will not be, or nobody waits any more.
func (m *member) await(ctx context.Context) error {
	m.mu.Lock()
	settled := m.settled
	m.mu.Unlock()
	if settled != nil {
		select {
		case <-settled:
		case <-ctx.Done():
			return m.abandon(ctx)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if errors.Is(m.err, ErrReleased) || errors.Is(m.err, &Error{Kind: Refused, Reason: core.ReasonCancelled}) {
		return ErrClosed // nobody else could end it so before the caller had it
	}
	return m.err
}

// abandon gives the acquire up. If it is held this very moment it is released.
func (m *member) abandon(ctx context.Context) error {
	m.mu.Lock()
	m.orphan = m.claim == nil // a claim is given back below
	held, seen := m.held, m.seen
	m.mu.Unlock()
	over := &waitError{&Error{Name: m.name, Seen: seen, of: m.subject()}, context.Cause(ctx)}
	if m.claim != nil {
		m.keeper.post(message{do: func() { m.keeper.giveBack(m.claim) }})
		return over
	}
	event := core.Event{Kind: core.EventCancel}
	if held || m.farewell == core.EventLeave {
		event = m.goodbye()
	}
	if m.farewell == 0 {
		m.keeper.post(message{do: func() { m.keeper.dismiss(m) }})
		return over
	}
	m.keeper.post(message{to: m, event: event})
	return over
}

// finish posts the command that ends it and waits for the end.
func (m *member) finish(ctx context.Context, event core.Event) error {
	m.letGo()
	switch {
	case m.claim != nil:
		m.keeper.post(message{do: func() { m.keeper.giveBack(m.claim) }})
	case m.via != nil: // its lease is not its own to end
		m.via.invocation.Cancel()
	default:
		m.keeper.post(message{to: m, event: event})
	}
	return m.outcome(ctx)
}

// outcome waits for the end and says whether it was a good one.
func (m *member) outcome(ctx context.Context) error {
	ended := m.signal(&m.ended, &m.over)
	select {
	case <-ended:
	case <-ctx.Done():
		select {
		case <-ended: // before ctx, perhaps
		default:
			return context.Cause(ctx)
		}
	}
	return m.failure()
}

// failure is why it ended, or nil if it has not or was ended by us.
func (m *member) failure() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err == nil || errors.Is(m.err, ErrReleased) {
		return nil
	}
	return m.err
}

// current is why it is over, or nil. Past the deadline the answer is never nil,
// whether or not the keeper has had time to notice.
//
// It asks again rather than wait for the end: the keeper may be about to tell
// of a renewal that was answered in time.
func (m *member) current() error {
	for {
		m.mu.Lock()
		err, late := m.err, m.guarded && m.keeper.host.clock.Now().Mono >= m.relyUntil()
		m.mu.Unlock()
		if err != nil || !late {
			return err
		}
		m.keeper.look(m)
	}
}

// left is how long the lease may still be relied on: not at all, whatever its
// deadline, once it is lost or given back.
func (m *member) left() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	until := m.relyUntil()
	left := time.Duration(core.Never)
	if until != core.Never {
		left = time.Duration(until - m.keeper.host.clock.Now().Mono)
	}
	if m.err != nil {
		return min(left, 0)
	}
	return left
}

// isOver reports whether its end was told.
func (m *member) isOver() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.over
}

// isWaiting reports whether it is neither held nor over.
func (m *member) isWaiting() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.held && !m.over
}

// version is the epoch that the lease is at by now.
func (m *member) version() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return uint64(m.epoch)
}

// standsOn is the id of the session that the lease stands on, or "".
func (m *member) standsOn() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.life == nil {
		return ""
	}
	return string(m.life.id)
}
