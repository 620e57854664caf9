//go:build mopslock_mutations

package simulate

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/machines"
	"github.com/mopslock/mopslock/tests/explore/check"
)

// TestMutationsAreCaught: the simulator is checked with rules left out of the real
// machines. The explorer catches those that need a rarer meeting than seeds give by chance.
func TestMutationsAreCaught(t *testing.T) {
	const whatever = "" // comes first
	lease, shared := Options{}, Options{Shared: true, Actors: 6}
	paused := Options{NoSessions: true, Faults: &Faults{Latency: Exponential, Mean: 200 * time.Millisecond, PauseEvery: 20 * time.Second, PauseFor: 30 * time.Second}}
	caught := map[string]bool{}
	for _, c := range []struct {
		mutation string
		opts     Options
		want     string
	}{
		{"join-by-beat", lease, check.NoOverlap},
		{"broken-frees-now", lease, check.NoOverlap},
		{"released-frees-now", lease, check.NoOverlap},
		{"session-without-calls", lease, whatever}, // it renews before it has read anything
		{"join-drops-session", lease, check.NoOverlap},
		{"deadline-from-answer", lease, check.NoOverlap},
		{"unknown-is-yes", lease, whatever}, // a version that is not the holder's, or two that hold
		{"release-left-to-expire", lease, check.EventuallyHeld},
		{"forget-unknown-create", lease, check.EventuallyHeld},
		{"late-renewal", paused, check.NoResurrection},
		{"epoch-reset", lease, whatever},
		{"overallocate", shared, check.PermitsWithinCapacity},
		{"permit-freed-early", shared, check.PermitsWithinCapacity},
		{"unknown-is-yes", shared, whatever},
		{"settle-at-version", shared, whatever},
		{"leaving-handed-out", lease, check.QuietWhenIdle},
		{"leaving-handed-out", shared, whatever},
		{"fix-lives-on", lease, check.CallEndsBelief},
		{"belief-past-call", lease, check.CallEndsBelief},
		{"session-told-last", lease, check.SessionFirst},
	} {
		caught[c.mutation] = true
		c.opts.New = func(cfg core.Config) (core.Machine, error) { return machines.NewMutant(cfg, c.mutation) }
		s := Swarm(1, 2000, workers, c.opts)
		switch {
		case s.Failed == nil:
			t.Errorf("%v: not caught in %d seeds", c.mutation, s.Ran)
		case c.want != whatever && s.Failed.Violation.Invariant != c.want:
			t.Errorf("%v: want %s, got %v", c.mutation, c.want, s.Failed.Violation)
		default:
			t.Logf("%v: seed %d, %v", c.mutation, s.Failed.Seed, s.Failed.Violation)
		}
	}
	if want, got := slices.Sorted(slices.Values(machines.Mutations("simulator"))), slices.Sorted(maps.Keys(caught)); !slices.Equal(want, got) {
		t.Errorf("the simulator catches\n%s, and core/internal/base/mutations.go says\n%s", got, want)
	}
}
