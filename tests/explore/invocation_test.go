package explore

import (
	"bytes"
	"context"
	"encoding/binary"
	"reflect"
	"testing"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/tests/explore/check"
)

// TestInvocations: as far as is looked, in every world of invocations, nothing
// happens that must not.
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

// works leaves of somebody's ends the one with a result, no earlier than at a tick.
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

// TestNoCreate: where a store is not asked to keep the first result, it is looked
// for right before each put. Between the two another may store one: that is not
// promised, and shown.
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

// TestLoserRetries: whose lease is broken while its result is not taken by the store
// tries no more.
func TestLoserRetries(t *testing.T) {
	m := makers()["strict"]
	sc := m.twoResults()
	d := m.breaker()
	d.Flawless, d.Tell[0].From = true, 1
	sc.Actors = []Actor{works(m.orchestrator("A", 99, true), 1), d}
	sc.Lost, sc.Horizon = 2, 5
	if f := searched(t, sc, 0); f.Violation != nil || !f.Exhausted {
		t.Errorf("%v, exhausted %t\n%s", f.Violation, f.Exhausted, tale(f))
	}
}

// TestCanonInvocation holds where things stand in the bytes of an invocation
// against the machine, in all states of a play.
func TestCanonInvocation(t *testing.T) {
	for name, m := range makers() {
		p := &play{t: t, maker: m, store: newBlobs(strictUnit), states: map[string]int{}}
		p.parts = []*part{
			{name: "A", wake: noWake, crashAt: never, job: job{after: second, starts: "R"}},
			{name: "R", wake: noWake, crashAt: never, job: job{after: 60 * second, result: true}},
		}
		inner := 0
		p.stepped = func(q *part) {
			machine := q.program.(*invoking).machine
			v, b := reflect.ValueOf(machine).Elem(), machine.AppendState(nil)
			for field, at := range map[string]int{"innerWake": atInnerWake, "polls": atPolls, "retries": atRetries} {
				if got := int64(binary.BigEndian.Uint64(b[at:])); got != v.FieldByName(field).Int() {
					t.Errorf("%s: %s is %d, and stands elsewhere: %d", name, field, v.FieldByName(field).Int(), got)
				}
			}
			if got := binary.BigEndian.Uint64(b[atBefore:]); got != v.FieldByName("before").Uint() {
				t.Errorf("%s: before is %d, and stands elsewhere: %d", name, v.FieldByName("before").Uint(), got)
			}
			if m := innerOf(machine); m != nil {
				inner++
				if state := m.AppendState(nil); !bytes.HasSuffix(b, state) || len(state) <= headSize {
					t.Errorf("%s: the lease's bytes are not the last", name)
				}
			}
		}
		p.at(0, func() { p.begin(p.parts[0], nil) })
		p.run()
		if inner == 0 || p.parts[0].said != core.ActionFound {
			t.Errorf("%s: it says %s", name, p.parts[0].said)
		}
	}
}

// TestInvocationNormal: with and without the normalisation of states, and with
// and without the reduction, the verdict is the same.
func TestInvocationNormal(t *testing.T) {
	for name, m := range makers() {
		var states [3]int
		for i := range states {
			sc := m.crash()
			sc.Horizon, sc.Lost, sc.Crashes, sc.Pauses, sc.Patience = 3, 0, 1, 0, 0
			if !m.strict() {
				sc.Horizon = 8 // it is held from the third tick on
			}
			sc.Verbatim, sc.OutOfOrder = i == 1, i == 2
			f := searched(t, sc, 0)
			if states[i] = f.States; f.Violation != nil || !f.Exhausted {
				t.Errorf("%s: %v, exhausted %t\n%s", name, f.Violation, f.Exhausted, tale(f))
			}
		}
		if states[0] > states[1] {
			t.Errorf("%s: %d states, and %d without the normalisation", name, states[0], states[1])
		}
		t.Logf("%s: %d states, %d without the normalisation, %d without the reduction", name, states[0], states[1], states[2])
	}
}

// makers are the protocols under which the kills are made.
func makers() map[string]*invocationMaker {
	return map[string]*invocationMaker{
		"strict":               {seed: 1, make: core.New, protocol: core.ProtocolStrict},
		"lastwriter":           {seed: 1, make: core.New, protocol: core.ProtocolLastWriter, creates: true},
		"lastwriter-no-create": {seed: 1, make: core.New, protocol: core.ProtocolLastWriter},
	}
}
