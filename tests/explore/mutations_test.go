//go:build mopslock_mutations

package explore

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/machines"
	"github.com/mopslock/mopslock/tests/explore/check"
	"github.com/mopslock/mopslock/tests/world"
)

// flawless is an actor to which no fault happens.
func flawless(a Actor) Actor { a.Flawless = true; return a }

// late tells an actor its first command no earlier than at a tick.
func late(a Actor, tick int) Actor { a.Tell[0].From = tick; return a }

// at tells an actor its first command at one tick only.
func at(a Actor, tick int) Actor { a.Tell[0].From, a.Tell[0].Until = tick, tick; return a }

// mutantMaker makes worlds of mutants; where the mistake is the host's and
// not a machine's, the world itself makes it.
type mutantMaker struct {
	*strictMaker
	mutation string
}

// shownMutation is a world that shows what some rules are for, and the invariant that breaks
// without each: few actors, and only those faults that it takes.
type shownMutation struct {
	world     func() *Scenario
	checker   string
	mutations string
}

func (k *mutantMaker) mutantWorlds() []shownMutation {
	i, s := k.invocations(), &sharedMaker{semaphoreMaker{k.strictMaker}, k.mutation}
	overlap, held, grows := check.NoOverlap, check.EventuallyHeld, check.EpochOnlyGrows
	within, leak := check.PermitsWithinCapacity, check.NothingLeaks
	return []shownMutation{
		{k.pausedTaker, overlap, "judge-at-answer"},
		{s.paused, within, "judge-at-answer"},
		{k.plain, overlap, "slop-short deadline-from-answer"},
		{k.lateRenewal, check.NoResurrection, "late-renewal"},
		{s.stopped, within, "slop-short permit-freed-early"},
		{k.plain, check.OneHolderPerEpoch, "unknown-is-yes"},
		{s.doubt, within, "unknown-is-yes"},
		{k.companion, overlap, "join-by-beat released-frees-now"},
		{k.breaks, overlap, "broken-frees-now"},
		{k.sessionBreak, overlap, "session-without-calls"},
		{k.release, grows, "epoch-reset"},
		{k.besideSession, overlap, "signs-read-apart"},
		{k.brokenUnseen, overlap, "put-alone-renews unknown-is-no"},
		{s.withdrawn, leak, "unknown-is-no forget-unknown-create release-left"},
		{k.joinerDies, overlap, "join-drops-session"},
		{k.pausedSession, check.NoResurrection, "session-lives-on"},
		{s.early, within, "session-not-in-force"},
		{k.orphan, held, "forget-unknown-create release-left-to-expire"},
		{k.retried, overlap, "same-nonce-retry"},
		{k.oldSample, overlap, "old-calibration"},
		{s.aged, within, "old-calibration"},
		{k.oneGranule, overlap, "stamps-as-nonces"},
		{k.leap, overlap, "stepping-store-clock"},
		{k.nextRun, check.NoResurrection, "tenure-reused"},
		{k.collected, check.OneHolderPerEpoch, "gc-without-basis"},
		{k.collectedAbove, grows, "poll-as-basis"},
		{k.collectedYoung, check.OneHolderPerEpoch, "collected-young"},
		{i.storedMeanwhile, check.NoIdleDouble, "no-second-look"},
		{i.twoResults, check.FirstResultWins, "result-overwrites"},
		{i.brokenLoser, check.LoserWritesNothing, "loser-delivers"},
		{i.brokenTwice, check.CallEndsBelief, "fix-lives-on belief-past-call"},
		{k.toldLate, check.SessionFirst, "session-told-last"},
		{k.blindStore, overlap, "lost-create-believed"},
		{k.throttledRecord, held, "throttled-record-awaited"},
		{k.besideItself, held, "nobody-nudged"},
		{k.oldClient, overlap, "lock-file-unasked"},
		{k.twoWaiters, overlap, "hurried-claim"},
		{k.changedInTime, overlap, "hint-renews"},
		{k.lateJoin, overlap, "same-boot-newest"},
		{k.lateRelease, overlap, "same-boot-freed"},
		{k.clones, overlap, "boot-clock-unchecked"},
		{k.joinedMeanwhile, overlap, "break-verdict-kept"},
		{k.brokenBetween, overlap, "exists-beside-put"},
		{k.brokenRenewed, overlap, "ended-beats-missed"},
		{k.behindGateway, grows, "empty-list-believed"},
		{s.behindGateway, within, "empty-list-believed"},
		{s.crowd, within, "overallocate"},
		{s.overtaken, held, "settle-at-version"},
		{s.outlived, held, "id-reused"},
		{s.outlived, check.QuietWhenIdle, "permit-outlives-session"},
		{s.leavingBeside, within, "leaving-handed-out"},
		{k.leaving, check.QuietWhenIdle, "leaving-handed-out"},
		{k.lookedBefore, overlap, "looked-before"},
		{k.waitedFor, held, "wait-under-version"},
		{k.laterDeadline, overlap, "later-deadline"},
		{k.lateAfterTakeOver, held, "epoch-unread"},
		{k.besideReleased, check.NoResurrection, "released-claimed"},
		{k.killedBetween, leak, "version-released-first"},
		{k.takenByMops, leak, "version-left"},
	}
}

// worldsWith are the worlds with one rule left out, or none.
func worldsWith(mutation string) []shownMutation {
	if mutation == "" {
		return (&mutantMaker{&strictMaker{seed: 1, make: machines.New}, ""}).mutantWorlds()
	}
	make := func(cfg core.Config) (core.Machine, error) { return machines.NewMutant(cfg, mutation) }
	return (&mutantMaker{&strictMaker{seed: 1, make: make}, mutation}).mutantWorlds()
}

// TestMutations: each rule that is left out gives a counter-example by the name of the
// invariant that it is for, and the same world gives none with the rule in.
func TestMutations(t *testing.T) {
	const states, few = 8_000_000, 100_000
	sound := worldsWith("")
	for _, mutation := range machines.Mutations("explorer") {
		found := false
		for i, shown := range worldsWith(mutation) {
			if !slices.Contains(strings.Fields(shown.mutations), mutation) {
				continue
			}
			found = true
			t.Run(mutation+"/"+shown.world().Name, func(t *testing.T) {
				t.Parallel()
				f := searched(t, shown.world(), states)
				if f.Violation == nil || f.Violation.Checker != shown.checker {
					t.Fatalf("%v, want %s, in %d states, exhausted %t\n%s", f.Violation, shown.checker, f.States, f.Exhausted, tale(f))
				}
				if f.States < few { // larger worlds are normalised as these are
					verbatim := shown.world()
					verbatim.Verbatim = true
					if g := searched(t, verbatim, states); g.Violation == nil || g.Violation.Checker != shown.checker {
						t.Errorf("%v, and without the normalisation of states %v", f.Violation, g.Violation)
					}
				}
				t.Logf("%d states, %d faults, %v\n%s", f.States, f.Faults, f.Violation, tale(f))
				if g := searched(t, sound[i].world(), max(f.States, few/10)); g.Violation != nil {
					t.Errorf("without the mutation: %v\n%s", g.Violation, tale(g))
				}
			})
		}
		if !found {
			t.Errorf("%s: no world shows it", mutation)
		}
	}
}

// narrow is a world with few faults, and some ticks; 0 is the usual number of them.
func (k *mutantMaker) narrow(name string, pauses, lost, lateWrites, horizon int, actors ...Actor) *Scenario {
	sc := k.world(name, "made for one mutation")
	sc.Pauses, sc.Lost, sc.Late, sc.Crashes, sc.Patience = pauses, lost, lateWrites, 0, 0
	sc.Horizon, sc.Actors = cmp.Or(horizon, sc.Horizon), actors
	return sc
}

// lateRenewal: a holder is paused beyond its deadline, and goes on.
func (k *mutantMaker) lateRenewal() *Scenario {
	return k.narrow("late-renewal", 2, 0, 0, 0, k.acquirer("A", 99, true, nil), flawless(late(k.acquirer("B", 101, false, nil), 2)))
}

func (k *mutantMaker) pausedTaker() *Scenario {
	return k.narrow("paused-taker", 1, 0, 0, 0, flawless(k.acquirer("A", 99, true, nil)), k.acquirer("B", 101, false, nil))
}

// besideSession: a lease with beats of two kinds. The holder's own beat is read
// old, then its session's.
func (k *mutantMaker) besideSession() *Scenario {
	return k.narrow("beside-session", 2, 0, 0, 0, flawless(k.onSession("A", 99, true)), k.acquirer("B", 101, false, nil))
}

func (k *mutantMaker) brokenUnseen() *Scenario {
	a := k.acquirer("A", 99, true, nil)
	return k.narrow("broken-unseen", 2, 2, 0, 5, a, flawless(late(k.acquirer("B", 101, false, nil), 3)), flawless(at(k.breaker(a, nil), 1)))
}

// joinedMeanwhile: a breaker finds a lease dead and breaks it, and a companion that
// joins it comes first.
func (k *mutantMaker) joinedMeanwhile() *Scenario {
	a := k.acquirer("A", 99, true, nil)
	return k.narrow("joined-meanwhile", 1, 0, 0, 4, a, flawless(at(k.acquirer("B", 101, false, nil), 3)),
		flawless(at(k.companionOf(a, 99, nil), 3)), flawless(at(k.breaker(a, nil), 3)),
	)
}

// brokenBetween: a holder asks whether there is anything above it, is broken, and only
// then puts the beat from which its renewal counts.
func (k *mutantMaker) brokenBetween() *Scenario {
	a := k.acquirer("A", 99, true, nil)
	return k.narrow("broken-between", 2, 0, 0, 5, a, flawless(at(k.acquirer("B", 101, false, nil), 4)), flawless(at(k.breaker(a, nil), 1)))
}

// brokenRenewed: a lease that was renewed is broken, and its first version is old.
func (k *mutantMaker) brokenRenewed() *Scenario {
	a := k.acquirer("A", 99, true, nil)
	return k.narrow("broken-renewed", 1, 0, 0, 4, a, flawless(at(k.acquirer("B", 101, false, nil), 3)), flawless(at(k.breaker(a, nil), 2)))
}

func (k *mutantMaker) joinerDies() *Scenario {
	a := k.onSession("A", 99, true)
	c := k.companionOf(a, 99, nil)
	c.Tell[0].Until = 1
	sc := k.narrow("joiner-dies", 0, 0, 0, 0, flawless(a), flawless(late(k.acquirer("B", 101, false, nil), 3)), c)
	sc.Crashes = 1
	return sc
}

// orphan: a claim is given up while its create is under way, or a release fails,
// and the session lives on.
func (k *mutantMaker) orphan() *Scenario {
	a := releases(k.onSession("A", 99, true))
	a.Stays, a.Waits = true, false
	a.Tell = append(a.Tell, Command{
		Event: about(core.EventCancel), Words: "A: cancel", In: world.Waiting,
	})
	sc := k.narrow("orphan", 1, 2, 1, 0, a, flawless(at(k.acquirer("B", 101, false, nil), 2)))
	sc.Horizon, sc.Patience = 3, 60*second
	return ready(sc)
}

// pausedSession: a process is paused until its session is dead, and goes on.
func (k *mutantMaker) pausedSession() *Scenario {
	a := k.onSession("A", 99, true)
	a.Stays, a.Waits = true, false
	sc := k.narrow("paused-session", 1, 0, 0, 0, a, flawless(at(k.acquirer("B", 101, false, nil), 2)))
	sc.Horizon, sc.Patience = 5, 60*second
	return sc
}

// changedInTime: a holder whose beat was not taken is told of a change, and there is nothing above.
func (k *mutantMaker) changedInTime() *Scenario {
	a := k.acquirer("A", 99, true, watches)
	a.Tell = append(a.Tell, Command{Event: core.Event{Kind: core.EventChanged}, Words: "A is told of a change", In: world.Held, From: 1})
	return k.narrow("changed-in-time", 2, 0, 1, 0, a, flawless(late(k.acquirer("B", 101, false, nil), 2)))
}

// twoWaiters: under lastwriter a holder is dead, and two waiters find that in the same
// moment. The requests of both take 20 ms at most; one's take nothing now and then.
func (k *mutantMaker) twoWaiters() *Scenario {
	const tick = 20 * millisecond
	sc := k.narrow("two-waiters", 2, 0, 0, 0)
	sc.Tick, sc.Horizon, sc.Within, sc.Punctual, sc.StoreWall = tick, 10, 1, true, start
	body := `{"writer_id": "dead", "written_at": "` + core.FormatStamp(start-88*second+tick) + `", "expire_s": 88.0, "write_count": 2, ` +
		`"first_written_at": "", "first_acquired_at": "", "released_at": ""}`
	sc.Store, _ = newBlobs(1).Apply(start-second, &core.Action{Kind: core.ActionPut, Key: leaseName + "/" + core.LockFile, Body: []byte(body)}, 0)
	for i, name := range []string{"A", "B"} {
		cfg := core.Config{
			Terms:    core.Terms{Protocol: core.ProtocolLastWriter, Name: leaseName, TTL: core.TTL(88 * second), FleetExpire: core.TTLEndless},
			OwnStore: true, Seed: seedOf(name, k.seed),
		}
		a := k.actor(name, 99+2*int64(i), cfg, nil, core.EventAcquire, Command{Words: asks(name), Must: true})
		a.MonoOffset = 0
		sc.Actors = append(sc.Actors, a)
	}
	return sc
}

func (k *mutantMaker) retried() *Scenario {
	return k.narrow("retried", 2, 0, 1, 4, k.acquirer("A", 99, true, nil), flawless(late(k.acquirer("B", 101, false, nil), 2)))
}

func (k *mutantMaker) oldSample() *Scenario {
	sc := k.narrow("old-sample", 1, 0, 0, 4, k.acquirer("A", 99, true, nil), flawless(k.acquirer("B", 101, false, nil)))
	sc.Actors[1].SampleAge = 900 * second
	return sc
}

func (k *mutantMaker) oneGranule() *Scenario {
	observed := func(c *core.Config) { c.Expiry = core.ExpiryObserved; c.StampUnit = core.Duration(20 * second) }
	sc := k.narrow("one-granule", 1, 0, 0, 0, flawless(k.acquirer("A", 99, true, observed)), flawless(k.acquirer("B", 101, false, observed)))
	sc.Store, sc.StoreWall = newBlobs(20*second), start/(20*second)*(20*second)
	return sc
}

// leap: no machine must judge by a store whose clock is set, as a file
// system's may be. That is the host's rule; the mistake is the scenario's.
func (k *mutantMaker) leap() *Scenario {
	change := func(c *core.Config) { c.Expiry = core.ExpiryObserved }
	if k.mutation == "stepping-store-clock" {
		change = func(*core.Config) {}
	}
	sc := k.narrow("leap", 1, 0, 0, 0, k.acquirer("A", 99, true, change), flawless(at(k.acquirer("B", 101, false, change), 1)))
	sc.LeapAt, sc.LeapBy, sc.Horizon = 1, 10*second, 4
	sc.Actors[1].SampleTick = 1
	return sc
}

// nextRun: a process that acquires a second time takes a fresh tenure; with the
// mistake it takes the one that it had.
func (k *mutantMaker) nextRun() *Scenario {
	a := releases(k.acquirer("A", 99, true, nil))
	a.Tell = append(a.Tell, Command{
		Event: begins(core.EventAcquire, another, k.config("A")), Words: asks("A") + ", once more", In: core.ActionReleased.String(),
	})
	return k.narrow("next-run", 0, 0, 0, 0, a)
}

// past plays one client in a store by itself, at an instant long ago.
func past(store Store, p Program, events ...core.Event) Store {
	for _, ev := range events {
		for inbox := []core.Event{ev}; len(inbox) > 0; inbox = inbox[1:] {
			actions, err := p.Step(core.Instant{}, inbox[0])
			if err != nil {
				panic(err)
			}
			for j := range actions {
				if a := &actions[j]; a.Kind.IsRequest() {
					var reply core.Event
					store, reply = store.Apply(start-4000*second, a, 0)
					inbox = append(inbox, reply)
				}
			}
		}
	}
	return store
}

// aged is a store with that many tenures of the name, and another. That one has had a
// companion: its release does not free the name at once, but it was long ago.
func (k *mutantMaker) aged(tenures int) Store {
	client := func(cfg core.Config) Program {
		p, err := (&strictMaker{make: machines.New}).start("past", cfg)
		if err != nil {
			panic(err)
		}
		return p
	}
	store := Store(newBlobs(strictUnit))
	for i := range tenures {
		cfg := k.config("past " + string(rune('a'+i)))
		store = past(store, client(cfg), begins(core.EventAcquire, first, cfg), about(core.EventRelease))
	}
	cfg := k.config("past")
	last := client(cfg)
	store = past(store, last, begins(core.EventAcquire, first, cfg))
	join := k.config("past companion")
	join.Holder, join.Epoch = core.HolderID(last.Claims()[0].Tenure), core.Epoch(2*tenures+1)
	store = past(store, client(join), begins(core.EventAccompany, first, join))
	return past(store, last, about(core.EventRelease))
}

// cycles is an actor that acquires and releases at once, and once more after a
// tick: the winner of each sixteenth version collects.
func (k *mutantMaker) cycles(name string, times int, change func(*core.Config)) Actor {
	a := flawless(k.acquirer(name, 101, false, change))
	a.Waits = false
	cfg := k.config(name)
	change(&cfg)
	for i := range uint64(times) {
		from := 0
		if i == uint64(times)-1 {
			from = 1
		}
		a.Tell = append(a.Tell,
			Command{Event: core.Event{Kind: core.EventRelease, Claim: first + i}, Words: name + ": release " + leaseName, In: world.Held, Must: true},
			Command{
				Event: begins(core.EventAcquire, first+i+1, cfg), Words: asks(name) + ", once more", In: core.ActionReleased.String(), From: from, Must: true,
			})
	}
	return a
}

// collected: a create for a version that was made, superseded and collected
// lands, and is won.
func (k *mutantMaker) collected() *Scenario {
	endless := func(c *core.Config) { c.TTL, c.Margin = core.TTLEndless, 0 }
	// The oldest are deleted first, so the one that A wants is among those.
	sc := k.narrow("collected", 1, 0, 0, 0, k.acquirer("A", 99, true, endless), k.cycles("B", 6, endless))
	sc.Store, sc.Tick, sc.Horizon = k.aged(0), 1000*second, 1
	return sc
}

// collectedYoung: the same within the five minutes in which a create may be believed. The
// version that it wins must not be collected yet, though its tenure ended long ago, and alone.
func (k *mutantMaker) collectedYoung() *Scenario {
	sc := k.collected()
	sc.Name, sc.Tick = "strict-collected-young", 100*second
	return sc
}

// collectedAbove: a waiter asks whether there is a version above the one that it
// knows. There was, and it was collected: behind the last release alone, since no other of
// these crosses a sixteenth version.
func (k *mutantMaker) collectedAbove() *Scenario {
	sc := k.narrow("collected-above", 0, 0, 0, 0, at(k.acquirer("A", 99, false, nil), 0), k.cycles("B", 6, func(*core.Config) {}))
	sc.Store, sc.Tick, sc.Horizon = k.aged(8), 1000*second, 1
	sc.Actors[1].Tell[0].Must = true
	return sc
}

// behindGateway: the first version of the name was collected, and the list by which B takes
// the name shows nothing.
func (k *mutantMaker) behindGateway() *Scenario {
	sc := k.narrow("behind-gateway", 1, 0, 0, 3, flawless(k.acquirer("A", 99, true, remote)), at(k.acquirer("B", 101, false, remote), 1))
	sc.Store, sc.Odd = collectedBelow(k.aged(1)), 2
	return sc
}

// collectedBelow is a store behind a gateway, in which only the newest version is left of each name.
func collectedBelow(store Store) Store {
	list := core.Action{Kind: core.ActionList, Key: leaseName + world.Registers, Count: core.MaxEntries}
	_, reply := store.Apply(start-second, &list, 0)
	newest := true
	for _, e := range reply.Entries {
		if !strings.HasSuffix(string(e.Key), "/v") {
			continue
		}
		if !newest {
			store, _ = store.Apply(start-second, &core.Action{Kind: core.ActionDelete, Key: string(e.Key)}, 0)
		}
		newest = false
	}
	return gateway{store.(blobs)}
}

// lateJoin: the version of a companion lands a tick after it was emitted, which its stamp
// cut to a whole second does not tell, and the holder has renewed under the one below.
func (k *mutantMaker) lateJoin() *Scenario {
	a := k.acquirer("A", 100, true, onOneBoot)
	sc := k.narrow("late-join", 3, 0, 0, 0, a, flawless(at(k.acquirer("B", 100, false, onOneBoot), 4)), at(k.companionOf(a, 100, onOneBoot), 1))
	sc.Pauses, sc.Crashes, sc.Horizon = 2, 1, 4
	return sc
}

// lateRelease: the same of a release.
func (k *mutantMaker) lateRelease() *Scenario {
	sc := k.lateJoin()
	sc.Name = "strict-late-release"
	sc.Pauses, sc.Crashes, sc.Within = 3, 0, 1
	sc.Actors[0] = releases(sc.Actors[0])
	sc.Actors[2].Tell[0].From = 0
	return sc
}

// clones: B's machine is a clone of A's, and its boot clock is ahead.
func (k *mutantMaker) clones() *Scenario {
	return k.narrow("clones", 0, 0, 0, 3, flawless(k.acquirer("A", 100, true, onOneBoot)), flawless(ahead(k.acquirer("B", 100, false, onOneBoot), 60*second)))
}

// invocations makes the worlds of invocations with the same mutation.
func (k *mutantMaker) invocations() *invocationMaker {
	return &invocationMaker{seed: k.seed, make: k.make, protocol: core.ProtocolStrict}
}

// narrow is a world with few faults.
func (k *invocationMaker) narrow(name string, pauses int) *Scenario {
	sc := k.world(name, "made for one mutation")
	sc.Pauses, sc.Lost, sc.Late, sc.Crashes, sc.Patience = pauses, 0, 0, 0, 0
	return sc
}

// storedMeanwhile: one looks, another stores the result and gives the lease back,
// and the first one gets it.
func (k *invocationMaker) storedMeanwhile() *Scenario {
	sc := k.narrow("stored-meanwhile", 0)
	sc.Actors = []Actor{works(k.orchestrator("A", 99, true), 0), works(k.orchestrator("B", 101, false), 0)}
	sc.Horizon = 1
	return sc
}

// brokenLoser: a breaker breaks the lease while the work is done.
func (k *invocationMaker) brokenLoser() *Scenario {
	sc := k.narrow("broken-loser", 0)
	a := k.orchestrator("A", 99, true)
	d := k.breaker(a)
	d.Tell[0].Must = true
	sc.Actors = []Actor{works(a, 2), flawless(d)}
	sc.Horizon = 3
	return sc
}
