package explore

import (
	"bytes"
	"slices"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/tests/explore/check"
	"github.com/mopslock/mopslock/tests/world"
)

// drainKey is all that decides how a drain ends.
type drainKey struct {
	actors [maxActors]uint32
	store  uint32
	waiter uint8
	// givesBack: the actors give back what they hold, and go on.
	givesBack bool
}

// drain is EventuallyHeld: but for those that stay, all others stop for good, and
// the waiter must get the lease, unless one that stays has it. Requests on their
// way are taken as lost.
func (e *engine) drain(w *state) *check.Violation {
	for i := range e.sc.Actors {
		s := e.actors.items[w.actors[i]]
		if !e.sc.Actors[i].Waits || s.crashed || s.told == 0 || len(s.program.Claims()) > 0 || ended(s.program) {
			continue
		}
		k := drainKey{store: w.store, waiter: uint8(i)}
		for j := range e.sc.Actors {
			if j == i || e.sc.Actors[j].Stays {
				k.actors[j] = w.actors[j] + 1
			}
		}
		v, ok := e.drained[k]
		if !ok {
			v = e.goOn(w, &k)
			e.drained[k] = v
		}
		if v != nil {
			return v
		}
	}
	return nil
}

// ended reports whether a program has given up for good.
func ended(p Program) bool {
	switch p.String() {
	case "refused", "lost", "released", "left", "found", "absent":
		return true
	case world.Launched: // while the work runs it waits for that alone
		return true
	}
	return false
}

// survivor is one actor in a drain.
type survivor struct {
	index   uint8
	program Program
	wake    int64
	inbox   []core.Event
}

// goOn runs those that are left, each request answered at once and each wake
// kept to the tick, until the scenario's patience is over.
func (e *engine) goOn(w *state, k *drainKey) *check.Violation {
	var left []*survivor
	store := e.stores.items[w.store]
	for i, id := range k.actors {
		if id == 0 || e.actors.items[id-1].crashed {
			continue
		}
		s := e.actors.items[id-1]
		left = append(left, &survivor{uint8(i), s.program.Copy(), s.wake, e.unanswered(w, uint8(i))})
	}
	waiter := e.sc.Actors[k.waiter].Name
	end := w.now + uint16(e.sc.Patience/e.sc.Tick)
	held := false
	for now := w.now; now <= end && !held; now++ {
		for _, s := range left {
			var err error
			if store, err = e.runTick(s, now, store); err != nil {
				return &check.Violation{Checker: check.EventuallyHeld, Text: e.sc.Actors[s.index].Name + ": " + err.Error()}
			}
			// One that gives up, because the store was silent, waits no more.
			held = held || s.index == k.waiter && (len(s.program.Claims()) > 0 || ended(s.program))
		}
	}
	for _, s := range left {
		held = held || slices.ContainsFunc(s.program.Claims(), func(c check.Claim) bool { return !e.sc.Mixed || c.Epoch != 0 })
	}
	return check.Waiter(waiter, e.actors.items[k.actors[k.waiter]-1].program.String(), held)
}

// unanswered are the answers that an actor's requests get when all replies are lost.
func (e *engine) unanswered(w *state, actor uint8) (inbox []core.Event) {
	for i := range w.flying[:w.count] {
		if f := &w.flying[i]; f.actor == actor && f.phase != flightStray {
			request := core.RequestID(e.actors.items[w.actors[actor]].asked[f.group])
			inbox = append(inbox, core.Event{
				Kind: core.EventAnswer, Request: request, Outcome: core.OutcomeUnknown, Class: core.ClassUnreachable,
			})
		}
	}
	return inbox
}

// runTick gives one actor all that is due at a tick.
func (e *engine) runTick(s *survivor, now uint16, store Store) (Store, error) {
	clock := e.sc.clock(s.index, now)
	const most = 100 // requests at one instant
	for range most {
		var ev core.Event
		switch {
		case len(s.inbox) > 0:
			ev, s.inbox = s.inbox[0], s.inbox[1:]
		case s.wake != noWake && s.wake <= clock.Mono:
			ev = core.Event{Kind: core.EventWoke}
		default:
			return store, nil
		}
		if p, ok := s.program.(*process); ok && ev.Kind == core.EventAnswer && !slices.Contains(p.asked[:], ev.Request) {
			continue // it has been abandoned
		}
		actions, err := stepSafely(s.program, clock, ev)
		if err != nil {
			return nil, err
		}
		s.wake = noWake
		for i := range actions {
			a := &actions[i]
			if a.Kind == core.ActionWake {
				s.wake = a.At
			}
			if a.Kind.IsRequest() {
				asked := *a
				asked.Body = bytes.Clone(a.Body)
				var reply core.Event
				store, reply = store.Apply(e.sc.wall(now), &asked, 0)
				reply.Request = a.Request
				s.inbox = append(s.inbox, reply)
			}
		}
	}
	return store, nil
}
