package explore

import (
	"iter"
	"slices"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/tests/explore/check"
	"github.com/mopslock/mopslock/tests/world"
)

const (
	maxActors  = 4
	maxFlights = 16
	nobody     = maxActors
	noWake     = int64(1<<63 - 1)
)

// state is one state of everything, as numbers into the engine's tables.
//
// Within one instant only the order in which requests are applied can be told
// apart: a Step reads nothing but its own actor, so it commutes with whatever
// others do at that instant, and every execution has an equal one, with the same
// last world, in which each Step is made as early as it can be: when time has
// passed, one actor after the other, and at once after its own request was
// applied. That is what turn and sweep keep to: with sweep, actors from turn on
// may still act; without, only turn may. An answer is given, or lost, in the same
// transition in which its request is applied, or otherwise when time has passed. An
// actor that does not act is passed over, and may act when time has passed, as one
// that is paused. A move that depends on another actor in the same instant, a Command
// that Needs a tenure, begins a new sweep.
type state struct {
	now    uint16 // ticks
	turn   uint8  // nobody: only requests may be applied, and time may pass
	sweep  bool
	spent  [faultKinds]uint8
	paused uint8 // actors, as bits, whose pause is counted already
	store  uint32
	ledger uint32
	actors [maxActors]uint32
	count  uint8
	flying [maxFlights]flight // in one order, see before

	last uint8 // the actor that acted last: it goes first. Part of the path, not of the state
}

// The faults that a scenario bounds.
const (
	faultLost = iota
	faultLate
	faultCrash
	faultOdd
	faultPause
	faultKinds
)

// flight is a request that was sent.
type flight struct {
	actor  uint8
	phase  phase
	group  uint8 // which of an actor's machines
	sent   uint16
	action uint32
	reply  uint32 // of an applied one
}

type phase uint8

const (
	flightSent    phase = iota
	flightApplied       // the store has done it; the answer is on its way
	flightStray         // no machine waits for it any more, and it can still land
)

// remove takes a flight out.
func (w *state) remove(i int) {
	copy(w.flying[i:], w.flying[i+1:w.count])
	w.count--
	w.flying[w.count] = flight{}
}

// waits reports whether an actor waits for a request.
func (w *state) waits(actor uint8) bool {
	for i := range w.flying[:w.count] {
		if f := &w.flying[i]; f.actor == actor && f.phase != flightStray {
			return true
		}
	}
	return false
}

// insert adds a flight in its place.
func (w *state) insert(f flight) {
	i := int(w.count)
	for i > 0 && f.before(&w.flying[i-1]) {
		w.flying[i] = w.flying[i-1]
		i--
	}
	w.flying[i] = f
	w.count++
}

// before orders flights by what they are, not by when they were sent.
func (f *flight) before(g *flight) bool {
	switch {
	case f.actor != g.actor:
		return f.actor < g.actor
	case (f.phase == flightStray) != (g.phase == flightStray):
		return g.phase == flightStray
	case f.group != g.group:
		return f.group < g.group
	}
	return f.action < g.action
}

// stray gives up a flight for which no machine waits any more: it can still land. It
// forgets which of an actor's machines had sent the flight, and when: neither is used.
func (w *state) stray(i int) {
	f := w.flying[i]
	w.remove(i)
	f.phase, f.group, f.sent = flightStray, 0, 0
	w.insert(f)
}

// actorState is one actor as it stands. It is never changed.
type actorState struct {
	program Program
	wake    int64 // its own Mono, or noWake
	told    uint8 // commands given or passed over
	crashed bool
	// asked are the ids of the latest requests of its machines, as this very copy of
	// the program counts them: see canon.go.
	asked [perProcess]uint32
}

// clock is what an actor's clocks show at a tick.
func (s *Scenario) clock(actor uint8, tick uint16) core.Instant {
	a := &s.Actors[actor]
	passed := int64(tick) * s.Tick
	rate := a.RatePercent
	if rate == 0 {
		rate = 100
	}
	return core.Instant{Mono: a.MonoOffset + passed/100*rate, Wall: s.StoreWall + passed + a.WallOffset}
}

// dueAt is the first tick at which an actor's clock shows a Mono.
func (s *Scenario) dueAt(actor uint8, mono int64) int64 {
	if mono == noWake {
		return noWake
	}
	step := s.clock(actor, 1).Mono - s.clock(actor, 0).Mono
	past := mono - s.Actors[actor].MonoOffset
	if past <= 0 {
		return 0
	}
	return (past + step - 1) / step
}

// wall is the store's clock at a tick.
func (s *Scenario) wall(tick uint16) int64 {
	at := s.StoreWall + int64(tick)*s.Tick
	if s.LeapBy != 0 && int(tick) >= s.LeapAt {
		at += s.LeapBy
	}
	return at
}

// due reports whether an actor's wake may be delivered.
func (e *engine) due(w *state, actor uint8) bool {
	s := e.actors.items[w.actors[actor]]
	return !s.crashed && s.wake != noWake && e.sc.clock(actor, w.now).Mono >= s.wake
}

// believed are the claims that are relied on now.
func (e *engine) believed(w *state) []check.Claim {
	claims := e.claims[:0]
	for i := range e.sc.Actors {
		s := e.actors.items[w.actors[i]]
		if s.crashed {
			continue // it does nothing any more, whatever it believed
		}
		for _, c := range s.program.Claims() {
			if c.Believes(e.sc.clock(uint8(i), w.now).Mono) {
				claims = append(claims, c)
			}
		}
	}
	e.claims = claims
	return claims
}

// commands are those that an actor may be given now. One that it must be given is
// not passed over.
func (e *engine) commands(w *state, actor uint8) iter.Seq[int] {
	return func(yield func(int) bool) {
		tell := e.sc.Actors[actor].Tell
		for n := int(e.actors.items[w.actors[actor]].told); n < len(tell); n++ {
			if e.mayTell(w, actor, n) && !yield(n) || tell[n].Must {
				return
			}
		}
	}
}

// mayTell reports whether a command may be given now.
func (e *engine) mayTell(w *state, actor uint8, n int) bool {
	s := e.actors.items[w.actors[actor]]
	c := &e.sc.Actors[actor].Tell[n]
	now := int(w.now)
	switch {
	case e.sc.Actors[actor].Newcomer:
		return false
	case now < c.From || c.Until != 0 && now > c.Until:
		return false
	case s.crashed && c.Make == nil, c.Crashed && !s.crashed:
		return false
	case c.In != "" && s.program.String() != c.In:
		return false
	case c.Make == nil && !isOpen(s.program, &c.Event):
		return false
	case c.When != nil && !c.When(e.stores.items[w.store]), c.Died != "" && !e.died(w, c.Died):
		return false
	case c.After != "" && e.actors.items[w.actors[0]].program.String() != c.After:
		return false
	case c.Follows != "":
		_, launched := e.ledgers.items[w.ledger].Launch(c.Follows)
		return launched
	case c.Needs == "":
		return true
	}
	token, held := e.ledgers.items[w.ledger].Held(c.Needs)
	return held && (c.Token == 0 || c.Token == token)
}

// isOpen reports whether a command that is about a claim has one that its caller has not given back.
func isOpen(program Program, ev *core.Event) bool {
	p, ok := program.(*process)
	return !ok || ev.Terms != nil || ev.Claim == 0 || slices.ContainsFunc(p.Process.Claims, func(c world.Claim) bool {
		return c.Number == ev.Claim && !c.Ended && !c.Given
	})
}

// died reports whether an actor has crashed.
func (e *engine) died(w *state, name string) bool {
	i := slices.IndexFunc(e.sc.Actors, func(a Actor) bool { return a.Name == name })
	return e.actors.items[w.actors[i]].crashed
}

// stuck reports whether nothing can happen any more but that an actor dies.
func (e *engine) stuck(w *state) bool {
	if w.count != 0 {
		return false
	}
	for i := range e.sc.Actors {
		s := e.actors.items[w.actors[i]]
		for range e.commands(w, uint8(i)) {
			return false
		}
		if !s.crashed && s.wake != noWake {
			return false
		}
	}
	return true
}

// crowded reports whether another actor's create of the key is applied and not answered.
func (e *engine) crowded(w *state, actor uint8, key string) bool {
	return slices.ContainsFunc(w.flying[:w.count], func(f flight) bool {
		a := &e.actions.items[f.action]
		return f.actor != actor && f.phase == flightApplied && a.Kind == core.ActionCreate && a.Key == key
	})
}
