//go:build mopslock_mutations

package explore

import (
	"encoding/json"
	"fmt"
	"math"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/machines"
	"github.com/mopslock/mopslock/tests/explore/check"
	"github.com/mopslock/mopslock/tests/world"
)

// lastsAsBridge is strict's terms with the TTL of a bridge.
func lastsAsBridge(c *core.Config) {
	c.TTL, c.Margin = core.TTL(bridgeTTL), core.Duration(bridgeTTL/10)
}

// laterDeadline: one holds by bridge, and one that asks for strict judges it by its version alone.
func (k *mutantMaker) laterDeadline() *Scenario {
	sc := k.narrow("later-deadline", 1, 0, 0, 4, k.acquirer("A", 99, true, byBridge), flawless(k.acquirer("B", 101, true, lastsAsBridge)))
	sc.Tick = 2 * strictTick
	return sc
}

// waitedFor: one by bridge and one by strict wait for a tenure that is dead, and have seen no lock.json. Then an old
// process takes that, and keeps it.
func (k *mutantMaker) waitedFor() *Scenario {
	a, b := flawless(k.acquirer("A", 99, true, byBridge)), flawless(k.acquirer("B", 101, true, lastsAsBridge))
	m := flawless(at(k.acquirer("M", 100, false, byMops), 1))
	m.Waits, m.Stays, m.Tell[0].Must, a.Waits, a.Stays = false, true, true, false, true
	sc := k.narrow("waited-for", 0, 0, 0, 9, a, b, m)
	sc.Store, sc.Mixed, sc.Patience = k.deadTenure(), true, 60*second
	return sc
}

// deadTenure is a store with the version of a process that has died in it.
func (k *mutantMaker) deadTenure() Store {
	cfg := k.config("X")
	cfg.Machine = core.MachineLease
	dead, err := machines.New(cfg)
	if err != nil {
		panic(err)
	}
	store := newBlobs(strictUnit)
	now := core.Instant{Mono: 1, Wall: start}
	for ev := (core.Event{Kind: core.EventAcquire}); dead.String() != world.Held; {
		actions, err := dead.Step(now, ev)
		if err != nil {
			panic(err)
		}
		for i := range actions {
			if actions[i].Kind.IsRequest() {
				store.Blobs, ev = store.Blobs.Apply(start, &actions[i])
			}
		}
	}
	return store
}

// lateAfterTakeOver: a renewal of a tenure that is dead lands on that of the next.
func (k *mutantMaker) lateAfterTakeOver() *Scenario {
	b := flawless(late(k.acquirer("B", 101, false, byBridge), 1))
	sc := k.narrow("late-after-take-over", 0, 0, 1, 16, k.acquirer("A", 99, true, byBridge), b)
	sc.Crashes = 1
	sc.Actors[1].Start = func() (Program, error) {
		p, err := b.Start()
		if err == nil {
			p.(*process).lasting = first
		}
		return p, err
	}
	return sc
}

// besideReleased: an old process whose clock is ahead takes a fresh lock.json for a stale one, holds, and releases, all
// between two renewals.
func (k *mutantMaker) besideReleased() *Scenario {
	a, m := flawless(k.acquirer("A", 99, true, byBridge)), flawless(at(k.acquirer("M", 100, false, byMops), 1))
	a.Waits, m.Waits, m.WallOffset = false, false, 60*second
	m.Tell[0].Must = true
	m.Tell = append(m.Tell, Command{Event: about(core.EventRelease), Words: "M: release " + leaseName, In: world.Held, Until: 1, Must: true})
	a.Tell = append(a.Tell, Command{Event: about(core.EventRelease), Words: "A: release " + leaseName, In: world.Held, From: 3})
	sc := k.narrow("beside-released", 0, 0, 0, 4, a, m)
	sc.Mixed = true
	sc.End = func(l *check.Ledger, states []string) *check.Violation {
		if l.InOrder(tenureOf(a), tenureOf(m)) && states[0] == core.ActionReleased.String() {
			return &check.Violation{Checker: check.NoResurrection, Text: "A goes on after another has held in its place"}
		}
		return nil
	}
	return sc
}

// killedBetween: a process dies between the two writes of its release.
func (k *mutantMaker) killedBetween() *Scenario {
	sc := k.narrow("killed-between", 0, 0, 0, 3, releases(k.acquirer("A", 99, true, byBridge)))
	sc.Crashes, sc.Actors[0].Waits = 1, false
	sc.Left = keptByNobody
	return sc
}

// version and record are what a version and a lock.json say of who has the name.
type version struct{ State, Tenure string }

type record struct {
	Writer   string `json:"writer_id"`
	Released string `json:"released_at"`
}

// kept reads the newest version and lock.json.
func kept(s Store) (newest version, lock record) {
	keeper := s.(blobs)
	n := keeper.Newest(leaseName)
	_ = json.Unmarshal(keeper.Object(fmt.Sprintf("%s%s%016x/v", leaseName, world.Registers, math.MaxUint64-uint64(n))), &newest)
	_ = json.Unmarshal(keeper.Object(leaseName+"/"+core.LockFile), &lock)
	return newest, lock
}

// keptByNobody reports a lock.json that is fresh although its tenure has ended in the register.
func keptByNobody(s Store, _ int) *check.Violation {
	newest, lock := kept(s)
	if newest.State == "released" && lock.Writer == newest.Tenure && lock.Released == "" {
		return &check.Violation{Checker: check.NothingLeaks, Text: "lock.json is fresh, and its tenure is released"}
	}
	return nil
}

// takenByMops: an old process that was held up takes lock.json from a bridge.
func (k *mutantMaker) takenByMops() *Scenario {
	sc := k.narrow("taken-by-mops", 1, 0, 0, 9, flawless(k.acquirer("A", 99, true, byBridge)), releases(k.acquirer("M", 100, false, byMops)))
	sc.Actors[0].Waits, sc.Actors[1].Waits, sc.Mixed = false, false, true
	sc.Left = func(s Store, _ int) *check.Violation {
		if newest, _ := kept(s); newest.State == "held" {
			return &check.Violation{Checker: check.NothingLeaks, Text: "a version is held, and nobody believes in it"}
		}
		return nil
	}
	return sc
}

// lookedBefore: an old process takes the name between a look at it and the claim that follows. All that lastwriter
// needs is kept: an acquire margin above two requests, and no late puts.
func (k *mutantMaker) lookedBefore() *Scenario {
	margin := func(by func(*core.Config)) func(*core.Config) {
		return func(c *core.Config) {
			by(c)
			c.TTL, c.Margin, c.AcquireMargin, c.Renewal = core.TTL(4*bridgeTTL), core.Duration(4*bridgeTTL/10), core.Duration(5*second), 0
		}
	}
	sc := k.narrow("looked-before", 3, 0, 0, 8, k.acquirer("A", 99, false, margin(byBridge)), k.acquirer("M", 100, false, margin(byMops)))
	sc.Within, sc.Punctual = 1, true
	return sc
}
