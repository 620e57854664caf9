package core

import (
	"bytes"
	"testing"
	"unsafe"
)

// heldLease is a lease that is held, on a session or alone.
func heldLease(t *testing.T, session string) *StrictLease {
	t.Helper()
	l, err := NewStrictLease(Config{
		Name: "jobs/nightly-report", OnSession: session != "", Host: "worker-7f9c4d", PID: "12345", Boot: "b1", Seed: [16]byte{1},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, ev := range []Event{
		{Kind: EventAcquire},
		{Kind: EventAnswer, Request: 1, Outcome: OutcomeYes},
		{Kind: EventAnswer, Request: 2, Outcome: OutcomeYes},
	} {
		ev.Session, ev.SessionUntil = []byte(session), int64(second)*60
		if _, err := l.Step(Instant{Mono: 1}, ev); err != nil {
			t.Fatal(err)
		}
	}
	if l.state != LeaseHeld {
		t.Fatal(l)
	}
	return l
}

// A lease that was waited for, joined by another owner, and has heard of the store's
// clock: it wakes as it was, with what its Config has for one that is held.
func TestRest(t *testing.T) {
	m := heldLease(t, "s")
	if n := unsafe.Sizeof(Resting{}); n > 288 { // what Go gives it
		t.Errorf("%d bytes at rest", n)
	}
	joined := m.successor(VersionHeld)
	joined.owners = withOwner(m.cur.owners, "another")
	body := appendVersion(nil, &m.machine, &joined)
	for what, change := range map[string]func(l *StrictLease){
		"made":         func(*StrictLease) {},
		"adopted":      func(l *StrictLease) { l.readVersion(body, 2, 5); l.forget() },
		"called":       func(l *StrictLease) { l.calledAt = 7 },
		"told":         func(l *StrictLease) { l.toldAt, l.selfAt, l.own, l.issued = 1, 2, 3, 4 },
		"its last try": func(l *StrictLease) { l.lastTry, l.answered = true, true },
	} {
		l := m.Clone().(*StrictLease)
		change(l)
		woken := l.Rest().Wake()
		if !bytes.Equal(woken.AppendState(nil), l.AppendState(nil)) {
			t.Errorf("%s: it wakes as another", what)
		}
		cfg := l.cfg
		cfg.Seed = [16]byte{} // its holder and its chance were made of it
		if woken.cfg != cfg {
			t.Errorf("%s: %+v, not %+v", what, woken.cfg, cfg)
		}
		if woken.prefix != l.prefix || woken.owner.owner != l.owner.owner || woken.holder != l.holder {
			t.Errorf("%s: %q %q %q", what, woken.prefix, woken.owner.owner, woken.holder)
		}
	}
}

// Only a lease on its session rests, and only while nothing is under way.
func TestNoRest(t *testing.T) {
	held, alone := heldLease(t, "s"), heldLease(t, "")
	called := held.Clone().(*StrictLease)
	step := func(l *StrictLease, ev Event) {
		ev.Session, ev.SessionUntil = []byte(held.standOn), int64(second)*60
		if _, err := l.Step(Instant{Mono: 2}, ev); err != nil {
			t.Fatal(err)
		}
	}
	step(called, Event{Kind: EventCalled, Epoch: 2})
	released := held.Clone().(*StrictLease)
	step(released, Event{Kind: EventRelease})
	lost := held.Clone().(*StrictLease)
	lost.session.id = "another"
	for what, l := range map[string]*StrictLease{"alone": alone, "called": called, "released": released, "lost": lost} {
		if l.Rest() != nil {
			t.Errorf("%s: at rest", what)
		}
	}
	if held.Rest() == nil {
		t.Error("it does not rest")
	}
}
