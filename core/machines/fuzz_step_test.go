package machines

import (
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/lockfile"
)

// FuzzStep feeds a machine whatever can be made of the bytes: what the table says to it,
// and nonsense, in any order. It must never panic, an error must change nothing, and
// the contract of Machine must hold.
func FuzzStep(f *testing.F) {
	for start := range byte(len(tableStarts())) {
		for _, command := range []byte{0, 1, 2, 7} { // acquire, accompany, release, begin
			f.Add(fuzzSeed(start, command, 1))
			f.Add(fuzzSeed(start, command, 5))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) { newWorld(t).fuzz(data) })
}

// fuzzSeed begins a machine and walks through the answers in steps of stride.
func fuzzSeed(start, command, stride byte) []byte {
	seed := []byte{start, 0, 1, command, 1, 1}
	for n := range byte(40) {
		seed = append(seed, n&15, 128, n*stride, 1, 1, 13, 1, 1) // an answer, then a wake in time
	}
	return seed
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

// config is one of the table's, with some of what the table leaves as it is.
func (s *source) config() core.Config {
	starts := tableStarts()
	cfg := starts[int(s.octet())%len(starts)].cfg
	b := s.octet()
	strict := cfg.Protocol == core.ProtocolStrict
	if b&1 != 0 {
		cfg.Boot = ""
	}
	if b&2 != 0 {
		cfg.Expiry = core.ExpiryObserved
	}
	if b&4 != 0 && cfg.TTL != core.TTLEndless {
		cfg.TTL = core.TTL([...]time.Duration{core.MinTTL, core.MaxTTL}[b>>6&1])
	}
	cfg.LockFilePresent = b&8 != 0 && strict
	if b&16 != 0 && strict && cfg.Machine == core.MachineLease && cfg.Holder == "" {
		cfg.LastEpoch, cfg.LastAt = 5, int64(time.Minute)
	}
	if b&32 != 0 && strict {
		cfg.SeenFingerprint, cfg.SeenSince = 7, int64(s.octet())
	}
	if b&64 != 0 && !strict {
		cfg.FleetExpire = core.TTLEndless
	}
	return cfg
}

func (w *world) fuzz(data []byte) {
	in := &source{data}
	a, err := w.add("a", in.config())
	if err != nil {
		w.fail("config: %v", err)
	}
	if !isStrict(a.machine) {
		ahead, behind := in.jump(), in.jump()
		a.wall = ahead - behind
	}
	for steps := 0; len(in.data) > 0 && steps < 500; steps++ {
		w.now = min(w.now+in.jump(), int64(core.MaxClockRange)-1)
		before, held := fuzzEpoch(a.machine)
		ev := in.event(w, a)
		if _, err := w.step(a, ev); err == nil && ev.Kind == core.EventAnswer {
			a.flying = nil
		}
		if n, holds := fuzzEpoch(a.machine); held && holds && n < before {
			w.fail("EpochGrows: from %d to %d", before, n)
		}
	}
}

// fuzzEpoch is the epoch that a machine stands on, if it holds something.
func fuzzEpoch(m core.Machine) (n core.Epoch, holds bool) {
	if s := m.String(); !isStrict(m) || s != "held" && s != "joined" {
		return 0, false
	}
	return currentOf(m), true
}

// event is one of the table's sayings, or an answer with what is there.
func (s *source) event(w *world, a *actor) (ev core.Event) {
	if b := s.octet(); b < 128 || len(a.flying) == 0 {
		all := sayings(a.machine)
		ev = all[int(b)%len(all)].event(a.machine)
	} else {
		all := replies(a.machine)
		ev = all[int(s.octet())%len(all)].event(a.machine)
		ev.Request = baseOf(a.machine).Issued - core.RequestID(b>>6&1&s.octet())
		if b&1 != 0 {
			ev.Stamp = worldStart + w.now - s.jump()
		}
		switch {
		case b&4 != 0 && !isStrict(a.machine) && ev.Body != nil:
			ev.Body = s.record(w, a)
		case b&2 != 0 && len(ev.Body) > 0:
			ev.Body = ev.Body[:len(ev.Body)*int(s.octet())/256]
		}
	}
	if isStrict(a.machine) && s.octet()&7 == 0 {
		ev.StoreStamp, ev.StoreAt = worldStart+w.now-s.jump(), w.now-s.jump()
	}
	if onSession(a.machine) && s.octet()&3 == 0 {
		ev.Session, ev.SessionUntil, ev.SessionEnd = []byte("sid")[:s.octet()&3], w.now+s.jump(), core.ReasonExpired
	}
	return ev
}

// record is a lock.json of any age and any ttl, ours or somebody's.
func (s *source) record(w *world, a *actor) []byte {
	b := s.octet()
	own := lockfile.Own{
		Holder: tenureOf(a.machine).HolderID, WrittenAt: w.clock(a).Wall - s.jump() + s.jump(), AcquiredAt: s.jump(),
		TTL: time.Duration(s.jump()), Count: int64(b), Remote: b&8 != 0,
	}
	if b&16 != 0 {
		own.Holder = "somebody"
	}
	if b&96 == 96 {
		own.ReleasedAt = worldStart
	}
	return lockfile.Append(nil, &own)
}
