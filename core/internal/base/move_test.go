package base

import (
	"testing"

	"github.com/mopslock/mopslock/core"
)

// TestImpossibleMovePanics, and names the move.
func TestImpossibleMovePanics(t *testing.T) {
	edges := []Edge[core.LeaseState]{{core.LeaseIdle, core.LeaseObserving, "acquire"}, {core.LeaseObserving, core.LeaseHeld, "held"}}
	CheckMove(edges, core.LeaseObserving, core.LeaseHeld)
	defer func() {
		if got := recover(); got != "mopslock: core: invalid transition [observing -> idle]" {
			t.Errorf("panic %v", got)
		}
	}()
	CheckMove(edges, core.LeaseObserving, core.LeaseIdle)
}
