package core

import (
	"testing"
	"time"
)

// FuzzStrictStep is FuzzStep for strict's machines: whatever can be made of the
// bytes, sense and nonsense, in any order.
func FuzzStrictStep(f *testing.F) {
	for start := range byte(len(strictStarts())) {
		for _, command := range []byte{0, 1, 2, 7} { // acquire, accompany, release, begin
			f.Add(strictSeed(start, command, 1))
			f.Add(strictSeed(start, command, 5))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) { newWorld(t).fuzzStrict(data) })
}

// strictSeed begins a machine and walks through the answers in steps of stride.
func strictSeed(start, command, stride byte) []byte {
	seed := []byte{start, 0, 1, command, 1, 1}
	for n := range byte(40) {
		seed = append(seed, n&15, 128, n*stride, 1, 1, 13, 1, 1) // an answer, then a wake in time
	}
	return seed
}

func (w *world) fuzzStrict(data []byte) {
	in := &source{data}
	starts := strictStarts()
	cfg := starts[int(in.octet())%len(starts)].cfg
	b := in.octet()
	if b&1 != 0 {
		cfg.Boot = ""
	}
	if b&2 != 0 {
		cfg.Expiry = ExpiryObserved
	}
	if b&4 != 0 && cfg.TTL != None {
		cfg.TTL = MaxTTL
	}
	cfg.Beside = b&8 != 0
	if b&16 != 0 && cfg.Machine == MachineLease && cfg.Holder == "" {
		cfg.LastEpoch, cfg.LastAt = 5, int64(time.Minute)
	}
	if b&32 != 0 {
		cfg.SeenPrint, cfg.SeenSince = 7, int64(in.octet())
	}
	a, err := w.add("a", cfg)
	if err != nil {
		w.fail("config: %v", err)
	}
	for steps := 0; len(in.data) > 0 && steps < 500; steps++ {
		w.now = min(w.now+in.jump(), int64(MaxClockRange)-1)
		before := epochOf(a.machine)
		w.fuzzStrictStep(a, in)
		if s := a.machine.String(); (s == "held" || s == "joined") && before.holds && epochOf(a.machine).n < before.n {
			w.fail("EpochGrows: from %d to %d", before.n, epochOf(a.machine).n)
		}
	}
}

// standing is the epoch that a machine stands on.
type standing struct {
	n     Epoch
	holds bool
}

func epochOf(m Machine) standing {
	s := m.String()
	return standing{currentOf(m), s == "held" || s == "joined"}
}

// fuzzStrictStep says one of the table's sayings, or answers with what is there.
func (w *world) fuzzStrictStep(a *actor, in *source) {
	b := in.octet()
	var ev Event
	switch all := sayings(a.machine); {
	case b >= 128 && len(a.flying) > 0:
		replies := strictReplies(a.machine)
		ev = replies[int(in.octet())%len(replies)].event(a.machine)
		ev.Request = baseOf(a.machine).issued - RequestID(b>>6&1&in.octet())
		if b&1 != 0 {
			ev.Stamp = worldStart + w.now - in.jump()
		}
		if b&2 != 0 && len(ev.Body) > 0 {
			ev.Body = ev.Body[:len(ev.Body)*int(in.octet())/256]
		}
	default:
		ev = all[int(b)%len(all)].event(a.machine)
	}
	if in.octet()&7 == 0 {
		ev.StoreStamp, ev.StoreAt = worldStart+w.now-in.jump(), w.now-in.jump()
	}
	if onSession(a.machine) && in.octet()&3 == 0 {
		ev.Session, ev.SessionUntil, ev.SessionEnd = []byte("sid")[:in.octet()&3], w.now+in.jump(), ReasonExpired
	}
	if _, err := w.step(a, ev); err == nil && ev.Kind == EventAnswer {
		a.flying = nil
	}
}
