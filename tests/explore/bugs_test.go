//go:build mopslock_bugs

package explore

import (
	"testing"

	"github.com/mopslock/mopslock/core"
)

// flawless is an actor that nothing happens to: what goes wrong goes wrong elsewhere.
func flawless(a Actor) Actor { a.Flawless = true; return a }

// late tells an actor its first command no earlier than at a tick.
func late(a Actor, tick int) Actor { a.Tell[0].From = tick; return a }

// at tells an actor its first command at one tick only.
func at(a Actor, tick int) Actor { a.Tell[0].From, a.Tell[0].Until = tick, tick; return a }

// buggedMaker makes worlds with a mistake in them; where that is the host's and
// not a machine's, the world itself makes it.
type buggedMaker struct {
	*strictMaker
	bug string
}

// bugWorlds are the scenarios that show what a rule is for, where the usual
// worlds do not: few actors, and only those faults that it takes.
func (k *buggedMaker) bugWorlds() map[string]func() *Scenario {
	return map[string]func() *Scenario{
		"judge-at-answer": k.pausedTaker, "slop-short": k.plain, "late-renewal": k.plain,
		"unknown-is-yes": k.plain, "deadline-from-answer": k.plain,
		"join-by-beat": k.companion, "released-frees-now": k.companion, "broken-frees-now": k.breaks,
		"session-without-calls": k.sessionBreak, "epoch-reset": k.release,
		"signs-read-apart": k.besideSession, "put-alone-renews": k.brokenUnseen, "unknown-is-no": k.brokenUnseen,
		"join-drops-session": k.joinerDies, "session-lives-on": k.pausedSession, "session-not-in-force": k.earlySession,
		"forget-unknown-create": k.orphan, "release-left-to-expire": k.orphan,
		"same-nonce-retry": k.retried, "old-calibration": k.oldSample, "stamps-as-nonces": k.oneGranule,
		"stepping-store-clock": k.leap, "tenure-reused": k.nextRun,
		"gc-without-basis": k.collected, "poll-as-basis": k.collectedAbove,
		"no-second-look": k.invocations().storedMeanwhile, "result-overwrites": k.invocations().twoResults,
		"loser-delivers":   k.invocations().brokenLoser,
		"same-boot-newest": k.lateJoin, "same-boot-freed": k.lateRelease,
	}
}

// TestBugs: each rule that is left out gives a counter-example, and the same
// world gives none with the rule in.
func TestBugs(t *testing.T) {
	const states = 3_000_000
	for _, bug := range core.Bugs() {
		t.Run(bug.String(), func(t *testing.T) {
			make := func(cfg core.Config) (core.Machine, error) { return core.NewBugged(cfg, bug) }
			k := &buggedMaker{&strictMaker{seed: 1, make: make}, bug.String()}
			world := k.bugWorlds()[bug.String()]
			if _, ok := k.sharedBugs()[bug.String()]; world == nil && ok {
				t.Skip("of semaphores alone: TestBugsShared")
			}
			if world == nil {
				t.Fatal("no world shows it")
			}
			f := searched(t, world(), states)
			if f.Violation == nil {
				t.Fatalf("%s: nothing found in %d states, exhausted %t", f.Scenario.Name, f.States, f.Exhausted)
			}
			if f.Violation.Checker == "NoPanic" {
				t.Errorf("%v\n%s", f.Violation, tale(f))
			}
			verbatim := world()
			verbatim.Verbatim = true
			if g := searched(t, verbatim, states); g.Violation == nil || g.Violation.Checker != f.Violation.Checker {
				t.Errorf("%s: %v, and without the normalisation of states %v", f.Scenario.Name, f.Violation, g.Violation)
			}
			t.Logf("%s: %d states, %d faults, %v\n%s", f.Scenario.Name, f.States, f.Faults, f.Violation, tale(f))
			sound := &buggedMaker{&strictMaker{seed: 1, make: core.New}, ""}
			if f := searched(t, sound.bugWorlds()[bug.String()](), f.States); f.Violation != nil {
				t.Errorf("without the bug: %v\n%s", f.Violation, tale(f))
			}
		})
	}
}

// narrow is a world with few faults.
func (k *buggedMaker) narrow(name string, pauses, lost, lateWrites int) *Scenario {
	sc := k.world(name, "made for one mistake")
	sc.Pauses, sc.Lost, sc.Late, sc.Crashes, sc.Patience = pauses, lost, lateWrites, 0, 0
	return sc
}

func (k *buggedMaker) pausedTaker() *Scenario {
	sc := k.narrow("paused-taker", 1, 0, 0)
	sc.Actors = []Actor{flawless(k.acquirer("A", 99, true, nil)), k.acquirer("B", 101, false, nil)}
	return sc
}

// besideSession: a lease with signs of two kinds. The holder's own beat is read
// old, then its session's.
func (k *buggedMaker) besideSession() *Scenario {
	sc := k.narrow("beside-session", 2, 0, 0)
	sc.Actors = []Actor{flawless(k.onSession("A", 99, true)), k.acquirer("B", 101, false, nil)}
	return sc
}

func (k *buggedMaker) brokenUnseen() *Scenario {
	sc := k.narrow("broken-unseen", 2, 2, 0)
	sc.Actors = []Actor{
		k.acquirer("A", 99, true, nil), flawless(late(k.acquirer("B", 101, false, nil), 3)), flawless(at(k.breaker(), 1)),
	}
	sc.Horizon = 5
	return sc
}

func (k *buggedMaker) joinerDies() *Scenario {
	sc := k.narrow("joiner-dies", 0, 0, 0)
	c := k.companionOf(99, nil)
	c.Tell[0].Until = 1
	sc.Crashes = 1
	sc.Actors = []Actor{flawless(k.onSession("A", 99, true)), flawless(late(k.acquirer("B", 101, false, nil), 3)), c}
	return sc
}

// orphan: a claim is given up while its create is under way, or a release fails,
// and the session lives on.
func (k *buggedMaker) orphan() *Scenario {
	sc := k.narrow("orphan", 1, 2, 1)
	a := releases(k.onSession("A", 99, true))
	a.Stays, a.Waits = true, false
	a.Tell = append(a.Tell, Command{
		Event: core.Event{Kind: core.EventCancel}, Words: "A cancels", In: core.LeaseDoubtful.String(),
	})
	sc.Actors = []Actor{a, flawless(at(k.acquirer("B", 101, false, nil), 2))}
	sc.Horizon, sc.Patience = 3, 60*second
	return sc
}

// pausedSession: a process is paused until its session is dead, and goes on.
func (k *buggedMaker) pausedSession() *Scenario {
	sc := k.narrow("paused-session", 1, 0, 0)
	a := k.onSession("A", 99, true)
	a.Stays, a.Waits = true, false
	sc.Actors = []Actor{a, flawless(at(k.acquirer("B", 101, false, nil), 2))}
	sc.Horizon, sc.Patience = 5, 60*second
	return sc
}

// earlySession: a lease is asked for on a session whose first beat is still on
// its way. With the mistake the host tells of it too early, too.
func (k *buggedMaker) earlySession() *Scenario {
	sc := k.narrow("early-session", 2, 0, 0)
	a := k.onSession("A", 99, true)
	begin := a.Start
	a.Start = func() (Program, error) {
		p, err := begin()
		if err == nil && k.bug == "session-not-in-force" {
			p.(*process).sid = k.tenure("A's session") // an id is made of its seed, whatever it names
		}
		return p, err
	}
	sc.Actors = []Actor{a, flawless(late(k.acquirer("B", 101, false, nil), 2))}
	sc.Horizon = 5
	return sc
}

func (k *buggedMaker) retried() *Scenario {
	sc := k.narrow("retried", 2, 0, 1)
	sc.Actors = []Actor{k.acquirer("A", 99, true, nil), flawless(late(k.acquirer("B", 101, false, nil), 2))}
	sc.Horizon = 4
	return sc
}

func (k *buggedMaker) oldSample() *Scenario {
	sc := k.narrow("old-sample", 1, 0, 0)
	sc.Actors = []Actor{k.acquirer("A", 99, true, nil), flawless(k.acquirer("B", 101, false, nil))}
	sc.Actors[1].SampleAge = 1000 * second
	sc.Horizon = 4
	return sc
}

func (k *buggedMaker) oneGranule() *Scenario {
	observed := func(c *core.Config) { c.Expiry = core.ExpiryObserved; c.StampUnit = core.Duration(20 * second) }
	sc := k.narrow("one-granule", 1, 0, 0)
	sc.Store, sc.StoreWall = newBlobs(20*second), start/(20*second)*(20*second)
	sc.Actors = []Actor{flawless(k.acquirer("A", 99, true, observed)), flawless(k.acquirer("B", 101, false, observed))}
	return sc
}

// leap: a store whose clock is set, as a file system's may be, must not be
// calibrated by. That is the host's rule; the mistake is the scenario's.
func (k *buggedMaker) leap() *Scenario {
	change := func(c *core.Config) { c.Expiry = core.ExpiryObserved }
	if k.bug == "stepping-store-clock" {
		change = func(*core.Config) {}
	}
	sc := k.narrow("leap", 1, 0, 0)
	sc.LeapAt, sc.LeapBy, sc.Horizon = 1, 10*second, 4
	sc.Actors = []Actor{k.acquirer("A", 99, true, change), flawless(at(k.acquirer("B", 101, false, change), 1))}
	sc.Actors[1].SampleTick = 1
	return sc
}

// nextRun: a program that acquires a second time takes a fresh tenure; with the
// mistake it takes the one that it had.
func (k *buggedMaker) nextRun() *Scenario {
	sc := k.narrow("next-run", 0, 0, 0)
	a := releases(k.acquirer("A", 99, true, nil))
	name := "A again"
	if k.bug == "tenure-reused" {
		name = "A"
	}
	cfg := k.config(name)
	a.Tell = append(a.Tell, Command{
		Event: core.Event{Kind: core.EventAcquire, Wait: core.Forever}, Words: "A asks for it a second time", In: core.LeaseReleased.String(),
		Make: func(Program, int64) (Program, error) { return k.start("A", cfg) },
	})
	sc.Actors = []Actor{a}
	return sc
}

// past plays one machine in a store by itself, at an instant long ago.
func past(store Store, m core.Machine, events ...core.Event) Store {
	for _, ev := range events {
		for inbox := []core.Event{ev}; len(inbox) > 0; inbox = inbox[1:] {
			actions, err := m.Step(core.Instant{}, inbox[0])
			if err != nil {
				panic(err)
			}
			for j := range actions {
				if a := actions[j]; isRequest(a.Kind) {
					a.Body = append([]byte(nil), a.Body...)
					var reply core.Event
					store, reply = store.Apply(start-4000*second, &a, 0)
					reply.Request = a.Request
					inbox = append(inbox, reply)
				}
			}
		}
	}
	return store
}

// aged is a store with so many tenures of the name, and another. That one has had a
// companion: its release does not free the name at once, but long ago it was.
func (k *buggedMaker) aged(tenures int) Store {
	machine := func(cfg core.Config) core.Machine {
		m, err := core.New(cfg)
		if err != nil {
			panic(err)
		}
		return m
	}
	acquire, release := core.Event{Kind: core.EventAcquire}, core.Event{Kind: core.EventRelease}
	store := Store(newBlobs(strictUnit))
	for i := range tenures {
		store = past(store, machine(k.config("past "+string(rune('a'+i)))), acquire, release)
	}
	last := machine(k.config("past"))
	store = past(store, last, acquire)
	join := k.config("past companion")
	join.Machine, join.Holder, join.Epoch = core.MachineCompanion, core.HolderID(k.tenure("past")), core.Epoch(2*tenures+1)
	store = past(store, machine(join), core.Event{Kind: core.EventAccompany})
	return past(store, last, release)
}

// cycles is an actor that acquires and releases at once, and once more after a
// tick: the winner of each sixteenth version collects.
func (k *buggedMaker) cycles(name string, times int, change func(*core.Config)) Actor {
	a := flawless(k.acquirer(name, 101, false, change))
	a.Waits = false
	for i := range times {
		again := k.config(name + string(rune('0'+i)))
		change(&again)
		from := 0
		if i == times-1 {
			from = 1
		}
		a.Tell = append(a.Tell,
			Command{Event: core.Event{Kind: core.EventRelease}, Words: name + " is told to release", In: core.LeaseHeld.String(), Must: true},
			Command{
				Event: core.Event{Kind: core.EventAcquire, Wait: core.Forever}, Words: name + " asks again", In: core.LeaseReleased.String(),
				Make: func(Program, int64) (Program, error) { return k.start(name, again) }, From: from, Must: true,
			})
	}
	return a
}

// collected: a create for a version that was made, superseded and collected
// lands, and is won.
func (k *buggedMaker) collected() *Scenario {
	endless := func(c *core.Config) { c.TTL, c.Margin = core.None, 0 }
	sc := k.narrow("collected", 1, 0, 0)
	// The oldest are deleted first, so the one that A wants is among those.
	sc.Store, sc.Tick, sc.Horizon = k.aged(0), 1000*second, 1
	sc.Actors = []Actor{k.acquirer("A", 99, true, endless), k.cycles("B", 6, endless)}
	return sc
}

// collectedAbove: a waiter asks whether there is a version above the one that it
// knows. There was, and it was collected.
func (k *buggedMaker) collectedAbove() *Scenario {
	sc := k.narrow("collected-above", 0, 0, 0)
	sc.Store, sc.Tick, sc.Horizon = k.aged(6), 1000*second, 1
	sc.Actors = []Actor{at(k.acquirer("A", 99, false, nil), 0), k.cycles("B", 8, func(*core.Config) {})}
	sc.Actors[1].Tell[0].Must = true
	return sc
}

// lateJoin: the version of a companion lands long after it was emitted, and the
// holder has renewed under the one below.
func (k *buggedMaker) lateJoin() *Scenario {
	boot := func(c *core.Config) { c.Boot, c.Expiry = "boot-1", core.ExpiryObserved }
	sc := k.narrow("late-join", 2, 0, 0)
	c := k.companionOf(100, boot)
	c.Tell[0].Until = 1
	sc.Actors = []Actor{flawless(k.acquirer("A", 100, true, boot)), flawless(late(k.acquirer("B", 100, false, boot), 2)), c}
	sc.Horizon = 5
	return sc
}

// lateRelease: the same of a release.
func (k *buggedMaker) lateRelease() *Scenario {
	sc := k.lateJoin()
	sc.Name = "strict-late-release"
	sc.Actors[0] = releases(sc.Actors[0])
	sc.Actors[0].Flawless = false
	sc.Actors[2].Flawless = true
	return sc
}
