package explore

import (
	"github.com/mopslock/mopslock/core"
)

// The scenarios of strict in which a process ends and another begins, and those
// of one session or one process with more to do.

// restart: a holder crashes, with what it had sent still able to land, and its
// next process asks beside another that wants it.
func (k *strictMaker) restart() *Scenario {
	sc := k.world("restart", "2 acquirers; the first crashes, and its next process asks again")
	sc.Actors = []Actor{k.restarts(k.acquirer("A", 99, true, nil)), k.acquirer("B", 101, false, nil)}
	sc.Late, sc.Pauses = 0, 1
	return sc
}

// restarts lets an actor be started anew once it has crashed: it takes a new tenure.
func (k *strictMaker) restarts(a Actor) Actor {
	name := a.Name
	again := k.config(name + " again")
	a.Tell = append(a.Tell, Command{
		Event: begins(core.EventAcquire, first, again), Words: asks(name) + ", started again", Crashed: true,
		Make: func(Program, int64) (Program, error) { return k.start(name, again) },
	})
	return a
}

// otherLease is leased beside leaseName.
const otherLease = "other"

// twoLeases: one of two leases on a session is broken, and the other goes on.
func (k *strictMaker) twoLeases() *Scenario {
	sc := k.world("two-leases", "a session with 2 leases, one of which is broken; one that waits for that")
	a := k.onSession("A", 99, true, leaseName, otherLease)
	sc.Actors = []Actor{a, k.acquirer("B", 101, false, nil), k.breaker(a, nil)}
	sc.Lost, sc.Late, sc.Pauses = 1, 0, 1
	return sc
}

// otherLasts is twoLeases in a world without a fault: the lease that was not broken is not lost.
func (k *strictMaker) otherLasts() *Scenario {
	sc := k.twoLeases()
	sc.Name = "strict-other-lasts"
	sc.Lost, sc.Pauses, sc.Crashes, sc.Patience = 0, 0, 0, 0
	begin := sc.Actors[0].Start
	sc.Actors[0].Start = func() (Program, error) {
		p, err := begin()
		if err == nil {
			p.(*process).lasting = another
		}
		return p, err
	}
	return sc
}

// calledDoubtful: a lease is broken before its holder knows that it has it. Its
// session is told of that once, and must not keep it alive.
func (k *strictMaker) calledDoubtful() *Scenario {
	sc := k.world("called-doubtful", "a claim on a session is broken before its maker knows that it won")
	a := k.onSession("A", 99, true)
	b, d := k.acquirer("B", 101, false, nil), k.breaker(a, nil)
	b.Flawless, b.Tell[0].From = true, 1
	d.Flawless, d.Tell[0].Needs, d.Tell[0].Token, d.Tell[0].Until = true, "", 0, 1
	sc.Actors = []Actor{a, b, d}
	sc.Lost, sc.Late, sc.Crashes, sc.Pauses = 1, 0, 0, 2
	return sc
}

// calibrates: an acquirer that finds the name held takes a sample of the store's clock, by a
// put and a get of an object of its own.
func (k *strictMaker) calibrates() *Scenario {
	sc := k.world("calibrates", "2 acquirers; the second samples the store's clock when it has to wait")
	a, b := k.acquirer("A", 99, true, nil), k.acquirer("B", 101, false, nil)
	b.Sampled = false
	sc.Actors = []Actor{a, b}
	return sc
}
