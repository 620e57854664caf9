package core

import (
	"testing"
	"time"
)

// FuzzStep feeds a machine whatever can be made of the bytes: sense and
// nonsense, in any order. It must never panic, an error must change nothing,
// and the contract of Machine must hold.
func FuzzStep(f *testing.F) {
	f.Add([]byte("\x00\x00"))
	f.Fuzz(func(t *testing.T, data []byte) { newWorld(t).fuzz(data) })
}

func (w *world) fuzz(data []byte) {
	in := &source{data}
	a, err := w.add("a", in.config())
	if err != nil {
		w.fail("config: %v", err)
	}
	ahead, behind := in.jump(), in.jump()
	a.wall = ahead - behind
	for steps := 0; len(in.data) > 0 && steps < 500; steps++ {
		w.now = min(w.now+in.jump(), int64(MaxClockRange)-1)
		w.fuzzStep(a, in)
	}
}

func (w *world) fuzzStep(a *actor, in *source) {
	ev := in.event(a, w)
	if _, err := w.step(a, ev); err == nil && ev.Kind == EventAnswer {
		a.flying = nil
	}
}

// source makes things of bytes.
type source struct{ data []byte }

func (s *source) octet() byte {
	if len(s.data) == 0 {
		return 0
	}
	b := s.data[0]
	s.data = s.data[1:]
	return b
}

// jump is a duration of any size from nothing to a year.
func (s *source) jump() int64 {
	b := s.octet()
	return int64(b&7) << (b >> 3 * 2) % (1 << 55)
}

func (s *source) config() Config {
	kinds := [...]MachineKind{MachineLease, MachineCompanion}
	b := s.octet()
	cfg := Config{
		Machine: kinds[b&1], Name: "n", Renewal: Renewal(b >> 1 & 1), Expiry: Expiry(b >> 2 & 1), Role: Role(b >> 3 & 1),
		TTL: [...]time.Duration{MinTTL, 5 * time.Second, 88 * time.Second, MaxTTL}[b>>4&3],
	}
	cfg.Renewal, cfg.Expiry, cfg.Role = cfg.Renewal+1, cfg.Expiry+1, cfg.Role+1
	if b>>6&1 == 1 {
		cfg.FleetExpire = None
	}
	if b>>7 == 1 || cfg.Machine == MachineCompanion {
		cfg.Holder = "h"
	}
	if s.octet()&1 == 1 {
		cfg.AcquireMargin = cfg.TTL / 2
		if cfg.FleetExpire != None {
			cfg.AcquireMargin = min(cfg.TTL, DefaultFleetExpire) / 2
		}
	}
	return cfg
}

func (s *source) event(a *actor, w *world) Event {
	b := s.octet()
	ev := Event{Kind: EventKind(b & 15), Brief: b&16 != 0, Wait: [...]time.Duration{0, time.Second, Forever, -2}[b>>5&3]}
	if ev.Kind != EventAnswer && b < 128 {
		return ev
	}
	ev.Kind = EventAnswer
	b = s.octet()
	ev.Request = tenureOf(a.machine).issued - RequestID(b>>4&1) + RequestID(b>>5&1)
	ev.Outcome, ev.Class = Outcome(b&3), Class(b>>2&3*2)
	if ev.Outcome == OutcomeYes {
		ev.Body = s.body(a, w)
		ev.Stamp = worldStart - s.jump()
	}
	return ev
}

// body is our own record, somebody's, or rubbish.
func (s *source) body(a *actor, w *world) []byte {
	b := s.octet()
	k := tenureOf(a.machine)
	if b&7 < 3 {
		return k.body
	}
	own := ownRecord{
		holder: k.holder, writtenAt: w.clock(a).Wall - s.jump() + s.jump(), acquiredAt: s.jump(),
		ttl: time.Duration(s.jump()), count: int64(b), remote: b&8 != 0,
	}
	if b&16 != 0 {
		own.holder = "somebody"
	}
	if b&96 == 96 {
		own.releasedAt = worldStart
	}
	body := appendRecord(nil, &own)
	if b&7 == 7 {
		return body[:len(body)*int(b)/256]
	}
	return body
}
