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
	const whatever = "" // comes first
	lease, shared := Options{}, Options{Shared: true, Actors: 6}
	for _, c := range []struct {
		bug  core.Bug
		opts Options
		want string
	}{
		{core.BugJoinByBeat, lease, check.NoOverlap},
		{core.BugBrokenFreesNow, lease, check.NoOverlap},
		{core.BugReleasedFreesNow, lease, check.NoOverlap},
		{core.BugSessionWithoutCalls, lease, check.NoOverlap},
		{core.BugJoinDropsSession, lease, check.NoOverlap},
		{core.BugDeadlineFromAnswer, lease, check.NoOverlap},
		{core.BugUnknownIsYes, lease, check.OneHolderPerEpoch},
		{core.BugReleaseLeftToExpire, lease, check.EventuallyHeld},
		{core.BugForgetUnknownCreate, lease, check.EventuallyHeld},
		{core.BugLateRenewal, lease, whatever}, // of two that hold at once the token tells first, or the deadline
		{core.BugEpochReset, lease, whatever},
		{core.BugOverallocate, shared, check.PermitsWithinCapacity},
		{core.BugPermitFreedEarly, shared, check.PermitsWithinCapacity},
		{core.BugUnknownIsYes, shared, check.PermitsWithinCapacity},
		{core.BugSettleAtVersion, shared, whatever},
	} {
		c.opts.New = func(cfg core.Config) (core.Machine, error) { return core.NewBugged(cfg, c.bug) }
		s := Swarm(1, 2000, workers, c.opts)
		switch {
		case s.Failed == nil:
			t.Errorf("%v: not caught in %d seeds", c.bug, s.Ran)
		case c.want != whatever && s.Failed.Violation.Invariant != c.want:
			t.Errorf("%v: want %s, got %v", c.bug, c.want, s.Failed.Violation)
		default:
			t.Logf("%v: seed %d, %v", c.bug, s.Failed.Seed, s.Failed.Violation)
		}
	}
}
