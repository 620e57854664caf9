package main

import (
	"fmt"
	"time"

	"github.com/mopslock/mopslock/core"
)

// phase is where a slot stands.
type phase uint8

const (
	phaseIdle phase = iota
	phaseProbing
	phaseWaiting // its machine acquires
	phaseHolding
	phaseReleasing
)

// slot is what an orchestrator wants of one name at a time: to hold it for a while,
// or to wait until another has done with it. When a name changes hands the two
// slots change roles, so that as many hold and as many wait at any time.
type slot struct {
	process  *process
	host     *host
	register *register
	unit     *unit
	phase    phase
	waits    bool
	turn     uint32
	since    int64 // when it began to acquire
}

// later has a slot go on with what it means to do.
func (w *world) later(s *slot, after int64) {
	s.turn++
	w.queue.push(item{at: w.now + after, kind: occasionScript, slot: s, turn: s.turn})
}

// play is a slot's next move.
func (w *world) play(s *slot) {
	switch s.phase {
	case phaseIdle:
		w.begin(s)
	case phaseHolding:
		w.release(s)
	}
}

// begin asks for a name: the one that it had lost or was refused, another's to wait
// for, or one that nobody has had.
func (w *world) begin(s *slot) {
	if s.register == nil {
		if s.waits {
			s.register = w.somebodys(s)
		} else {
			s.register = w.fresh(s.host)
		}
		if s.register == nil { // no name is held yet for which none waits
			w.later(s, w.chance.between(int64(time.Second), int64(2*time.Second)))
			return
		}
		s.register.wanted++
		s.since = w.now
	}
	s.phase = phaseProbing
	s.unit = w.enroll(s.host, &probe{
		keys: []string{s.register.name + "/" + core.LockFile}, verbs: []core.ActionKind{core.ActionExists}, answered: s.host.reached,
	}, 0, s)
	w.tell(s.unit, core.Event{Kind: core.EventBegin})
}

// claim makes the lease's machine, when the host knows how the name is kept.
func (w *world) claim(s *slot, failed bool) {
	if failed {
		w.refused(s)
		return
	}
	s.phase = phaseWaiting
	s.unit = w.newUnit(s.host, &core.Config{Machine: core.MachineLease, Name: s.register.name, OnSession: true}, s)
	w.open(s.host)
	w.tell(s.unit, core.Event{Kind: core.EventAcquire, Wait: core.Forever})
}

// refused: the caller was told that the store is unreachable, and tries again soon.
func (w *world) refused(s *slot) {
	w.stats.count(w, &w.stats.refusals)
	s.phase, s.unit = phaseIdle, nil
	w.later(s, w.chance.between(int64(time.Second), int64(5*time.Second)))
}

// heedLease takes what a lease says.
func (w *world) heedLease(u *unit, a *core.Action) {
	s := u.slot
	switch a.Kind {
	case core.ActionHeld:
		w.held(s)
	case core.ActionSampleStoreClock:
		w.sampleStoreClock(u.host, u)
	case core.ActionRefused:
		w.dismiss(u)
		w.refused(s)
	case core.ActionLost:
		w.dismiss(u)
		w.lost(s)
	case core.ActionReleased:
		w.dismiss(u)
		w.leave(s)
		w.begin(s)
	}
}

func (w *world) held(s *slot) {
	r := s.register
	if other := r.holder; other != nil && other != s && other.host.until > w.now {
		w.stats.overlaps++
	}
	switch {
	case r.freed == 0:
	case r.dead:
		w.stats.sample(w, &w.stats.takeover, w.now-r.freed)
	default:
		w.stats.sample(w, &w.stats.handover, w.now-r.freed)
	}
	w.stats.held(w, w.now-s.since, s.waits)
	r.freed, r.holder = 0, s
	if r.waiter == s {
		r.waiter = nil
	}
	s.phase, s.waits = phaseHolding, false
	if life := int64(w.plan.life); life > 0 {
		life = w.chance.between(life/2, life/2*3)
		if w.now < int64(w.plan.lenient) { // some of it has gone by
			life = w.chance.between(0, life)
		}
		w.later(s, life)
	}
}

func (w *world) release(s *slot) {
	r := s.register
	s.phase, r.holder, r.freed, r.dead = phaseReleasing, nil, w.now, false
	w.stats.holding--
	w.tell(s.unit, core.Event{Kind: core.EventRelease})
}

// lost: its orchestrator asks for the name again.
func (w *world) lost(s *slot) {
	if s.phase == phaseReleasing {
		w.leave(s)
		w.begin(s)
		return
	}
	w.stats.holding--
	w.stats.count(w, &w.stats.losses)
	if s.register.holder == s {
		s.register.holder = nil
	}
	s.phase, s.unit, s.since = phaseIdle, nil, w.now
	w.later(s, int64(time.Second))
}

// leave makes a slot want its name no more. Where others want it, the slot waits next.
func (w *world) leave(s *slot) {
	r := s.register
	s.phase, s.unit, s.register = phaseIdle, nil, nil
	if r == nil {
		return
	}
	if r.waiter == s {
		r.waiter = nil
	}
	if r.holder == s {
		r.holder = nil
	}
	if r.wanted--; r.wanted > 0 {
		s.waits = true
		return
	}
	names := w.names[r.shard]
	last := names[len(names)-1]
	names[r.at], last.at = last, r.at
	w.names[r.shard] = names[:len(names)-1]
	r.versions = nil
}

// fresh is a new name.
func (w *world) fresh(h *host) *register {
	w.named++
	r := &register{
		name: fmt.Sprintf("flow-%d/memo-%d", h.process.number, w.named), shard: h.shard,
		bucket: w.chance.below(16), at: len(w.names[h.shard]),
	}
	w.names[h.shard] = append(w.names[h.shard], r)
	return r
}

// somebodys is a name that another process holds, and for which none waits.
func (w *world) somebodys(s *slot) *register {
	names := w.names[s.host.shard]
	for range 16 {
		if len(names) == 0 {
			break
		}
		r := names[w.chance.below(uint64(len(names)))]
		if r.waiter == nil && r.holder != nil && r.holder.process != s.process {
			r.waiter = s
			return r
		}
	}
	return nil
}

// die ends a process without a word, and another begins in its place a moment
// later. The names that it held are free a TTL after its last beat, for those that wait.
func (w *world) die(p *process) {
	for _, h := range p.hosts {
		for len(h.units) > 0 {
			w.dismiss(h.units[len(h.units)-1])
		}
		*h = host{process: p, shard: h.shard, units: h.units}
	}
	for _, s := range p.slots {
		if s.phase == phaseHolding {
			w.stats.holding--
			s.register.freed, s.register.dead = w.now, true
		}
		w.leave(s)
		w.later(s, w.chance.between(int64(time.Second), int64(2*time.Second)))
	}
}
