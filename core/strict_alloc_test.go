package core

import (
	"runtime"
	"testing"
	"unsafe"
)

// TestStrictNoAllocations: what is done over and over allocates nothing.
func TestStrictNoAllocations(t *testing.T) {
	lease := heldStrictly(t, 1)
	companion := strictCycle(t, Config{Machine: MachineCompanion, Holder: "h", Epoch: 1})
	companion.step(Event{Kind: EventAccompany})
	companion.step(Event{Kind: EventAnswer, Request: companion.id, Outcome: OutcomeYes, Entries: testPage(1)})
	v := otherVersion(1, VersionHeld)
	v.tenure = "h"
	companion.yes(testVersion(companion.m, v, 0))
	companion.yes(nil)
	session := strictCycle(t, Config{Machine: MachineSession})
	session.step(Event{Kind: EventBegin})
	session.yes(nil)
	session.no()
	waiter := strictCycle(t, Config{Machine: MachineLease})
	waiter.step(Event{Kind: EventAcquire, Wait: Forever})
	waiter.step(Event{Kind: EventAnswer, Request: waiter.id, Outcome: OutcomeYes, Entries: testPage(1)})
	waiter.yes(testVersion(waiter.m, v, 0))
	endless := strictCycle(t, Config{Machine: MachineLease, TTL: None})
	endless.step(Event{Kind: EventAcquire})
	endless.yes(nil)
	endless.yes(nil)
	for _, c := range []struct {
		name string
		run  func()
	}{
		{"a lease's renewal", lease.renewStrictly},
		{"a companion's renewal", companion.renewStrictly},
		{"a session's renewal", func() { session.woke(); session.yes(nil); session.no() }},
		{"a waiter's poll", func() {
			l := waiter.m.(*StrictLease)
			l.cur.boottime, l.sight.LookAt = waiter.now.Mono, 0 // the lease stays alive
			waiter.woke()
			if waiter.kind != ActionExists {
				t.Fatal(waiter.kind)
			}
			waiter.no()
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
	if s := lease.m.String() + companion.m.String() + session.m.String() + waiter.m.String() + endless.m.String(); s != "heldjoinedin_forcewaitingheld" {
		t.Errorf("states: %s", s)
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

// BenchmarkHeldOnSession counts what 10,000 leases on one session take: the
// machines and all that they point to.
func BenchmarkHeldOnSession(b *testing.B) {
	const leases = 10_000
	for b.Loop() {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		all := make([]Machine, leases)
		for i := range all {
			all[i] = heldOnSession(b, i)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/leases, "bytes/lease")
		b.ReportMetric(float64(unsafe.Sizeof(StrictLease{})), "bytes/machine")
		runtime.KeepAlive(all)
	}
}
