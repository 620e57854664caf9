package explore

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/machines"
	"github.com/mopslock/mopslock/tests/world"
)

// invocationMaker builds the worlds of invocations, of either protocol. Machines
// are made by make, as strictMaker's are.
type invocationMaker struct {
	seed     uint64
	make     func(core.Config) (core.Machine, error)
	protocol core.Protocol
	// creates: the store honours create-if-absent, as strict needs it anyway.
	creates bool
}

// invocationScenarios are all that Run explores of invocations.
func invocationScenarios(seed uint64) []*Scenario {
	strict := &invocationMaker{seed: seed, make: machines.New, protocol: core.ProtocolStrict}
	first := &invocationMaker{seed: seed, make: machines.New, protocol: core.ProtocolLastWriter, creates: true}
	over := &invocationMaker{seed: seed, make: machines.New, protocol: core.ProtocolLastWriter}
	return []*Scenario{
		strict.alone(), strict.remote(), strict.crash(), strict.remotes(), strict.breaks(), strict.brokenTwice(),
		first.alone(), first.remote(), first.crash(), first.remotes(), over.crash(),
	}
}

func (k *invocationMaker) strict() bool { return k.protocol == core.ProtocolStrict }

// config has the durations of the other worlds of the protocol.
func (k *invocationMaker) config(name string) core.Config {
	if k.strict() {
		return (&strictMaker{seed: k.seed}).config(name)
	}
	return core.Config{
		Terms: core.Terms{
			Protocol: k.protocol, Name: leaseName, TTL: core.TTL(40 * second),
			AcquireMargin: core.Duration(8*second + 200*millisecond), Margin: core.Duration(4 * second),
			FleetExpire: core.TTLEndless,
		},
		OwnStore: k.creates, NoCreate: !k.creates, Seed: seedOf(name, k.seed),
	}
}

// world is as strict's worlds are, or as the one in which lastwriter keeps what it promises.
func (k *invocationMaker) world(name, about string) *Scenario {
	sc := (&strictMaker{}).world("", about)
	sc.Name = "invocation-strict-" + name
	if !k.strict() {
		sc = &Scenario{
			Name: "invocation-lastwriter-" + name, About: about + k.assumed(), Store: newBlobs(1), Tick: 4 * second, StoreWall: start,
			Horizon: 20, Within: 1, Punctual: true, Prompt: true, Lost: 1, Crashes: 1, Pauses: 3, Patience: 200 * second,
		}
		if !k.creates {
			sc.Name = "invocation-lastwriter-puts-" + name
			sc.Overwrites = true
		}
	}
	sc.Result = resultOf(leaseName)
	return sc
}

// assumed is what a world's line says of its store and hosts.
func (k *invocationMaker) assumed() string {
	switch {
	case k.strict():
		return ""
	case k.creates:
		return "; punctual, no late puts"
	}
	return "; punctual, no late puts, no create"
}

// ends are the ways in which work may end, in one order of which each may be left
// out: a launcher that has ended and left the work to others, bytes, a failure.
func ends(name string) []Command {
	ended := func(outcome core.Outcome, result bool) core.Event {
		return core.Event{Kind: core.EventEnded, Claim: first, Outcome: outcome, Result: result}
	}
	return []Command{
		{Event: ended(core.OutcomeYes, false), Words: "the launcher of " + name + " ends well", In: world.Launched},
		{Event: ended(core.OutcomeYes, true), Words: "the work of " + name + " ends with a result", In: world.Launched},
		{Event: ended(core.OutcomeNo, false), Words: "the work of " + name + " fails", In: world.Launched},
	}
}

// orchestrator wants the result. must: it asks at once.
func (k *invocationMaker) orchestrator(name string, rate int64, must bool) Actor {
	cfg := k.config(name)
	return Actor{
		Name: name, RatePercent: rate, MonoOffset: strictMono, Sampled: k.strict(), Waits: true,
		Start: func() (Program, error) { return k.start(name, cfg) },
		Tell: append([]Command{{
			Event: begins(core.EventInvoke, first, cfg), Words: name + ": run " + leaseName, Must: must,
		}}, ends(name)...),
	}
}

func (k *invocationMaker) start(name string, cfg core.Config) (Program, error) {
	return (&strictMaker{make: k.make}).start(name, cfg)
}

// remoteOf is what an orchestrator's launch starts, at once, later or never.
func (k *invocationMaker) remoteOf(name, of string, rate int64) Actor {
	cfg := k.config(name)
	return Actor{
		Name: name, RatePercent: rate, MonoOffset: strictMono, Sampled: k.strict(),
		Start: func() (Program, error) { return k.start(name, cfg) },
		Tell: append([]Command{{
			Event: begins(core.EventRemote, first, cfg), Words: name + ": remote, started by the launch of " + of, Follows: of,
		}}, ends(name)[1:]...),
	}
}

// alone: each does the work itself.
func (k *invocationMaker) alone() *Scenario {
	sc := k.world("alone", "2 orchestrators that do the work themselves")
	sc.Actors = []Actor{k.orchestrator("A", 99, true), k.orchestrator("B", 101, false)}
	return sc
}

// remote: the first has a remote do it, which begins at once, and its launcher
// ends well after a tick. So one instant has fewer orders than it could have, and
// more instants are seen. Under lastwriter less is promised anyway: a release frees
// the name at once, even if another process keeps it.
func (k *invocationMaker) remote() *Scenario {
	sc := k.world("remote", "2 orchestrators, and a remote of the first, whose launcher ends")
	a, b, r := k.orchestrator("A", 99, true), k.orchestrator("B", 101, false), k.remoteOf("R", "A", 100)
	a.Tell = a.Tell[:2]
	a.Tell[1].From, a.Tell[1].Must = 1, true
	b.Tell[0].From, b.Tell[0].Must = 2, true
	r.Tell[0].Must = true
	sc.Actors = []Actor{a, b, r}
	sc.Late = 0
	return sc
}

// crash: the launcher waits, and a lease outlives a process that dies.
func (k *invocationMaker) crash() *Scenario {
	sc := k.remote()
	sc.Name += "-crash"
	sc.About = "an orchestrator whose launcher waits, and its remote; one more that wants it" + k.assumed()
	sc.Actors[0].Tell = sc.Actors[0].Tell[:1]
	sc.Actors[2].Tell[1].From = 1
	sc.Lost, sc.Pauses = 0, 1
	return sc
}

// remotes: both orchestrators have one.
func (k *invocationMaker) remotes() *Scenario {
	sc := k.crash()
	sc.Name += "es"
	sc.About = "an orchestrator whose launcher waits, and one more that wants it, and a remote of each" + k.assumed()
	q := k.remoteOf("Q", "B", 100)
	q.Tell[0].Must = true
	sc.Actors = append(sc.Actors, q)
	return sc
}

// breaks: a breaker breaks the lease while the work is done.
func (k *invocationMaker) breaks() *Scenario {
	sc := k.world("break", "2 orchestrators, and a breaker of the lease of the first")
	a, b := k.orchestrator("A", 99, true), k.orchestrator("B", 101, false)
	d := k.breaker(a)
	for i := range a.Tell[1:] {
		a.Tell[1+i].From = 2
	}
	b.Tell[0].From, b.Tell[0].Must = 2, true
	d.Tell[0].From, d.Tell[0].Until = 1, 3
	sc.Actors = []Actor{a, b, d}
	sc.Late = 0
	return sc
}

// brokenTwice: a process that waits for 2 ticks alone does the work on a session. Its lease is
// broken, the work fails, and the same claim has the name again and is broken once more, before
// the deadline that it had when its session was called first.
func (k *invocationMaker) brokenTwice() *Scenario {
	sc := k.world("broken-twice", "an orchestrator on a session that waits for 2 ticks, and a breaker that breaks its lease twice, at once")
	a := k.orchestrator("A", 99, true)
	a.Tell[0].Event.Terms.OnSession, a.Tell[0].Event.Wait = true, core.Duration(2*strictTick)
	fails := a.Tell[3]
	fails.Must = true
	a.Tell = append(a.Tell[:1:1], fails, fails)
	a.Tell[1].From, a.Tell[2].From = 1, 2
	d := k.breaker(a)
	d.Tell[0].Event.Terms.Now, d.Tell[0].Must = true, true
	again := d.Tell[0]
	again.Event.Claim, again.Words = another, again.Words+", once more"
	again.When = func(s Store) bool { return s.(Versioned).Newest(leaseName) == 3 }
	d.Tell = append(d.Tell, again)
	d.Flawless = true
	sc.Actors = []Actor{a, d}
	sc.Horizon, sc.Lost, sc.Pauses, sc.Patience = 2, 0, 0, 0
	return ready(sc)
}

// breaker is D, which breaks the lease once a has launched.
func (k *invocationMaker) breaker(a Actor) Actor {
	d := (&strictMaker{seed: k.seed, make: machines.New}).breaker(a, nil)
	d.Tell[0].Event.Terms.Holder, d.Tell[0].Needs, d.Tell[0].Token, d.Tell[0].Follows = "", "", 0, "A"
	return d
}
