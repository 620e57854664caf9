package machines

import (
	"cmp"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
	"github.com/mopslock/mopslock/core/internal/invocation"
)

// calling is who wants the result of n, or has been started elsewhere for it; it has
// begun, and waits as long as it takes.
func (w *world) calling(name string, cfg core.Config) *actor {
	w.t.Helper()
	cfg.Machine, cfg.Role, cfg.Name = core.MachineInvocation, cmp.Or(cfg.Role, core.RoleOwner), "n"
	a, err := w.add(name, cfg)
	if err != nil {
		w.t.Fatalf("%s: %v", name, err)
	}
	w.say(a, core.Event{Kind: core.EventBegin, Wait: core.Forever})
	return a
}

// bring lets everything happen as it should until a machine is in a state.
func (w *world) bring(a *actor, state string) {
	w.t.Helper()
	if a.machine.String() != state {
		w.until(a, state)
	}
}

// ended is that the work has ended well, with a result or without.
func ended(result bool) core.Event {
	return core.Event{Kind: core.EventEnded, Outcome: core.OutcomeYes, Result: result}
}

// fails answers unknown to the requests that are meant, and lets the others be,
// until the call has ended or a day is over.
func (w *world) fails(a *actor, class core.Class, meant func(*request) bool) {
	w.t.Helper()
	for end := w.now + int64(24*time.Hour); w.now < end && a.machine.(*invocation.Invocation).WorkState() < core.InvocationDone; {
		var err error
		switch {
		case len(a.flying) > 0 && meant(a.flying[0]):
			w.now += 10e6
			_, err = w.unknown(a, a.flying[0], class)
		case len(a.flying) > 0:
			w.now += 10e6
			_, err = w.answer(a, a.flying[0])
		case a.wake != base.Unset:
			w.now = max(w.now, w.trueAt(a, a.wake))
			_, err = w.step(a, core.Event{Kind: core.EventWoke})
		default:
			w.fail("%s: nothing in flight, and no wake", a.name)
		}
		if err != nil {
			w.t.Fatalf("%s: %v", a.name, err)
		}
		w.events, a.stray = w.events[max(0, len(w.events)-100):], nil
	}
}
