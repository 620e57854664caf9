package explore

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core/machines"
	"github.com/mopslock/mopslock/tests/explore/check"
)

// TestSemaphore: a million distinct states of the shared semaphore have no violation; under
// make explore it visits as many as it has time for.
func TestSemaphore(t *testing.T) {
	o := Options{Protocol: "semaphore", Seed: 1, MaxStates: 1_000_000}
	if span, err := time.ParseDuration(os.Getenv("MOPSLOCK_EXPLORE")); err == nil {
		o.MaxStates, o.For = 0, span
	}
	r, err := Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	if r.Counterexample != nil {
		t.Errorf("%v\n%s", r.Counterexample.Violation, tale(r.Counterexample))
	}
	t.Log(r.Summary())
}

// situation is one race of canal_lock: its own counter-example, and the same in our
// Buckets and in our semaphore, each explored to its end.
func situation(t *testing.T, theirs *Scenario, checker string, ours ...*Scenario) {
	t.Helper()
	f := searched(t, theirs, 0)
	if f.Violation == nil || f.Violation.Checker != checker {
		t.Errorf("%s: %v, want %s", theirs.Name, f.Violation, checker)
	}
	t.Logf("%s: %d states, %v\n%s", theirs.Name, f.States, f.Violation, tale(f))
	for _, sc := range ours {
		f := searched(t, sc, 0)
		if f.Violation != nil || !f.Exhausted {
			t.Errorf("%s: %v, exhausted %t\n%s", sc.Name, f.Violation, f.Exhausted, tale(f))
		}
		t.Logf("%s: %d states, all there are", sc.Name, f.States)
	}
}

func shared() *semaphoreMaker { return &semaphoreMaker{&strictMaker{seed: 1, make: machines.New}} }

// TestAncestorHighestAfterBucket: `highest` is written after the bucket that it counts,
// and a caller that releases in between finds no bucket: its permit is lost forever.
func TestAncestorHighestAfterBucket(t *testing.T) {
	situation(t, canalHighestLate(), check.NothingLeaks, limiterScenarios()[0], shared().widths())
	situation(t, canalHighestBack(), check.NothingLeaks)
}

// TestAncestorDoubleDecrement: a counter that others push back to its limit is in the
// end decremented by two at once, and one permit more is given than there is.
func TestAncestorDoubleDecrement(t *testing.T) {
	situation(t, canalDecrement(), check.PermitsWithinCapacity, limiterScenarios()[1], shared().drops())
}

// TestAncestorLateNotification: a caller that dies before the manager has heard that it
// acquired holds forever. For a caller that dies before the manager has heard that it
// released, the manager releases another's permit.
func TestAncestorLateNotification(t *testing.T) {
	situation(t, canalNotice(), check.NothingLeaks, limiterScenarios()[2], shared().deaths())
	situation(t, canalUnlock(), check.PermitsWithinCapacity)
}

// TestUnregistered shows what the host's rule is for: a caller that is not registered gets no permit.
func TestUnregistered(t *testing.T) {
	sc := limiterScenarios()[1]
	sc.Store = &limiter{loose: true}
	if f := searched(t, sc, 0); f.Violation == nil || f.Violation.Checker != check.NothingLeaks {
		t.Errorf("%v, exhausted %t", f.Violation, f.Exhausted)
	}
}
