package core

import (
	"bytes"
	"testing"
	"time"
)

// strictCycle is a machine that was begun and is driven by hand.
func strictCycle(tb testing.TB, cfg Config) *cycle {
	cfg.Protocol, cfg.Name = ProtocolStrict, "n"
	if cfg.Seed == [16]byte{} {
		cfg.Seed[15] = 1
	}
	cfg.Host, cfg.PID, cfg.Boot = "worker-7f9c4d", "12345", "b1"
	m, err := New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return &cycle{m: m, now: Instant{int64(time.Hour), worldStart}, wake: unset, body: make([]byte, 0, 1024)}
}

// heldStrictly is a lease that is held.
func heldStrictly(tb testing.TB, seed byte) *cycle {
	c := strictCycle(tb, Config{Machine: MachineLease, Seed: [16]byte{seed, 1}})
	c.step(Event{Kind: EventAcquire})
	c.yes(nil)
	c.yes(nil)
	if c.m.String() != "held" {
		tb.Fatal(c.m)
	}
	return c
}

// renewStrictly is one renewal: woke, the put answered, the exists answered. Now
// and then it asks for its own version, too.
func (c *cycle) renewStrictly() {
	c.woke()
	c.yes(nil)
	c.no()
	if baseOf(c.m).flight.id != 0 {
		c.yes(nil)
	}
}

// strictMachines are machines in the midst of things, so that no field of theirs
// is left out by chance.
func strictMachines(tb testing.TB) []Machine {
	waiter := strictCycle(tb, Config{Machine: MachineLease})
	waiter.step(Event{Kind: EventAcquire, Wait: Forever, StoreStamp: worldStart, StoreAt: 1})
	waiter.step(Event{Kind: EventAnswer, Request: waiter.id, Outcome: OutcomeYes, Entries: testPage(7)})
	v := otherVersion(7, VersionHeld)
	waiter.yes(testVersion(waiter.m, v, 0))
	waiter.m.(*StrictLease).claim = &claim{n: 1} // of an attempt before
	held := heldStrictly(tb, 1)
	held.m.(*StrictLease).garbage = &garbage{keys: []string{"k"}}
	companion := strictCycle(tb, Config{Machine: MachineCompanion, Holder: "h", Epoch: 1})
	companion.step(Event{Kind: EventAccompany})
	companion.step(Event{Kind: EventAnswer, Request: companion.id, Outcome: OutcomeYes, Entries: testPage(1)})
	v = otherVersion(1, VersionHeld)
	v.tenure = "h"
	companion.yes(testVersion(companion.m, v, 0))
	companion.yes(nil)
	session := strictCycle(tb, Config{Machine: MachineSession})
	session.step(Event{Kind: EventBegin})
	breaker := strictCycle(tb, Config{Machine: MachineBreaker, Why: "stuck"})
	breaker.step(Event{Kind: EventBegin})
	breaker.step(Event{Kind: EventAnswer, Request: breaker.id, Outcome: OutcomeYes, Entries: testPage(1)})
	breaker.yes(testVersion(breaker.m, otherVersion(1, VersionHeld), 0))
	observer := strictCycle(tb, Config{Machine: MachineObserver})
	observer.step(Event{Kind: EventBegin})
	calibration := strictCycle(tb, Config{Machine: MachineCalibration})
	calibration.step(Event{Kind: EventBegin})
	return []Machine{waiter.m, held.m, companion.m, session.m, breaker.m, observer.m, calibration.m}
}

// TestStrictStateIsComplete is TestAppendStateIsComplete for strict's machines.
func TestStrictStateIsComplete(t *testing.T) {
	// Constant after New, and the actions of the latest Step.
	outside := map[string]bool{
		"cfg": true, "prefix": true, "out": true, "deliberate": true, "sid": true, "holder": true,
	}
	for _, m := range strictMachines(t) {
		kind := kindOf(m)
		outside["beatKey"] = kind == MachineSession // its one key is made of its id
		outside["key"] = kind == MachineCalibration
		checkState(t, m, outside)
	}
}

// TestStrictCloneIsIndependent: neither side sees what the other does.
func TestStrictCloneIsIndependent(t *testing.T) {
	for _, m := range strictMachines(t) {
		before := m.AppendState(nil)
		twin := m.Clone()
		now := baseOf(m).now
		for range 40 { // through whatever comes of it
			now.Mono, now.Wall = now.Mono+int64(time.Second), now.Wall+int64(time.Second)
			for _, s := range sayings(twin) {
				if _, err := twin.Step(now, s.event(twin)); err == nil {
					break
				}
			}
			if !bytes.Equal(before, m.AppendState(nil)) {
				t.Fatalf("%s: the clone's steps changed it", m)
			}
		}
	}
	c := heldStrictly(t, 1)
	twin := *c
	twin.m, twin.body = c.m.Clone(), bytes.Clone(c.body)
	twin.renewStrictly()
	after := twin.m.AppendState(nil)
	c.renewStrictly()
	c.renewStrictly()
	if !bytes.Equal(after, twin.m.AppendState(nil)) {
		t.Error("a lease's steps changed its clone")
	}
}

// TestStrictImpossibleMovePanics names the move.
func TestStrictImpossibleMovePanics(t *testing.T) {
	machines := strictMachines(t)
	for want, move := range map[string]func(){
		"[waiting -> held]":    func() { machines[0].(*StrictLease).become(LeaseHeld) },
		"[joined -> idle]":     func() { machines[2].(*StrictCompanion).become(CompanionIdle) },
		"[opening -> closed]":  func() { machines[3].(*Session).become(SessionClosed) },
		"[working -> idle]":    func() { machines[4].(*Breaker).become(TaskIdle) },
		"[working -> working]": func() { machines[4].(*Breaker).become(TaskWorking) },
	} {
		func() {
			defer func() {
				if got := recover(); got != "mopslock: core: invalid transition "+want {
					t.Errorf("panic %v, want %s", got, want)
				}
			}()
			move()
		}()
	}
}
