package core

import "testing"

// registerFor is the register of a machine that has done nothing yet.
func registerFor(t *testing.T, cfg Config) *register {
	t.Helper()
	cfg.Protocol, cfg.Name, cfg.Boot, cfg.Seed = ProtocolStrict, "n", "b1", [16]byte{1}
	r, err := newRegister(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &r
}

// TestSessionJudged: by each of the three rules a session is dead at an instant and not
// a nanosecond before, and the next look is not due before that instant.
func TestSessionJudged(t *testing.T) {
	const ttl, begin = int64(20 * second), int64(100 * second)
	beat := func(m *machine, at int64, boot string) []byte {
		writer := *m
		writer.now.Mono, writer.cfg.Boot = at, boot
		return appendSessionBeat(nil, &writer, Duration(ttl), 2*second)
	}
	for _, c := range []struct {
		name, boot string
		expiry     Expiry
		stamp      int64
		deadAt     int64
	}{
		{"this boot's clock", "b1", ExpiryObserved, recordedAt - 5, begin - 5 + ttl},
		{"this boot's clock, stamped later", "b1", ExpiryObserved, recordedAt - 3, begin - 3 + ttl},
		{"this boot, no stamp", "b1", ExpiryObserved, 0, begin + ttl},
		{"a clone's clock", "b1", ExpiryObserved, recordedAt - 6 - int64(BootTolerance), begin + ttl},
		{"another boot", "b2", ExpiryObserved, recordedAt, begin + ttl},
		{"no stamp", "b2", ExpiryCalibrated, 0, begin + ttl},
		// The store's clock runs 1 % slow at most, from the sample: so much later.
		{"the store's clock", "b2", ExpiryCalibrated, recordedAt - int64(10*second), begin + (ttl-int64(10*second)+int64(second))*100/99 + 2},
		{"the store's clock is not looked at", "b2", ExpiryObserved, recordedAt - int64(10*second), begin + ttl},
		{"whatever comes first", "b1", ExpiryCalibrated, recordedAt - 5, begin - 5 + ttl},
	} {
		r := registerFor(t, Config{Machine: MachineObserver, TTL: Duration(ttl), Expiry: c.expiry})
		body := beat(&r.machine, begin-5, c.boot)
		r.sample = clockSample{recordedAt, begin}
		look := func(s *seenSession, at int64) {
			r.look.start, r.now = at, Instant{Mono: at, Wall: recordedAt - begin + at}
			r.sessionRead(s, &Event{Kind: EventAnswer, Outcome: OutcomeYes, Body: body, Stamp: c.stamp})
		}
		s := &seenSession{id: "s"}
		if r.sessionDeadAt(s) > -1<<61 {
			t.Errorf("%s: who was never asked is not asked at once", c.name)
		}
		if look(s, begin); s.dead {
			t.Errorf("%s: dead at first sight", c.name)
		}
		at := r.sessionDeadAt(s)
		if diff := at - c.deadAt; diff < -1 || diff > 2 {
			t.Errorf("%s: it can be dead at %d, want %d", c.name, at, c.deadAt)
		}
		if look(s, at-4); s.dead {
			t.Errorf("%s: dead before", c.name)
		}
		if look(s, at); !s.dead || r.sessionDeadAt(s) != unset {
			t.Errorf("%s: not dead at %d", c.name, at)
		}
	}
}

// TestSessionJudgedByStart: a beat that came between the start of the look and its
// answer keeps nobody alive who was not, and kills nobody who beat before.
func TestSessionJudgedByStart(t *testing.T) {
	r := registerFor(t, Config{Machine: MachineObserver, TTL: 20 * second, Expiry: ExpiryObserved})
	s := &seenSession{id: "s"}
	r.look.start, r.now.Mono = 0, int64(5*second)
	r.sessionRead(s, &Event{Outcome: OutcomeYes, Body: []byte("unreadable")})
	if s.watch.since != int64(5*second) || s.dead {
		t.Errorf("%+v", s)
	}
	// What cannot be read counts as long as a corrupt record.
	r.look.start, r.now.Mono = int64(5*second)+int64(CorruptMin)-1, int64(5*second)+2*int64(CorruptMin)
	if r.sessionRead(s, &Event{Outcome: OutcomeYes, Body: []byte("unreadable")}); s.dead {
		t.Error("judged as of the answer")
	}
	r.look.start++
	if r.sessionRead(s, &Event{Outcome: OutcomeYes, Body: []byte("unreadable")}); !s.dead {
		t.Error("not dead")
	}
	gone := &seenSession{id: "t"}
	if r.sessionRead(gone, &Event{Outcome: OutcomeNo}); !gone.dead {
		t.Error("a session without a beat lives")
	}
}

// TestSessionsPerLook: who is longest overdue is asked first, nobody twice, and no
// more than so many.
func TestSessionsPerLook(t *testing.T) {
	r := registerFor(t, Config{Machine: MachineObserver, TTL: 20 * second})
	r.now.Mono = int64(100 * second)
	all := roster{
		{id: "young", read: true, watch: watch{1, r.now.Mono - 1}, sign: seenBeat{ttl: 20 * second}},
		{id: "dead", read: true, dead: true},
		{id: "due", read: true, watch: watch{1, 1}, sign: seenBeat{ttl: 20 * second}},
		{id: "never"},
	}
	for _, want := range []string{"never", "due", ""} {
		got := ""
		if due := r.dueSession(all, 3); due != nil {
			got, due.asked = due.id, true
		}
		if got != want {
			t.Errorf("asks %q, want %q", got, want)
		}
	}
	all.newLook()
	if r.dueSession(all, 0) != nil || r.dueSession(all, 1) == nil {
		t.Error("so many a look")
	}
}
