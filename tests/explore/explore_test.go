package explore

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/machines"
	"github.com/mopslock/mopslock/tests/explore/check"
)

// TestSameEachTime: a search is the same each time, to its counter-example.
func TestSameEachTime(t *testing.T) {
	for _, make := range []func() *Scenario{
		func() *Scenario { return riakScenario(4, false) },
		func() *Scenario { return mutexScenario(true, mutexTries) },
		func() *Scenario { return lastwriterBlind(7) },
	} {
		a, b := searched(t, make(), 0), searched(t, make(), 0)
		if a.States != b.States || a.Transitions != b.Transitions || a.Depth != b.Depth || !reflect.DeepEqual(a.Trace, b.Trace) {
			t.Errorf("%s: %d states and %d, or another story:\n%s\n\n%s", a.Scenario.Name, a.States, b.States, tale(a), tale(b))
		}
	}
}

// TestNoPanic: a program that panics is a finding, and not the end of the search.
func TestNoPanic(t *testing.T) {
	var v *check.Violation
	if _, err := stepSafely(nil, core.Instant{}, core.Event{}); !errors.As(err, &v) || v.Checker != "NoPanic" {
		t.Error(err)
	}
}

// TestSameVerdict: with and without the reduction, and with and without the
// normalisation of states, the verdict is the same, and the latter leaves fewer states.
// Each world has so few faults that it is also explored to its end without them.
func TestSameVerdict(t *testing.T) {
	k, s := &strictMaker{seed: 1, make: machines.New}, shared()
	small := func(make func() *Scenario, horizon, crashes int) func() *Scenario {
		return func() *Scenario {
			sc := make()
			sc.Horizon, sc.Lost, sc.Late, sc.Pauses, sc.Crashes = horizon, 1, 0, 1, crashes
			sc.Faults, sc.Patience = 1, 0
			return sc
		}
	}
	reduced := []func() *Scenario{
		func() *Scenario { return riakScenario(3, false) },
		func() *Scenario { return mutexScenario(true, 2) },
		func() *Scenario { return mutexScenario(false, 0) },
		func() *Scenario { return lastwriterBlind(1) },
		small(k.plain, 3, 1), small(k.companion, 0, 1), small(s.cancels, 1, 1),
	}
	normal := []func() *Scenario{
		small(k.plain, 2, 0), small(k.release, 2, 0), small(k.jumps, 1, 0), small(k.endless, 2, 0),
		small(k.sessions, 0, 0), small(s.cancels, 1, 0), small(s.batch, 0, 0), // processes of several machines each
	}
	for _, m := range makers() {
		invokes := func() *Scenario {
			sc := m.crash()
			sc.Horizon, sc.Lost, sc.Crashes, sc.Pauses, sc.Patience = 3, 0, 1, 0, 0
			if !m.strict() {
				sc.Horizon = 8 // it is held from the third tick on
			}
			return sc
		}
		reduced, normal = append(reduced, invokes), append(normal, invokes)
	}
	for _, make := range reduced {
		alike(t, make, "reduction", func(sc *Scenario) { sc.OutOfOrder = true })
	}
	for _, make := range normal {
		if with, without := alike(t, make, "normalisation", func(sc *Scenario) { sc.Verbatim = true }); with.States > without.States {
			t.Errorf("%s: %d states, without the normalisation %d", with.Scenario.Name, with.States, without.States)
		}
	}
}

// alike compares the verdicts of a world and of the same world without something.
func alike(t *testing.T, make func() *Scenario, what string, leave func(*Scenario)) (with, without *Found) {
	sc := make()
	leave(sc)
	with, without = searched(t, make(), 0), searched(t, sc, 0)
	a, b := with.Violation, without.Violation
	if (a == nil) != (b == nil) || a != nil && a.Checker != b.Checker || with.Exhausted != without.Exhausted || a == nil && !with.Exhausted {
		t.Errorf("%s: %v, exhausted %t; without the %s %v, exhausted %t", sc.Name, a, with.Exhausted, what, b, without.Exhausted)
	}
	t.Logf("%s: %d states, %d without the %s", sc.Name, with.States, without.States, what)
	return with, without
}

// TestLastwriter: the promises of lastwriter hold in all states that are seen, and
// counter-examples show what it does not promise.
func TestLastwriter(t *testing.T) {
	if f := searched(t, lastwriterPromised(1), 300_000); f.Violation != nil {
		t.Errorf("promised: %v\n%s", f.Violation, tale(f))
	}
	for _, sc := range []*Scenario{lastwriterPaused(1), lastwriterBlind(1)} {
		f := searched(t, sc, 2_000_000)
		if f.Violation == nil || f.Violation.Checker != check.NoOverlap {
			t.Errorf("%s: %v", sc.Name, f.Violation)
		}
	}
}

// TestStrict: at least a million distinct states of the strict protocol, and no
// violation in them.
func TestStrict(t *testing.T) {
	const wanted = 1_000_000
	r, err := Run(context.Background(), Options{Protocol: "strict", Seed: 1, MaxStates: wanted + wanted/4})
	if err != nil {
		t.Fatal(err)
	}
	if r.Counterexample != nil {
		t.Errorf("%v\n%s", r.Counterexample.Violation, tale(r.Counterexample))
	}
	if r.States < wanted {
		t.Errorf("only %d distinct states", r.States)
	}
	t.Log(r.Summary())
	k := &strictMaker{seed: 1, make: machines.New} // where a lease on a session is broken, another on it goes on
	if f := searched(t, k.otherLasts(), 300_000); f.Violation != nil {
		t.Errorf("%v\n%s", f.Violation, tale(f))
	}
}

// TestRun: every protocol that Run names can be run, and says what it saw.
func TestRun(t *testing.T) {
	finds := map[string]bool{"lastwriter-blind": true, "mutex": true, "canal-lock": true}
	for _, p := range Protocols() {
		called := false
		r, err := Run(context.Background(), Options{
			Protocol: p, Seed: 3, MaxStates: 150_000, Progress: func(int) { called = true },
		})
		if err != nil {
			t.Fatal(err)
		}
		want := finds[p] || strings.HasPrefix(p, "riak-") || p == "mutex-unchecked"
		if (r.Counterexample != nil) != want {
			t.Errorf("%s: counter-example %t, want %t", p, r.Counterexample != nil, want)
		}
		if r.States > 2*progressEvery*len(r.Scenarios) && !called {
			t.Errorf("%s: no progress was told", p)
		}
		var text, svg bytes.Buffer
		if err := errors.Join(r.WriteText(&text), r.WriteSVG(&svg)); err != nil {
			t.Error(err)
		}
		if s := text.String(); !strings.Contains(s, "distinct states") || want && !strings.Contains(s, "\n  2. ") {
			t.Errorf("%s:\n%s", p, s)
		}
		wellFormed(t, svg.Bytes(), &r)
	}
	if _, err := Run(context.Background(), Options{Protocol: "paxos"}); err == nil {
		t.Error("an unknown protocol is refused")
	}
}

// wellFormed checks that a picture is XML, and that it shows the actors.
func wellFormed(t *testing.T, svg []byte, r *Result) {
	t.Helper()
	d := xml.NewDecoder(bytes.NewReader(svg))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%s: %v", r.Protocol, err)
		}
	}
	if r.Counterexample == nil {
		return
	}
	for _, a := range r.Counterexample.Scenario.Actors {
		if !bytes.Contains(svg, []byte(">"+a.Name+"<")) {
			t.Errorf("%s: the picture has no lane for %s", r.Protocol, a.Name)
		}
	}
}

// TestStops: a search ends at its bounds and with its context, and says so.
func TestStops(t *testing.T) {
	f, err := Search(context.Background(), lastwriterPromised(1), Limits{Depth: 5})
	if err != nil || f.Depth > 5 || f.Exhausted {
		t.Errorf("depth: %v, %+v", err, f)
	}
	if f = searched(t, lastwriterPromised(1), 1000); f.States < 1000 || f.States > 1100 || f.Exhausted {
		t.Errorf("states: %d", f.States)
	}
	r, err := Run(context.Background(), Options{Protocol: "strict", Seed: 1, For: 1})
	if err != nil || r.Exhausted || r.States == 0 || !strings.Contains(r.Summary(), "cut at the bound of time, 0 of ") {
		t.Errorf("time: %v, %s", err, r.Summary())
	}
	if r, err = Run(context.Background(), Options{Protocol: "strict", Seed: 1, For: time.Hour, MaxBytes: 1 << 20}); err != nil || r.Exhausted ||
		r.States == 0 || !strings.Contains(r.Summary(), "memory") {
		t.Errorf("memory: %v, %s", err, r.Summary())
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Search(ctx, lastwriterPromised(1), Limits{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	bad := lastwriterPromised(1)
	bad.Tick = 7
	if _, err := Search(context.Background(), bad, Limits{}); err == nil {
		t.Error("a tick that rates do not divide is refused")
	}
}

// TestBoundAtTheBeginning: a search that met its bound before it had expanded
// anything has gone through no worlds, with faults or without.
func TestBoundAtTheBeginning(t *testing.T) {
	for faults, want := range map[int]string{
		-1: "cut at the bound of states at the beginning: ",
		0:  "cut at the bound of states among worlds without a fault: ",
		1:  "cut at the bound of states among worlds with 1 fault: ",
	} {
		found := &Found{Scenario: &Scenario{Name: "s", About: "a"}, Bound: BoundStates, Faults: faults}
		r := Result{Scenarios: []*Found{found, found}}
		var text strings.Builder
		if err := r.WriteText(&text); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(text.String(), want) {
			t.Errorf("%d: %s; want %q", faults, text.String(), want)
		}
	}
}
