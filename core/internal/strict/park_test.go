package strict

import (
	"bytes"
	"testing"
	"unsafe"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/register"
)

// heldLease is a lease that is held, on a session or alone.
func heldLease(t *testing.T, session string) *Lease {
	t.Helper()
	l, err := NewLease(core.Config{
		Terms: core.Terms{Name: "jobs/nightly-report", OnSession: session != ""}, Host: "worker-7f9c4d", PID: "12345", Boot: "b1",
		Seed: [16]byte{1},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, ev := range []core.Event{
		{Kind: core.EventAcquire},
		{Kind: core.EventAnswer, Request: 1, Outcome: core.OutcomeYes},
		{Kind: core.EventAnswer, Request: 2, Outcome: core.OutcomeYes},
		{Kind: core.EventAnswer, Request: 3, Outcome: core.OutcomeYes, Entries: []core.Entry{{Key: []byte(register.VersionKey(l.Prefix, 1))}}},
	} {
		ev.Session, ev.SessionUntil = []byte(session), int64(core.Second)*60
		if _, err := l.Step(core.Instant{Mono: 1}, ev); err != nil {
			t.Fatal(err)
		}
	}
	if l.State != core.LeaseHeld {
		t.Fatal(l)
	}
	return l
}

// A lease that was waited for, joined by another owner, and has heard of the store's
// clock: it wakes as it was, with what its Config has for one that is held.
func TestPark(t *testing.T) {
	m := heldLease(t, "s")
	if n := unsafe.Sizeof(Parked{}); n > 288 { // what Go gives it
		t.Errorf("%d bytes at rest", n)
	}
	joined := m.Successor(core.VersionHeld)
	joined.Owners = register.WithOwner(m.Cur.Owners, "another")
	body := register.AppendVersion(nil, &m.Machine, &joined)
	for what, change := range map[string]func(l *Lease){
		"made":         func(*Lease) {},
		"adopted":      func(l *Lease) { l.ReadVersion(body, 2, 5); l.forget() },
		"called":       func(l *Lease) { l.calledAt = 7 },
		"told":         func(l *Lease) { l.ToldAt, l.selfAt, l.own, l.Issued = 1, 2, 3, 4 },
		"its last try": func(l *Lease) { l.LastTry = true },
	} {
		l := m.Clone().(*Lease)
		change(l)
		woken := l.Park().Unpark().(*Lease)
		woken.Cfg.Seed = l.Cfg.Seed // its holder and its chance were made of it
		if !bytes.Equal(woken.AppendState(nil), l.AppendState(nil)) {
			t.Errorf("%s: it wakes as another", what)
		}
		if woken.Prefix != l.Prefix || woken.ParticipantID != l.ParticipantID || woken.holderID != l.holderID {
			t.Errorf("%s: %q %q %q", what, woken.Prefix, woken.ParticipantID, woken.holderID)
		}
	}
}

// Only a lease on its session rests, and only while nothing is under way.
func TestNoRest(t *testing.T) {
	held, alone := heldLease(t, "s"), heldLease(t, "")
	called := held.Clone().(*Lease)
	step := func(l *Lease, ev core.Event) {
		ev.Session, ev.SessionUntil = []byte(held.standOn), int64(core.Second)*60
		if _, err := l.Step(core.Instant{Mono: 2}, ev); err != nil {
			t.Fatal(err)
		}
	}
	step(called, core.Event{Kind: core.EventCalled, Epoch: 2})
	released := held.Clone().(*Lease)
	step(released, core.Event{Kind: core.EventRelease})
	lost := held.Clone().(*Lease)
	lost.Session.ID = "another"
	for what, l := range map[string]*Lease{"alone": alone, "called": called, "released": released, "lost": lost} {
		if l.Park() != nil {
			t.Errorf("%s: at rest", what)
		}
	}
	if held.Park() == nil {
		t.Error("it does not rest")
	}
}
