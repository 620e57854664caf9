package core

import (
	"bytes"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// An invocationSim is a world of orchestrators and their remotes in which rapid
// decides what happens next. The store has create, so the first result stays.
type invocationSim struct {
	*world
	rt     *rapid.T
	strict bool
	ttl    time.Duration
	living []*actor
	gone   map[*actor]bool // lost to another: nothing more is put at the shared keys
	works  map[*actor]bool // its work runs
	result []byte          // the first that was there
	born   int
}

// TestInvocationsStormy: under any order of answers, losses, ends of work and
// crashes the first result stays, found is said only when there is one, who lost
// to another writes none, and when the storm is over the next caller gets a result.
func TestInvocationsStormy(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := &invocationSim{
			world: newWorld(rt), rt: rt, strict: rapid.Bool().Draw(rt, "strict"), gone: map[*actor]bool{}, works: map[*actor]bool{},
			ttl: rapid.SampledFrom([]time.Duration{5 * time.Second, 20 * time.Second, time.Minute}).Draw(rt, "ttl"),
		}
		s.stamps = rapid.Bool().Draw(rt, "stamps")
		for range rapid.IntRange(10, 250).Draw(rt, "steps") {
			s.oneThing()
			s.checkResult()
		}
		s.settle()
	})
}

func (s *invocationSim) dice(n int, what string) int { return rapid.IntRange(0, n-1).Draw(s.rt, what) }

func (s *invocationSim) config() Config {
	cfg := Config{
		Machine: MachineInvocation, Role: RoleOwner, Name: "n", TTL: s.ttl, Creates: true, Protocol: ProtocolLastWriter,
		MemoFailures: s.dice(4, "memo") == 0,
	}
	if s.strict {
		cfg.Protocol = ProtocolStrict
	}
	return cfg
}

// arrive makes an orchestrator, or a remote of one whose work runs.
func (s *invocationSim) arrive() *actor {
	cfg := s.config()
	for _, a := range s.living {
		if v := a.machine.(*Invocation); s.works[a] && v.cfg.Role == RoleOwner && v.holder != "" && s.dice(2, "remote") == 0 {
			cfg.Role, cfg.Holder, cfg.Epoch = RoleRemote, v.holder, 1
			cfg.WithoutLease = s.dice(5, "without") == 0
			break
		}
	}
	s.born++
	a, err := s.add("m"+string(rune('a'+s.born%26))+string(rune('a'+s.born/26)), cfg)
	if err != nil {
		s.rt.Fatal(err)
	}
	s.living = append(s.living, a)
	s.tell(a, Event{Kind: EventBegin, Wait: rapid.SampledFrom([]time.Duration{0, 30 * time.Second, Forever}).Draw(s.rt, "wait")})
	return a
}

// tell steps a machine and holds what it says to the store.
func (s *invocationSim) tell(a *actor, ev Event) {
	actions, err := s.step(a, ev)
	if err != nil {
		s.fail("%s: %v", a.name, err)
	}
	s.heed(a, actions)
}

func (s *invocationSim) heed(a *actor, actions []Action) {
	for _, action := range actions {
		switch {
		case isResult(action.Kind) && s.gone[a]:
			s.fail("LoserWritesNothing: %s", a.name)
		case action.Kind == ActionHeld:
			delete(s.gone, a)
		case action.Kind == ActionLost:
			s.gone[a] = action.Reason == ReasonTaken || action.Reason == ReasonBroken
		case action.Kind == ActionLaunch:
			if s.works[a] {
				s.fail("LaunchedTwice: %s", a.name)
			}
			s.works[a] = true
		case action.Kind == ActionFound:
			if _, there := s.store[action.Key]; !there {
				s.fail("FoundIsThere: %s: %s", a.name, action.Key)
			}
		}
	}
	twin := a.machine.Clone()
	if !bytes.Equal(twin.AppendState(nil), a.machine.AppendState(nil)) || twin.Idle() != a.machine.Idle() {
		s.fail("CloneIsEqual: %s", a.name)
	}
}

func (s *invocationSim) oneThing() {
	if len(s.living) == 0 || s.dice(8, "arrive") == 0 && len(s.living) < 5 {
		s.arrive()
		return
	}
	a := s.living[s.dice(len(s.living), "who")]
	switch what := s.dice(12, "what"); {
	case what < 5 && len(a.flying) > 0:
		r := a.flying[s.dice(len(a.flying), "which")]
		s.apply(r)
		a.flying = without(a.flying, r)
		s.tell(a, r.reply)
	case what == 5 && len(a.flying) > 0:
		r := a.flying[s.dice(len(a.flying), "which")]
		if s.dice(2, "applied") == 0 {
			s.apply(r)
		}
		a.flying = without(a.flying, r)
		class := rapid.SampledFrom([]Class{ClassOther, ClassUnreachable, ClassThrottled, ClassFull}).Draw(s.rt, "class")
		s.tell(a, Event{Kind: EventAnswer, Request: r.Request, Outcome: OutcomeUnknown, Class: class})
	case what == 6:
		s.now += int64(rapid.SampledFrom([]time.Duration{time.Millisecond, time.Second, s.ttl / 3, 2 * s.ttl}).Draw(s.rt, "pause"))
	case what == 7 && s.works[a]:
		delete(s.works, a)
		s.tell(a, Event{Kind: EventEnded, Outcome: Outcome(1 + s.dice(2, "well")), Result: s.dice(2, "result") == 0})
	case what == 8:
		s.tell(a, Event{Kind: EventChanged})
	case what == 9 && s.dice(4, "end") == 0:
		s.depart(a)
	default:
		if a.wake != unset {
			s.now = max(s.now, s.trueAt(a, a.wake))
		}
		s.tell(a, Event{Kind: EventWoke})
	}
}

// depart crashes a machine, or cancels it.
func (s *invocationSim) depart(a *actor) {
	if s.dice(2, "crash") == 0 {
		s.tell(a, Event{Kind: EventCancel})
		delete(s.works, a)
		return
	}
	s.bury(a)
}

func (s *invocationSim) bury(a *actor) {
	delete(s.works, a)
	for i := range s.living {
		if s.living[i] == a {
			s.living = append(s.living[:i:i], s.living[i+1:]...)
			break
		}
	}
	a.flying, a.wake = nil, unset
	for i := range s.actors {
		if s.actors[i] == a {
			s.actors = append(s.actors[:i:i], s.actors[i+1:]...)
			break
		}
	}
}

func (s *invocationSim) checkResult() {
	now := s.store["n/"+ResultFile].body
	if s.result != nil && !bytes.Equal(now, s.result) {
		s.fail("FirstResultWins: %q became %q", s.result, now)
	}
	s.result = now
}

// settle crashes everybody and lets one more caller come, whose work goes well.
func (s *invocationSim) settle() {
	for len(s.living) > 0 {
		s.bury(s.living[0])
	}
	s.born++
	cfg := s.config()
	cfg.MemoFailures = false
	a, err := s.add("last", cfg)
	if err != nil {
		s.rt.Fatal(err)
	}
	s.living = append(s.living, a)
	s.tell(a, Event{Kind: EventBegin, Wait: Forever})
	found := false
	end := s.now + int64(3*s.ttl) + int64(2*time.Minute)
	for s.now <= end && !found {
		s.drive(int64(10*time.Millisecond), end, func(a *actor, actions []Action) bool {
			s.heed(a, actions)
			for _, action := range actions {
				found = found || action.Kind == ActionFound
			}
			return found || s.works[a]
		})
		if s.works[a] {
			delete(s.works, a)
			s.tell(a, Event{Kind: EventEnded, Outcome: OutcomeYes, Result: true})
		} else if !found {
			break
		}
	}
	s.checkResult()
	if !found || s.result == nil {
		s.fail("NextCallerGetsIt: %s", a.machine)
	}
}
