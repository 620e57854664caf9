package explore

import (
	"fmt"
	"strings"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/machines"
	"github.com/mopslock/mopslock/tests/world"
)

// The scenarios of the shared semaphore: the real machines of sessions and of the
// semaphore, on one store. Their durations are those of strict's other worlds.

// semaphoreMaker builds them, as strictMaker builds strict's.
type semaphoreMaker struct{ *strictMaker }

// semaphoreScenarios are all that Run explores of the semaphore.
func semaphoreScenarios(seed uint64) []*Scenario {
	k := &semaphoreMaker{&strictMaker{seed: seed, make: machines.New}}
	return []*Scenario{
		k.one(), k.resize(), k.weights(), k.limits(), k.batch(), k.cancels(), k.observes(), k.oneBoot(), k.again(),
		k.three(), k.pauses(), k.widths(), k.drops(), k.deaths(), k.leaving(),
	}
}

func (k *semaphoreMaker) world(name, about string) *Scenario {
	sc := k.strictMaker.world("", about)
	sc.Name = "semaphore-" + name
	sc.Shared = true
	return sc
}

// view is what a caller asks for: so many of capacity x width.
type view struct{ capacity, width, weight, spare uint32 }

// permit is the command with which a process asks for it.
func (v view) permit(number uint64, cfg core.Config) core.Event {
	ev := begins(core.EventPermit, number, cfg)
	ev.Capacity, ev.Width, ev.Weight, ev.Spare = v.capacity, v.width, v.weight, v.spare
	return ev
}

// asksFor is that command in words.
func (v view) asksFor(name string) string {
	return fmt.Sprintf("%s: permit %s --capacity %d --width %d --weight %d", name, leaseName, v.capacity, v.width, v.weight)
}

// caller is a process that asks for a permit and waits for it. must: it asks at once.
func (k *semaphoreMaker) caller(name string, rate int64, must bool, v view, change func(*core.Config)) Actor {
	a := k.actor(name, rate, k.config(name), change, core.EventPermit, Command{Words: v.asksFor(name), Must: must})
	ev := &a.Tell[0].Event
	ev.Capacity, ev.Width, ev.Weight, ev.Spare = v.capacity, v.width, v.weight, v.spare
	a.Waits = true
	return a
}

// newcomer wants all that there is when everything is over.
func (k *semaphoreMaker) newcomer(all view) Actor {
	const name = "N"
	all.weight = all.capacity * all.width
	a := k.caller(name, 100, false, all, nil)
	a.Newcomer, a.Flawless = true, true
	return a
}

// gives lets an actor give its permit back.
func gives(a Actor) Actor {
	a.Tell = append(a.Tell, Command{
		Event: about(core.EventRelease), Words: a.Name + ": release its permit", In: world.Held,
	})
	return a
}

// cancels lets an actor say, at any time before it has it, that it does not want it.
func cancels(a Actor) Actor {
	a.Tell = append(a.Tell, Command{
		Event: about(core.EventCancel), Words: a.Name + ": cancel", In: world.Waiting,
	})
	return a
}

// one: a permit that two want; a pause or a crash gives it to the other.
func (k *semaphoreMaker) one() *Scenario {
	sc := k.world("one", "2 processes, 1 permit, calibrated, coarse stamps, rates at the bound")
	only := view{1, 1, 1, 0}
	sc.Actors = []Actor{gives(k.caller("A", 99, true, only, nil)), k.caller("B", 101, false, only, nil), k.newcomer(only)}
	return sc
}

// resize: a process that sees more buckets gets a permit beside one that holds all that it sees.
func (k *semaphoreMaker) resize() *Scenario {
	sc := k.world("resize", "3 processes, of which one sees 2 buckets of 1 and two see 1")
	small, large := view{1, 1, 1, 0}, view{1, 2, 1, 0}
	sc.Actors = []Actor{
		k.caller("A", 99, true, small, nil), k.caller("B", 101, false, large, nil), gives(k.caller("C", 100, false, small, nil)),
		k.newcomer(large),
	}
	sc.Lost, sc.Late, sc.Pauses = 1, 0, 1
	return ready(sc)
}

// weights: two permits that do not fit beside each other, and one that leaves some.
func (k *semaphoreMaker) weights() *Scenario {
	sc := k.world("weights", "3 processes, capacity 2 in 2 buckets, weights 3, 2 and 1 with 1 to spare")
	sc.Actors = []Actor{
		gives(k.caller("A", 99, true, view{2, 2, 3, 0}, nil)), k.caller("B", 101, false, view{2, 2, 2, 0}, nil),
		k.caller("C", 100, false, view{2, 2, 1, 1}, nil), k.newcomer(view{2, 2, 0, 0}),
	}
	sc.Lost, sc.Late, sc.Pauses = 1, 0, 1
	return ready(sc)
}

// limits: a limit that the store keeps counts for more than any process's view, and is
// removed again.
func (k *semaphoreMaker) limits() *Scenario {
	sc := k.world("limits", "2 processes with a view of 2, and a limit of 1 that the first sets")
	two := view{2, 1, 1, 0}
	a := k.caller("A", 99, true, two, nil)
	for i, limit := range []uint64{1, 0} {
		ev := begins(core.EventLimit, another+uint64(i), k.config("A"))
		ev.StoreLimit, ev.Wait = limit, 0
		a.Tell = append(a.Tell, Command{
			Event: ev, In: []string{world.Held, core.ActionLimited.String()}[i],
			Words: []string{"A: limit " + leaseName + " 1", "A: limit " + leaseName + " none"}[i],
		})
	}
	one := view{1, 1, 1, 0} // the limit may stand forever
	sc.Actors = []Actor{a, k.caller("B", 101, false, two, nil), k.newcomer(one)}
	sc.Late, sc.Pauses = 0, 1
	return ready(sc)
}

// batch: two that a process asks for at once are committed together.
func (k *semaphoreMaker) batch() *Scenario {
	sc := k.world("batch", "2 processes, capacity 2; the first asks for two permits at once, and gives one back")
	two := view{2, 1, 1, 0}
	a := k.caller("A", 99, true, two, nil)
	a.Tell = append(a.Tell,
		Command{Event: two.permit(another, k.config("A")), Words: two.asksFor("A"), Must: true},
		Command{Event: about(core.EventRelease), Words: "A: release the first permit", In: world.Held},
	)
	sc.Actors = []Actor{a, k.caller("B", 101, false, two, nil), k.newcomer(two)}
	sc.Late, sc.Pauses = 0, 1
	return ready(sc)
}

// cancels: an ask is withdrawn while its create is on its way.
func (k *semaphoreMaker) cancels() *Scenario {
	sc := k.world("cancels", "2 processes, 1 permit; the first cancels at any time before it is told")
	only := view{1, 1, 1, 0}
	sc.Actors = []Actor{cancels(k.caller("A", 99, true, only, nil)), k.caller("B", 101, false, only, nil), k.newcomer(only)}
	sc.Pauses = 1
	return ready(sc)
}

func (k *semaphoreMaker) observes() *Scenario {
	sc := k.world("observes", "2 processes, 1 permit, judged by beats that stand still alone")
	only := view{1, 1, 1, 0}
	sc.Actors = []Actor{
		k.caller("A", 99, true, only, judgesByLooking), k.caller("B", 101, false, only, judgesByLooking), k.newcomer(only),
	}
	return sc
}

// oneBoot: two processes of one boot have one clock; the third is elsewhere.
func (k *semaphoreMaker) oneBoot() *Scenario {
	sc := k.world("one-boot", "2 processes of one boot and one of another, 1 permit")
	only := view{1, 1, 1, 0}
	sc.Actors = []Actor{
		gives(k.caller("A", 100, true, only, onOneBoot)), k.caller("B", 100, false, only, onOneBoot),
		k.caller("C", 101, false, only, func(c *core.Config) { c.Boot, c.Expiry = "boot-2", core.ExpiryObserved }), k.newcomer(only),
	}
	sc.Lost, sc.Late, sc.Pauses = 1, 0, 1
	return sc
}

// again: a process crashes, and the next one of its kind asks on a session of its own.
func (k *semaphoreMaker) again() *Scenario {
	sc := k.world("again", "2 processes, 1 permit; the first crashes, and its next process asks again")
	only := view{1, 1, 1, 0}
	a := k.caller("A", 99, true, only, nil)
	next := k.config("A again")
	a.Tell = append(a.Tell, Command{
		Event: only.permit(first, next), Words: only.asksFor("A") + ", started again", Crashed: true,
		Make: func(Program, int64) (Program, error) { return k.start("A", next) },
	})
	sc.Actors = []Actor{a, k.caller("B", 101, false, only, nil), k.newcomer(only)}
	sc.Late, sc.Pauses = 0, 1
	return sc
}

func (k *semaphoreMaker) three() *Scenario {
	sc := k.world("three", "3 processes, 2 permits, which are given back")
	two := view{2, 1, 1, 0}
	sc.Actors = []Actor{
		gives(k.caller("A", 99, true, two, nil)), gives(k.caller("B", 101, false, two, nil)), k.caller("C", 100, false, two, nil),
		k.newcomer(two),
	}
	sc.Late, sc.Pauses = 0, 1
	return ready(sc)
}

// pauses: ticks that outlast every session, and half of what a version is kept for.
func (k *semaphoreMaker) pauses() *Scenario {
	sc := k.world("pauses", "2 processes, 1 permit, and pauses of many minutes")
	only := view{1, 1, 1, 0}
	sc.Actors = []Actor{gives(k.caller("A", 99, true, only, nil)), gives(k.caller("B", 101, false, only, nil)), k.newcomer(only)}
	sc.Tick, sc.Horizon, sc.Patience = 310*second, 4, 3100*second
	return sc
}

// ready is a world whose processes have begun their sessions at tick 0, before
// anything is asked for, and have a permit of something else, so that they keep them: how a
// session begins and is left is seen elsewhere, and so there is time to see more of what comes
// after.
func ready(sc *Scenario) *Scenario {
	for i := range sc.Actors {
		a := &sc.Actors[i]
		if shares := a.Tell[0].Event.Kind == core.EventPermit || a.Tell[0].Event.Terms.OnSession; shares && !a.Newcomer {
			sc.hasSession(uint8(i), false)
		}
	}
	return sc
}

// hasSession lets an actor come with a session, and with a permit on that or, if released, with
// nothing on it.
func (s *Scenario) hasSession(index uint8, released bool) {
	a := &s.Actors[index]
	program, err := s.start(index)
	if err != nil {
		return // the search will say what is wrong
	}
	p := program.(*process)
	terms := *a.Tell[0].Event.Terms
	terms.Name, terms.OnSession = "elsewhere", false
	ask := core.Event{Kind: core.EventPermit, Claim: opener, Terms: &terms, Capacity: 1, Width: 1, Weight: 1, Wait: core.Forever}
	inbox := []core.Event{ask}
	if released {
		inbox = append(inbox, core.Event{Kind: core.EventRelease, Claim: opener})
	}
	for scratch := Store(newBlobs(s.unit())); len(inbox) > 0; inbox = inbox[1:] {
		actions, err := p.Process.Step(s.clock(index, 0), inbox[0])
		for j := range actions {
			a, store := &actions[j], &scratch
			if strings.HasPrefix(a.Key, core.SessionPrefix) {
				store = &s.Store
			}
			if a.Kind.IsRequest() && err == nil {
				var reply core.Event
				*store, reply = (*store).Apply(s.wall(0), a, 0)
				inbox = append(inbox, reply)
			}
		}
	}
	p.Process.Claims = nil
	a.Sampled, a.Woken = false, released // a sample has been taken
	a.Start = func() (Program, error) { return p.Copy(), nil }
}

// leaving: a process asks at each step of its idle session's leaving, and another wants the same.
func (k *semaphoreMaker) leaving() *Scenario {
	sc := k.world("leaving", "2 processes, 1 permit; the first one's session has been idle for 10 s")
	only := view{1, 1, 1, 0}
	sc.Actors = []Actor{k.caller("A", 100, false, only, lasts), k.caller("B", 100, false, only, lasts), k.newcomer(only)}
	return idleSession(sc)
}

// The situations in which canal_lock goes wrong, see canal.go, each to its end.

// widths: any process may be first in the second bucket, while the first one empties.
func (k *semaphoreMaker) widths() *Scenario {
	sc := k.world("widths", "canal-highest here: 3 processes, 2 buckets of 1 to be opened, and given back in any order")
	two := view{1, 2, 1, 0}
	sc.Actors = []Actor{
		gives(k.caller("A", 99, true, two, nil)), gives(k.caller("B", 101, false, two, nil)), gives(k.caller("C", 100, false, two, nil)),
		k.newcomer(two),
	}
	return k.calm(sc)
}

// drops: permits are given back while another walks past a full bucket.
func (k *semaphoreMaker) drops() *Scenario {
	sc := k.world("drops", "canal-decrement here: 2 permits are given back while a third process finds no room, and a fourth comes")
	two := view{2, 1, 1, 0}
	a := gives(k.caller("A", 99, true, two, nil))
	a.Tell = append(a.Tell, Command{Event: two.permit(another, k.config("A")), Words: two.asksFor("A") + ", once more", In: core.ActionReleased.String()})
	sc.Actors = []Actor{a, gives(k.caller("B", 101, false, two, nil)), k.caller("C", 100, false, two, nil), k.newcomer(two)}
	return k.calm(sc)
}

// deaths: one dies at any point, of asking, holding or giving back.
func (k *semaphoreMaker) deaths() *Scenario {
	sc := k.world("deaths", "canal-notification here: 3 processes, 1 permit, and one dies at any point")
	only := view{1, 1, 1, 0}
	sc.Actors = []Actor{
		gives(k.caller("A", 99, true, only, nil)), gives(k.caller("B", 101, false, only, nil)), k.caller("C", 100, false, only, nil),
		k.newcomer(only),
	}
	k.calm(sc).Crashes = 1
	return sc
}

// calm is a world in which nothing is lost, late or paused: only the order differs.
func (k *semaphoreMaker) calm(sc *Scenario) *Scenario {
	sc.Lost, sc.Late, sc.Pauses, sc.Crashes, sc.Horizon = 0, 0, 0, 0, 0
	return ready(sc)
}
