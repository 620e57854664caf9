package core

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// cycle drives one machine without a world, as cheaply as a host can.
type cycle struct {
	m    Machine
	now  Instant
	wake int64
	id   RequestID
	kind ActionKind
	body []byte // of the last put, as the store would give it back
}

func (c *cycle) step(ev Event) {
	actions, err := c.m.Step(c.now, ev)
	if err != nil {
		panic(err)
	}
	c.take(actions)
}

// take is the host's part.
func (c *cycle) take(actions []Action) {
	for i := range actions {
		switch a := &actions[i]; a.Kind {
		case ActionGet, ActionExists, ActionList, ActionDelete:
			c.id, c.kind = a.Request, a.Kind
		case ActionPut, ActionCreate:
			c.id, c.kind = a.Request, a.Kind
			c.body = append(c.body[:0], a.Body...)
		case ActionWake:
			c.wake = a.At
		}
	}
}

// woke lets time go on to the wake.
func (c *cycle) woke() {
	if d := c.wake - c.now.Mono; d > 0 {
		c.now.Mono, c.now.Wall = c.now.Mono+d, c.now.Wall+d
	}
	c.step(Event{Kind: EventWoke})
}

func (c *cycle) yes(body []byte) {
	c.step(Event{Kind: EventAnswer, Request: c.id, Outcome: OutcomeYes, Body: body})
}

func (c *cycle) no() { c.step(Event{Kind: EventAnswer, Request: c.id, Outcome: OutcomeNo}) }

// renew is one renewal: woke, the get answered, the put answered.
func (c *cycle) renew() {
	c.woke()
	c.yes(c.body)
	c.yes(nil)
}

// wokeEvent, getAnswered and putAnswered are what a renewal is told.
func wokeEvent(c *cycle) Event {
	d := c.wake - c.now.Mono
	c.now.Mono, c.now.Wall = c.now.Mono+d, c.now.Wall+d
	return Event{Kind: EventWoke}
}

func getAnswered(c *cycle) Event {
	return Event{Kind: EventAnswer, Request: c.id, Outcome: OutcomeYes, Body: c.body}
}

func putAnswered(c *cycle) Event { return Event{Kind: EventAnswer, Request: c.id, Outcome: OutcomeYes} }

func newCycle(tb testing.TB, cfg Config) *cycle {
	cfg.Protocol, cfg.Name, cfg.Seed[15] = ProtocolLastWriter, "n", 1
	cfg.Host, cfg.PID, cfg.TID = "worker-7f9c4d", "12345", 140234567890123
	m, err := New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return &cycle{m: m, now: Instant{0, worldStart}, body: make([]byte, 0, 1024)}
}

// heldCycle is a lease that is held and has had its later look.
func heldCycle(tb testing.TB, seed byte) *cycle {
	c := newCycle(tb, Config{Machine: MachineLease, Seed: [16]byte{seed, 1}})
	c.step(Event{Kind: EventAcquire})
	c.no()
	c.yes(nil)
	c.woke()
	c.yes(c.body)
	c.yes(nil)
	c.woke()
	c.yes(c.body)
	if c.m.String() != "held" {
		tb.Fatal(c.m)
	}
	return c
}

func joinedCycle(tb testing.TB) *cycle {
	c := newCycle(tb, Config{Machine: MachineCompanion, Holder: "h"})
	c.step(Event{Kind: EventAccompany})
	c.yes(foreignBody("h", worldStart, "caf\u00e9\n"))
	c.yes(nil)
	if c.m.String() != "joined" {
		tb.Fatal(c.m)
	}
	return c
}

// foreignBody is a record with fields that we do not know and text that is escaped.
func foreignBody(holder HolderID, written int64, host string) []byte {
	own := ownRecord{holder: holder, host: host, writtenAt: written, acquiredAt: worldStart, ttl: DefaultTTL, count: 3}
	body := appendRecord(nil, &own)
	return append(body[:len(body)-2], ",\n  \"\\u0063olour\": [1, {\"a\": null}]\n}"...)
}

// TestNoAllocations: a step in steady state allocates nothing.
func TestNoAllocations(t *testing.T) {
	lease, companion := heldCycle(t, 1), joinedCycle(t)
	waiter := newCycle(t, Config{Machine: MachineLease})
	foreign := foreignBody(HolderID(strings.Repeat("so\u00efebody-", 100)), worldStart, strings.Repeat("caf\u00e9\n", 5000))
	waiter.step(Event{Kind: EventAcquire, Wait: Forever})
	waiter.yes(foreign)
	sight := &tenureOf(waiter.m).sight
	if len(sight.Holder) < MaxHolder-3 || cap(sight.Holder) > 2*MaxHolder || cap(sight.Host) > 2*MaxText {
		t.Errorf("of somebody's record %d bytes are shown, %d and %d kept", len(sight.Holder), cap(sight.Holder), cap(sight.Host))
	}

	busy := busyMachines(t)
	held, joined, session, asking := heldStrictly(t, 1), busy["strict_companion"], busy["session"], busy["strict_waiter"]
	session.yes(nil)
	session.no()
	endless := strictCycle(t, Config{Machine: MachineLease, TTL: None})
	endless.step(Event{Kind: EventAcquire})
	endless.yes(nil)
	endless.yes(nil)

	ours := foreignBody(lease.m.(*Lease).Holder(), worldStart, "elsewhere")
	for _, c := range []struct {
		name string
		run  func()
	}{
		{"a lease's renewal", lease.renew},
		{"a companion's renewal", companion.renew},
		{"a renewal beside a companion", func() { lease.woke(); lease.yes(ours); lease.yes(nil) }},
		{"a renewal that is read back", func() {
			lease.woke()
			lease.yes(lease.body)
			lease.step(Event{Kind: EventAnswer, Request: lease.id, Outcome: OutcomeUnknown, Class: ClassOther})
			lease.woke()
			lease.yes(lease.body)
		}},
		{"a waiter's poll", func() {
			waiter.now.Wall = worldStart // the record stays fresh, and changes
			foreign[len(foreign)-3]++
			waiter.woke()
			waiter.yes(foreign)
			waiter.m.(*Lease).watch.since = waiter.now.Mono
		}},
		{"a strict lease's renewal", held.renewStrictly},
		{"a strict companion's renewal", joined.renewStrictly},
		{"a session's renewal", func() { session.woke(); session.yes(nil); session.no() }},
		{"a strict waiter's poll", func() {
			l := asking.m.(*StrictLease)
			l.cur.boottime, l.sight.LookAt = asking.now.Mono, 0 // the lease stays alive
			asking.woke()
			if asking.kind != ActionExists {
				t.Fatal(asking.kind)
			}
			asking.no()
		}},
		{"a look of a lease without a ttl", func() {
			endless.woke()
			endless.no()
			if endless.m.(*StrictLease).flight.id != 0 {
				endless.yes(nil)
			}
		}},
	} {
		c.run()
		if n := testing.AllocsPerRun(100, c.run); n != 0 {
			t.Errorf("%s: %v allocations", c.name, n)
		}
	}
	all := fmt.Sprint(lease.m, companion.m, waiter.m, held.m, joined.m, session.m, asking.m, endless.m)
	if all != "held joined waiting held joined in_force waiting held" {
		t.Errorf("states: %s", all)
	}
	if !slices.Equal(companion.body, tenureOf(companion.m).body) {
		t.Error("the put's body is not the record last written")
	}
}

// heldOnSession is a lease that stands on a session and costs nothing.
func heldOnSession(tb testing.TB, n int) Machine {
	cfg := Config{
		Machine: MachineLease, Protocol: ProtocolStrict, Name: "jobs/nightly-report", OnSession: true,
		Host: "worker-7f9c4d", PID: "12345", Boot: "1b4e28ba-2fa1-11d2-883f-0016d3cca427",
		Seed: [16]byte{byte(n), byte(n >> 8), 1},
	}
	m, err := New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	events := []Event{
		{Kind: EventAcquire},
		{Kind: EventAnswer, Request: 1, Outcome: OutcomeYes},
		{Kind: EventAnswer, Request: 2, Outcome: OutcomeYes},
	}
	for _, ev := range events {
		ev.Session, ev.SessionUntil = []byte("6f1c2f4e-7f3d-4c55-9b57-1c2f4e7f3d4c"), int64(second)*60
		if _, err := m.Step(Instant{1, worldStart}, ev); err != nil {
			tb.Fatal(err)
		}
	}
	if m.String() != "held" {
		tb.Fatal(m)
	}
	return m
}
