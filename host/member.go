package host

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/store"
)

// member is one machine in the keeper's care, and what callers may see of it.
type member struct {
	keeper  *keeper
	machine core.Stepper
	name    string
	ttl     time.Duration
	// farewell is the command that ends the machine when the Host closes.
	farewell core.Event
	// guarded: past the deadline nothing is believed, whoever asks first.
	guarded   bool
	onWaiting func(Status)
	onContact func(bool)

	// The keeper's own.
	wakeAt   int64
	index    int // in the heap, -1 outside
	inFlight *request
	failed   error // of the latest request whose outcome is unknown
	leaving  bool  // it was told to end
	silent   bool  // a companion's loss of contact was told
	stranded error // of the engine that lost the machine
	gone     bool
	waiting  bool
	missed   bool // a change was told while a look was under way
	nudged   bool // it was the one to be told of a release
	watching bool
	unwatch  func()

	settled chan struct{} // closed when it is held, or will never be
	ended   chan struct{} // closed when it is known how it ended
	written chan struct{} // closed by the first renewal

	mu       sync.Mutex
	holder   core.HolderID
	acquired time.Time
	deadline int64 // Mono
	held     bool
	orphan   bool // nobody waits for the answer to its acquire any more
	renewed  bool
	over     bool                    // err is the last word
	err      error                   // not nil: it may not be relied on any more
	ctx      context.Context         // of the lease: over from then on
	cancel   context.CancelCauseFunc // of ctx
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
	m := &member{
		keeper: h.keeper, machine: machine, name: cfg.Name, ttl: cfg.TTL, index: -1,
		farewell: core.Event{Kind: farewell, Brief: farewell == core.EventRelease},
		settled:  make(chan struct{}), ended: make(chan struct{}), written: make(chan struct{}),
	}
	// The lease outlives the call that acquired it; its values go on.
	m.ctx, m.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	return m, nil
}

// notice carries a machine's notice to whoever waits for it.
func (k *keeper) notice(m *member, a *core.Action) {
	switch a.Kind {
	case core.ActionWaiting:
		m.nowWaiting(k, a)
	case core.ActionHeld:
		m.waiting, m.silent = false, false
		m.stopWatching()
		m.nowHeld(a)
	case core.ActionDeadline:
		m.setDeadline(a.At)
	case core.ActionRenewed:
		m.nowRenewed(a.At)
	case core.ActionContactLost:
		k.host.log.Info("contact with the store lost; trying on", "name", m.name)
		m.silent = true
		m.setContact(false)
	case core.ActionWarned:
		k.warn(m, a)
	case core.ActionReleased:
		m.end(&Error{Kind: Ended, Name: m.name, Reason: core.ReasonReleased})
		k.nudge(m.name)
	case core.ActionLeft:
		m.end(&Error{Kind: Ended, Name: m.name})
	case core.ActionRefused:
		m.end(k.failure(m, Refused, a))
		if m.nudged {
			k.nudge(m.name)
		}
	case core.ActionLost:
		err := k.failure(m, Lost, a)
		k.host.log.Info("lease lost", "name", m.name, "reason", a.Reason.String(), "error", err)
		m.end(err)
	case core.ActionCannotMaintain:
		m.end(k.failure(m, CannotMaintain, a))
	}
}

func (k *keeper) failure(m *member, kind Kind, a *core.Action) *Error {
	err := &Error{Kind: kind, Name: m.name, Reason: a.Reason, Class: a.Class}
	if kind == Refused && a.Reason == core.ReasonUnreachable {
		err.Class = cmp.Or(a.Class, core.ClassUnreachable) // it was silent, too
	}
	if err.Class != core.ClassNone {
		err.Err = m.failed
	}
	if m.stranded != nil {
		err.Err = &EngineError{m.stranded}
	}
	if a.Sight != nil {
		seen := newStatus(m.name, *a.Sight, k.host.clock.Now())
		err.Seen = &seen
	}
	return err
}

func (k *keeper) warn(m *member, a *core.Action) {
	switch a.Reason {
	case core.ReasonTTLDiffers:
		k.host.log.Warn("this name is in use with another TTL, which can give it two holders; use one everywhere",
			"name", m.name, "their_ttl", a.Sight.TTL)
	case core.ReasonCorruptTaken:
		k.host.log.Warn("an unreadable record has stood too long and is taken over", "name", m.name, "key", a.Key)
	}
}

// nudge tells the longest waiter in this process that a lease was released.
// One is enough, and a crowd would only lose races; if that one gives up, the
// next one is told.
func (k *keeper) nudge(name string) {
	for _, m := range k.members[name] {
		if m.waiting {
			m.nudged = true
			k.post(message{do: func() { k.changed(m) }})
			return
		}
	}
}

// canLook reports whether the machine would heed changed at this moment. What
// m.waiting says is that a lease is wanted, also while it is being looked at.
func (m *member) canLook() bool { return m.machine.String() == core.LeaseWaiting.String() }

func (m *member) nowWaiting(k *keeper, a *core.Action) {
	m.waiting = true
	m.watch(k)
	if m.onWaiting != nil {
		m.onWaiting(newStatus(m.name, *a.Sight, k.host.clock.Now()))
	}
}

// watch asks a local directory to tell of changes, and looks once more when it
// has begun: what changed before it is not told.
func (m *member) watch(k *keeper) {
	watcher, ok := k.host.store.(store.Watcher)
	if !ok || m.watching {
		return
	}
	m.watching = true
	changed := message{do: func() { k.changed(m) }}
	k.io.Go(func() {
		stop, err := watcher.Watch(m.name+"/"+core.LockFile, func() { k.post(changed) })
		if err != nil {
			k.host.log.Debug("no file events; polling alone", "name", m.name, "error", err)
			return
		}
		k.post(message{do: func() {
			m.unwatch = stop
			if !m.watching {
				m.stopWatching()
				return
			}
			k.changed(m)
		}})
	})
}

// stopWatching also covers a watch that is just being made: watching is false
// when it arrives. It is no work for the keeper, since it can wait for a Watch
// that hangs on a dead mount.
func (m *member) stopWatching() {
	m.watching = false
	if m.unwatch != nil {
		m.keeper.io.Go(m.unwatch)
		m.unwatch = nil
	}
}

func (m *member) cancelRequest() {
	if m.inFlight != nil {
		m.inFlight.cancel()
		m.inFlight = nil
	}
}

func (m *member) nowHeld(a *core.Action) {
	m.mu.Lock()
	again := m.held
	m.held, m.deadline = true, a.At
	if !again { // read without the lock by those who saw it settled
		m.holder, m.acquired = a.Holder, wallTime(a.Wall)
	}
	orphan := m.orphan
	m.mu.Unlock()
	if again {
		m.setContact(true)
		return
	}
	close(m.settled)
	if orphan {
		m.keeper.post(message{to: m, event: m.farewell})
	}
}

func (m *member) nowRenewed(deadline int64) {
	m.mu.Lock()
	m.deadline = deadline
	first := !m.renewed
	m.renewed = true
	m.mu.Unlock()
	if first {
		close(m.written)
	}
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
	m.mu.Lock()
	believed := m.guarded && m.held && m.err == nil && m.keeper.host.clock.Now().Mono < m.deadline
	err := error(&Error{Kind: Ended, Name: m.name})
	if believed {
		m.err = err
	}
	m.mu.Unlock()
	if believed {
		m.cancel(err)
	}
}

// end says, once, how it ended.
func (m *member) end(err error) {
	m.waiting = false
	m.stopWatching()
	m.mu.Lock()
	if m.over {
		m.mu.Unlock()
		return
	}
	believed, held := m.err == nil, m.held
	m.err, m.over = err, true
	m.mu.Unlock()
	if !held {
		close(m.settled)
	}
	if believed {
		m.cancel(err)
	}
	close(m.ended)
}

// await waits until the lease is held, or will not be, or nobody waits any more.
func (m *member) await(ctx context.Context) error {
	select {
	case <-m.settled:
	case <-ctx.Done():
		return m.abandon(ctx)
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
	m.orphan = true
	held := m.held
	m.mu.Unlock()
	event := core.Event{Kind: core.EventCancel}
	if held || m.farewell.Kind == core.EventLeave {
		event = m.farewell
	}
	m.keeper.post(message{to: m, event: event})
	return context.Cause(ctx)
}

// finish posts the command that ends it and waits for the end.
func (m *member) finish(ctx context.Context, event core.Event) error {
	m.letGo()
	m.keeper.post(message{to: m, event: event})
	return m.outcome(ctx)
}

// outcome waits for the end and says whether it was a good one.
func (m *member) outcome(ctx context.Context) error {
	select {
	case <-m.ended:
	case <-ctx.Done():
		select {
		case <-m.ended: // before ctx, perhaps
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
		err, late := m.err, m.guarded && m.keeper.host.clock.Now().Mono >= m.deadline
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
	left := time.Duration(m.deadline - m.keeper.host.clock.Now().Mono)
	if m.err != nil {
		return min(left, 0)
	}
	return left
}
