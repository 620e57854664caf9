package explore

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/machines"
)

const (
	millisecond = int64(1e6)
	second      = int64(1e9)
	// start is the true wall clock at tick 0: 2026-01-02T03:04:05Z.
	start = int64(1767323045) * second
)

// leaseName is what the machines of the core lease here.
const leaseName = "job"

// seedOf makes a machine's seed of its name and the run's seed.
func seedOf(name string, seed uint64) (out [16]byte) {
	d := hash([]byte(name))
	for i := range 8 {
		out[i], out[8+i] = byte((d[0]^seed)>>(8*i)), byte(d[1]>>(8*i))
	}
	return out
}

// lastwriterScenario is two that want the lease, and may release it.
func lastwriterScenario(seed uint64, change func(*core.Config)) *Scenario {
	sc := &Scenario{Store: newBlobs(1), Tick: 4 * second, StoreWall: start}
	for i, name := range []string{"A", "B"} {
		cfg := core.Config{
			Terms: core.Terms{
				Protocol: core.ProtocolLastWriter, Name: leaseName, TTL: core.TTL(40 * second),
				AcquireMargin: core.Duration(8 * second), Margin: core.Duration(4 * second), FleetExpire: core.TTLEndless,
			},
			OwnStore: true, Seed: seedOf(name, seed),
		}
		if change != nil {
			change(&cfg)
		}
		sc.Actors = append(sc.Actors, Actor{
			Name:  name,
			Start: func() (Program, error) { return (&strictMaker{make: machines.New}).start(name, cfg) },
			// The clocks' rates differ as much as they may, and the clocks read alike at first.
			RatePercent: 99 + 2*int64(i),
			Tell: []Command{
				{Event: begins(core.EventAcquire, first, cfg), Words: asks(name), Must: i == 0},
			},
		})
	}
	return sc
}

// lastwriterPromised is what lastwriter promises: with an acquire margin of two
// requests, no late puts and punctual checked renewals two tenures never overlap.
func lastwriterPromised(seed uint64) *Scenario {
	// Two requests take 8 s at most. The margin is measured by each one's own
	// clock, so it has to be more than that by as much as clocks differ.
	sc := lastwriterScenario(seed, func(c *core.Config) { c.AcquireMargin = core.Duration(8*second + 200*millisecond) })
	sc.Name = "lastwriter"
	sc.About = "2 acquirers, acquire margin above 2 requests, no late puts, punctual: what is promised"
	for i := range sc.Actors {
		sc.Actors[i] = releases(sc.Actors[i])
	}
	sc.Horizon, sc.Within, sc.Punctual, sc.Lost, sc.Pauses = 20, 1, true, 1, 3
	return sc
}

// lastwriterPaused is what it does not promise: a process may be paused between
// a look and the claim that follows, or a put lands late.
func lastwriterPaused(seed uint64) *Scenario {
	sc := lastwriterScenario(seed, nil)
	sc.Name = "lastwriter-paused"
	sc.About = "2 acquirers that may be paused: what is not promised"
	sc.Horizon, sc.Pauses = 10, 2
	return sc
}

// lastwriterBlind renews without reading first, as mops does.
func lastwriterBlind(seed uint64) *Scenario {
	sc := lastwriterScenario(seed, func(c *core.Config) { c.Renewal = core.RenewalBlind })
	sc.Name = "lastwriter-blind"
	sc.About = "2 acquirers that renew without reading, and pauses"
	sc.Horizon, sc.Pauses = 10, 2
	return sc
}
