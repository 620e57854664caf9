package simulate

import (
	"slices"
	"strconv"

	"github.com/mopslock/mopslock/core"
)

// openSession makes the process's session, if it has none.
func (w *world) openSession(p *process) {
	if p.session != nil {
		return
	}
	p.session = w.newUnit(p, core.Config{Machine: core.MachineSession})
	if p.session != nil {
		w.afterwards(p.session, core.Event{Kind: core.EventBegin})
	}
}

// heedSession takes what a session says. Its leases are told of another session
// at once, and of a renewal not at all: that is what makes them cost nothing.
func (w *world) heedSession(u *unit, a *core.Action) {
	p := u.process
	switch a.Kind {
	case core.ActionHeld:
		p.sid, p.until = string(a.Holder), a.At
		w.tellLeases(p)
	case core.ActionRenewed:
		p.until = a.At
		for _, other := range p.units {
			if other.session == p.sid || other.kind == core.MachineSemaphore {
				w.settleBelief(other)
			}
		}
	case core.ActionLost:
		p.sid, p.until, p.end, p.session = "", 0, a.Reason, nil
		w.stats.losses["session "+a.Reason.String()]++
		w.ended(u)
		w.tellLeases(p)
		if w.needsSession(p) {
			w.openSession(p)
		}
	case core.ActionLeft, core.ActionRefused, core.ActionReleased:
		if p.session == u {
			p.sid, p.until, p.session = "", 0, nil
		}
		w.ended(u)
		if w.needsSession(p) {
			w.openSession(p)
		}
	}
}

func (w *world) tellLeases(p *process) {
	for _, other := range p.units {
		if other.onSession {
			w.afterwards(other, core.Event{Kind: core.EventWoke})
		}
	}
}

func (w *world) needsSession(p *process) bool {
	return slices.ContainsFunc(p.units, func(u *unit) bool { return u.onSession })
}

// closeSession ends a session that nothing stands on, once no actor starts anything.
func (w *world) closeSession(p *process) {
	w.leave(p)
	if w.calm && p.session != nil && !w.needsSession(p) {
		w.afterwards(p.session, core.Event{Kind: core.EventLeave})
	}
}

// sampleStoreClock takes a sample of the store's clock, at most one in a minute.
func (w *world) sampleStoreClock(p *process) {
	mono := p.computer.mono(w.now)
	if w.expiry == core.ExpiryObserved || p.asked != 0 && mono-p.asked < int64(core.SampleEach) {
		return
	}
	p.asked = mono
	if u := w.newUnit(p, core.Config{Machine: core.MachineStoreClockSample}); u != nil {
		w.afterwards(u, core.Event{Kind: core.EventBegin})
	}
}

// start begins a process's life.
func (w *world) start(p *process) {
	w.lives++
	p.dead = false
	p.life = life{
		owner: "p" + strconv.Itoa(w.lives), last: map[string]release{},
	}
	for _, s := range p.slots {
		w.next(s, w.chance.upTo(int64(w.opts.Think)))
	}
}

// crash ends it without a word. What it sent is still on its way.
func (w *world) crash(p *process) {
	p.dead = true
	for _, u := range p.units {
		u.crashed = true
		w.stop(u, "crashed")
		w.stats.waitOver(w, u)
		for _, permit := range u.permits {
			w.stop(permit, "crashed")
			w.stats.waitOver(w, permit)
		}
	}
	for _, s := range p.slots {
		s.turn++
		s.unit, s.phase, s.tenure = nil, phaseThinking, ""
	}
	p.life = life{}
}
