package client

import (
	"slices"
	"strconv"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/alarms"
	"github.com/mopslock/mopslock/core/internal/base"
	"github.com/mopslock/mopslock/core/internal/octets"
	"github.com/mopslock/mopslock/core/internal/resolve"
)

// semaphore is the machine of all that this client does with the shared semaphore on one
// name: what waits together is written together. It is made for the first permit or limit,
// and forgotten when nothing is held and nobody waits. Two machines of one name on one
// session would take each other's permits for leftovers, so those of one TTL share it.
type semaphore struct {
	alarms.Alarm // the client closes, and what it tidies has had its time
	name         *nameState
	ttl          core.TTL
	margin       core.Duration
	unit         *unit
	session      *session
	asks         []*claim // whose end the machine has not told, in the order in which they came
	missed       bool     // a change was told while a look was under way
	// seen is what a notice of this step of the machine has shown: only the first of a step
	// does, and all are of one look.
	seen *core.Observed `state:"scratch: of a step of the machine"`
}

// permitRole is the role of a claim that asks for a permit, or for a limit to be set.
type permitRole struct {
	base.Shared
	of    *semaphore
	first core.Event
	waits bool `state:"exact: it is only told to people"` // its caller was told that it waits
}

// parsePermit lists what is wrong with a permit, before any request.
func (b *pending) parsePermit(ev *core.Event) error {
	f, code := "", core.ErrorConfig
	require := func(ok bool, text string) {
		if !ok && f != "" {
			f += "; "
		}
		if !ok {
			f += text
		}
	}
	require(b.terms.Label == "", "terms: a permit's label is that of its command")
	require(b.query.Protocol == 0 || b.query.Protocol == core.ProtocolStrict, "protocol: only strict has semaphores; leave it out")
	first := core.Event{Kind: core.EventLimit, Permit: ev.Claim, StoreLimit: ev.StoreLimit}
	if ev.Kind == core.EventLimit {
		b.wait = core.Forever
		require(ev.StoreLimit <= core.MaxCapacity*core.MaxWidth, "limit: more than the largest view has room for")
	} else {
		first = core.Event{
			Kind: core.EventAcquire, Permit: ev.Claim, Wait: ev.Wait, Label: append([]byte(nil), ev.Label...),
			Capacity: ev.Capacity, Width: ev.Width, Weight: ev.Weight, Spare: ev.Spare,
		}
		require(core.IsView(ev.Capacity, ev.Width), "capacity must be from 1 to "+strconv.FormatUint(core.MaxCapacity, 10)+
			" and width from 1 to "+strconv.FormatUint(core.MaxWidth, 10))
		require(len(ev.Label) <= core.MaxLabel && octets.IsPrintable(string(ev.Label)), "label: at most 128 printable bytes")
		need, most := uint64(max(1, ev.Weight))+uint64(ev.Spare), uint64(ev.Capacity)*uint64(ev.Width)
		isHeavy := need > most && most != 0
		if isHeavy && f == "" {
			code = core.ErrorTooHeavy
		}
		require(!isHeavy, "weight and spare "+strconv.FormatUint(need, 10)+": more than the "+strconv.FormatUint(most, 10)+
			" of capacity x width, so there is never room")
	}
	b.machine, b.query.Protocol, b.query.Use = core.MachineSemaphore, core.ProtocolStrict, resolve.Semaphore
	b.terms.OnSession, b.terms.Label = true, ""
	b.as = &permitRole{first: first}
	if f != "" {
		return &core.Error{Code: code, Text: f}
	}
	return nil
}

// begin implements role.
func (p *permitRole) begin(c *Client, cl *claim) {
	b := cl.pending
	cfg := machineConfig(&c.cfg, core.MachineSemaphore, core.ProtocolStrict, &b.terms)
	p.of = c.semaphoreOf(cl.name, &cfg, p.isLimit())
	cl.pending = nil
	cl.state.become(claimAsking)
	if p.first.Wait > 0 {
		p.first.Wait = b.wait // what is left of it
	}
	s := p.of
	s.asks = append(s.asks, cl)
	s.unit.step(c, p.first)
	p.first = core.Event{Kind: p.first.Kind}
	if s.wants() && !s.unit.gone {
		s.session.open(c)
	}
}

func (p *permitRole) isLimit() bool { return p.first.Kind == core.EventLimit }

// semaphoreOf is the semaphore that a permit is asked of, made if need be. A limit is set
// by any machine of the name.
func (c *Client) semaphoreOf(n *nameState, cfg *core.Config, limit bool) *semaphore {
	for _, s := range n.semaphores {
		if limit || s.ttl == cfg.TTL && s.margin == cfg.Margin {
			return s
		}
	}
	m, err := c.machine(*cfg)
	if err != nil {
		panic("mopslock: core: client: " + err.Error()) // its terms were checked
	}
	s := &semaphore{name: n, ttl: cfg.TTL, margin: cfg.Margin, session: c.sessionFor(cfg.TTL, cfg.Margin)}
	s.unit = &unit{machine: m, owner: s}
	n.semaphores = append(n.semaphores, s)
	c.semaphores = append(c.semaphores, s)
	s.session.attach(c)
	return s
}

// hear implements owner.
func (s *semaphore) hear(c *Client, _ *unit, a *core.Action) {
	if a.Kind == core.ActionWarned {
		c.outbox.Carry(a)
		return
	}
	if a.Observed != nil {
		s.seen = a.Observed
	}
	cl, _ := c.claim(a.Permit)
	if a.Kind == core.ActionLeft || cl == nil {
		return
	}
	if a.Kind != core.ActionWaiting && a.Kind != core.ActionHeld {
		s.asks = without(s.asks, cl)
	}
	told := *a
	told.Permit, told.Claim, told.Protocol = 0, cl.number, core.ProtocolStrict
	if a.Kind == core.ActionWaiting {
		cl.as.(*permitRole).waits = true
	}
	switch {
	case a.Kind == core.ActionHeld:
		cl.state.hold()
		cl.at = a.At
		if a.Session == s.session.id {
			cl.on = s.session.number
		}
		told.On = cl.on
	case a.Kind == core.ActionWaiting || a.Reason == core.ReasonFull || a.Reason == core.ReasonCrowded:
		told.Observed = s.seen
	case a.Kind == core.ActionReleased || a.Kind == core.ActionLimited:
		for _, other := range s.name.semaphores { // our own machine knows
			if other != s {
				c.post(job{unit: other.unit, kind: core.EventChanged})
			}
		}
	}
	if a.Kind == core.ActionWaiting || a.Kind == core.ActionHeld {
		c.outbox.Carry(&told)
		return
	}
	cl.ended(c, &told)
	cl.remove(c)
}

// stepped implements owner: what is waited for is watched.
func (s *semaphore) stepped(c *Client, u *unit) {
	s.seen = nil
	m := u.machine
	if key, looks := m.WatchKey(); !looks {
		u.watch(c, key)
	}
	switch {
	case m.Idle():
		s.forget(c)
	case s.IsArmed() && !s.isTidying():
		c.alarms.Arm(&s.Alarm, s, c.now.Mono)
	case s.missed && m.IsWaiting():
		s.missed = false
		c.post(job{unit: u, kind: core.EventChanged})
	}
}

// leave gives all back when the client closes. Superseded versions that are being removed
// have their time before, as a lease's have.
func (s *semaphore) leave(c *Client) {
	at := c.now.Mono
	if s.isTidying() {
		at += int64(tidyPatience)
	}
	c.alarms.Arm(&s.Alarm, s, at)
}

// onAlarm implements alarmHandler.
func (s *semaphore) onAlarm(c *Client) { s.unit.step(c, core.Event{Kind: core.EventLeave}) }

// isTidying reports whether the request under way is of a removal: nothing else is asked
// while there is no work.
func (s *semaphore) isTidying() bool {
	return s.unit.machine.IsTidying()
}

// looksAgain reports whether the newest that asks for a permit was told that it waits, as all before it.
func (s *semaphore) looksAgain() (again bool) {
	for _, cl := range s.asks {
		if !cl.state.isHeld() {
			again = cl.as.(*permitRole).waits
		}
	}
	return again
}

func (s *semaphore) forget(c *Client) {
	c.alarms.Disarm(&s.Alarm)
	s.unit.drop(c)
	s.session.detach(c)
	s.name.semaphores = without(s.name.semaphores, s)
	c.semaphores = without(c.semaphores, s)
	c.forgetIfUnused(s.name)
}

// hint notes a change that is told while nobody waits: a look may be under way.
func (s *semaphore) hint() {
	if !s.unit.machine.IsWaiting() {
		s.missed = true
	}
}

// wants implements sessionUser: a permit is waited for, and needs a session to stand on.
func (s *semaphore) wants() bool { return slices.ContainsFunc(s.asks, wantsSession) }

func wantsSession(cl *claim) bool { return cl.wants() && !cl.as.(*permitRole).isLimit() }

// onChange implements sessionUser.
func (s *semaphore) onChange(c *Client) { c.post(job{unit: s.unit, kind: core.EventWoke}) }

// refuseSession implements sessionUser.
func (s *semaphore) refuseSession(c *Client, class core.Class) {
	for _, cl := range s.asks {
		if wantsSession(cl) {
			cl.refuseSession(c, class)
		}
	}
}

// hear implements role. The semaphore hears for all.
func (p *permitRole) hear(*Client, *claim, *core.Action) {}

// stepped implements role.
func (p *permitRole) stepped(*Client, *claim) {}

// command implements role: whatever has become of it by now, it is given back.
func (p *permitRole) command(c *Client, cl *claim, o order) {
	if o.kind != core.EventEnded {
		p.of.unit.step(c, core.Event{Kind: core.EventRelease, Permit: cl.number})
	}
}

// stop implements role. The semaphore gives all back at once when the client closes.
func (p *permitRole) stop() core.EventKind { return 0 }
