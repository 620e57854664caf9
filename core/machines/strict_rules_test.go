package machines

import (
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
	"github.com/mopslock/mopslock/core/internal/register"
	hosts "github.com/mopslock/mopslock/tests/world"
)

// TestEmitted: what a boottime is worth, by the clocks of the process that reads it.
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
		{"stamped as late as may be", 40, apart + 40 + int64(core.BootTolerance), apart + 100, 40 + int64(core.BootTolerance)},
		{"stamped too late", 40, apart + 41 + int64(core.BootTolerance), apart + 100, -1},
		{"of a clock that is behind", 40, apart + 40 - int64(core.BootTolerance), apart + 100, 40},
		{"of one too far behind", 40, apart + 39 - int64(core.BootTolerance), apart + 100, -1},
		{"no stamp", 40, 0, 100, -1},
		{"our wall clock was set", 40, apart + 40, apart + 101 + int64(core.BootTolerance), -1},
		{"absurd", 40, 1<<63 - 1, -1 << 62, -1},
		{"more so", 40, -1 << 63, 1 << 62, -1},
	} {
		if at, ok := (core.Instant{Mono: 100, Wall: c.wall}).Emitted(c.boottime, c.stamp); ok != (c.at >= 0) || ok && at != c.at {
			t.Errorf("%s: at %d, %t, want %d", c.name, at, ok, c.at)
		}
	}
}

// TestBusyGarbage: where a name changes hands all the time, so many versions are
// young that no collection gets through them. It goes on farther below.
func TestBusyGarbage(t *testing.T) {
	const young, old = 20*core.MaxEntries + 40, 10000
	w := newWorld(t)
	w.now = int64(time.Minute)
	m, err := base.New(core.Config{Machine: core.MachineInspection, Terms: core.Terms{Protocol: core.ProtocolStrict, Name: "n"}, Seed: [16]byte{1}})
	if err != nil {
		t.Fatal(err)
	}
	newest := core.Epoch(young + old + 15 - (young+old)%16)
	for n := core.Epoch(1); n <= newest; n++ {
		age := int64(time.Second)
		if n <= old {
			age = int64(time.Hour)
		}
		w.store[register.VersionKey(register.RegisterPrefix("n"), n)] = hosts.Object{Stamp: w.stamp() - age}
	}
	v := register.OwnVersion{N: newest, Origin: newest, State: core.VersionReleased, Tenure: "x", Owner: "x", Owners: `"x"`, Nonce: register.Nonce{A: 1, B: 2}, TTL: time.Minute, Margin: 6 * time.Second, Alone: true}
	w.store[register.VersionKey(register.RegisterPrefix("n"), newest)] = hosts.Object{Body: register.AppendVersion(nil, &m, &v), Stamp: w.stamp()}
	w.sample = register.StoreClockSample{Stamp: w.stamp(), At: w.now}
	w.holding("a", nil)
	if left := len(w.store); left > int(newest)+1-register.CollectMost {
		t.Errorf("%d objects are left of %d", left, newest+1)
	}
}

// TestEndedForged: a version below a break that is another tenure's is no beat.
func TestEndedForged(t *testing.T) {
	w := newWorld(t)
	a := registerOf(w.holding("a", nil).machine)
	held := a.Successor(core.VersionHeld)
	held.N = 1
	body := register.AppendVersion(nil, &a.Machine, &held)
	r := registerOf(w.strictly("x", nil).machine)
	for _, tenure := range []core.HolderID{a.Cur.Tenure, "another"} {
		r.Cur = register.Current{N: 2, Origin: 1, State: core.VersionBroken, Tenure: tenure, TTL: time.Minute}
		r.Observed = new(core.Observed)
		r.EndedRead(&core.Event{Outcome: core.OutcomeYes, Body: body, Stamp: 1})
		if r.Ended.Absent != (tenure == "another") {
			w.fail("of %s: absent %t", tenure, r.Ended.Absent)
		}
	}
}
