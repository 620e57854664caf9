package simulate

import (
	"slices"
	"strconv"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/tests/explore/check"
)

// role is what an actor is there for.
type role uint8

const (
	roleOrchestrator role = iota // acquires, holds, releases
	roleCompanion                // keeps somebody's tenure alive
	roleBreaker                  // breaks a name now and then
	roleObserver                 // looks at one
)

// phase is where an actor stands in its script.
type phase uint8

const (
	phaseThinking phase = iota
	phaseWaiting
	phaseHolding
	phaseEnding
)

// slot is one actor: a script that is played again and again in one process.
type slot struct {
	number  int
	role    role
	process *process
	phase   phase
	turn    uint32 // what was scheduled before counts no more
	unit    *unit

	tenure string // of a companion: whose
	name   string
	epoch  core.Epoch

	turns int
}

// next schedules the actor's next move.
func (w *world) next(s *slot, after int64) {
	s.turn++
	w.queue.push(item{at: w.now + after, kind: occasionScript, slot: s, turn: s.turn, process: s.process})
}

// play makes the actor's next move.
func (w *world) play(s *slot) {
	switch {
	case s.phase == phaseThinking && s.role == roleOrchestrator:
		w.begin(s)
	case s.phase == phaseThinking:
		w.beginOther(s)
	case s.phase == phaseWaiting:
		w.depart(s, core.EventCancel)
	case s.phase == phaseHolding && s.role == roleCompanion:
		w.depart(s, core.EventLeave)
	case s.phase == phaseHolding:
		if w.opts.Weather == Orderly && w.opts.Protocol == core.ProtocolLastWriter && w.accompanied(s) {
			w.next(s, int64(w.life)/4) // it releases only once its remote has ended
			return
		}
		w.depart(s, core.EventRelease)
	}
}

// depart ends an actor's part by its own wish. It relies on nothing from here on.
func (w *world) depart(s *slot, kind core.EventKind) {
	s.phase = phaseEnding
	u := s.unit
	w.stop(u, kind.String())
	if u.pool != nil {
		w.tell(u.pool, core.Event{Kind: kind, Permit: u.permit.Number})
		return
	}
	if kind != core.EventLeave {
		w.dismiss(u.claim.Tenure)
	}
	if kind == core.EventLeave && u.kind == core.MachineLease {
		kind = core.EventRelease
	}
	w.tell(u, core.Event{Kind: kind})
}

// begin starts an acquire.
func (w *world) begin(s *slot) {
	if w.calm && !w.opts.Once || w.opts.Once && s.turns > 0 {
		return
	}
	c := w.chance
	if w.opts.Shared {
		w.ask(s, w.names[c.below(uint64(len(w.names)))], w.drawAsk())
		if s.phase == phaseWaiting && !w.opts.Once && c.oneIn(8) {
			w.next(s, c.upTo(3*int64(w.life))) // then it cancels
		}
		return
	}
	wait, cancel := core.Forever, false
	if !w.opts.Once {
		switch c.below(8) {
		case 0:
			wait = 0
		case 1, 2:
			wait = time.Duration(c.upTo(3 * int64(w.life)))
		case 3:
			cancel = true
		}
	}
	u := w.newUnit(s.process, core.Config{Machine: core.MachineLease, Name: w.names[c.below(uint64(len(w.names)))]})
	if u == nil {
		return
	}
	s.unit, s.phase, u.slot = u, phaseWaiting, s
	u.waiting, u.waitSince = true, w.now
	w.stats.waits(u)
	if cancel {
		w.next(s, c.upTo(3*int64(w.life)))
	}
	if u.onSession {
		w.openSession(s.process)
	}
	w.tell(u, core.Event{Kind: core.EventAcquire, Wait: wait})
}

// served: a lease or a companion holds.
func (w *world) served(u *unit) {
	s := u.slot
	if s == nil || s.unit != u || s.phase == phaseEnding {
		return
	}
	w.progress = w.now
	first := u.waiting
	w.stats.held(w, u)
	if s.phase == phaseHolding {
		return // a companion that had lost contact
	}
	s.phase = phaseHolding
	stay := w.chance.exponential(int64(w.opts.Hold))
	if w.calm {
		stay = min(stay, int64(w.life)/4)
	}
	w.next(s, stay)
	if first && s.role == roleOrchestrator {
		s.turns++
		w.invite(u)
	}
}

// invite sends for a companion, which comes when it likes: a delayed remote.
func (w *world) invite(u *unit) {
	if w.calm || len(w.companions) == 0 || !w.chance.oneIn(2) {
		return
	}
	s := w.companions[w.chance.below(uint64(len(w.companions)))]
	if s.unit != nil || s.tenure != "" || s.process.dead {
		return
	}
	s.tenure, s.name, s.epoch = u.claim.Tenure, u.name, u.claim.Epoch
	w.next(s, w.chance.upTo(int64(w.life)))
}

func (w *world) accompanied(s *slot) bool {
	return slices.ContainsFunc(w.companions, func(other *slot) bool { return other.tenure == s.unit.claim.Tenure })
}

// dismiss: in an orderly world no remote starts after its orchestrator has released.
func (w *world) dismiss(tenure string) {
	if w.opts.Weather != Orderly {
		return
	}
	for _, s := range w.companions {
		if s.tenure == tenure && s.unit == nil {
			s.tenure = ""
			s.turn++
		}
	}
}

// beginOther starts what a companion, a breaker or an observer does.
func (w *world) beginOther(s *slot) {
	// Without a TTL only a break frees what a crash has left.
	needed := s.role == roleBreaker && w.opts.TTL < 0 && w.stats.waiting > 0
	if w.calm && !needed {
		s.tenure = ""
		return
	}
	cfg := core.Config{Name: w.names[w.chance.below(uint64(len(w.names)))]}
	ev := core.Event{Kind: core.EventBegin}
	switch s.role {
	case roleCompanion:
		if s.tenure == "" {
			return // nobody has sent for it
		}
		cfg = core.Config{Machine: core.MachineCompanion, Name: s.name, Holder: core.HolderID(s.tenure), Epoch: s.epoch}
		ev.Kind = core.EventAccompany
	case roleBreaker:
		cfg.Machine, cfg.Why = core.MachineRevocation, "seed "+strconv.FormatUint(w.opts.Seed, 10)
	default:
		cfg.Machine = core.MachineInspection
	}
	u := w.newUnit(s.process, cfg)
	if u == nil {
		return
	}
	s.unit, u.slot, s.phase = u, s, phaseEnding
	if s.role == roleCompanion {
		s.phase = phaseHolding // it leaves when it likes, joined or not
		w.next(s, w.chance.exponential(2*int64(w.opts.Hold)))
	}
	w.tell(u, ev)
}

// over: the actor's machine has ended.
func (w *world) over(s *slot) {
	s.unit, s.phase, s.tenure = nil, phaseThinking, ""
	s.turn++
	switch s.role {
	case roleOrchestrator:
		w.next(s, w.chance.exponential(int64(w.opts.Think)))
		w.closeSession(s.process)
	case roleCompanion: // waits to be sent for
	default:
		w.next(s, w.chance.exponential(2*int64(w.life)))
	}
}

// settle ends the faults: no actor starts anything, companions and breakers go,
// and what is held is released before long.
func (w *world) settle() {
	w.calm, w.calmAfter, w.progress = true, w.events, w.now
	for _, p := range w.processes {
		for _, s := range p.slots {
			if s.role == roleCompanion && s.unit != nil && s.phase == phaseHolding {
				w.next(s, 0)
			}
			if s.role == roleOrchestrator && s.phase == phaseHolding {
				w.next(s, w.chance.upTo(int64(w.life)/4))
			}
		}
		if !p.dead {
			w.queue.push(item{at: max(w.now, p.pausedUntil), kind: occasionCalm, process: p})
		}
	}
}

// starving looks for an actor that waits without limit while none gets anything.
func (w *world) starving() {
	for _, p := range w.processes {
		for _, u := range p.units {
			if u.waiting {
				w.checker.Found(w.now, check.Waiter(u.label, u.machine.String(), false), u.name)
			}
			for _, permit := range u.permits {
				if permit.waiting && w.newcome {
					w.checker.Found(w.now, check.Newcomer(permit.label, u.machine.String(), false), u.name)
				} else if permit.waiting {
					w.checker.Found(w.now, check.Waiter(permit.label, u.machine.String(), false), u.name)
				}
			}
		}
	}
}
