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

// toyMode is the mistake of a toy.
type toyMode int

const (
	toyPolite   toyMode = iota // creates, and holds if it was the first
	toyGreedy                  // holds whatever the store says
	toyGivesUp                 // waits for ever once it was told no
	toyPanics                  // does not know what no means
	toyReleases                // polite, and deletes what it made when it is told to
)

// toy is a lock in one create: what a checker sees of it is known.
type toy struct {
	claimant
	mode   toyMode
	issued core.RequestID
	state  string
}

func (p *toy) Step(now core.Instant, ev core.Event) ([]core.Action, error) {
	var out []core.Action
	switch {
	case ev.Kind == core.EventAcquire, ev.Kind == core.EventWoke && p.state == "waiting":
		p.issued++
		p.state = "claiming"
		out = []core.Action{{Kind: core.ActionCreate, Request: p.issued, Key: "toy"}}
	case ev.Kind == core.EventRelease:
		p.issued++
		p.state = "releasing"
		p.claims = nil
		out = []core.Action{{Kind: core.ActionDelete, Request: p.issued, Key: "toy"}}
	case ev.Kind == core.EventAnswer && p.state == "releasing":
		p.state = "released"
		out = []core.Action{{Kind: core.ActionReleased}}
	case ev.Kind == core.EventAnswer && (ev.Outcome == core.OutcomeYes || p.mode == toyGreedy):
		p.state = "held"
		out = []core.Action{{Kind: core.ActionHeld, At: noWake}}
	case ev.Kind == core.EventAnswer && p.mode == toyPanics:
		panic("toy does not know no")
	case ev.Kind == core.EventAnswer:
		p.state = "waiting"
		if p.mode != toyGivesUp {
			out = []core.Action{{Kind: core.ActionWake, At: now.Mono + second}}
		}
	}
	p.follow(out)
	return out, nil
}

func (p *toy) Idle() bool     { return p.state == "" || p.state == "held" || p.state == "released" }
func (p *toy) String() string { return p.state }
func (p *toy) Copy() Program  { twin := *p; return &twin }
func (p *toy) AppendState(dst []byte) []byte {
	return p.appendState(append(append(dst, p.state...), byte(p.issued)))
}

func toyScenario(modes ...toyMode) *Scenario {
	sc := &Scenario{
		Name: "toy", Store: newBlobs(1), Tick: second, Horizon: 4, Pauses: 1, Lost: 1, Late: 1, Crashes: 1,
	}
	for i, mode := range modes {
		name := string(rune('A' + i))
		a := Actor{
			Name: name, Waits: true,
			Start: func() (Program, error) {
				return &toy{claimant: claimant{actor: name, name: "toy", tenure: name}, mode: mode}, nil
			},
			Tell: []Command{{Event: core.Event{Kind: core.EventAcquire}, Words: name + " asks"}},
		}
		if mode == toyReleases {
			a.Tell = append(a.Tell, Command{Event: core.Event{Kind: core.EventRelease}, Words: name + " is told", In: "held"})
		}
		sc.Actors = append(sc.Actors, a)
	}
	return sc
}

// TestToys: the explorer finds what is wrong with each toy, and nothing where
// there is nothing.
func TestToys(t *testing.T) {
	faultless := func(sc *Scenario) *Scenario {
		sc.Lost, sc.Late, sc.Crashes = 0, 0, 0
		return sc
	}
	patient := func(sc *Scenario) *Scenario {
		sc.Patience = 10 * second
		return faultless(sc)
	}
	for _, c := range []struct {
		what    string
		sc      *Scenario
		checker string
	}{
		{"polite", toyScenario(toyPolite, toyPolite), ""},
		{"greedy", toyScenario(toyPolite, toyGreedy), check.NoOverlap},
		{"panics", toyScenario(toyPolite, toyPanics), "NoPanic"},
		{"waits for ever behind one that holds", patient(toyScenario(toyPolite, toyPolite)), check.EventuallyHeld},
		{"gives up", patient(toyScenario(toyReleases, toyGivesUp)), check.EventuallyHeld},
		{"a late delete, and nobody left whom it would harm", toyScenario(toyReleases, toyPolite), ""},
	} {
		f := searched(t, c.sc, 0)
		switch {
		case c.checker == "" && (f.Violation != nil || !f.Exhausted):
			t.Errorf("%s: %v, exhausted %t\n%s", c.what, f.Violation, f.Exhausted, tale(f))
		case c.checker != "" && (f.Violation == nil || f.Violation.Checker != c.checker):
			t.Errorf("%s: %v, want %s", c.what, f.Violation, c.checker)
		}
	}
}

// TestReduction: with and without the reduction the verdict is the same. Each
// world has so few faults that it is explored to its end without it, too.
func TestReduction(t *testing.T) {
	k := &strictMaker{seed: 1, make: core.New}
	small := func(sc *Scenario, horizon int) *Scenario {
		sc.Horizon, sc.Lost, sc.Late, sc.Pauses = horizon, 1, 0, 1
		sc.Faults, sc.Patience = 1, 0
		return sc
	}
	for _, make := range []func() *Scenario{
		func() *Scenario { return toyScenario(toyPolite, toyPolite) },
		func() *Scenario { return toyScenario(toyPolite, toyGreedy) },
		func() *Scenario { return toyScenario(toyReleases, toyReleases) },
		func() *Scenario { return riakScenario(3, false) },
		func() *Scenario { return mutexScenario(true, 2) },
		func() *Scenario { return mutexScenario(false, 0) },
		func() *Scenario { return lastwriterBlind(1) },
		func() *Scenario { return small(k.plain(), 3) },
		func() *Scenario { return small(k.companion(), 0) },
		func() *Scenario { return small(shared().cancels(), 1) },
	} {
		var found [2]*Found
		for i, order := range []bool{false, true} {
			sc := make()
			sc.OutOfOrder = order
			found[i] = searched(t, sc, 0)
		}
		with, without := found[0], found[1]
		if (with.Violation == nil) != (without.Violation == nil) || with.Exhausted != without.Exhausted {
			t.Errorf("%s: with the reduction %v, without %v", with.Scenario.Name, with.Violation, without.Violation)
			continue
		}
		if v := with.Violation; v != nil && v.Checker != without.Violation.Checker {
			t.Errorf("%s: with the reduction %v, without %v", with.Scenario.Name, v, without.Violation)
		}
		t.Logf("%s: %d states with the reduction, %d without", with.Scenario.Name, with.States, without.States)
	}
}

// TestLastwriter: what it promises holds as far as was looked, and what it does
// not promise is shown.
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
}

// TestOneOfTwo: where a lease on a session is broken, another on it goes on.
func TestOneOfTwo(t *testing.T) {
	k := &strictMaker{seed: 1, make: core.New}
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
			Protocol: p, Seed: 3, MaxStates: 400_000, Progress: func(int) { called = true },
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

// wellFormed holds a picture against XML, and against the actors that it shows.
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
