package explore

import (
	"context"
	"testing"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/machines"
	"github.com/mopslock/mopslock/tests/explore/check"
)

// TestInvocations: in all states that are seen of every world of invocations,
// nothing happens that must not.
func TestInvocations(t *testing.T) {
	const wanted = 1_000_000
	r, err := Run(context.Background(), Options{Protocol: "invocation", Seed: 1, MaxStates: wanted})
	if err != nil {
		t.Fatal(err)
	}
	if r.Counterexample != nil {
		t.Errorf("%v\n%s", r.Counterexample.Violation, tale(r.Counterexample))
	}
	t.Log(r.Summary())
}

// works leaves of an actor's ends only the one with a result, no earlier than at a tick.
func works(a Actor, from int) Actor {
	end := ends(a.Name)[1]
	end.From, end.Must = from, true
	a.Tell = append(a.Tell[:1:1], end)
	return a
}

// twoResults: a launcher and what it launched both have one.
func (k *invocationMaker) twoResults() *Scenario {
	sc := k.world("two-results", "an orchestrator and its remote, and each has a result")
	r := k.remoteOf("R", "A", 100)
	r.Tell[0].Must = true
	sc.Actors = []Actor{works(k.orchestrator("A", 99, true), 1), works(r, 1)}
	sc.Pauses, sc.Lost, sc.Late, sc.Crashes, sc.Patience = 0, 0, 0, 0, 0
	return sc
}

// TestNoCreate: where a store is not asked to keep the first result, a machine looks
// for it right before each put. Between the two another may store one: no promise
// excludes that, and the test shows it.
func TestNoCreate(t *testing.T) {
	for name, m := range makers() {
		sc := m.twoResults()
		first := sc.Overwrites
		sc.Overwrites = false
		f := searched(t, sc, 100_000)
		if found := f.Violation != nil && f.Violation.Checker == check.FirstResultWins; found != first || f.Violation != nil && !found {
			t.Errorf("%s: %v\n%s", name, f.Violation, tale(f))
		}
	}
}

// TestPausedRemote: a remote that is paused between its joining and its second look
// launches nothing before it has joined again.
func TestPausedRemote(t *testing.T) {
	for name, m := range makers() {
		sc := m.crash()
		sc.Actors = []Actor{sc.Actors[0], sc.Actors[2]}
		sc.Actors[0].Flawless = true
		sc.Horizon, sc.Crashes, sc.Patience = 4, 0, 0
		if !m.strict() {
			sc.Horizon, sc.Punctual, sc.Within = 15, false, 0
		}
		if f := searched(t, sc, 0); f.Violation != nil || !f.Exhausted {
			t.Errorf("%s: %v, exhausted %t\n%s", name, f.Violation, f.Exhausted, tale(f))
		} else {
			t.Logf("%s: %d states", name, f.States)
		}
	}
}

// TestLoserRetries: a process whose lease is broken while the store does not take its
// result tries no more.
func TestLoserRetries(t *testing.T) {
	m := makers()["strict"]
	sc := m.twoResults()
	a := m.orchestrator("A", 99, true)
	d := m.breaker(a)
	d.Flawless, d.Tell[0].From = true, 1
	sc.Actors = []Actor{works(a, 1), d}
	sc.Lost, sc.Horizon = 2, 5
	if f := searched(t, sc, 0); f.Violation != nil || !f.Exhausted {
		t.Errorf("%v, exhausted %t\n%s", f.Violation, f.Exhausted, tale(f))
	}
}

// TestKillAtEveryStep: the caller that wants a result and the remote that works on it are
// killed, either of them or both, at each of their steps and in every order. The next
// caller, to which nothing happens, holds the lease in the end or finds the result; no
// process launches work without a lease, beside another, or for a result that is there.
func TestKillAtEveryStep(t *testing.T) {
	for name, m := range makers() {
		sc := m.crash()
		sc.Actors[1].Flawless = true
		sc.Horizon, sc.Crashes, sc.Pauses = 4, 2, 0
		if !m.strict() {
			sc.Horizon = 10 // it is held from the third tick on
		}
		f := searched(t, sc, 0)
		if f.Violation != nil || !f.Exhausted {
			t.Errorf("%s: %v, exhausted %t\n%s", name, f.Violation, f.Exhausted, tale(f))
		}
		t.Logf("%s: %d states", name, f.States)
	}
}

// TestBrokenTwice: in no order is a call swallowed that a process is told while it may
// remember another.
func TestBrokenTwice(t *testing.T) {
	f := searched(t, makers()["strict"].brokenTwice(), 0)
	if f.Violation != nil || !f.Exhausted {
		t.Errorf("%v, exhausted %t\n%s", f.Violation, f.Exhausted, tale(f))
	}
	t.Logf("%d states, all there are", f.States)
}

// makers are the protocols under which invocations are explored.
func makers() map[string]*invocationMaker {
	return map[string]*invocationMaker{
		"strict":               {seed: 1, make: machines.New, protocol: core.ProtocolStrict},
		"lastwriter":           {seed: 1, make: machines.New, protocol: core.ProtocolLastWriter, creates: true},
		"lastwriter-no-create": {seed: 1, make: machines.New, protocol: core.ProtocolLastWriter},
	}
}
