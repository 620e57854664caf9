package core

import (
	"slices"
	"testing"
	"time"
)

// TestStrictRequests: what an acquire, a join, a renewal and a release cost, in
// verbs and in order (BUDGETS, "requests per acquire" and "per renewal").
func TestStrictRequests(t *testing.T) {
	const get, put, create, exists, list = ActionGet, ActionPut, ActionCreate, ActionExists, ActionList
	w := newWorld(t)
	w.unit = int64(time.Second)
	cost := func(what string, a *actor, state string, want ...ActionKind) {
		t.Helper()
		if got := w.until(a, state); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	acquire := func(a *actor) *actor { w.say(a, Event{Kind: EventAcquire}); return a }
	release := func(a *actor) {
		w.say(a, Event{Kind: EventRelease})
		cost("release", a, "released", create)
	}
	a := acquire(w.strictly("a", nil))
	cost("a name never used", a, "held", list, create)
	w.renewal("a renewal", a, put, exists)
	release(a)
	b := acquire(w.strictly("b", nil))
	cost("after another's release", b, "held", list, get, create)
	release(b)
	c := acquire(w.strictly("c", func(cfg *Config) { cfg.LastEpoch, cfg.LastAt = b.strict.lastEpoch, b.strict.lastAt }))
	cost("again by the last holder", c, "held", create)
	d := w.strictly("d", func(cfg *Config) {
		cfg.Machine, cfg.Holder, cfg.Epoch = MachineCompanion, c.machine.(*StrictLease).Holder(), 5
	})
	w.say(d, Event{Kind: EventAccompany})
	cost("a join", d, "joined", list, get, create)
	w.renewal("an adoption, with a renewal of its own", c, put, exists, get, put, exists)
	w.renewal("a companion's renewal", d, put, exists)
	w.gone(c, d)
	w.now += int64(10 * time.Minute)
	w.sample = clockSample{w.stamp(), w.now}
	e := acquire(w.strictly("e", nil))
	cost("a take-over", e, "held", list, get, create)
	w.gone(e)

	s := w.strictly("s", func(cfg *Config) { cfg.Machine = MachineSession })
	w.say(s, Event{Kind: EventBegin})
	cost("a session", s, "in_force", put, exists)
	f := w.strictly("f", func(cfg *Config) { cfg.Name, cfg.OnSession = "m", true })
	f.strict.stands = s
	cost("a name never used, on a session", acquire(f), "held", list, create)
	w.renewal("a session's renewal", s, put, exists)
	w.gone(f, s)
	w.now += int64(10 * time.Minute)
	w.sample = clockSample{w.stamp(), w.now}
	g := acquire(w.strictly("g", func(cfg *Config) { cfg.Name = "m" }))
	cost("a take-over of a lease on a session", g, "held", list, get, get, create)
}

// renewal checks what a machine's next good renewal takes.
func (w *world) renewal(what string, a *actor, want ...ActionKind) {
	w.t.Helper()
	var got []ActionKind
	w.drive(100e6, w.now+int64(time.Hour), func(x *actor, actions []Action) bool {
		done := false
		for _, action := range actions {
			if x == a && action.Kind <= ActionDelete {
				got = append(got, action.Kind)
			}
			done = done || x == a && action.Kind == ActionRenewed
		}
		return done
	})
	if !slices.Equal(got, want) {
		w.fail("%s: %v, want %v", what, got, want)
	}
}
