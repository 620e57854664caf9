package simulate

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
)

// workers is how many seeds are played at once.
const workers = 2

// seeds is how many seeds a test plays: usual, or as many as make explore has time for.
func seeds(usual, halfMinute int) int {
	span, _ := time.ParseDuration(os.Getenv("MOPSLOCK_EXPLORE"))
	return max(usual, int(float64(halfMinute)*span.Seconds()/30))
}

// TestSameSeedSameEvents: a seed is all there is to a run.
func TestSameSeedSameEvents(t *testing.T) {
	for _, protocol := range Protocols() {
		opts, err := ByName(protocol)
		if err != nil {
			t.Fatal(err)
		}
		hashes := map[string]uint64{}
		for seed := range uint64(6) {
			opts.Seed = seed
			first := Run(opts)
			opts.Trace = true
			again := Run(opts)
			opts.Trace = false
			if first.Hash != again.Hash || first.Events != again.Events {
				t.Errorf("%s, seed %d: %s and %s", protocol, seed, first.Hash, again.Hash)
			}
			if other, known := hashes[first.Hash]; known {
				t.Errorf("%s: seeds %d and %d give the same events", protocol, other, seed)
			}
			hashes[first.Hash] = seed
		}
	}
}

// TestBoundOfEvents: a run that is too long to be played ends in order, and says so.
func TestBoundOfEvents(t *testing.T) {
	opts := Options{Seed: 7, Actors: 3, Duration: 1000 * time.Hour, mostEvents: 200}
	r := Run(opts)
	if r.Violation != nil || r.Cut == 0 || r.Cut >= opts.Duration || r.Virtual >= opts.Duration {
		t.Errorf("cut at %v: %s", r.Cut, r.String())
	}
	if s := Swarm(7, 2, workers, opts); s.Cut != 2 || !strings.Contains(s.String(), "of 2 seeds the bound of events ended the faults") {
		t.Error(s.String())
	}
	if !strings.Contains(r.String(), "the bound of events ended the faults at ") {
		t.Error(r.String())
	}
	opts.Duration = 0
	if r := Run(opts); r.Cut != 0 || strings.Contains(r.String(), "\ncut ") {
		t.Errorf("cut: %s", r.String())
	}
}

// TestNoTTL: every TTL below 0 is none.
func TestNoTTL(t *testing.T) {
	one, other := Run(Options{Seed: 3, TTL: time.Duration(core.TTLEndless)}), Run(Options{Seed: 3, TTL: -time.Second})
	if one.Hash != other.Hash || one.Holds == 0 {
		t.Errorf("%s and %s", one.String(), other.String())
	}
}

func swarm(t *testing.T, count int, opts Options) Summary {
	t.Helper()
	s := Swarm(1, count, workers, opts)
	t.Log(s.String())
	if s.Failed != nil {
		t.Fatalf("seed %d", s.Failed.Seed)
	}
	return s
}

// TestStrict: under any faults no two tenures are relied on at once, no epoch goes
// back, and every waiter is served when the storm is over.
func TestStrict(t *testing.T) {
	swarm(t, seeds(1500, 15_000), Options{Protocol: core.ProtocolStrict})
}

// TestStrictSessions: the same with every lease on its process's session.
func TestStrictSessions(t *testing.T) {
	swarm(t, seeds(200, 5000), Options{Protocol: core.ProtocolStrict, Sessions: true})
}

// TestStories: what is drawn in some seeds only, or comes in rare ones, happens where it is
// asked for, and no promise is broken by it.
func TestStories(t *testing.T) {
	lost := &Faults{Latency: Exponential, Mean: 50 * time.Millisecond, LostRequests: 50, CrashEvery: time.Minute, RestartAfter: time.Second}
	directory, busy, closing := *lost, *lost, *lost
	directory.InOrder, busy.Throttle, busy.Rest, closing.CloseEvery = true, 5, 10*time.Second, 20*time.Second
	for _, c := range []struct {
		story string
		opts  Options
		want  core.ActionKind
	}{
		{"an idle session is left as a claim comes", Options{Idles: true, Faults: lost}, core.ActionLeft},
		{"a process closes in any state", Options{Sessions: true, Faults: &closing}, core.ActionClosed},
		{"a process closes in any state, with permits", Options{Shared: true, Faults: &closing}, core.ActionClosed},
		{"the store asks to be left alone", Options{Faults: &busy}, core.ActionOutage},
		{"three try what the store honours", Options{Actors: 3, Faults: lost, Clients: &Clients{Probed: true}}, core.ActionTried},
		{"two slots", Options{Sessions: true, Faults: lost, Clients: &Clients{Slots: 2}}, core.ActionHeld},
		{"one process's memory is the next one's", Options{Faults: &directory, Clients: &Clients{Remembers: true}}, core.ActionRemember},
		{"hosts tell of changes", Options{Faults: &directory, Clients: &Clients{Watches: true}}, core.ActionUnwatch},
		{"work is broken twice", Options{Works: true, Faults: lost}, core.ActionLaunch},
	} {
		happened := 0
		for seed := range uint64(seeds(20, 500)) {
			c.opts.Seed = seed
			w := newSimulation(c.opts)
			w.run()
			happened += w.stats.said[c.want]
			if v := w.checker.found; v != nil {
				t.Fatalf("%s: seed %d: %v", c.story, seed, v)
			}
		}
		if happened == 0 {
			t.Errorf("%s: that did not happen", c.story)
		}
	}
}

// TestBootClockOutOfOrder: hosts give machines a boot clock only where no put overtakes
// another. A beat that was given up and lands late lies on top of a newer one, with an
// older boottime. Where a host gives one all the same, the beat's stamp tells.
func TestBootClockOutOfOrder(t *testing.T) {
	swarm(t, 600, Options{Protocol: core.ProtocolStrict, BootAnywhere: true, TTL: 10 * time.Second, Faults: &Faults{
		Latency: Uniform, Mean: 50 * time.Millisecond, LostRequests: 250, LateWrites: 1000, LateBy: 30 * time.Second,
		CrashEvery: time.Minute, RestartAfter: 5 * time.Second,
	}})
}

// TestStrictEndless: leases without a TTL, which only a break takes from the dead.
func TestStrictEndless(t *testing.T) {
	swarm(t, seeds(100, 2000), Options{Protocol: core.ProtocolStrict, TTL: time.Duration(core.TTLEndless)})
}

// TestLastWriterOrderly: where the conditions of PROTOCOL L12 hold, nothing overlaps.
func TestLastWriterOrderly(t *testing.T) {
	swarm(t, 300, Options{Protocol: core.ProtocolLastWriter, Weather: Orderly})
}

// TestLastWriterStormy: under any faults the other promises hold: a machine writes
// nothing after its end and is quiet then, and every waiter is served when the storm
// is over.
func TestLastWriterStormy(t *testing.T) {
	s := swarm(t, 100, Options{Protocol: core.ProtocolLastWriter, Weather: Stormy})
	if s.Overlaps == 0 {
		t.Error("no overlap in any storm: the simulator is blind to what lastwriter does not promise")
	}
}

// TestLastWriterBlind: the ancestor's renewals overlap more, and are only counted.
func TestLastWriterBlind(t *testing.T) {
	if s := swarm(t, 50, Options{Protocol: core.ProtocolLastWriter, Blind: true, Weather: Stormy}); s.Overlaps == 0 {
		t.Error("no overlap in any storm")
	}
}

// crowd is many actors that want one lease once.
func crowd(protocol core.Protocol, seed uint64, actors int) Options {
	return Options{
		Protocol: protocol, Seed: seed, Actors: actors, Names: 1, Companions: -1, Once: true, Think: time.Second,
		TTL: 60 * time.Second, Hold: 100 * time.Millisecond, Duration: time.Second,
		Weather: Fair, Faults: &Faults{Latency: Constant, Mean: 50 * time.Millisecond},
	}
}

// pollBudget is how many requests a waiter may send in a poll interval.
const pollBudget = 3

func checkCrowd(t *testing.T, r *Result, budget float64) {
	t.Helper()
	switch {
	case r.Violation != nil:
		t.Fatalf("%v", r)
	case r.Fairness.Starved > 0 || r.Fairness.Turns != r.Actors:
		t.Fatalf("%d of %d were not served:\n%v", r.Fairness.Starved, r.Actors, r)
	case r.PollsPerInterval > budget:
		t.Fatalf("a waiter sends more than %v requests in a poll interval:\n%v", budget, r)
	case r.HandOver.P99 > core.PollCap*3/2:
		t.Fatalf("a hand-over takes longer than 1.5 poll intervals:\n%v", r)
	}
}

// crowds plays a crowd of each protocol in that many seeds, both at once, and compares the
// mean of the requests that a waiter sends in a poll interval with the budget.
func crowds(t *testing.T, actors, seeds int, each float64) {
	for _, protocol := range []core.Protocol{core.ProtocolStrict, core.ProtocolLastWriter} {
		t.Run(protocol.String(), func(t *testing.T) {
			t.Parallel()
			sum := 0.0
			for seed := range seeds {
				r := Run(crowd(protocol, uint64(seed), actors))
				checkCrowd(t, &r, each)
				sum += r.PollsPerInterval
			}
			mean := sum / float64(seeds)
			t.Logf("%.3f requests of a waiter in a poll interval", mean)
			if mean > pollBudget {
				t.Errorf("a waiter sends %.3f requests in a poll interval, in the mean of all seeds", mean)
			}
		})
	}
}

// TestEightContenders: every one of eight is served, in 1,500 seeds. They are through
// in two seconds, which is few poll intervals, so that one look too many counts for
// much, and polls come by a fifth earlier than the schedule that they are counted by:
// the budget of requests is kept on the whole, and nearly so by each.
func TestEightContenders(t *testing.T) { crowds(t, 8, seeds(1500, 15_000), pollBudget+0.5) }

// TestThousandContenders: every one of a thousand is served, and asks no more than
// the budget.
func TestThousandContenders(t *testing.T) { crowds(t, 1000, seeds(2, 20), pollBudget) }
