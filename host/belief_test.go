package host

import (
	"sync"
	"testing"

	"github.com/mopslock/mopslock/core"
)

// A lease that was fixed before its session was renewed is not believed by the renewal, whenever a
// caller asks.
func TestBeliefOfAFixedLease(t *testing.T) {
	const before, fixed, renewed, rounds = 100, 50, 200, 100_000
	b := &belief{}
	var writer sync.WaitGroup
	writer.Go(func() {
		for range rounds {
			s := &session{}
			s.until.Store(before)
			b.believe(&core.Action{Kind: core.ActionHeld}, s)
			b.believe(&core.Action{Kind: core.ActionDeadline, At: fixed}, nil)
			s.until.Store(renewed)
		}
		b.own.Store(core.Never) // the end
	})
	for until := int64(0); until != core.Never; until = b.until() {
		if until > before {
			t.Fatalf("believed until %d", until)
		}
	}
	writer.Wait()
}
