package simulate

import (
	"slices"
	"strconv"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/tests/explore/check"
	"github.com/mopslock/mopslock/tests/world"
)

// role is what an actor is there for.
type role uint8

const (
	roleOrchestrator role = iota // acquires, holds, releases
	roleCompanion                // keeps somebody's tenure alive
	roleBreaker                  // breaks a name now and then
	roleObserver                 // looks at one
)

// breaks is what a breaker does next.
type breaks uint8

const (
	breaksAny   breaks = iota // any name
	breaksNow                 // a piece of work, which it frees at once
	breaksAgain               // the same once more, in the usual way
)

// What an actor's claim is, as stories and figures name it.
const (
	whatLease     = "lease"
	whatWork      = "work"
	whatPermit    = "permit"
	whatCompanion = "companion"
	whatBreaker   = "breaker"
	whatObserver  = "observer"
	whatKeeper    = "keeper"
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
	name   string // likewise; of a breaker: of which work
	breaks breaks
	epoch  core.Epoch

	turns int
}

// next schedules the actor's next move.
func (w *simulation) next(s *slot, after int64) {
	s.turn++
	turn := s.turn
	w.in(s.process, w.Now+after, func() {
		if s.turn == turn && s.process.host != nil {
			w.play(s)
		}
	})
}

// play makes the actor's next move.
func (w *simulation) play(s *slot) {
	switch {
	case s.phase == phaseThinking && s.role == roleOrchestrator:
		w.want(s)
	case s.phase == phaseThinking:
		w.beginOther(s)
	case s.phase == phaseWaiting:
		w.depart(s, core.EventCancel)
	case s.phase == phaseHolding && s.role == roleCompanion:
		w.depart(s, core.EventLeave)
	case s.phase == phaseHolding && s.unit.what == whatWork:
		w.depart(s, core.EventEnded)
	case s.phase == phaseHolding:
		if w.awaitsRemote(s) {
			w.next(s, int64(w.life)/4)
			return
		}
		w.depart(s, core.EventRelease)
	}
}

// depart ends an actor's part by its own wish. It relies on nothing from here on.
func (w *simulation) depart(s *slot, kind core.EventKind) {
	s.phase = phaseEnding
	u := s.unit
	w.stop(u, kind.String())
	if kind != core.EventLeave {
		w.dismiss(u.claim.Tenure)
	}
	w.tell(u.process, core.Event{Kind: kind, Claim: u.number, Outcome: core.OutcomeNo})
}

// want starts an acquire, a piece of work, or asks for a permit.
func (w *simulation) want(s *slot) {
	if w.calm && !w.opts.Once || w.opts.Once && s.turns > 0 {
		return
	}
	c, p := w.chance, s.process
	name := w.names[c.Below(uint64(len(w.names)))]
	if w.opts.Shared {
		w.ask(s, name, w.drawAsk())
		if s.phase == phaseWaiting && !w.opts.Once && c.OneIn(8) {
			w.next(s, c.UpTo(3*int64(w.life))) // then it cancels
		}
		return
	}
	ev, cancel := core.Event{Kind: core.EventAcquire, Wait: core.Forever}, false
	if !w.opts.Once {
		switch c.Below(8) {
		case 0:
			ev.Wait = 0
		case 1, 2:
			ev.Wait = time.Duration(c.UpTo(3 * int64(w.life)))
		case 3:
			cancel = true
		}
	}
	what := whatLease
	if w.opts.Works && p.onSession && c.OneIn(2) {
		what, cancel = whatWork, false
		ev.Kind, ev.Wait = core.EventInvoke, time.Duration(c.Between(int64(w.life)/3, int64(w.life)))
	}
	u := w.begin(p, s, what, ev, w.terms(p, name))
	if cancel && u.waiting {
		w.next(s, c.UpTo(3*int64(w.life)))
	}
}

// ask begins a turn at a semaphore.
func (w *simulation) ask(s *slot, name string, ev core.Event) {
	terms := core.Terms{Protocol: core.ProtocolStrict, Name: name, TTL: core.TTL(w.opts.TTL), Expiry: w.expiry}
	w.begin(s.process, s, whatPermit, ev, terms)
}

// drawAsk draws what an actor asks for. Views differ: one may have seen a back-end
// more than another.
func (w *simulation) drawAsk() core.Event {
	c, o := w.chance, &w.opts
	ev := core.Event{Kind: core.EventPermit, Capacity: uint32(o.Capacity), Width: uint32(o.Width), Wait: core.Forever}
	if o.Once {
		return ev
	}
	if c.OneIn(3) {
		ev.Width += uint32(c.Below(2))
	}
	if c.OneIn(4) {
		ev.Weight = uint32(c.Between(1, int64(o.Capacity*o.Width)))
	}
	if most := uint32(o.Capacity*o.Width) - max(ev.Weight, 1); most > 0 && c.OneIn(6) {
		ev.Spare = uint32(c.Between(1, int64(most)))
	}
	switch c.Below(8) {
	case 0:
		ev.Wait = 0
	case 1:
		ev.Wait = core.Duration(c.UpTo(3 * int64(w.life)))
	}
	return ev
}

// served: a claim is held.
func (w *simulation) served(u *unit) {
	s, first, again := u.slot, u.waiting, u.believes
	if s != nil && (s.unit != u || s.phase == phaseEnding && (u.what != whatWork || u.process.closing)) {
		return // it was given up
	}
	if u.believes = true; s == nil || again {
		return
	}
	w.progress = w.Now
	w.stats.held(w, u)
	if w.newcome && w.stats.waiting == 0 {
		w.calmly()
	}
	if s.phase == phaseHolding || u.what == whatWork {
		return // a companion that had lost contact, or work that is not launched yet
	}
	s.phase = phaseHolding
	w.next(s, w.stay(u))
	if first && s.role == roleOrchestrator {
		s.turns++
		if u.what == whatLease {
			w.invite(u)
		}
	}
}

// stay is for how long something is held.
func (w *simulation) stay(u *unit) int64 {
	stay := exponential(w.chance, int64(w.opts.Hold))
	if u.what == whatPermit && w.chance.OneIn(4) { // short ones and long ones
		stay = exponential(w.chance, 2*int64(w.life))
	}
	if w.calm {
		stay = min(stay, int64(w.life)/4)
	}
	return stay
}

// launched: a piece of work is under way, perhaps once more. Somebody may break its name with
// now, and in the usual way as soon as it has that again. Then its process may stand still when
// it hears of it, which is when its session is renewed.
func (w *simulation) launched(u *unit) {
	s := u.slot
	s.phase = phaseHolding
	s.turns++
	w.next(s, w.stay(u)+int64(w.life)/2)
	if w.calm || len(w.breakers) == 0 || !w.chance.OneIn(2) {
		return
	}
	switch b := world.Pick(w.chance, w.breakers...); {
	case b.unit != nil || b.process.host == nil:
		return
	case b.breaks == breaksAny:
		b.name, b.breaks = u.name, breaksNow
		w.next(b, w.chance.UpTo(int64(w.life)/16))
	case b.name == u.name:
		u.process.stalls = w.faults.PauseEvery > 0
		w.next(b, w.chance.UpTo(int64(w.life)/16))
	}
}

// broken: what was launched ends, at once or when its process has seen to it.
func (w *simulation) broken(u *unit) {
	if s := u.slot; u.what == whatWork && s.unit == u && s.phase == phaseHolding {
		w.next(s, w.chance.UpTo(int64(w.faults.Mean)))
	}
}

// invite sends for a companion, which comes when it likes: a delayed remote.
func (w *simulation) invite(u *unit) {
	if w.calm || len(w.companions) == 0 || !w.chance.OneIn(2) {
		return
	}
	s := w.companions[w.chance.Below(uint64(len(w.companions)))]
	if s.unit != nil || s.tenure != "" || s.process.host == nil {
		return
	}
	s.tenure, s.name, s.epoch = u.claim.Tenure, u.name, u.claim.Epoch
	w.next(s, w.chance.UpTo(int64(w.life)))
}

// awaitsRemote reports whether an actor releases only once its remote has ended.
func (w *simulation) awaitsRemote(s *slot) bool {
	if w.opts.Weather != Orderly || w.opts.Protocol != core.ProtocolLastWriter || s.unit == nil {
		return false
	}
	return slices.ContainsFunc(w.companions, func(other *slot) bool { return other.tenure == s.unit.claim.Tenure })
}

// dismiss: in an orderly world no remote starts after its orchestrator has released.
func (w *simulation) dismiss(tenure string) {
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
func (w *simulation) beginOther(s *slot) {
	// Without a TTL only a break frees what a crash has left.
	needed := s.role == roleBreaker && w.opts.TTL < 0 && w.stats.waiting > 0
	if w.calm && !needed {
		s.tenure = ""
		return
	}
	p, name := s.process, w.names[w.chance.Below(uint64(len(w.names)))]
	switch s.role {
	case roleCompanion:
		if s.tenure == "" {
			return // nobody has sent for it
		}
		terms := w.terms(p, s.name)
		terms.OnSession, terms.Holder, terms.Epoch = false, core.HolderID(s.tenure), s.epoch
		u := w.begin(p, s, whatCompanion, core.Event{Kind: core.EventAccompany}, terms)
		if s.unit == u && s.phase == phaseWaiting {
			s.phase = phaseHolding // it leaves when it likes, joined or not
			w.next(s, exponential(w.chance, 2*int64(w.opts.Hold)))
		}
	case roleBreaker:
		terms := w.terms(p, name)
		terms.OnSession, terms.Why = false, "seed "+strconv.FormatUint(w.opts.Seed, 10)
		if s.breaks != breaksAny {
			terms.Name, terms.Now = s.name, s.breaks == breaksNow
		}
		w.begin(p, s, whatBreaker, core.Event{Kind: core.EventBreak}, terms)
	default:
		w.begin(p, s, whatObserver, core.Event{Kind: core.EventLook}, core.Terms{Name: name})
	}
}

// over: the actor's claim has ended.
func (w *simulation) over(s *slot) {
	s.unit, s.phase, s.tenure = nil, phaseThinking, ""
	s.turn++
	switch {
	case s.process.closing:
	case s.role == roleOrchestrator:
		w.next(s, w.think())
	case s.role == roleCompanion: // waits to be sent for
	case s.breaks == breaksNow:
		s.breaks = breaksAgain
		w.next(s, int64(w.life))
	default:
		s.breaks = breaksAny
		w.next(s, exponential(w.chance, 2*int64(w.life)))
	}
}

// idle is for how long a client keeps a session that nothing stands on.
const idle = 10 * time.Second

// think is for how long an actor wants nothing. Where sessions fall idle, it comes back as
// one is being left, or long after that.
func (w *simulation) think() int64 {
	switch {
	case !w.opts.Idles:
		return exponential(w.chance, int64(w.opts.Think))
	case w.chance.OneIn(2):
		return int64(idle) + w.chance.UpTo(6*int64(w.faults.Mean))
	}
	return w.chance.Between(int64(idle), int64(time.Minute))
}

// settle ends the faults: no actor starts anything, companions and breakers go,
// and what is held is released before long.
func (w *simulation) settle() {
	w.calm, w.calmAfter, w.progress = true, w.stats.Events, w.Now
	for _, p := range w.processes {
		for _, s := range p.slots {
			switch {
			case s.phase != phaseHolding:
			case s.role == roleCompanion:
				w.next(s, 0)
			case s.role == roleOrchestrator:
				w.next(s, w.chance.UpTo(int64(w.life)/4))
			}
		}
	}
	if w.opts.Shared {
		w.calmly()
	}
}

// calmly has each process that lives begin to keep its session, and with it what it may have
// forgotten to give back, or end that once newcomers have got all.
func (w *simulation) calmly() {
	for _, p := range w.processes {
		w.At(max(w.Now, p.pausedUntil), func() { w.keep(p) })
	}
}

func (w *simulation) keep(p *process) {
	i := slices.IndexFunc(p.units, func(u *unit) bool { return u.what == whatKeeper })
	switch {
	case p.host == nil || p.closing:
	case !w.newcome && i < 0:
		terms := w.terms(p, "kept-"+strconv.Itoa(p.number))
		w.begin(p, nil, whatKeeper, core.Event{Kind: core.EventAcquire, Wait: core.Forever}, terms)
	case w.newcome && i >= 0:
		w.stop(p.units[i], core.EventRelease.String())
		w.tell(p, core.Event{Kind: core.EventRelease, Claim: p.units[i].number})
	}
}

// allOver reports whether no actor starts anything any more, and none asks or holds.
func (w *simulation) allOver() bool {
	if !w.calm || w.stats.waiting > 0 {
		return false
	}
	for _, p := range w.processes {
		if slices.ContainsFunc(p.units, func(u *unit) bool { return u.what == whatPermit }) {
			return false
		}
		for _, s := range p.slots {
			if w.opts.Once && s.turns == 0 {
				return false
			}
		}
	}
	return true
}

// newcomers come when all is over: each wants all of a name, and must get it.
func (w *simulation) newcomers() {
	w.say("all is over, and newcomers want all that there is")
	p := &process{number: len(w.processes), computer: w.processes[0].computer, onSession: true}
	w.processes = append(w.processes, p)
	w.start(p)
	w.progress, w.newcome = w.Now, true
	for _, name := range w.names {
		s := &slot{number: 0, process: p}
		p.slots = append(p.slots, s)
		w.ask(s, name, core.Event{
			Kind: core.EventPermit, Capacity: uint32(w.opts.Capacity), Width: uint32(w.opts.Width),
			Weight: uint32(w.opts.Capacity * w.opts.Width), Wait: core.Forever,
		})
	}
}

// starving looks for an actor that waits without limit while none gets anything.
func (w *simulation) starving() {
	for _, p := range w.processes {
		for _, u := range p.units {
			switch {
			case !u.waiting:
			case w.newcome:
				w.checker.take(w.Now, check.Newcomer(u.label, "waiting", false), u.name)
			default:
				w.checker.take(w.Now, check.Waiter(u.label, "waiting", false), u.name)
			}
		}
	}
}
