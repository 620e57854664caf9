package core

import (
	"strings"
	"testing"
	"time"
)

// What tests that drive a call by hand need: its two sides, whose request is in
// flight, and what somebody else does to the lease meanwhile.

// calling is who wants the result of n; it has begun, and waits as long as it takes.
func (w *world) calling(name string, protocol Protocol, change func(*Config)) *actor {
	w.t.Helper()
	a := w.caller(name, protocol, change)
	w.say(a, Event{Kind: EventBegin, Wait: Forever})
	return a
}

// caller is who wants the result of n, and has not begun.
func (w *world) caller(name string, protocol Protocol, change func(*Config)) *actor {
	w.t.Helper()
	cfg := Config{Machine: MachineInvocation, Role: RoleOwner, Name: "n", Protocol: protocol}
	if change != nil {
		change(&cfg)
	}
	a, err := w.add(name, cfg)
	if err != nil {
		w.t.Fatalf("%s: %v", name, err)
	}
	return a
}

// remoteOf is what a caller's work has started elsewhere; it has begun.
func (w *world) remoteOf(name string, launcher *actor) *actor {
	w.t.Helper()
	v := launcher.machine.(*Invocation)
	return w.calling(name, v.cfg.Protocol, func(c *Config) {
		c.Role, c.Holder, c.Creates = RoleRemote, v.holder, v.cfg.Creates
		if c.Protocol == ProtocolStrict {
			c.Epoch = 1
		}
	})
}

// creating is a store that can create, under lastwriter; strict's always can.
func creating(c *Config) { c.Creates = true }

// bring lets everything happen as it should until a machine is in a state.
func (w *world) bring(a *actor, state string) {
	w.t.Helper()
	if a.machine.String() != state {
		w.until(a, state)
	}
}

// ownRequest is the request of the invocation itself that is in flight.
func (w *world) ownRequest(a *actor) *request { w.t.Helper(); return w.newestOf(a, 1) }

// leaseRequest is the request of its lease, or of its companion, that is in flight.
func (w *world) leaseRequest(a *actor) *request { w.t.Helper(); return w.newestOf(a, 0) }

func (w *world) newestOf(a *actor, remainder RequestID) *request {
	w.t.Helper()
	for i := len(a.flying) - 1; i >= 0; i-- {
		if a.flying[i].Request%2 == remainder {
			return a.flying[i]
		}
	}
	w.fail("%s: no such request is in flight", a.name)
	return nil
}

// answered gives a machine an answer, and is what it says to it.
func (w *world) answered(a *actor, r *request) []Action {
	w.t.Helper()
	actions, err := w.answer(a, r)
	if err != nil {
		w.t.Fatalf("%s: %v", a.name, err)
	}
	return actions
}

// tells gives a machine an event, and is what it says to it.
func (w *world) tells(a *actor, ev Event) []Action {
	w.t.Helper()
	actions, err := w.step(a, ev)
	if err != nil {
		w.t.Fatalf("%s: %v", a.name, err)
	}
	return actions
}

// offers reports whether a machine puts a result, in a Step that said this or in
// one of those that follow when all that it asks for is answered.
func (w *world) offers(a *actor, actions []Action) bool {
	w.t.Helper()
	for range 50 {
		switch {
		case has(actions, ActionCreateResult) || has(actions, ActionPutResult):
			return true
		case len(a.flying) == 0:
			return false
		}
		actions = w.answered(a, a.flying[0])
	}
	w.fail("%s asks for ever", a.name)
	return false
}

// ending lets everything happen as it should until a machine says what its call
// came to, and is that, or nil when the time is over.
func (w *world) ending(a *actor, within time.Duration) (end *Action) {
	w.drive(100e6, w.now+int64(within), func(x *actor, actions []Action) bool {
		for _, action := range actions {
			if x == a && (action.Kind == ActionFound || action.Kind == ActionAbsent || action.Kind == ActionRefused) {
				end = &action
			}
		}
		return end != nil
	})
	return end
}

// pausing stops a machine and all that it asked for while others go on.
func pausing(a *actor, others func()) {
	wake, flying := a.wake, a.flying
	a.wake, a.flying = unset, nil
	others()
	a.wake, a.flying = wake, flying
}

// dies stops a machine for good.
func dies(a *actor) { a.wake, a.flying, a.deadline = unset, nil, unset }

// ended is that the work has ended well, with a result or without.
func ended(result bool) Event { return Event{Kind: EventEnded, Outcome: OutcomeYes, Result: result} }

// rob writes somebody else's claim over lock.json, as who was slow to claim does.
func (w *world) rob(ttl time.Duration) {
	at := worldStart + w.now
	thief := ownRecord{holder: "thief", writtenAt: at, firstWrittenAt: at, acquiredAt: at, ttl: ttl, count: 1}
	w.store["n/"+LockFile] = object{appendRecord(nil, &thief), w.stamp()}
}

// freeByHand marks lock.json as released, whoever holds it.
func (w *world) freeByHand(t *testing.T) {
	t.Helper()
	const open, free = `"released_at": ""`, `"released_at": "2026-01-02T03:04:05.000000+00:00"`
	body := string(w.store["n/"+LockFile].body)
	if !strings.Contains(body, open) {
		t.Fatalf("nobody holds it: %s", body)
	}
	w.store["n/"+LockFile] = object{[]byte(strings.Replace(body, open, free, 1)), w.stamp()}
}

// fails answers unknown to the requests that are meant, and lets the others be,
// until the call has ended or a day is over.
func (w *world) fails(a *actor, class Class, meant func(*request) bool) {
	w.t.Helper()
	for end := w.now + int64(24*time.Hour); w.now < end && a.machine.(*Invocation).State() < InvocationDone; {
		switch {
		case len(a.flying) > 0 && meant(a.flying[0]):
			w.now += 10e6
			if _, err := w.unknown(a, a.flying[0], class); err != nil {
				w.t.Fatalf("%s: %v", a.name, err)
			}
		case len(a.flying) > 0:
			w.now += 10e6
			w.answered(a, a.flying[0])
		case a.wake != unset:
			w.now = max(w.now, w.trueAt(a, a.wake))
			w.say(a, Event{Kind: EventWoke})
		default:
			w.fail("%s: nothing in flight, and no wake", a.name)
		}
		w.events, a.stray = w.events[max(0, len(w.events)-100):], nil
	}
}
