package core

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A strictSim is a world in which rapid decides what happens next: whose request
// is applied, answered or lost, what lands late, who comes, goes or crashes, and
// how much time passes. What must be true at all times is checked by name.
type strictSim struct {
	*world
	rt      *rapid.T
	ttl     time.Duration
	boots   bool
	born    int
	host    *actor // the process's session, or nil
	living  []*actor
	dead    []*actor // their writes may still land
	epochs  map[*actor]Epoch
	tokens  map[HolderID]Epoch
	highest Epoch
	made    map[string]string // every version by its key, as it was created
}

// TestStrictStormy: under any order of requests, answers and crashes no two
// tenures of a name are relied on at once, tokens and epochs only grow, nothing is
// sent after the end, and when the storm is over somebody gets the lease.
func TestStrictStormy(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := &strictSim{
			world: newWorld(rt), rt: rt, epochs: map[*actor]Epoch{}, tokens: map[HolderID]Epoch{}, made: map[string]string{},
			ttl:   rapid.SampledFrom([]time.Duration{5 * time.Second, 20 * time.Second, time.Minute}).Draw(rt, "ttl"),
			boots: rapid.Bool().Draw(rt, "boots"),
		}
		s.stamps = rapid.Bool().Draw(rt, "stamps")
		s.unit = rapid.SampledFrom([]int64{1000, 1e9}).Draw(rt, "unit")
		for range rapid.IntRange(20, 400).Draw(rt, "steps") {
			s.oneThing()
			s.check()
		}
		s.settle()
	})
}

func (s *strictSim) dice(n int, what string) int { return rapid.IntRange(0, n-1).Draw(s.rt, what) }

// oneThing lets one thing happen.
func (s *strictSim) oneThing() {
	switch what := s.dice(20, "what"); {
	case what < 2 || len(s.living) == 0:
		s.arrive()
	case what == 2:
		s.depart(s.pick())
	case what == 3:
		s.land()
	case what == 4:
		s.now += rapid.SampledFrom([]int64{1e6, 1e9, int64(s.ttl) / 3, int64(s.ttl)}).Draw(s.rt, "passes")
	case what == 5:
		if s.stamps {
			s.sample = clockSample{s.stamp(), s.now}
		}
	case what < 10:
		s.proceed(s.pick())
	default:
		s.upcomingThing()
	}
}

func (s *strictSim) pick() *actor { return s.living[s.dice(len(s.living), "who")] }

// upcomingThing is what comes next where nothing goes wrong.
func (s *strictSim) upcomingThing() {
	a, r, at := s.upcoming(100e6)
	if a == nil {
		return
	}
	s.now = max(s.now, at)
	switch {
	case r == nil:
		s.tell(a, Event{Kind: EventWoke})
	case !r.applied:
		s.note(r)
	default:
		s.heard(s.answer(a, r))
	}
}

// proceed does something to a machine's newest request: it is applied, answered,
// or its fate becomes unknown.
func (s *strictSim) proceed(a *actor) {
	if len(a.flying) == 0 {
		s.tell(a, Event{Kind: EventWoke})
		return
	}
	r := a.flying[s.dice(len(a.flying), "which")]
	switch s.dice(5, "fate") {
	case 0:
		s.note(r)
	case 1:
		class := rapid.SampledFrom([]Class{ClassOther, ClassUnreachable, ClassThrottled}).Draw(s.rt, "class")
		s.heard(s.unknown(a, r, class))
	default:
		s.note(r)
		s.heard(s.answer(a, r))
	}
}

// note applies a request, and holds creates to being made once.
func (s *strictSim) note(r *request) {
	before, there := s.store[r.Key]
	s.apply(r)
	if r.Kind != ActionCreate || strings.HasPrefix(r.Key, SessionPrefix) {
		return // a call may be made anew where its session has removed it
	}
	if there && string(before.body) != string(s.store[r.Key].body) {
		s.fail("CreatedOnce: %s", s.formatKey(r.Key))
	}
	s.made[r.Key] = string(s.store[r.Key].body)
}

func (s *strictSim) tell(a *actor, ev Event) { s.heard(s.step(a, ev)) }

func (s *strictSim) heard(_ []Action, err error) {
	if err != nil {
		s.fail("Contract: %v", err)
	}
	s.relays = nil
}

// arrive brings a session first, then leases, companions and breakers.
func (s *strictSim) arrive() {
	if len(s.living) > 6 {
		return
	}
	holder := s.believer()
	switch kind := s.dice(6, "comes"); {
	case kind == 0 && s.host == nil:
		s.host = s.birth("s", func(c *Config) { c.Machine = MachineSession })
		s.tell(s.host, Event{Kind: EventBegin})
	case kind == 1 && holder != nil:
		c := s.birth("c", func(c *Config) {
			c.Machine, c.Holder, c.Epoch = MachineCompanion, holderIn(holder.machine), 1
		})
		s.tell(c, Event{Kind: EventAccompany})
	case kind == 2:
		s.tell(s.birth("k", func(c *Config) { c.Machine, c.Why = MachineBreaker, "stuck" }), Event{Kind: EventBegin})
	case kind == 3:
		s.tell(s.birth("o", func(c *Config) { c.Machine = MachineObserver }), Event{Kind: EventBegin})
	default:
		on := s.host != nil && s.dice(2, "on a session") == 1
		a := s.birth("l", func(c *Config) { c.OnSession = on })
		if on {
			a.strict.stands = s.host
		}
		s.tell(a, Event{Kind: EventAcquire, Wait: rapid.SampledFrom([]time.Duration{0, Forever}).Draw(s.rt, "wait")})
	}
}

func (s *strictSim) birth(letter string, change func(*Config)) *actor {
	s.born++
	a := s.strictly(fmt.Sprint(letter, s.born), func(c *Config) {
		c.TTL, c.Seed = s.ttl, [16]byte{byte(s.born), byte(s.born >> 8), 1}
		if s.boots {
			c.Boot = "b1"
		}
		if s.dice(4, "expiry") == 0 {
			c.Expiry = ExpiryObserved
		}
		change(c)
	})
	s.living = append(s.living, a)
	return a
}

// depart ends a machine's part: by a command, or by a crash.
func (s *strictSim) depart(a *actor) {
	idle := a.machine.Idle()
	if !idle && s.dice(2, "crash") == 0 {
		for kind := EventLeave; ; kind = EventRelease {
			if _, err := s.step(a, Event{Kind: kind}); err == nil || kind == EventRelease {
				s.relays = nil
				return
			}
		}
	}
	if !idle || s.host != a {
		s.bury(a)
	}
}

func (s *strictSim) bury(a *actor) {
	for _, r := range a.flying {
		if !r.applied && isWrite(r.Kind) {
			a.stray = append(a.stray, r)
		}
	}
	crashed := []*actor{a}
	if a == s.host { // its process ends, with all that stands on it
		s.host = nil
		for _, x := range s.living {
			if x.strict.stands == a {
				crashed = append(crashed, x)
			}
		}
	}
	for _, x := range crashed {
		x.deadline = unset
		s.dead = append(s.dead, x)
		for i, y := range s.living {
			if y == x {
				s.living = append(s.living[:i:i], s.living[i+1:]...)
				break
			}
		}
	}
	s.gone(crashed...)
}

// land lets a write reach the store that was given up.
func (s *strictSim) land() {
	for _, all := range [][]*actor{s.living, s.dead} {
		for _, a := range all {
			if len(a.stray) > 0 {
				r := a.stray[s.dice(len(a.stray), "stray")]
				a.stray = without(a.stray, r)
				s.note(r)
				return
			}
		}
	}
}

// believer is somebody whose tenure is relied on at this instant, or nil.
func (s *strictSim) believer() *actor {
	for _, a := range s.living {
		if s.believes(a) {
			return a
		}
	}
	return nil
}

func (s *strictSim) believes(a *actor) bool {
	if state := a.machine.String(); state != "held" && state != "joined" {
		return false
	}
	until := a.deadline
	if host := a.strict.stands; host != nil && host.strict.sid != "" {
		until = max(until, host.strict.until)
	}
	return until != unset && s.mono(a) < until
}

// check holds the world to what must be true at all times.
func (s *strictSim) check() {
	believed := map[HolderID]string{}
	for _, a := range s.living {
		if s.believes(a) {
			believed[holderIn(a.machine)] = a.name
		}
		s.checkEpoch(a)
	}
	if len(believed) > 1 {
		s.fail("NoOverlap: %v", believed)
	}
	for key, body := range s.made {
		if o, there := s.store[key]; there && string(o.body) != body {
			s.fail("CreatedOnce: %s was written again", s.formatKey(key))
		}
	}
}

// checkEpoch: what a machine stands on only grows, and so do the tokens of those
// who hold.
func (s *strictSim) checkEpoch(a *actor) {
	state := a.machine.String()
	if state != "held" && state != "joined" {
		return
	}
	c := &registerOf(a.machine).cur
	if c.n < s.epochs[a] {
		s.fail("EpochGrows: %s from %d to %d", a.name, s.epochs[a], c.n)
	}
	s.epochs[a] = c.n
	tenure := holderIn(a.machine)
	switch was, known := s.tokens[tenure]; {
	case known && was != c.origin:
		s.fail("TokenStays: %s from %d to %d", a.name, was, c.origin)
	case !known && c.origin <= s.highest:
		s.fail("TokenGrows: %s has %d after %d", a.name, c.origin, s.highest)
	}
	s.tokens[tenure], s.highest = c.origin, max(s.highest, c.origin)
}

// settle: everybody leaves, and one who waits gets the lease.
func (s *strictSim) settle() {
	for len(s.living) > 0 {
		s.bury(s.living[0])
	}
	s.now += int64(time.Second)
	heir := s.birth("l", func(c *Config) { c.OnSession = false })
	s.tell(heir, Event{Kind: EventAcquire, Wait: Forever})
	s.drive(50e6, s.now+int64(20*time.Minute), func(a *actor, _ []Action) bool { return a.machine.String() == "held" })
	if heir.machine.String() != "held" {
		s.fail("EventuallyHeld: %s is %s", heir.name, heir.machine)
	}
	s.check()
}
