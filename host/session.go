package host

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/mopslock/mopslock/core"
)

// session is the heartbeat of all leases of one TTL and margin that asked for
// one. Its machine is made for the first task that needs it, and anew for the next
// one after it was lost: a session id that was lost is never used again.
type session struct {
	terms    sessionTerms
	task     *task            // its machine, or nil
	instance *sessionInstance // the id in force, or nil
	calls    int              // of that id, so far
	end      core.Reason      // why the one before it ended
}

// sessionTerms is what leases must have in common to share a session.
type sessionTerms struct {
	ttl    core.TTL
	margin time.Duration
}

// sessionInstance is one session id, from its first good beat to its end. The loop writes until;
// callers that ask about a lease on the session read it.
type sessionInstance struct {
	id    []byte
	until atomic.Int64
}

// sessionFor is the session that a new task wants to stand on. It is the loop's own
// from then on; nothing is asked of the store before the task is added.
func (l *loop) sessionFor(cfg *core.Config) *session {
	terms := sessionTerms{cfg.TTL, cfg.Margin}
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.sessions[terms]
	if s == nil {
		s = &session{terms: terms}
		l.sessions[terms] = s
	}
	return s
}

// instanceOf is the instance of the id that a lease says it stands on; nil for none.
func (s *session) instanceOf(id string) *sessionInstance {
	if s == nil || s.instance == nil || string(s.instance.id) != id {
		return nil
	}
	return s.instance
}

// open makes the session's machine, if it has none.
func (l *loop) open(s *session) {
	if s.task != nil || l.closing {
		return
	}
	cfg, err := l.host.machineConfig(core.MachineSession, core.ProtocolStrict)
	if err == nil {
		cfg.TTL, cfg.Margin, cfg.Boot = s.terms.ttl, s.terms.margin, l.host.boot
		s.task, err = l.serve(&cfg, core.EventLeave, func(a *core.Action) { l.sessionSaid(s, a) })
	}
	if err != nil {
		l.giveUp(s, err)
		return
	}
	s.task.beats, s.calls = s, 0
	l.step(s.task, core.Event{Kind: core.EventBegin})
}

// sessionSaid carries a session's notices to the leases on it.
func (l *loop) sessionSaid(s *session, a *core.Action) {
	switch a.Kind {
	case core.ActionHeld:
		l.recordHeld(s.task, a)
		s.instance = &sessionInstance{id: []byte(a.Holder)}
		s.instance.until.Store(a.At)
		l.watchCall(s)
		l.tell(s, (*task).isWaiting)
	case core.ActionRenewed:
		l.recordRenewed(s.task, s.instance.until.Load())
		s.instance.until.Store(a.At)
	case core.ActionCalled:
		s.calls++
		l.watchCall(s)
		l.call(s, a.Key, a.Epoch)
	case core.ActionWarned:
		l.warn(s.task, a)
	case core.ActionLost:
		l.recordLost(s.task, a.Reason, nil)
		s.lost(a.Reason)
		l.tell(s, func(*task) bool { return true })
		l.reopen(s)
	case core.ActionRefused: // its engine failed
		err := l.failure(s.task, NotAcquired, a)
		s.task = nil
		l.giveUp(s, err)
	}
}

// watchCall has a directory tell of the next call, which the breaker of a lease on the
// session makes. Before the id is in force no lease stands on it.
func (l *loop) watchCall(s *session) {
	if s.instance == nil {
		return
	}
	s.task.watch(l, fmt.Sprintf("%s%s/call/%010d", core.SessionPrefix, s.instance.id, s.calls))
}

func (s *session) lost(why core.Reason) {
	s.end, s.instance, s.task = why, nil, nil
}

// tell steps the leases on a session: it has come in force, or was lost.
func (l *loop) tell(s *session, whom func(*task) bool) {
	for _, t := range l.on(s) {
		if !t.gone && whom(t) {
			l.step(t, core.Event{Kind: core.EventWoke})
		}
	}
}

// on lists the tasks that stand on a session, or want to. It is a list of its own, since
// a task that is stepped may leave.
func (l *loop) on(s *session) (found []*task) {
	for t := range l.everybody() {
		if t.session == s {
			found = append(found, t)
		}
	}
	return found
}

// reopen makes the next session if a task waits for one.
func (l *loop) reopen(s *session) {
	for _, t := range l.on(s) {
		if t.wantsSession() {
			l.open(s)
			return
		}
	}
}

// cannotBeat ends a session on a store that will not take its beat: the tasks that wait for
// it would wait forever. After one of these terms that was in force they are given up only
// where the store refuses for good.
func (l *loop) cannotBeat(s *session, reason core.Reason, class core.Class) {
	t := s.task
	if t == nil || s.instance != nil || s.end != core.ReasonNone && !class.Permanent() {
		return
	}
	err := &Error{Kind: NotAcquired, Reason: reason, Class: class, Err: t.readFailures().lastError}
	l.post(message{do: func() { // not within its own step
		if s.task == t && s.instance == nil {
			s.task = nil
			l.drop(t)
			l.giveUp(s, err)
		}
	}})
}

// giveUp ends the tasks that wait for a session, since there can be none, with what
// stood in its way. The next task tries again.
func (l *loop) giveUp(s *session, err error) {
	l.host.log.Info("no session can be had", "error", err)
	for _, t := range l.on(s) {
		switch refused := refusedOf(t.name, err); {
		case t.gone || !t.wantsSession():
		case t.shared != nil:
			t.shared.cannotStand(refused)
		case t.machine.String() == core.LeaseIdle.String(): // it has not begun, so it cannot be cancelled
			t.end(refused)
			l.remove(t)
		default:
			t.makeFailures().cause = refused
			l.step(t, core.Event{Kind: core.EventCancel})
		}
	}
}

// refusedOf is the failure of what a lease needs as one of the lease itself.
func refusedOf(name string, err error) error {
	if errors.Is(err, ErrClosed) {
		return err
	}
	if e, ok := errors.AsType[*Error](err); ok {
		named := *e
		named.Name = name
		return &named
	}
	return &Error{Kind: NotAcquired, Name: name, Reason: core.ReasonUnusable, Class: core.ClassOther, Err: err}
}

// call tells the leases of a name that somebody has broken it.
func (l *loop) call(s *session, name string, epoch core.Epoch) {
	for _, t := range l.on(s) {
		if !t.gone && t.name == name {
			t.holdDeadline()
			l.step(t, core.Event{Kind: core.EventCalled, Epoch: epoch})
		}
	}
}

// inform adds to an event what the host knows: the newest sample of the store's
// clock, and how the machine's session stands. A session that is past its
// deadline is stepped first, so that a lease on it hears the reason from it.
//
// That steps whatever stands on it, this machine too: a later time is returned then,
// since no machine may be told that its clock went back.
func (l *loop) inform(t *task, now core.Instant, event *core.Event) core.Instant {
	if t.protocol != core.ProtocolStrict {
		return now
	}
	event.StoreStamp, event.StoreAt = l.clock.stamp, l.clock.at
	s := t.session
	if s == nil {
		return now
	}
	if s.instance != nil && now.Mono >= s.instance.until.Load() {
		l.step(s.task, core.Event{Kind: core.EventWoke})
		now = l.host.clock.Now()
	}
	event.SessionEnd = s.end
	if s.instance != nil {
		event.Session, event.SessionUntil = s.instance.id, s.instance.until.Load()
	}
	return now
}
