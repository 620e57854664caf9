package machines

import (
	"bytes"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
	"github.com/mopslock/mopslock/core/internal/register"
	"github.com/mopslock/mopslock/core/internal/strict"
)

// stepping gives m events at one instant, and fails where they are refused.
func stepping(t *testing.T, m core.Machine, now core.Instant, events ...core.Event) (last []core.Action) {
	t.Helper()
	for _, ev := range events {
		var err error
		if last, err = m.Step(now, ev); err != nil {
			t.Fatal(err)
		}
	}
	return last
}

// strictCycle is a machine that was begun and is driven by hand.
func strictCycle(tb testing.TB, cfg core.Config) *cycle {
	cfg.Protocol, cfg.Name, cfg.OwnStore = core.ProtocolStrict, "n", true
	if cfg.Seed == [16]byte{} {
		cfg.Seed[15] = 1
	}
	cfg.Host, cfg.PID, cfg.Boot = "worker-7f9c4d", "12345", "b1"
	m, err := New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return &cycle{m: m, now: core.Instant{Mono: int64(time.Hour), Wall: worldStart}, wake: base.Unset, body: make([]byte, 0, 1024)}
}

// heldStrictly is a lease that is held.
func heldStrictly(tb testing.TB, seed byte) *cycle {
	c := strictCycle(tb, core.Config{Machine: core.MachineLease, Seed: [16]byte{seed, 1}})
	c.step(core.Event{Kind: core.EventAcquire})
	c.yes(nil)
	c.yes(nil)
	if c.m.String() != "held" {
		tb.Fatal(c.m)
	}
	return c
}

// renewStrictly is one renewal: woke, the put answered, the exists answered.
func (c *cycle) renewStrictly() {
	c.woke()
	c.yes(nil)
	c.goOn()
}

// goOn answers that there is nothing newer. Each second renewal asks for a lock.json, which
// is not there, and for its own version as well.
func (c *cycle) goOn() {
	for asked := c.id; asked != 0; {
		c.no()
		if asked = baseOf(c.m).Flight.ID; asked != 0 && c.kind == core.ActionExists {
			c.yes(nil)
			return
		}
	}
}

// busyMachines are machines in the midst of things, so that no field of theirs is left
// out by chance.
func busyMachines(tb testing.TB) map[string]*cycle {
	waiter := strictCycle(tb, core.Config{Machine: core.MachineLease})
	waiter.step(core.Event{Kind: core.EventAcquire, Wait: core.Forever, StoreStamp: worldStart, StoreAt: 1})
	waiter.step(core.Event{Kind: core.EventAnswer, Request: waiter.id, Outcome: core.OutcomeYes, Entries: testPage(7)})
	v := otherVersion(7, core.VersionHeld)
	waiter.yes(testVersion(waiter.m, v, 0))
	waiter.m.(*strict.Lease).Attempt = &strict.Attempt{N: 1} // the one before
	held := heldStrictly(tb, 1)
	held.m.(*strict.Lease).Garbage = &register.Garbage{Keys: []string{"k"}}
	companion := strictCycle(tb, core.Config{Machine: core.MachineCompanion, Terms: core.Terms{Holder: "h", Epoch: 1}})
	companion.step(core.Event{Kind: core.EventAccompany})
	companion.step(core.Event{Kind: core.EventAnswer, Request: companion.id, Outcome: core.OutcomeYes, Entries: testPage(1)})
	v = otherVersion(1, core.VersionHeld)
	v.Tenure = "h"
	companion.yes(testVersion(companion.m, v, 0))
	companion.yes(nil)
	session := strictCycle(tb, core.Config{Machine: core.MachineSession})
	session.step(core.Event{Kind: core.EventBegin})
	breaker := strictCycle(tb, core.Config{Machine: core.MachineRevocation, Terms: core.Terms{Why: "stuck"}})
	breaker.step(core.Event{Kind: core.EventBegin})
	breaker.step(core.Event{Kind: core.EventAnswer, Request: breaker.id, Outcome: core.OutcomeYes, Entries: testPage(1)})
	breaker.yes(testVersion(breaker.m, otherVersion(1, core.VersionHeld), 0))
	observer := strictCycle(tb, core.Config{Machine: core.MachineInspection})
	observer.step(core.Event{Kind: core.EventBegin})
	sample := strictCycle(tb, core.Config{Machine: core.MachineStoreClockSample})
	sample.step(core.Event{Kind: core.EventBegin})
	all := map[string]*cycle{
		"lease": heldCycle(tb, 1), "companion": joinedCycle(tb), "strict_waiter": waiter, "strict_lease": held,
		"strict_companion": companion, "session": session, "breaker": breaker, "observer": observer, "calibration": sample,
	}
	for name, m := range busySemaphores(tb) {
		all[name] = &cycle{m: m}
	}
	return all
}

// TestCloneIsIndependent: neither side sees what the other does, whatever comes of it.
func TestCloneIsIndependent(t *testing.T) {
	for name, c := range busyMachines(t) {
		m, twin := c.m, c.m.Clone()
		for _, side := range [][2]core.Machine{{m, twin}, {twin, m}} {
			before, now := side[0].AppendState(nil), baseOf(side[1]).Now
			for range 40 {
				now.Mono, now.Wall = now.Mono+int64(time.Second), now.Wall+int64(time.Second)
				for _, s := range sayings(side[1]) {
					if _, err := side[1].Step(now, s.event(side[1])); err == nil {
						break
					}
				}
				if !bytes.Equal(before, side[0].AppendState(nil)) {
					t.Fatalf("%s: the other's steps changed it", name)
				}
			}
		}
	}
	for _, c := range []*cycle{heldCycle(t, 1), heldStrictly(t, 1)} {
		renew := c.renew
		if isStrict(c.m) {
			renew = c.renewStrictly
		}
		before, twin := c.m.AppendState(nil), c.m.Clone()
		renew()
		renew()
		if !bytes.Equal(before, twin.AppendState(nil)) {
			t.Errorf("%s: its renewals changed its clone", c.m)
		}
	}
}

// TestClockRange: an instant whose sums could overflow is refused; and so is one that
// goes back. What else breaks the contract stands in the table and in the vectors.
func TestClockRange(t *testing.T) {
	m := heldCycle(t, 3).m
	now, before := baseOf(m).Now, m.AppendState(nil)
	for _, c := range []struct {
		now  core.Instant
		text string
	}{
		{core.Instant{Mono: now.Mono - 1, Wall: now.Wall}, "monotonic clock went back from 1000000000 to 999999999"},
		{core.Instant{Mono: core.MaxClockRange + 1, Wall: now.Wall}, "clock out of range"},
		{core.Instant{Mono: now.Mono, Wall: core.MaxClockRange + 1}, "clock out of range"},
		{core.Instant{Mono: now.Mono, Wall: -core.MaxClockRange - 1}, "clock out of range"},
	} {
		_, err := m.Clone().Step(c.now, core.Event{Kind: core.EventWoke})
		if e, ok := err.(*core.Error); !ok || e.Code != core.ErrorClock || err.Error() != "mopslock: "+c.text {
			t.Errorf("%+v: %v, want %s", c.now, err, c.text)
		}
		if !bytes.Equal(before, m.AppendState(nil)) {
			t.Errorf("%+v: the error changed the machine", c.now)
		}
	}
	for _, edge := range []core.Instant{{Mono: core.MaxClockRange, Wall: core.MaxClockRange}, {Mono: now.Mono, Wall: -core.MaxClockRange}} {
		if _, err := m.Clone().Step(edge, core.Event{Kind: core.EventWoke}); err != nil {
			t.Errorf("%+v: %v", edge, err)
		}
	}
}

// TestCorruptStampRange: once, a stamp near the end of the range made a corrupt
// record free, and a wall clock near the beginning made the time of its next read overflow.
func TestCorruptStampRange(t *testing.T) {
	for _, c := range []struct{ wall, stamp int64 }{
		{worldStart, core.MaxClockRange}, {-core.MaxClockRange, core.MaxClockRange}, {core.MaxClockRange - 1, core.MaxClockRange},
	} {
		m, err := New(goodConfig(nil))
		if err != nil {
			t.Fatal(err)
		}
		corrupt := core.Event{Kind: core.EventAnswer, Request: 1, Outcome: core.OutcomeYes, Body: []byte("{"), Stamp: c.stamp}
		last := stepping(t, m, core.Instant{Mono: 0, Wall: c.wall}, core.Event{Kind: core.EventAcquire}, corrupt)
		if m.String() != "refused" || last[0].Observed.RecheckAt <= 0 || last[0].Observed.RecheckAt > int64(core.LastWriterTTL) {
			t.Errorf("%v: %s, look at %d", c, m, last[0].Observed.RecheckAt)
		}
	}
}

// TestTinyTTLOfAnother: a record's TTL below what the store's stamps allow does
// not make us renew, or give up claims, faster than the store can follow.
func TestTinyTTLOfAnother(t *testing.T) {
	for unit, floor := range map[time.Duration]time.Duration{time.Second: core.MinTTLCoarse, time.Microsecond: core.MinTTL} {
		m, err := New(goodConfig(func(c *core.Config) { c.StampUnit = unit }))
		if err != nil {
			t.Fatal(err)
		}
		body := []byte(`{"writer_id": "x", "written_at": "2001-01-01T00:00:00+00:00", "expire_s": 0.001}`)
		stepping(t, m, core.Instant{Wall: worldStart}, core.Event{Kind: core.EventAcquire},
			core.Event{Kind: core.EventAnswer, Request: 1, Outcome: core.OutcomeYes, Body: body})
		if got := tenureOf(m).Shortest; got != floor {
			t.Errorf("stamps of %v: E is %v, want %v", unit, got, floor)
		}
	}
}
