package register

import (
	"testing"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
)

// registerFor is the register of a machine that has done nothing yet.
func registerFor(t *testing.T, cfg core.Config) *Register {
	t.Helper()
	cfg.Protocol, cfg.Name, cfg.Boot, cfg.Seed = core.ProtocolStrict, "n", "b1", [16]byte{1}
	r, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &r
}

// TestSessionJudged: by each of the three rules a session is dead at an instant and not
// a nanosecond before, and the next observation is not due before that instant.
func TestSessionJudged(t *testing.T) {
	const ttl, begin = int64(20 * core.Second), int64(100 * core.Second)
	beat := func(m *base.Machine, at int64, boot string) []byte {
		writer := *m
		writer.Now.Mono, writer.Cfg.Boot = at, boot
		return AppendSessionBeat(nil, &writer, core.Duration(ttl), 2*core.Second)
	}
	for _, c := range []struct {
		name, boot string
		expiry     core.Expiry
		stamp      int64
		deadAt     int64
	}{
		{"this boot's clock", "b1", core.ExpiryObserved, recordedAt - 5, begin - 5 + ttl},
		{"this boot's clock, stamped later", "b1", core.ExpiryObserved, recordedAt - 3, begin - 3 + ttl},
		{"this boot, no stamp", "b1", core.ExpiryObserved, 0, begin + ttl},
		{"a clone's clock", "b1", core.ExpiryObserved, recordedAt - 6 - int64(core.BootTolerance), begin + ttl},
		{"another boot", "b2", core.ExpiryObserved, recordedAt, begin + ttl},
		{"no stamp", "b2", core.ExpiryCalibrated, 0, begin + ttl},
		// The store's clock runs 1 % slow at most, from the sample: so much later.
		{"the store's clock", "b2", core.ExpiryCalibrated, recordedAt - int64(10*core.Second), begin + (ttl-int64(10*core.Second)+int64(core.Second))*100/99 + 2},
		{"the store's clock is not looked at", "b2", core.ExpiryObserved, recordedAt - int64(10*core.Second), begin + ttl},
		{"whatever comes first", "b1", core.ExpiryCalibrated, recordedAt - 5, begin - 5 + ttl},
	} {
		r := registerFor(t, core.Config{Machine: core.MachineInspection, Terms: core.Terms{TTL: core.TTL(ttl), Expiry: c.expiry}})
		body := beat(&r.Machine, begin-5, c.boot)
		r.Sample = StoreClockSample{recordedAt, begin}
		observe := func(s *seenSession, at int64) {
			r.Observation.Start, r.Now = at, core.Instant{Mono: at, Wall: recordedAt - begin + at}
			r.SessionRead(s, &core.Event{Kind: core.EventAnswer, Outcome: core.OutcomeYes, Body: body, Stamp: c.stamp})
		}
		s := &seenSession{ID: "s"}
		if r.sessionDeadAt(s) > -1<<61 {
			t.Errorf("%s: who was never asked is not asked at once", c.name)
		}
		if observe(s, begin); s.Dead {
			t.Errorf("%s: dead at first sight", c.name)
		}
		at := r.sessionDeadAt(s)
		if diff := at - c.deadAt; diff < -1 || diff > 2 {
			t.Errorf("%s: it can be dead at %d, want %d", c.name, at, c.deadAt)
		}
		if observe(s, at-4); s.Dead {
			t.Errorf("%s: dead before", c.name)
		}
		if observe(s, at); !s.Dead || r.sessionDeadAt(s) != base.Unset {
			t.Errorf("%s: not dead at %d", c.name, at)
		}
	}
}

// TestSessionJudgedByStart: a beat that came between the start of the observation and its
// answer keeps nobody alive who was not, and kills nobody who beat before.
func TestSessionJudgedByStart(t *testing.T) {
	r := registerFor(t, core.Config{Machine: core.MachineInspection, Terms: core.Terms{TTL: core.TTL(20 * core.Second), Expiry: core.ExpiryObserved}})
	s := &seenSession{ID: "s"}
	r.Observation.Start, r.Now.Mono = 0, int64(5*core.Second)
	r.SessionRead(s, &core.Event{Outcome: core.OutcomeYes, Body: []byte("unreadable")})
	if s.unchanged.Since != int64(5*core.Second) || s.Dead {
		t.Errorf("%+v", s)
	}
	// What cannot be read counts as long as a corrupt record.
	r.Observation.Start, r.Now.Mono = int64(5*core.Second)+int64(core.CorruptMin)-1, int64(5*core.Second)+2*int64(core.CorruptMin)
	if r.SessionRead(s, &core.Event{Outcome: core.OutcomeYes, Body: []byte("unreadable")}); s.Dead {
		t.Error("judged as of the answer")
	}
	r.Observation.Start++
	if r.SessionRead(s, &core.Event{Outcome: core.OutcomeYes, Body: []byte("unreadable")}); !s.Dead {
		t.Error("not dead")
	}
	gone := &seenSession{ID: "t"}
	if r.SessionRead(gone, &core.Event{Outcome: core.OutcomeNo}); !gone.Dead {
		t.Error("a session without a beat lives")
	}
}

// TestSessionsPerObservation: who is longest overdue is asked first, nobody twice, and no
// more than so many.
func TestSessionsPerObservation(t *testing.T) {
	r := registerFor(t, core.Config{Machine: core.MachineInspection, Terms: core.Terms{TTL: core.TTL(20 * core.Second)}})
	r.Now.Mono = int64(100 * core.Second)
	all := SessionTable{
		{ID: "young", read: true, unchanged: base.Unchanged{Fingerprint: 1, Since: r.Now.Mono - 1}, Beat: Beat{ttl: 20 * core.Second}},
		{ID: "dead", read: true, Dead: true},
		{ID: "due", read: true, unchanged: base.Unchanged{Fingerprint: 1, Since: 1}, Beat: Beat{ttl: 20 * core.Second}},
		{ID: "never"},
	}
	for _, want := range []string{"never", "due", ""} {
		got := ""
		if due := r.DueSession(all, 3); due != nil {
			got, due.Asked = due.ID, true
		}
		if got != want {
			t.Errorf("asks %q, want %q", got, want)
		}
	}
	all.NewObservation()
	if r.DueSession(all, 0) != nil || r.DueSession(all, 1) == nil {
		t.Error("so many in one observation")
	}
}
