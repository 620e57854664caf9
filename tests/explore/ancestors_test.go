package explore

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mopslock/mopslock/tests/explore/check"
)

// riakGuide is the guide's failure scenario of each draft, in short: who does
// what, in the order in which the guide tells it.
var riakGuide = map[string]struct {
	checker string
	steps   []string
}{
	"riak-1": {check.NoOverlap, []string{
		"1 reads nothing", "2 reads nothing", "2 writes", "2 starts", "1 writes", "1 starts",
	}},
	"riak-2": {check.NoOverlap, []string{
		"1 reads nothing", "2 reads nothing", "2 writes", "2 reads its ID", "2 starts", "1 writes", "1 reads its ID", "1 starts",
	}},
	"riak-3": {NobodyWorks, []string{
		"1 reads nothing", "2 reads nothing", "2 writes", "1 writes", "1 reads a conflict", "1 moves on",
		"2 reads a conflict", "2 moves on",
	}},
	"riak-4": {check.NoOverlap, []string{
		"1 reads nothing", "2 reads nothing", "2 writes", "2 reads its ID", "2 starts", "1 writes",
		"1 reads a conflict", "1 starts",
	}},
}

// TestRiakGuide: the explorer finds each failure scenario of the guide by
// itself, step for step. (The guide lets both start, or move on, in one last
// step; draft 4's worker 1 sees its ID with the lowest timestamp in a conflict.)
func TestRiakGuide(t *testing.T) {
	for protocol, guide := range riakGuide {
		r := explored(t, protocol)
		if r.Counterexample == nil {
			t.Errorf("%s: nothing found", protocol)
			continue
		}
		if got := r.Counterexample.Violation.Checker; got != guide.checker {
			t.Errorf("%s: %s, want %s", protocol, got, guide.checker)
		}
		if got := riakSteps(r.Counterexample.Trace); !slices.Equal(got, guide.steps) {
			t.Errorf("%s:\n got %s\nwant %s", protocol, strings.Join(got, ", "), strings.Join(guide.steps, ", "))
		}
	}
	if f := searched(t, riakScenario(4, true), 0); !slices.Equal(riakSteps(f.Trace), riakGuide["riak-4"].steps) {
		t.Errorf("draft 4 by ids instead of timestamps does not fail in the same way:\n%s", tale(f))
	}
}

// riakSteps puts a trace into the guide's words. Worker 1 is the one that reads first.
func riakSteps(trace []Step) []string {
	names := map[string]string{}
	var steps []string
	for i := range trace {
		s := &trace[i]
		if names[s.Actor] == "" {
			names[s.Actor] = fmt.Sprint(len(names) + 1)
		}
		what := s.Verb
		switch {
		case s.Verb == "get" && strings.Contains(s.Text, "nothing there"):
			what = "reads nothing"
		case s.Verb == "get" && strings.Contains(s.Text, "@") && strings.Count(s.Text, "@") > 1:
			what = "reads a conflict"
		case s.Verb == "get":
			what = "reads its ID"
		case s.Verb == "put":
			what = "writes"
		case s.Verb == "held":
			what = "starts"
		case s.Verb == "refused":
			what = "moves on"
		}
		steps = append(steps, names[s.Actor]+" "+what)
	}
	return steps
}

// TestRiakDeletion: deleted values reappear if a server was away.
func TestRiakDeletion(t *testing.T) {
	f := searched(t, riakDeletion(), 0)
	if f.Violation == nil || f.Violation.Checker != check.NoResurrection {
		t.Fatalf("resurrected delete: %v", f.Violation)
	}
	told := tale(f)
	for _, want := range []string{"removes the lock: server", "moves on"} {
		if !strings.Contains(told, want) {
			t.Errorf("the story does not say %q:\n%s", want, told)
		}
	}
	whole := riakDeletion()
	whole.Odd = 0
	if f := searched(t, whole, 0); f.Violation != nil || !f.Exhausted {
		t.Errorf("with all servers there: %v, exhausted %t", f.Violation, f.Exhausted)
	}
}

// TestMutex: only the owner check tells apart two drivers that both hear of success.
// A driver that continues without the mutex after some tries overlaps another, with
// the check or without it.
func TestMutex(t *testing.T) {
	if f := searched(t, mutexScenario(true, 0), 0); f.Violation != nil || !f.Exhausted {
		t.Errorf("checked, tried without end: %v, exhausted %t\n%s", f.Violation, f.Exhausted, tale(f))
	}
	f := searched(t, mutexScenario(false, 0), 0)
	if f.Violation == nil || !strings.Contains(tale(f), "at the same time") {
		t.Errorf("unchecked: %v\n%s", f.Violation, tale(f))
	}
	f = explored(t, "mutex").Counterexample
	if f == nil || strings.Count(tale(f), "it exists already") != mutexTries {
		t.Errorf("continuing without it is not found:\n%s", tale(f))
	}
}

// TestMutexExit: leaving the with block removes the service that is there, even
// if it belongs to another driver by now.
func TestMutexExit(t *testing.T) {
	sc := mutexScenario(true, mutexTries)
	sc.Bare = true // that two hold is known; now see what comes of it
	sc.End = func(_ *check.Ledger, states []string) *check.Violation {
		if states[0] == workerWorking && states[1] == workerDone {
			return &check.Violation{Checker: check.NoClobber, Text: "driver Y removed the service of driver X"}
		}
		return nil
	}
	f := searched(t, sc, 0)
	if f.Violation == nil || !strings.Contains(tale(f), "driver Y removes the service MUTEX") {
		t.Errorf("%v\n%s", f.Violation, tale(f))
	}
}

func explored(t *testing.T, protocol string) *Result {
	t.Helper()
	r, err := Run(context.Background(), Options{Protocol: protocol, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	return &r
}

func searched(t *testing.T, sc *Scenario, states int) *Found {
	t.Helper()
	f, err := Search(context.Background(), sc, Limits{MaxStates: states})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// tale is a counter-example in words.
func tale(f *Found) string {
	var lines []string
	if f != nil {
		for i := range f.Trace {
			lines = append(lines, f.Trace[i].line())
		}
	}
	return strings.Join(lines, "\n")
}
