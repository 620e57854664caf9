package client

import (
	"slices"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/alarms"
	"github.com/mopslock/mopslock/core/internal/base"
	"github.com/mopslock/mopslock/core/internal/outbox"
)

// AppendState implements core.Machine.
func (c *Client) AppendState(dst []byte) []byte {
	s := core.StateWriter{Out: append(dst, uint8(core.MachineClient))}
	s.Bools(c.more, c.closing, c.served, c.closed, c.store.warned)
	c.store.reach.WriteState(&s)
	c.rng.WriteState(&s)
	s.Int(c.now.Mono)
	s.Int(c.now.Wall)
	s.Uint(c.last)
	s.Uint(c.sessionSerial)
	s.Octet(uint8(c.store.creates))
	s.Text(c.store.seen)
	s.Text(c.store.own)
	snapshotUnit(&s, c.store.asking)
	snapshotClaims(&s, c.store.waiting)
	s.Int(c.clock.stamp)
	s.Int(c.clock.at)
	s.Int(c.clock.begun)
	s.Text(c.clock.owner)
	snapshotUnit(&s, c.clock.unit)
	for _, u := range c.clock.askers {
		snapshotUnit(&s, u)
	}
	c.outbox.Snapshot(&s)
	for _, p := range c.namesInOrder() {
		p.snapshot(&s)
	}
	s.Int(int64(c.known.n))
	for p := c.known.oldest; p != nil; p = p.next {
		s.Text(p.text)
	}
	for cl := c.oldest; cl != nil; cl = cl.next {
		cl.snapshot(&s)
	}
	c.snapshotWatches(&s)
	for _, on := range c.sessions {
		on.snapshot(&s)
	}
	for _, e := range c.cleanups {
		s.Int(e.At)
		s.Text(e.action.Key)
	}
	s.Int(int64(c.tidying))
	c.snapshotAlarms(&s)
	for _, j := range c.todo {
		s.Octet(uint8(j.kind))
		s.Uint(uint64(j.epoch))
		s.Octet(uint8(j.reason))
		s.Octet(uint8(j.class))
		s.Bools(j.claim != nil)
		if j.claim != nil {
			s.Uint(j.claim.number)
		} else {
			snapshotUnit(&s, j.unit)
		}
	}
	return s.Out
}

// WriteState implements core.Machine.
func (c *Client) WriteState(w *core.StateWriter) { w.Bytes(c.AppendState(nil)) }

// snapshotWatches writes who is told of a change, in that order.
func (c *Client) snapshotWatches(s *base.Snapshot) {
	keys := make([]string, 0, len(c.watched))
	for key := range c.watched {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		w := c.watched[key]
		s.Text(key)
		s.Bools(w.begun)
		snapshotClaims(s, w.claims)
		for _, u := range w.units {
			snapshotUnit(s, u)
		}
	}
}

// snapshotAlarms writes what rings when, in that order.
func (c *Client) snapshotAlarms(s *base.Snapshot) {
	for _, a := range c.alarms.InOrder() {
		s.Int(a.At)
		switch of := a.Rings.(type) {
		case *unit:
			s.Uint(of.claim)
		case *session:
			s.Uint(of.number)
		case *semaphore:
			s.Text(of.name.text)
		case *delay:
			s.Uint(of.claim.number)
		case *outbox.Queued:
			s.Uint(of.ID())
		}
	}
}

func (c *Client) namesInOrder() []*nameState {
	all := make([]*nameState, 0, len(c.names))
	for _, p := range c.names {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b *nameState) int {
		if a.text < b.text {
			return -1
		}
		return 1
	})
	return all
}

func snapshotClaims(s *base.Snapshot, all []*claim) {
	s.Int(int64(len(all)))
	for _, cl := range all {
		s.Uint(cl.number)
	}
}

func snapshotUnit(s *base.Snapshot, u *unit) {
	s.Bools(u != nil)
	if u == nil {
		return
	}
	s.Bools(u.gone)
	u.Alarm.Snapshot(s)
	u.Sender.Snapshot(s)
	s.Bytes(u.machine.AppendState(nil))
}

func (r *remembered) snapshot(s *base.Snapshot) {
	s.Uint(uint64(r.epoch))
	s.Int(r.at)
	s.Int(r.looked)
}

func (p *nameState) snapshot(s *base.Snapshot) {
	s.Text(p.text)
	snapshotClaims(s, p.claims)
	for _, of := range p.semaphores {
		of.snapshot(s)
	}
	p.last.snapshot(s)
	s.Bools(p.isListed)
	s.Uint(p.kept)
}

func (cl *claim) snapshot(s *base.Snapshot) {
	s.Uint(cl.number)
	s.Octet(uint8(cl.state))
	s.Bools(cl.woken, cl.missed, cl.parked != nil)
	s.Octet(uint8(cl.protocol))
	s.Int(cl.looked)
	s.Uint(uint64(cl.epoch))
	s.Int(cl.at)
	s.Uint(cl.on)
	s.Int(cl.cappedAt)
	s.Int(int64(cl.calls))
	for _, w := range cl.watches {
		s.Text(w.key)
	}
	if s.Bools(cl.handover != nil); cl.handover != nil {
		cl.handover.snapshot(s)
	}
	if d := cl.delay; d != nil {
		s.Octet(uint8(d.kind))
		d.Alarm.Snapshot(s)
	}
	if b := cl.pending; b != nil {
		s.Octet(uint8(b.kind))
		s.Int(int64(b.wait))
		s.Int(b.at)
		b.query.Snapshot(s)
		b.last.snapshot(s)
		s.Uint(b.printed)
		s.Int(b.since)
		s.Bytes(core.AppendConfig(nil, &b.terms))
	}
	cl.as.snapshot(s)
	if cl.parked != nil {
		s.Bytes(cl.parked.Unpark().AppendState(nil))
		return
	}
	snapshotUnit(s, cl.unit)
}

func (on *session) snapshot(s *base.Snapshot) {
	s.Int(int64(on.ttl))
	s.Int(int64(on.margin))
	s.Uint(on.number)
	s.Text(on.id)
	s.Int(on.until)
	s.Octet(uint8(on.state))
	on.Alarm.Snapshot(s)
	s.Uint(on.calls)
	s.Octet(uint8(on.end))
	snapshotUnit(s, on.unit)
}

// copier knows the copy of each object of a client.
type copier struct {
	of       *Client
	units    map[*unit]*unit
	claims   map[*claim]*claim
	sessions map[*session]*session
	shared   map[*semaphore]*semaphore
	watches  map[*watch]*watch
	queued   map[*outbox.Queued]*outbox.Queued
	cleanups map[*cleanup]*cleanup
	delays   map[*delay]*delay
}

// Clone implements core.Machine.
func (c *Client) Clone() core.Machine {
	twin := *c
	t := &copier{
		of: &twin, units: map[*unit]*unit{}, claims: map[*claim]*claim{}, sessions: map[*session]*session{}, shared: map[*semaphore]*semaphore{},
		watches: map[*watch]*watch{}, cleanups: map[*cleanup]*cleanup{}, delays: map[*delay]*delay{},
	}
	twin.claims = make(map[uint64]*claim, len(c.claims))
	twin.names = make(map[string]*nameState, len(c.names))
	for name, p := range c.names {
		other := *p
		other.claims, other.semaphores, other.prev, other.next = nil, nil, nil, nil
		twin.names[name] = &other
	}
	twin.oldest, twin.newest, twin.semaphores = nil, nil, nil
	for cl := c.oldest; cl != nil; cl = cl.next {
		other := t.claim(cl)
		twin.claims[cl.number] = other
		twin.append(other)
	}
	for _, s := range c.semaphores {
		twin.semaphores = append(twin.semaphores, t.semaphore(s))
	}
	for name, p := range c.names {
		other := twin.names[name]
		other.claims = t.list(p.claims)
		for _, s := range p.semaphores {
			other.semaphores = append(other.semaphores, t.semaphore(s))
		}
	}
	twin.known = rememberedNames{}
	for p := c.known.oldest; p != nil; p = p.next {
		twin.known.add(twin.names[p.text])
	}
	twin.watched = make(map[string]*watch, len(c.watched))
	for key, w := range c.watched {
		twin.watched[key] = t.watch(w)
	}
	twin.sessions = make([]*session, len(c.sessions))
	for i, s := range c.sessions {
		twin.sessions[i] = t.session(s)
	}
	twin.outbox, t.queued = c.outbox.Clone(&twin.alarms, t.sender)
	twin.store.asking, twin.store.waiting = t.unit(c.store.asking), t.list(c.store.waiting)
	twin.clock.unit = t.unit(c.clock.unit)
	twin.clock.askers = nil
	for _, u := range c.clock.askers {
		twin.clock.askers = append(twin.clock.askers, t.unit(u))
	}
	twin.cleanups = nil
	for _, e := range c.cleanups {
		twin.cleanups = append(twin.cleanups, t.cleanup(e))
	}
	twin.todo = nil
	for _, j := range c.todo {
		j.unit, j.claim = t.unit(j.unit), t.claim(j.claim)
		twin.todo = append(twin.todo, j)
	}
	twin.alarms = c.alarms.Clone(t.alarm)
	return &twin
}

func (t *copier) list(all []*claim) (twin []*claim) {
	for _, cl := range all {
		twin = append(twin, t.claim(cl))
	}
	return twin
}

func (t *copier) claim(cl *claim) *claim {
	if cl == nil {
		return nil
	}
	if t.claims[cl] == nil {
		twin := *cl
		t.claims[cl] = &twin
		twin.next, twin.prev = nil, nil
		twin.as = cl.as.copy(t)
		twin.name = t.of.names[cl.name.text]
		twin.session = t.session(cl.session)
		twin.unit = t.unit(cl.unit)
		twin.delay = t.delay(cl.delay)
		if cl.handover != nil {
			seen := *cl.handover
			twin.handover = &seen
		}
		if cl.pending != nil {
			asked := *cl.pending
			asked.as = twin.as
			twin.pending = &asked
		}
		twin.watches = nil
		for _, w := range cl.watches {
			twin.watches = append(twin.watches, t.watch(w))
		}
	}
	return t.claims[cl]
}

func (t *copier) unit(u *unit) *unit {
	if u == nil {
		return nil
	}
	if t.units[u] == nil {
		twin := *u
		t.units[u] = &twin
		twin.machine = u.machine.Clone().(base.Reporting)
		twin.Rings = &twin
		twin.owner = t.owner(u.owner)
	}
	return t.units[u]
}

func (t *copier) owner(o owner) owner {
	switch o := o.(type) {
	case *claim:
		return t.claim(o)
	case *existsQuery:
		return (*existsQuery)(t.claim((*claim)(o)))
	case *yielding:
		return (*yielding)(t.claim((*claim)(o)))
	case *session:
		return t.session(o)
	case *semaphore:
		return t.semaphore(o)
	case *abilities:
		return &t.of.store
	default:
		return &t.of.clock
	}
}

func (t *copier) session(s *session) *session {
	if s == nil {
		return nil
	}
	if t.sessions[s] == nil {
		twin := *s
		t.sessions[s] = &twin
		twin.Rings = &twin
		twin.unit = t.unit(s.unit)
		twin.call = t.watch(s.call)
	}
	return t.sessions[s]
}

func (t *copier) semaphore(s *semaphore) *semaphore {
	if s == nil {
		return nil
	}
	if t.shared[s] == nil {
		twin := *s
		t.shared[s] = &twin
		twin.name, twin.Rings = t.of.names[s.name.text], &twin
		twin.unit, twin.session, twin.watched = t.unit(s.unit), t.session(s.session), t.watch(s.watched)
		twin.asks = t.list(s.asks)
	}
	return t.shared[s]
}

func (t *copier) watch(w *watch) *watch {
	if w == nil {
		return nil
	}
	if t.watches[w] == nil {
		twin := *w
		t.watches[w] = &twin
		twin.claims = t.list(w.claims)
		twin.units = nil
		for _, u := range w.units {
			twin.units = append(twin.units, t.unit(u))
		}
	}
	return t.watches[w]
}

func (t *copier) delay(d *delay) *delay {
	if d == nil {
		return nil
	}
	if t.delays[d] == nil {
		twin := *d
		t.delays[d] = &twin
		twin.Rings = &twin
		twin.claim = t.claim(d.claim)
	}
	return t.delays[d]
}

func (t *copier) cleanup(e *cleanup) *cleanup {
	if t.cleanups[e] == nil {
		twin := *e
		t.cleanups[e] = &twin
		twin.Rings = &twin
	}
	return t.cleanups[e]
}

func (t *copier) sender(of outbox.Owner) outbox.Owner {
	switch of := of.(type) {
	case *unit:
		return t.unit(of)
	default:
		return t.cleanup(of.(*cleanup))
	}
}

// alarm is the copy of an alarm: that of what it is embedded in.
func (t *copier) alarm(a *alarms.Alarm) *alarms.Alarm {
	switch of := a.Rings.(type) {
	case *unit:
		return &t.unit(of).Alarm
	case *session:
		return &t.session(of).Alarm
	case *semaphore:
		return &t.semaphore(of).Alarm
	case *delay:
		return &t.delay(of).Alarm
	case *cleanup:
		return &t.cleanup(of).Alarm
	default:
		return &t.queued[of.(*outbox.Queued)].Alarm
	}
}
