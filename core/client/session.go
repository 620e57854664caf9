package client

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/alarms"
	"github.com/mopslock/mopslock/core/internal/base"
	"github.com/mopslock/mopslock/core/internal/register"
)

// sessionIdle is how long a session is kept on which nobody stands.
const sessionIdle = 10 * core.Second

// session is the heartbeat of all claims of one TTL and margin that asked for one. Its
// machine is made for the first of them, and anew for the next one after it was lost: a
// session id that was lost is never used again. One that nobody stands on is forgotten; while
// it is leaving, a claim that comes gets another.
type session struct {
	alarms.Alarm // nobody stands on it
	ttl          core.TTL
	margin       core.Duration
	state        sessionState
	unit         *unit  // nil while it is vacant
	number       uint64 // of the id at hand, which the host knows it by
	id           string
	until        int64 // Mono
	calls        uint64
	end          core.Reason // why the one before ended
	users        int         // so many stand on it, or want to
}

// sessionUser is what stands on a session, or wants to.
type sessionUser interface {
	// wants reports whether it waits for the session, in order to acquire.
	wants() bool
	// onChange steps its machine: the session has come in force, or was lost.
	onChange(c *Client)
	// refuseSession ends it, if it waits for a session of which there can be none.
	refuseSession(c *Client, class core.Class)
}

// sessionFor is the session of a TTL and margin. It asks nothing of the store.
func (c *Client) sessionFor(ttl core.TTL, margin core.Duration) *session {
	for _, s := range c.sessions {
		if s.ttl == ttl && s.margin == margin && !c.isLeaving(s.state == sessionLeaving) {
			return s
		}
	}
	s := &session{ttl: ttl, margin: margin}
	c.sessions = append(c.sessions, s)
	return s
}

// attach puts something on a session. A claim that wants the session in force opens it.
func (s *session) attach(c *Client) {
	s.users++
	c.alarms.Disarm(&s.Alarm)
}

// detach takes something off its session, which is left when nobody has stood on it for a
// while.
func (s *session) detach(c *Client) {
	switch s.users--; {
	case s.users > 0:
	case s.unit == nil:
		s.goes(c)
	default:
		c.alarms.Arm(&s.Alarm, s, c.now.Mono+int64(sessionIdle))
	}
}

// open makes the session's machine, if it has none.
func (s *session) open(c *Client) {
	if s.state != sessionVacant || c.closing {
		return
	}
	cfg := machineConfig(&c.cfg, core.MachineSession, core.ProtocolStrict, &core.Terms{TTL: s.ttl, Margin: s.margin})
	machine, err := c.machine(cfg)
	if err != nil {
		panic("mopslock: core: client: " + err.Error()) // the terms of who stands on it are good
	}
	c.sessionSerial++
	s.number, s.calls = c.sessionSerial, 0
	s.state.become(sessionOpening)
	s.unit = &unit{machine: machine, owner: s}
	c.post(job{unit: s.unit, kind: core.EventBegin})
}

// hear implements owner: it carries a session's notices to the claims on it.
func (s *session) hear(c *Client, u *unit, a *core.Action) {
	switch a.Kind {
	case core.ActionHeld:
		s.id, s.until = string(a.Holder), a.At
		s.state.become(sessionInForce)
		s.say(c, a).TTL = s.ttl
		s.watchCall(c)
		s.tell(c, true)
	case core.ActionRenewed:
		s.until = a.At
		s.say(c, a)
	case core.ActionCalled:
		s.calls++
		s.watchCall(c)
		s.called(c, a.Key, a.Epoch)
	case core.ActionWarned:
		s.say(c, a)
		if s.state == sessionOpening {
			s.cannotOpen(c, u, a.Class)
		}
	case core.ActionLost:
		s.say(c, a)
		s.end = a.Reason
		s.forget(c, u)
		s.tell(c, false)
		s.reopen(c)
	case core.ActionLeft:
		s.say(c, a)
		s.forget(c, u)
	}
}

// machine is the session's, or nil while it has none.
func (s *session) machine() base.Reporting {
	if s.unit == nil {
		return nil
	}
	return s.unit.machine
}

// say tells of a session once for all that stand on it.
func (s *session) say(c *Client, a *core.Action) *core.Action {
	to := c.outbox.Carry(a)
	to.On = s.number
	return to
}

// forget forgets the id, and the session if nobody stands on it. What stood on it hears
// that with its next event.
func (s *session) forget(c *Client, u *unit) {
	c.alarms.Disarm(&s.Alarm)
	s.id, s.unit = "", nil
	u.drop(c)
	if s.users == 0 || s.state == sessionLeaving {
		s.goes(c)
		return
	}
	s.state.become(sessionVacant)
}

// goes takes a session off that nobody stands on, and that has nothing in the store.
func (s *session) goes(c *Client) {
	s.state.become(sessionGone)
	c.sessions = without(c.sessions, s)
}

// watchCall asks for the next call, which the breaker of a lease on the session makes.
// Before the id is in force no lease stands on it.
func (s *session) watchCall(c *Client) {
	s.unit.watch(c, register.CallKey(s.id, s.calls))
}

// tell has all that stand on a session stepped, or only what waits for it.
func (s *session) tell(c *Client, waiting bool) {
	for _, on := range s.all(c) {
		if !waiting || on.wants() {
			on.onChange(c)
		}
	}
}

// all lists what stands on a session, or wants to: claims in the order in which they
// came, then semaphores. It goes through all claims, which only the coming and the end of a
// session are worth.
func (s *session) all(c *Client) (all []sessionUser) {
	for _, cl := range c.claims {
		if cl.session == s {
			all = append(all, cl)
		}
	}
	for _, of := range c.semaphores {
		if of.session == s {
			all = append(all, of)
		}
	}
	return all
}

// reopen makes the next session if somebody waits for one.
func (s *session) reopen(c *Client) {
	for _, on := range s.all(c) {
		if on.wants() {
			s.open(c)
			return
		}
	}
}

// called tells the claims of a name on this session that somebody has broken it. What they
// may be believed until is capped at once, before the session's renewal is told.
func (s *session) called(c *Client, name string, epoch core.Epoch) {
	n := c.names[name]
	if n == nil {
		return
	}
	for _, cl := range n.claims {
		if cl.session == s && cl.state != claimEnded {
			cl.capBelief(c)
			cl.calls++
			c.post(job{claim: cl, kind: core.EventCalled, epoch: epoch})
		}
	}
}

// cannotOpen ends a session on a store that will not take its beat: what waits for it would
// wait forever. One of these terms that was in force before is waited for.
func (s *session) cannotOpen(c *Client, u *unit, class core.Class) {
	if s.until != 0 {
		return
	}
	s.forget(c, u)
	for _, on := range s.all(c) {
		if on.wants() {
			on.refuseSession(c, class)
		}
	}
}

// stepped implements owner.
func (s *session) stepped(*Client, *unit) {}

// onAlarm implements alarmHandler: nobody has stood on it for a while.
func (s *session) onAlarm(c *Client) { s.leave(c) }

// leave ends the session, on which nothing stands any more, and removes what it has in the store.
func (s *session) leave(c *Client) {
	s.state.become(sessionLeaving)
	c.post(job{unit: s.unit, kind: core.EventLeave})
}

// inform adds to an event what a strict machine must know. A session that is past its
// deadline is stepped first, so that what stands on it hears the reason from it.
func (c *Client) inform(s *session, ev *core.Event) {
	ev.StoreStamp, ev.StoreAt = c.clock.stamp, c.clock.at
	if s == nil {
		return
	}
	if s.state == sessionInForce && c.now.Mono >= s.until && c.tellsSessionFirst() {
		s.unit.step(c, core.Event{Kind: core.EventWoke})
	}
	ev.SessionEnd = s.end
	if id := c.inForce(s.id, s.machine()); id != "" {
		ev.Session, ev.SessionUntil = []byte(id), s.until
	}
}

// wants implements sessionUser.
func (cl *claim) wants() bool {
	if _, ok := cl.as.(*workRole); ok && !cl.state.isPending() {
		return cl.unit.machine.WorkState() == core.InvocationAcquiring && cl.state != claimEnded
	}
	return cl.state < claimHeld
}

// onChange implements sessionUser.
func (cl *claim) onChange(c *Client) { c.post(job{claim: cl, kind: core.EventWoke}) }

// refuseSession implements sessionUser. Ten thousand refusals are more than one Step has room for.
func (cl *claim) refuseSession(c *Client, class core.Class) {
	c.post(job{claim: cl, kind: core.EventCancel, class: class})
}

// noSession refuses a claim that waits for a session, since there can be none.
func (cl *claim) noSession(c *Client, class core.Class) {
	if !cl.wants() {
		return
	}
	cl.refused(c, core.ReasonNoSession, class)
	if p, ok := cl.as.(*permitRole); ok {
		p.of.unit.step(c, core.Event{Kind: core.EventCancel, Permit: cl.number})
		return
	}
	cl.tell(c, core.EventCancel, 0)
}

// detach takes a claim off its session.
func (cl *claim) detach(c *Client) {
	if s := cl.session; s != nil {
		cl.session = nil
		s.detach(c)
	}
}

// storeClock is the newest sample of the store's clock, and where it was taken.
type storeClock struct {
	base.Shared
	stamp, at int64
	owner     string // in the sample's key; "" before the first
	begun     int64  // Mono of the latest sample
	unit      *unit  // takes one, or nil
	askers    []*unit
}

// sample takes a sample of the store's clock for a machine that would judge sooner by it:
// one at a time, and no more than one in core.SampleEach. If there can be none, the machine
// is told at once, since one that tries only once has nothing else to wait for.
func (k *storeClock) sample(c *Client, asker *unit) {
	if k.unit == nil && !k.maySample(c) {
		c.post(job{unit: asker, kind: core.EventWoke})
		return
	}
	k.askers = append(k.askers, asker)
	if k.unit != nil {
		return
	}
	cfg := machineConfig(&c.cfg, core.MachineStoreClockSample, core.ProtocolStrict, &core.Terms{Owner: k.owner})
	if k.owner == "" {
		k.owner = c.uuid()
		cfg.Owner = k.owner
	}
	machine, err := c.machine(cfg)
	if err != nil {
		panic("mopslock: core: client: " + err.Error())
	}
	k.begun = c.now.Mono
	k.unit = &unit{machine: machine, owner: k}
	c.post(job{unit: k.unit, kind: core.EventBegin})
}

func (k *storeClock) maySample(c *Client) bool {
	return c.cfg.Samples && !c.closing && (k.owner == "" || c.now.Mono-k.begun >= int64(core.SampleEach))
}

// hear implements owner. It keeps the sample, and hands it on. The newest is the best: its
// lower bound of the store's clock has lost least to the difference of rates.
func (k *storeClock) hear(c *Client, u *unit, a *core.Action) {
	if a.Kind == core.ActionStoreClockSampled && a.At > k.at {
		k.stamp, k.at = a.Wall, a.At
	}
	u.drop(c)
	k.unit = nil
	for _, asker := range k.askers { // also when it failed
		c.post(job{unit: asker, kind: core.EventWoke})
	}
	k.askers = nil
}

// stepped implements owner.
func (k *storeClock) stepped(*Client, *unit) {}
