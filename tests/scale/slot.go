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
	phaseWaiting
	phaseHolding
	phaseReleasing
)

// slot is what an orchestrator wants of one name at a time: to hold it for a while,
// or to wait until another has done with it. When a name changes hands the two
// slots change roles, so that as many hold and as many wait at any time.
type slot struct {
	host  *host
	name  *name
	claim uint64
	phase phase
	waits bool
	turn  uint32 // what was to come next stands only if nothing came between
	since int64  // when it began to acquire
}

// name is one that a slot wants.
type name struct {
	text   string
	at     int   // in its prefix's list
	wanted int   // slots that hold it or ask for it
	holder *slot // that believes to hold it
	waiter *slot
	freed  int64 // when it was given back, or its holder died
	dead   bool  // it was the latter
}

// later has a slot go on with what it means to do next.
func (f *fleet) later(s *slot, after int64, next func(*slot)) {
	s.turn++
	turn := s.turn
	f.After(after, func() {
		if s.turn == turn {
			next(s)
		}
	})
}

// begin asks for a name: the one that it had lost or was refused, another's to wait
// for, or one that nobody has had.
func (f *fleet) begin(s *slot) {
	if s.name == nil {
		if s.waits {
			s.name = f.somebodys(s)
		} else {
			s.name = f.fresh(s.host)
		}
		if s.name == nil { // no name is held yet for which none waits
			f.later(s, f.chance.Between(int64(time.Second), int64(2*time.Second)), f.begin)
			return
		}
		s.name.wanted++
		s.since = f.Now
	}
	h := s.host
	if h.client == nil {
		f.start(h)
	}
	h.claims++
	s.phase, s.claim = phaseWaiting, h.claims
	f.step(h, core.Event{Kind: core.EventAcquire, Claim: s.claim, Wait: core.Forever, Terms: &core.Terms{
		Protocol: core.ProtocolStrict, Name: s.name.text, TTL: core.TTL(f.plan.ttl), OnSession: true,
	}})
}

// hear takes what a client says of a slot's claim.
func (f *fleet) hear(s *slot, a *core.Action) {
	switch a.Kind {
	case core.ActionHeld:
		f.held(s)
	case core.ActionRefused: // the store is unreachable: its orchestrator tries again soon
		f.stats.count(f.Now, &f.stats.refusals)
		s.phase = phaseIdle
		f.later(s, f.chance.Between(int64(time.Second), int64(5*time.Second)), f.begin)
	case core.ActionLost:
		f.lost(s)
	case core.ActionReleased:
		f.leave(s)
		f.later(s, 0, f.begin)
	}
}

func (f *fleet) held(s *slot) {
	n := s.name
	if other := n.holder; other != nil && other != s && other.relies(f.Now) {
		f.stats.overlaps++
	}
	switch {
	case n.freed == 0:
	case n.dead:
		f.stats.sample(f.Now, &f.stats.takeover, f.Now-n.freed)
	default:
		f.stats.sample(f.Now, &f.stats.handover, f.Now-n.freed)
	}
	f.stats.held(f.Now, f.Now-s.since, s.waits)
	n.freed, n.holder = 0, s
	if n.waiter == s {
		n.waiter = nil
	}
	s.phase, s.waits = phaseHolding, false
	if life := int64(f.plan.life); life > 0 {
		life = f.chance.Between(life/2, life/2*3)
		if f.Now < int64(f.plan.lenient) { // some of it has gone by
			life = f.chance.UpTo(life)
		}
		f.later(s, life, f.release)
	}
}

// relies reports whether its process relies on its name.
func (s *slot) relies(now int64) bool {
	p := s.host.client
	for i := range p.Claims {
		if p.Claims[i].Number == s.claim {
			return p.Until(&p.Claims[i]) > now
		}
	}
	return false
}

func (f *fleet) release(s *slot) {
	s.phase, s.name.holder, s.name.freed, s.name.dead = phaseReleasing, nil, f.Now, false
	f.stats.holding--
	f.step(s.host, core.Event{Kind: core.EventRelease, Claim: s.claim})
}

// lost: its orchestrator asks for the name again.
func (f *fleet) lost(s *slot) {
	if s.phase == phaseReleasing {
		f.leave(s)
		f.later(s, 0, f.begin)
		return
	}
	f.stats.holding--
	f.stats.count(f.Now, &f.stats.losses)
	if s.name.holder == s {
		s.name.holder = nil
	}
	s.phase, s.since = phaseIdle, f.Now
	f.later(s, int64(time.Second), f.begin)
}

// leave makes a slot want its name no more. Where others want it, the slot waits next.
func (f *fleet) leave(s *slot) {
	n := s.name
	s.phase, s.name, s.claim = phaseIdle, nil, 0
	if n == nil {
		return
	}
	if n.waiter == s {
		n.waiter = nil
	}
	if n.holder == s {
		n.holder = nil
	}
	if n.wanted--; n.wanted > 0 {
		s.waits = true
		return
	}
	x := s.host.prefix
	last := x.names[len(x.names)-1]
	x.names[n.at], last.at = last, n.at
	x.names = x.names[:len(x.names)-1]
}

// fresh is a new name.
func (f *fleet) fresh(h *host) *name {
	f.named++
	n := &name{text: fmt.Sprintf("flow-%d/memo-%d", h.process.number, f.named), at: len(h.prefix.names)}
	h.prefix.names = append(h.prefix.names, n)
	return n
}

// somebodys is a name that another process holds, and for which none waits.
func (f *fleet) somebodys(s *slot) *name {
	names := s.host.prefix.names
	for range 16 {
		if len(names) == 0 {
			break
		}
		n := names[f.chance.Below(uint64(len(names)))]
		if n.waiter == nil && n.holder != nil && n.holder.host.process != s.host.process {
			n.waiter = s
			return n
		}
	}
	return nil
}

// die ends a process without a word, and another begins in its place a moment
// later. The names that it held are free a TTL after its last beat, for those that wait.
func (f *fleet) die(p *process) {
	for _, h := range p.hosts {
		f.start(h)
	}
	for _, s := range p.slots {
		if s.phase == phaseHolding {
			f.stats.holding--
			s.name.freed, s.name.dead = f.Now, true
		}
		f.leave(s)
		f.later(s, f.chance.Between(int64(time.Second), int64(2*time.Second)), f.begin)
	}
}
