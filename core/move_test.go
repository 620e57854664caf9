package core

import "testing"

// TestImpossibleMovePanics, and names the move.
func TestImpossibleMovePanics(t *testing.T) {
	edges := []edge[LeaseState]{{LeaseIdle, LeaseObserving, "acquire"}, {LeaseObserving, LeaseHeld, "held"}}
	checkMove(edges, LeaseObserving, LeaseHeld)
	defer func() {
		if got := recover(); got != "mopslock: core: invalid transition [observing -> idle]" {
			t.Errorf("panic %v", got)
		}
	}()
	checkMove(edges, LeaseObserving, LeaseIdle)
}
