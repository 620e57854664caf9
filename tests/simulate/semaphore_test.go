package simulate

import (
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
)

// TestSemaphore: under any faults of 20 actors, no more is held than the view of the process
// that is given a permit allows. Every waiter is served when the storm is over, and then a
// newcomer gets all that there is.
func TestSemaphore(t *testing.T) {
	s := swarm(t, seeds(100, 5000), Options{Protocol: core.ProtocolStrict, Shared: true})
	if s.Holds == 0 || s.Losses == 0 {
		t.Error("nothing happened")
	}
}

// TestSemaphoreEverybody: each of 20 actors that wait without limit gets one, in any storm.
func TestSemaphoreEverybody(t *testing.T) {
	for seed := range seeds(50, 2000) {
		r := Run(Options{Protocol: core.ProtocolStrict, Shared: true, Seed: uint64(seed), Once: true})
		if r.Violation != nil || r.Fairness.Starved > 0 {
			t.Fatalf("%d were not served:\n%v", r.Fairness.Starved, &r)
		}
	}
}

// TestSemaphoreDoes: in fair weather a semaphore does what it is for: as many hold at once
// as may, and no more.
func TestSemaphoreDoes(t *testing.T) {
	r := Run(Options{
		Protocol: core.ProtocolStrict, Shared: true, Seed: 1, Actors: 12, Names: 1, Capacity: 2, Width: 2, Once: true,
		Weather: Fair, Think: time.Second, Hold: 10 * time.Second, TTL: 20 * time.Second, Duration: time.Second, Holds: true,
	})
	most := 0
	for _, at := range r.Timeline {
		together := 0
		for _, other := range r.Timeline {
			if other.From <= at.From && at.From < other.To {
				together++
			}
		}
		most = max(most, together)
	}
	// The newcomer, which holds all four at the end, is a hold of its own.
	if r.Violation != nil || most != 4 || r.Holds != 12+1 || r.Overlaps != 0 {
		t.Errorf("%d at once\n%v", most, &r)
	}
}

// commitsToServe counts the commits that serve one process with that many waiters at once.
// Requests take 50 ms, and one more process holds all at first if kept says so.
func commitsToServe(t *testing.T, waiters int, kept bool) (commits int) {
	t.Helper()
	w := newSimulation(Options{
		Protocol: core.ProtocolStrict, Shared: true, Seed: 1, Actors: waiters, Processes: 1, Names: 1, Capacity: waiters, Width: 1,
		Once: true, Think: 1, Hold: time.Hour, TTL: 60 * time.Second, Duration: time.Hour, Weather: Fair,
		Faults: &Faults{Latency: Constant, Mean: 50 * time.Millisecond},
	})
	play := func(done func() bool) {
		for !done() && w.checker.found == nil && w.Now < int64(time.Hour) {
			w.Next()()
		}
	}
	var keeper *slot
	if kept {
		p := &process{number: 1, computer: w.processes[0].computer, onSession: true}
		w.start(p)
		keeper = &slot{process: p}
		w.ask(keeper, w.names[0], core.Event{
			Kind: core.EventPermit, Capacity: uint32(waiters), Width: 1, Weight: uint32(waiters), Wait: core.Forever,
		})
		play(func() bool { return keeper.phase == phaseHolding })
	}
	before, held := w.stats.Commits, w.stats.Holds
	w.start(w.processes[0])
	if kept {
		play(func() bool { return w.Now > int64(20*time.Second) })
		if w.stats.Holds != held || w.stats.waiting != waiters {
			t.Fatalf("%d wait, and %d were served", w.stats.waiting, w.stats.Holds-held)
		}
		w.depart(keeper, core.EventRelease)
		before++ // that is the keeper's own
	}
	play(func() bool { return w.stats.Holds == held+waiters })
	if w.checker.found != nil || w.stats.Holds != held+waiters {
		t.Fatalf("%d of %d are served: %v", w.stats.Holds-held, waiters, w.checker.found)
	}
	return w.stats.Commits - before
}

// TestHundredWaiters: waiters of one process are committed together: one commit serves a
// hundred of them, which would take a hundred commits one by one.
func TestHundredWaiters(t *testing.T) {
	const waiters, budget = 100, 100 / 20
	for _, kept := range []bool{false, true} {
		if commits := commitsToServe(t, waiters, kept); commits != 1 || commits > budget {
			t.Errorf("kept %t: %d commits, want 1, and at most %d", kept, commits, budget)
		}
	}
	if commits := commitsToServe(t, 1, true); commits != 1 {
		t.Errorf("one takes %d", commits)
	}
}
