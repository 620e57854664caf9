package core

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestOrderly: where PROTOCOL section 3's conditions hold (an acquire margin of
// two requests, none late, checked renewals on time), no two tenures are ever
// relied on at once, though requests and answers are lost and processes crash.
func TestOrderly(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := newSim(rt, weather{
			orderly: true,
			loss:    rapid.Bool().Draw(rt, "loss"),
			latency: rapid.SampledFrom([]int64{0, 5e6, 40e6}).Draw(rt, "latency"),
			skew:    rapid.SampledFrom([]int64{0, 20e6}).Draw(rt, "skew"),
			drift:   rapid.SampledFrom([]int64{0, 5000}).Draw(rt, "drift"),
		})
		s.play(400)
		s.settleDown()
	})
}

// TestStormy: whatever happens to clocks, requests and processes, the contract
// of Machine holds, nothing of ours is written once a lease has ended, and when
// the storm is over somebody gets the lease.
func TestStormy(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := newSim(rt, weather{
			loss:    rapid.Bool().Draw(rt, "loss"),
			late:    rapid.Bool().Draw(rt, "late"),
			pauses:  rapid.Bool().Draw(rt, "pauses"),
			vandals: rapid.Bool().Draw(rt, "vandals"),
			latency: rapid.SampledFrom([]int64{0, 100e6, 3e9}).Draw(rt, "latency"),
			skew:    rapid.SampledFrom([]int64{0, 1e9, 200e9}).Draw(rt, "skew"),
			drift:   rapid.SampledFrom([]int64{0, 10000}).Draw(rt, "drift"),
		})
		s.play(300)
		s.settleDown()
	})
}

// play lets machines come and go.
func (s *sim) play(n int) {
	const crowd = 3
	for range n {
		s.bury()
		if len(s.tenants) < crowd && (len(s.tenants) == 0 || s.oneIn(6, "born")) {
			s.arrive()
		}
		s.happen(unset)
	}
}

// arrive starts an acquire, or a companion of a tenure that is held.
func (s *sim) arrive() {
	for holder := range s.believers() {
		if len(s.believers()) == 1 && s.oneIn(3, "companion") {
			x := s.birth(MachineCompanion, holder)
			x.leaveAt = s.now + s.upTo(3*int64(s.cfg.TTL), "leaves")
			s.tell(x, Event{Kind: EventAccompany})
			return
		}
	}
	x := s.birth(MachineLease, "")
	x.leaveAt = s.now + s.upTo(3*int64(s.cfg.TTL), "leaves")
	wait := rapid.SampledFrom([]time.Duration{0, time.Second, Forever}).Draw(s.rt, "wait")
	s.tell(x, Event{Kind: EventAcquire, Wait: wait})
}

// bury takes away who has ended and has nothing under way.
func (s *sim) bury() {
	var living []*tenant
	for _, x := range s.tenants {
		gone := x.dead || x.machine.Idle()
		if !gone || s.pending(x) {
			living = append(living, x)
		}
	}
	s.tenants = living
}

// pending reports whether something that x sent can still reach the store.
func (s *sim) pending(x *tenant) (pending bool) {
	s.offerStore(x, func(int64, func()) { pending = true })
	return pending
}

// settleDown: the weather turns fair and everybody leaves; each machine comes to
// an end and is then quiet, and one who waits gets the lease.
func (s *sim) settleDown() {
	s.calm = true
	s.weather.latency, s.weather.loss = min(s.weather.latency, 50e6), false
	s.weather.orderly = false // companions are left behind
	for _, x := range s.tenants {
		x.pausedUntil = 0
		if !x.dead && !x.machine.Idle() {
			s.tell(x, departure(x))
		}
		x.leaveAt = unset
	}
	heir := s.birth(MachineLease, "")
	s.tell(heir, Event{Kind: EventAcquire, Wait: Forever})
	end := s.now + 8*int64(max(s.cfg.TTL, CorruptMin)) + 2*s.weather.skew
	for heir.deadline == unset && s.happen(end) {
	}
	if heir.deadline == unset {
		s.fail("EventuallyHeld: nobody holds the lease")
	}
	end = s.now + 2*int64(s.cfg.TTL)
	for s.happen(end) {
	}
	for _, x := range s.tenants {
		if x != heir && !x.dead && !x.machine.Idle() {
			s.fail("QuietWhenIdle: %s is %s and not idle", x.name, x.machine)
		}
	}
}

func departure(x *tenant) Event {
	switch {
	case kindOf(x.machine) == MachineCompanion:
		return Event{Kind: EventLeave}
	}
	return Event{Kind: EventRelease}
}
