package core_test

import (
	"fmt"

	"github.com/mopslock/mopslock/core"
)

// The loop that every host runs, whole: a machine, a store and a clock.
func Example() {
	store := map[string][]byte{} // any blob store
	clock := core.Instant{Mono: 0, Wall: 1767323045e9}
	lease, err := core.New(core.Config{
		Machine: core.MachineLease, Protocol: core.ProtocolLastWriter,
		Name: "jobs/nightly", Seed: [16]byte{1}, // 16 fresh random bytes, really
	})
	if err != nil {
		panic(err)
	}
	events := []core.Event{{Kind: core.EventAcquire, Wait: core.Forever}}
	for len(events) > 0 {
		actions, err := lease.Step(clock, events[0])
		if err != nil {
			panic(err)
		}
		events = events[1:]
		for _, a := range actions {
			answer := core.Event{Kind: core.EventAnswer, Request: a.Request, Outcome: core.OutcomeYes}
			switch a.Kind {
			case core.ActionGet:
				if answer.Body = store[a.Key]; answer.Body == nil {
					answer.Outcome = core.OutcomeNo
				}
				events = append(events, answer)
			case core.ActionPut:
				store[a.Key] = append([]byte(nil), a.Body...) // a.Body is the machine's
				events = append(events, answer)
			case core.ActionWake: // replaces the wake before it
				if len(events) == 0 {
					clock.Wall += max(0, a.At-clock.Mono)
					clock.Mono = max(clock.Mono, a.At)
					events = append(events, core.Event{Kind: core.EventWoke})
				}
			default:
				fmt.Println(a.Kind)
				if a.Kind == core.ActionHeld {
					events = append(events, core.Event{Kind: core.EventRelease})
				}
			}
		}
	}
	fmt.Println(lease, lease.Idle())
	// Output:
	// held
	// released
	// released true
}
