package client

import "github.com/mopslock/mopslock/core"

// twins says of which object of a client each object of its copy is the twin.
type twins struct {
	of       *Client
	units    map[*unit]*unit
	claims   map[*claim]*claim
	sessions map[*session]*session
	shared   map[*semaphore]*semaphore
	watches  map[*watch]*watch
	queued   map[*queued]*queued
	errands  map[*errand]*errand
	delays   map[*delay]*delay
}

// Clone implements core.Machine.
func (c *Client) Clone() core.Machine {
	twin := *c
	t := &twins{
		of: &twin, units: map[*unit]*unit{}, claims: map[*claim]*claim{}, sessions: map[*session]*session{}, shared: map[*semaphore]*semaphore{},
		watches: map[*watch]*watch{}, queued: map[*queued]*queued{}, errands: map[*errand]*errand{}, delays: map[*delay]*delay{},
	}
	twin.out, twin.arena = make([]core.Action, 0, mostActions), nil
	twin.claims = make(map[uint64]*claim, len(c.claims))
	twin.places = make(map[string]*place, len(c.places))
	for name, p := range c.places {
		other := *p
		other.claims, other.semaphores = nil, nil
		twin.places[name] = &other
	}
	for number, cl := range c.claims {
		twin.claims[number] = t.claim(cl)
	}
	for name, p := range c.places {
		other := twin.places[name]
		other.claims = t.list(p.claims)
		for _, s := range p.semaphores {
			other.semaphores = append(other.semaphores, t.semaphore(s))
		}
	}
	twin.released = append([]string(nil), c.released...)
	twin.watched = make(map[string]*watch, len(c.watched))
	for key, w := range c.watched {
		twin.watched[key] = t.watch(w)
	}
	twin.sessions = make([]*session, len(c.sessions))
	for i, s := range c.sessions {
		twin.sessions[i] = t.session(s)
	}
	t.requests(&twin.requests)
	twin.store.asking, twin.store.waiting = t.unit(c.store.asking), t.list(c.store.waiting)
	twin.clock.unit = t.unit(c.clock.unit)
	twin.clock.askers = nil
	for _, u := range c.clock.askers {
		twin.clock.askers = append(twin.clock.askers, t.unit(u))
	}
	twin.errands = nil
	for _, e := range c.errands {
		twin.errands = append(twin.errands, t.errand(e))
	}
	twin.todo = nil
	for _, j := range c.todo {
		j.unit, j.claim = t.unit(j.unit), t.claim(j.claim)
		twin.todo = append(twin.todo, j)
	}
	twin.alarms = make(alarms, len(c.alarms))
	for i, a := range c.alarms {
		twin.alarms[i] = t.alarm(a)
	}
	return &twin
}

func (t *twins) list(all []*claim) (twin []*claim) {
	for _, cl := range all {
		twin = append(twin, t.claim(cl))
	}
	return twin
}

func (t *twins) claim(cl *claim) *claim {
	if cl == nil {
		return nil
	}
	if t.claims[cl] == nil {
		twin := *cl
		t.claims[cl] = &twin
		twin.as = cl.as.copy(t)
		twin.place = t.of.places[cl.place.name]
		twin.session = t.session(cl.session)
		twin.unit = t.unit(cl.unit)
		twin.delay = t.delay(cl.delay)
		if cl.handover != nil {
			seen := *cl.handover
			twin.handover = &seen
		}
		if cl.asked != nil {
			asked := *cl.asked
			asked.as = twin.as
			twin.asked = &asked
		}
		twin.watches = nil
		for _, w := range cl.watches {
			twin.watches = append(twin.watches, t.watch(w))
		}
	}
	return t.claims[cl]
}

func (t *twins) unit(u *unit) *unit {
	if u == nil {
		return nil
	}
	if t.units[u] == nil {
		twin := *u
		t.units[u] = &twin
		twin.machine = u.machine.Clone()
		twin.rings = &twin
		twin.owner = t.owner(u.owner)
	}
	return t.units[u]
}

func (t *twins) owner(o owner) owner {
	switch o := o.(type) {
	case *claim:
		return t.claim(o)
	case *asking:
		return (*asking)(t.claim((*claim)(o)))
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

func (t *twins) session(s *session) *session {
	if s == nil {
		return nil
	}
	if t.sessions[s] == nil {
		twin := *s
		t.sessions[s] = &twin
		twin.rings = &twin
		twin.unit = t.unit(s.unit)
		twin.call = t.watch(s.call)
		twin.stands = nil
		for _, on := range s.stands {
			twin.stands = append(twin.stands, t.stander(on))
		}
	}
	return t.sessions[s]
}

func (t *twins) stander(on stander) stander {
	if s, ok := on.(*semaphore); ok {
		return t.semaphore(s)
	}
	return t.claim(on.(*claim))
}

func (t *twins) semaphore(s *semaphore) *semaphore {
	if s == nil {
		return nil
	}
	if t.shared[s] == nil {
		twin := *s
		t.shared[s] = &twin
		twin.place = t.of.places[s.place.name]
		twin.unit, twin.session, twin.watched = t.unit(s.unit), t.session(s.session), t.watch(s.watched)
		twin.asks = t.list(s.asks)
	}
	return t.shared[s]
}

func (t *twins) watch(w *watch) *watch {
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

func (t *twins) delay(d *delay) *delay {
	if d == nil {
		return nil
	}
	if t.delays[d] == nil {
		twin := *d
		t.delays[d] = &twin
		twin.rings = &twin
		twin.claim = t.claim(d.claim)
	}
	return t.delays[d]
}

func (t *twins) errand(e *errand) *errand {
	if t.errands[e] == nil {
		twin := *e
		t.errands[e] = &twin
		twin.rings = &twin
	}
	return t.errands[e]
}

func (t *twins) waits(q *queued) *queued {
	if q == nil {
		return nil
	}
	if t.queued[q] == nil {
		twin := *q
		t.queued[q] = &twin
		twin.rings = &twin
	}
	return t.queued[q]
}

func (t *twins) requests(r *requests) {
	table := make([]flight, len(r.table))
	for i, f := range r.table {
		f.unit, f.queued = t.unit(f.unit), t.waits(f.queued)
		table[i] = f
	}
	r.table = table
	for lane := range r.ready {
		var ready []*queued
		for _, q := range r.ready[lane] {
			ready = append(ready, t.waits(q))
		}
		r.ready[lane] = ready
	}
}

// alarm is the twin of an alarm: that of what it is embedded in.
func (t *twins) alarm(a *alarm) *alarm {
	switch of := a.rings.(type) {
	case *unit:
		return &t.unit(of).alarm
	case *session:
		return &t.session(of).alarm
	case *delay:
		return &t.delay(of).alarm
	case *errand:
		return &t.errand(of).alarm
	default:
		return &t.waits(of.(*queued)).alarm
	}
}
