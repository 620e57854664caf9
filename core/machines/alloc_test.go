package machines

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/lastwriter"
	"github.com/mopslock/mopslock/core/internal/lockfile"
	"github.com/mopslock/mopslock/core/internal/strict"
)

// cycle drives one machine without a world, as cheaply as a host can.
type cycle struct {
	m    core.Machine
	now  core.Instant
	wake int64
	id   core.RequestID
	kind core.ActionKind
	body []byte // of the last put, as the store would give it back
}

func (c *cycle) step(ev core.Event) {
	actions, err := c.m.Step(c.now, ev)
	if err != nil {
		panic(err)
	}
	c.take(actions)
}

// take is the host's part.
func (c *cycle) take(actions []core.Action) {
	for i := range actions {
		switch a := &actions[i]; a.Kind {
		case core.ActionGet, core.ActionExists, core.ActionList, core.ActionDelete:
			c.id, c.kind = a.Request, a.Kind
		case core.ActionPut, core.ActionCreate:
			c.id, c.kind = a.Request, a.Kind
			c.body = append(c.body[:0], a.Body...)
		case core.ActionWake:
			c.wake = a.At
		}
	}
}

// woke lets time go on to the wake.
func (c *cycle) woke() {
	if d := c.wake - c.now.Mono; d > 0 {
		c.now.Mono, c.now.Wall = c.now.Mono+d, c.now.Wall+d
	}
	c.step(core.Event{Kind: core.EventWoke})
}

func (c *cycle) yes(body []byte) {
	c.step(core.Event{Kind: core.EventAnswer, Request: c.id, Outcome: core.OutcomeYes, Body: body})
}

func (c *cycle) no() {
	c.step(core.Event{Kind: core.EventAnswer, Request: c.id, Outcome: core.OutcomeNo})
}

// renew is one renewal: woke, the get answered, the put answered.
func (c *cycle) renew() {
	c.woke()
	c.yes(c.body)
	c.yes(nil)
}

func newCycle(tb testing.TB, cfg core.Config) *cycle {
	cfg.Protocol, cfg.Name, cfg.Seed[15] = core.ProtocolLastWriter, "n", 1
	cfg.Host, cfg.PID, cfg.TID = "worker-7f9c4d", "12345", 140234567890123
	m, err := New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return &cycle{m: m, now: core.Instant{Mono: 0, Wall: worldStart}, body: make([]byte, 0, 1024)}
}

// heldCycle is a lease that is held and has had its later read.
func heldCycle(tb testing.TB, seed byte) *cycle {
	c := newCycle(tb, core.Config{Machine: core.MachineLease, Seed: [16]byte{seed, 1}})
	c.step(core.Event{Kind: core.EventAcquire})
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
	c := newCycle(tb, core.Config{Machine: core.MachineCompanion, Terms: core.Terms{Holder: "h"}})
	c.step(core.Event{Kind: core.EventAccompany})
	c.yes(foreignBody("h", worldStart, "caf\u00e9\n"))
	c.yes(nil)
	if c.m.String() != "joined" {
		tb.Fatal(c.m)
	}
	return c
}

// foreignBody is a record with fields that we do not know and text that is escaped.
func foreignBody(holder core.HolderID, written int64, host string) []byte {
	own := lockfile.Own{Holder: holder, Host: host, WrittenAt: written, AcquiredAt: worldStart, TTL: core.LastWriterTTL, Count: 3}
	body := lockfile.Append(nil, &own)
	return append(body[:len(body)-2], ",\n  \"\\u0063olour\": [1, {\"a\": null}]\n}"...)
}

// TestNoAllocations: a step in steady state allocates nothing.
func TestNoAllocations(t *testing.T) {
	lease, companion := heldCycle(t, 1), joinedCycle(t)
	waiter := newCycle(t, core.Config{Machine: core.MachineLease})
	foreign := foreignBody(core.HolderID(strings.Repeat("so\u00efebody-", 100)), worldStart, strings.Repeat("caf\u00e9\n", 5000))
	waiter.step(core.Event{Kind: core.EventAcquire, Wait: core.Forever})
	waiter.yes(foreign)
	seen := &tenureOf(waiter.m).Observed
	if len(seen.Holder) < core.MaxHolder-3 || cap(seen.Holder) > 2*core.MaxHolder || cap(seen.Host) > 2*core.MaxText {
		t.Errorf("of somebody's record %d bytes are shown, %d and %d kept", len(seen.Holder), cap(seen.Holder), cap(seen.Host))
	}

	busy := busyMachines(t)
	held, joined, session, asking := heldStrictly(t, 1), busy["strict_companion"], busy["session"], busy["strict_waiter"]
	session.yes(nil)
	session.no()
	endless := strictCycle(t, core.Config{Machine: core.MachineLease, Terms: core.Terms{TTL: core.TTLEndless}})
	endless.step(core.Event{Kind: core.EventAcquire})
	endless.yes(nil)
	endless.yes(nil)

	ours := foreignBody(lease.m.(*lastwriter.Lease).Holder(), worldStart, "elsewhere")
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
			lease.step(core.Event{Kind: core.EventAnswer, Request: lease.id, Outcome: core.OutcomeUnknown, Class: core.ClassOther})
			lease.woke()
			lease.yes(lease.body)
		}},
		{"a waiter's poll", func() {
			waiter.now.Wall = worldStart // the record stays fresh, and changes
			foreign[len(foreign)-3]++
			waiter.woke()
			waiter.yes(foreign)
			waiter.m.(*lastwriter.Lease).Unchanged.Since = waiter.now.Mono
		}},
		{"a strict lease's renewal", held.renewStrictly},
		{"a strict companion's renewal", joined.renewStrictly},
		{"a session's renewal", func() { session.woke(); session.yes(nil); session.goOn() }},
		{"a strict waiter's poll", func() {
			l := asking.m.(*strict.Lease)
			l.Cur.Boottime, l.Observed.RecheckAt = asking.now.Mono, 0 // the lease stays alive
			asking.woke()
			if asking.kind != core.ActionExists {
				t.Fatal(asking.kind)
			}
			asking.no()
		}},
		{"a renewal of a lease without a ttl", func() {
			endless.woke()
			endless.goOn()
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
	if !slices.Equal(companion.body, tenureOf(companion.m).Body) {
		t.Error("the put's body is not the record last written")
	}
}
