//go:build mopslock_bugs

package simulate

import (
	"testing"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/tests/explore/check"
)

// TestBugsAreCaught: the simulator is checked with rules left out of the real
// machines. What needs a rarer meeting than seeds give by chance is the explorer's.
func TestBugsAreCaught(t *testing.T) {
	for bug, want := range map[core.Bug]string{
		core.BugJoinByBeat:          check.NoOverlap,
		core.BugBrokenFreesNow:      check.NoOverlap,
		core.BugReleasedFreesNow:    check.NoOverlap,
		core.BugSessionWithoutCalls: check.NoOverlap,
		core.BugJoinDropsSession:    check.NoOverlap,
		core.BugDeadlineFromAnswer:  check.NoOverlap,
		core.BugUnknownIsYes:        check.OneHolderPerEpoch,
		core.BugReleaseLeftToExpire: check.EventuallyHeld,
		core.BugForgetUnknownCreate: check.EventuallyHeld,
		core.BugLateRenewal:         "", // of two that hold at once the token tells first, or the deadline
		core.BugEpochReset:          "", // caught by whatever comes first
	} {
		s := Swarm(1, 2000, workers, Options{New: func(cfg core.Config) (core.Machine, error) {
			return core.NewBugged(cfg, bug)
		}})
		switch {
		case s.Failed == nil:
			t.Errorf("%v: not caught in %d seeds", bug, s.Ran)
		case want != "" && s.Failed.Violation.Invariant != want:
			t.Errorf("%v: want %s, got %v", bug, want, s.Failed.Violation)
		default:
			t.Logf("%v: seed %d, %s", bug, s.Failed.Seed, s.Failed.Violation.Invariant)
		}
	}
}

// TestBugsOfSemaphores: the same of the shared semaphore.
func TestBugsOfSemaphores(t *testing.T) {
	for bug, want := range map[core.Bug]string{
		core.BugOverallocate:     check.PermitsWithinCapacity,
		core.BugPermitFreedEarly: check.PermitsWithinCapacity,
		core.BugUnknownIsYes:     check.PermitsWithinCapacity,
		core.BugSettleAtVersion:  "", // caught by whatever comes first
	} {
		s := Swarm(1, 1000, workers, Options{Shared: true, New: func(cfg core.Config) (core.Machine, error) {
			return core.NewBugged(cfg, bug)
		}})
		switch {
		case s.Failed == nil:
			t.Errorf("%v: not caught in %d seeds", bug, s.Ran)
		case want != "" && s.Failed.Violation.Invariant != want:
			t.Errorf("%v: want %s, got %v", bug, want, s.Failed.Violation)
		default:
			t.Logf("%v: seed %d, %v", bug, s.Failed.Seed, s.Failed.Violation)
		}
	}
}
