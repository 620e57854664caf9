package core

import (
	"testing"
	"time"
)

// TestEmitted: what a boottime is worth, by the clocks of whoever reads it.
func TestEmitted(t *testing.T) {
	const apart = worldStart - 100 // what the wall clock shows is so much more than Mono
	for _, c := range []struct {
		name                  string
		boottime, stamp, wall int64
		at                    int64 // -1: it is not of our clock
	}{
		{"of our clock", 40, apart + 40, apart + 100, 40},
		{"of this very moment", 100, apart + 100, apart + 100, 100},
		{"in the future", 101, apart + 100, apart + 100, -1},
		{"stamped later", 40, apart + 50, apart + 100, 50},
		{"stamped as late as may be", 40, apart + 40 + int64(BootTolerance), apart + 100, 40 + int64(BootTolerance)},
		{"stamped too late", 40, apart + 41 + int64(BootTolerance), apart + 100, -1},
		{"of a clock that is behind", 40, apart + 40 - int64(BootTolerance), apart + 100, 40},
		{"of one too far behind", 40, apart + 39 - int64(BootTolerance), apart + 100, -1},
		{"no stamp", 40, 0, 100, -1},
		{"our wall clock was set", 40, apart + 40, apart + 101 + int64(BootTolerance), -1},
		{"absurd", 40, 1<<63 - 1, -1 << 62, -1},
		{"more so", 40, -1 << 63, 1 << 62, -1},
	} {
		if at, ok := (Instant{Mono: 100, Wall: c.wall}).Emitted(c.boottime, c.stamp); ok != (c.at >= 0) || ok && at != c.at {
			t.Errorf("%s: at %d, %t, want %d", c.name, at, ok, c.at)
		}
	}
}

// TestBusyGarbage: where a name changes hands all the time, so many versions are
// young that no collection gets through them. It goes on farther below.
func TestBusyGarbage(t *testing.T) {
	const young, old = 20*MaxEntries + 40, 10000
	w := newWorld(t)
	w.now = int64(time.Minute)
	m := recorder(t, func(c *Config) { c.Boot = "" })
	newest := Epoch(young + old + 15 - (young+old)%16)
	for n := Epoch(1); n <= newest; n++ {
		age := int64(time.Second)
		if n <= old {
			age = int64(time.Hour)
		}
		w.store[versionKey(registerPrefix("n"), n)] = object{nil, w.stamp() - age}
	}
	v := ownVersion{n: newest, origin: newest, state: VersionReleased, tenure: "x", owner: "x", owners: `"x"`, nonce: nonce{1, 2}, ttl: time.Minute, margin: 6 * time.Second, alone: true}
	w.store[versionKey(registerPrefix("n"), newest)] = object{appendVersion(nil, m, &v), w.stamp()}
	w.sample = clockSample{w.stamp(), w.now}
	w.holding("a", nil)
	if left := len(w.store); left > int(newest)+1-collectMost {
		t.Errorf("%d objects are left of %d", left, newest+1)
	}
}

// TestEndedForged: a version below a break that is another tenure's is no sign of life.
func TestEndedForged(t *testing.T) {
	w := newWorld(t)
	a := registerOf(w.holding("a", nil).machine)
	held := a.successor(VersionHeld)
	held.n = 1
	body := appendVersion(nil, &a.machine, &held)
	r := registerOf(w.strictly("x", nil).machine)
	for _, tenure := range []HolderID{a.cur.tenure, "another"} {
		r.cur = current{n: 2, origin: 1, state: VersionBroken, tenure: tenure, ttl: time.Minute}
		r.sight = new(Sighting)
		r.endedRead(&Event{Outcome: OutcomeYes, Body: body, Stamp: 1})
		if r.ended.absent != (tenure == "another") {
			w.fail("of %s: absent %t", tenure, r.ended.absent)
		}
	}
}
