package simulate

import (
	"strconv"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/tests/explore/check"
)

// For the shared semaphore each process has a session and one semaphore machine for
// each name, its pool; what an actor asks of it is a permit, which has a unit of its
// own, without a machine.

// shared is what a pool keeps beside its machine, and a permit in place of one.
type shared struct {
	desk    check.Desk
	permits []*unit // of a pool: asked for and not ended, in order
	numbers uint64  // that were given
	leaving bool

	pool   *unit // of a permit
	permit check.Permit
}

// pool is the process's semaphore machine of a name.
func (w *world) pool(p *process, name string) *unit {
	for _, u := range p.units {
		if u.kind == core.MachineSemaphore && u.name == name && !u.leaving {
			return u
		}
	}
	return w.newUnit(p, core.Config{Machine: core.MachineSemaphore, Name: name})
}

// drawAsk draws what an actor asks for. Views differ: one may have seen a back-end
// more than another.
func (w *world) drawAsk() core.Event {
	c, o := w.chance, &w.opts
	ev := core.Event{Kind: core.EventAcquire, Capacity: uint32(o.Capacity), Width: uint32(o.Width), Wait: core.Forever}
	if o.Once {
		return ev
	}
	if c.oneIn(3) {
		ev.Width += uint32(c.below(2))
	}
	if c.oneIn(4) {
		ev.Weight = uint32(c.between(1, int64(o.Capacity*o.Width)))
	}
	if most := uint32(o.Capacity*o.Width) - max(ev.Weight, 1); most > 0 && c.oneIn(6) {
		ev.Spare = uint32(c.between(1, int64(most)))
	}
	switch c.below(8) {
	case 0:
		ev.Wait = 0
	case 1:
		ev.Wait = core.Duration(c.upTo(3 * int64(w.life)))
	}
	return ev
}

// ask begins an actor's turn: it asks for a permit of a name.
func (w *world) ask(s *slot, name string, ev core.Event) {
	p := s.process
	pool := w.pool(p, name)
	if pool == nil {
		return
	}
	pool.numbers++
	ev.Permit = pool.numbers
	ev.Label = strconv.AppendUint([]byte(p.owner+"."), ev.Permit, 10)
	u := &unit{
		process: p, label: "permit " + string(ev.Label), name: name, slot: s,
		kind: core.MachineLease, // what is measured of a lease is measured of it
	}
	u.pool = pool
	u.permit = check.Permit{
		Actor: p.owner, Name: name, Number: ev.Permit, Weight: uint64(max(ev.Weight, 1)),
		Most: uint64(ev.Capacity)*uint64(ev.Width) - uint64(ev.Spare),
	}
	u.claim = check.Claim{Actor: u.label, Name: name}
	u.waiting, u.waitSince = true, w.now
	s.unit, s.phase = u, phaseWaiting
	pool.permits = append(pool.permits, u)
	pool.desk.Asked(ev.Permit)
	w.stats.waits(u)
	w.openSession(p)
	w.tell(pool, ev)
}

// heedPermit takes what a pool says of one permit.
func (w *world) heedPermit(pool *unit, a *core.Action) {
	for i, u := range pool.permits {
		if u.permit.Number != a.Permit {
			continue
		}
		switch a.Kind {
		case core.ActionHeld:
			u.permit.Told, u.session, u.believes = true, a.Session, true
			w.given(u)
		case core.ActionLost, core.ActionReleased, core.ActionRefused:
			pool.permits = append(pool.permits[:i:i], pool.permits[i+1:]...)
			w.permitOver(u, a)
		}
		return
	}
}

// given: a permit is held.
func (w *world) given(u *unit) {
	s := u.slot
	w.progress = w.now
	w.stats.held(w, u)
	if w.newcome && w.stats.waiting == 0 {
		for _, p := range w.processes {
			w.closeSession(p)
		}
	}
	if s.unit != u || s.phase != phaseWaiting {
		return
	}
	s.phase = phaseHolding
	s.turns++
	stay := w.chance.exponential(int64(w.opts.Hold))
	if w.chance.oneIn(4) { // short ones and long ones
		stay = w.chance.exponential(2 * int64(w.life))
	}
	if w.calm {
		stay = min(stay, int64(w.life)/4)
	}
	w.next(s, stay)
}

// permitOver: the last word on a permit was said.
func (w *world) permitOver(u *unit, a *core.Action) {
	switch a.Kind {
	case core.ActionLost:
		w.stats.losses[a.Reason.String()]++
	case core.ActionRefused:
		w.stats.refusals["permit "+a.Reason.String()]++
	}
	w.stop(u, a.Kind.String())
	w.stats.waitOver(w, u)
	if s := u.slot; s.unit == u {
		w.over(s)
	}
}

// settlePermits tells the checker what may be relied on after a Step of a pool, or a
// renewal of its session.
func (w *world) settlePermits(pool *unit) {
	p := pool.process
	for _, u := range pool.permits {
		if u.slot.unit == u && u.slot.phase == phaseEnding || u.permit.Told && u.session != p.sid {
			w.stop(u, "lost")
			continue
		}
		until := w.now
		if p.sid != "" {
			until = p.computer.trueAt(p.until)
		}
		u.permit.Session = p.sid
		w.checker.Observe(Fact{Kind: FactPermit, At: w.now, Until: until, Claim: u.claim, Permit: u.permit})
		if u.believes {
			w.holds.believes(u, w.now, until)
		}
	}
}

// stopPermit: a permit is not relied on any more.
func (w *world) stopPermit(u *unit, how string) {
	w.checker.Observe(Fact{Kind: FactPermitEnds, At: w.now, Claim: u.claim, Permit: u.permit})
	if u.believes {
		u.believes = false
		w.holds.stops(u, w.now)
		w.stats.stopped(w, u, how)
	}
}

// allOver reports whether no actor starts anything any more, and none asks or holds.
func (w *world) allOver() bool {
	if !w.calm || w.stats.waiting > 0 {
		return false
	}
	for _, p := range w.processes {
		for _, u := range p.units {
			if len(u.permits) > 0 {
				return false
			}
		}
		for _, s := range p.slots {
			if w.opts.Once && s.turns == 0 {
				return false
			}
		}
	}
	return true
}

// leave lets pools go that no actor uses, once newcomers have got all: until then every
// process that lives stays, with a session in force, and what it may have forgotten.
func (w *world) leave(p *process) {
	for _, u := range p.units {
		if w.newcome && w.stats.waiting == 0 && u.kind == core.MachineSemaphore && len(u.permits) == 0 && !u.leaving {
			u.leaving = true
			w.afterwards(u, core.Event{Kind: core.EventLeave})
		}
	}
}

// newcomers come when all is over: each wants all of a name, and must get it.
func (w *world) newcomers() {
	w.say("all is over, and newcomers want all that there is")
	p := &process{number: len(w.processes), computer: w.processes[0].computer, onSession: true}
	w.processes = append(w.processes, p)
	w.start(p)
	w.progress = w.now
	for _, name := range w.names {
		s := &slot{number: 0, process: p}
		p.slots = append(p.slots, s)
		w.ask(s, name, core.Event{
			Kind: core.EventAcquire, Capacity: uint32(w.opts.Capacity), Width: uint32(w.opts.Width),
			Weight: uint32(w.opts.Capacity * w.opts.Width), Wait: core.Forever,
		})
	}
	w.newcome = true
}
