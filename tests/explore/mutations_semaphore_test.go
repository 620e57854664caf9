//go:build mopslock_mutations

package explore

import (
	"slices"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/machines"
)

// sharedMaker makes worlds for one mutation.
type sharedMaker struct {
	semaphoreMaker
	mutation string
}

// narrow is a world with few faults, in which only what it is about is asked.
func (k *sharedMaker) narrow(name string, pauses, lost, lateWrites int, actors ...Actor) *Scenario {
	sc := k.world(name, "made for one mutation")
	sc.Pauses, sc.Lost, sc.Late, sc.Crashes, sc.Patience = pauses, lost, lateWrites, 0, 0
	sc.Actors = actors
	return sc
}

var oneView, twoView = view{1, 1, 1, 0}, view{2, 1, 1, 0}

func (k *sharedMaker) crowd() *Scenario {
	return ready(k.narrow("crowd", 0, 0, 0, k.caller("A", 99, true, oneView, nil), k.caller("B", 101, false, oneView, nil)))
}

// behindGateway: the first versions of the semaphore were collected, and the list by which B
// commits shows nothing.
func (k *sharedMaker) behindGateway() *Scenario {
	cfg := k.config("past")
	client, err := (&strictMaker{make: machines.New}).start("past", cfg)
	if err != nil {
		panic(err)
	}
	sc := k.narrow("behind-gateway", 1, 0, 0, flawless(k.caller("A", 99, true, oneView, remote)), at(k.caller("B", 101, false, oneView, remote), 1))
	sc.Store, sc.Odd = collectedBelow(past(newBlobs(strictUnit), client, oneView.permit(first, cfg), about(core.EventRelease))), 2
	return ready(sc)
}

// doubt: a create of unknown fate was never made.
func (k *sharedMaker) doubt() *Scenario {
	return ready(k.narrow("doubt", 0, 0, 1, k.caller("A", 99, true, oneView, nil), flawless(k.caller("B", 101, false, oneView, nil))))
}

// early: a permit is asked for on a session whose first beat is still on its way.
func (k *sharedMaker) early() *Scenario {
	return k.narrow("early", 2, 0, 0, k.caller("A", 99, true, oneView, nil), flawless(k.caller("B", 101, false, oneView, nil)))
}

// paused: the process that looks is paused between its question and the answer.
func (k *sharedMaker) paused() *Scenario {
	sc := k.narrow("paused", 1, 0, 0, flawless(k.caller("A", 99, true, oneView, nil)), k.caller("B", 101, false, oneView, nil))
	return ready(sc)
}

// stopped: the holder is paused, to just before its deadline and beyond.
func (k *sharedMaker) stopped() *Scenario { return ready(k.stops()) }

func (k *sharedMaker) stops() *Scenario {
	return k.narrow("stopped", 2, 0, 0, k.caller("A", 99, true, oneView, nil), flawless(k.caller("B", 101, false, oneView, nil)))
}

func (k *sharedMaker) aged() *Scenario {
	sc := k.stops()
	sc.Name = "semaphore-aged"
	sc.Actors[1].SampleAge = 900 * second
	return ready(sc)
}

// withdrawn: an ask is cancelled while its create is on its way.
func (k *sharedMaker) withdrawn() *Scenario {
	sc := k.narrow("withdrawn", 1, 1, 1, cancels(k.caller("A", 99, true, oneView, nil)), k.newcomer(oneView))
	sc.Patience, sc.Horizon = 60*second, 2
	return ready(sc)
}

// overtaken: a create is of unknown fate, and by that time another's is the next version.
func (k *sharedMaker) overtaken() *Scenario {
	sc := k.narrow("overtaken", 1, 1, 0, k.caller("A", 99, true, twoView, nil), k.caller("B", 101, false, twoView, nil))
	sc.Patience, sc.Horizon = 60*second, 2
	return ready(sc)
}

// outlived: a session dies with a permit on it, told or untold.
func (k *sharedMaker) outlived() *Scenario {
	sc := k.narrow("outlived", 2, 1, 0, k.caller("A", 99, true, oneView, nil))
	sc.Patience, sc.Horizon = 60*second, 5
	return ready(sc)
}

// leavingBeside: a process whose idle session is being left also has a lease, so that its
// client never waits for nothing.
func (k *sharedMaker) leavingBeside() *Scenario {
	sc := k.leaving()
	sc.Name = "semaphore-leaving-beside"
	sc.Actors = []Actor{flawless(sc.Actors[0]), flawless(sc.Actors[1])}
	a := &sc.Actors[0]
	a.Tell[0].Event.Claim = another
	other := k.config(a.Name)
	other.Name, other.TTL, other.Margin = otherLease, core.TTL(3600*second), core.Duration(360*second)
	a.Tell = slices.Insert(a.Tell, 0, Command{Event: begins(core.EventAcquire, first, other), Words: "A: acquire " + otherLease, Must: true})
	return sc
}
