package explore

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/machines"
	"github.com/mopslock/mopslock/tests/world"
)

// strictMaker builds the scenarios of strict. Machines are made by make, which is
// machines.New, or in a test build a machine with a mistake in it.
type strictMaker struct {
	seed uint64
	make func(core.Config) (core.Machine, error)
}

// The durations of strict's worlds. TTL is the least that coarse stamps allow,
// the margin the least that the rates allow, and the tick such that two of them
// end just before a deadline: what errs by a stamp's unit or by a clock's rate is
// a whole tick wrong.
const (
	strictTTL    = 5 * second
	strictMargin = strictTTL / (core.RateInverse + 1) * 2
	strictTick   = 2400 * millisecond
	strictUnit   = second
	strictMono   = 1000 * second // what monotonic clocks show at tick 0: 0 would be "no sample"
)

// strictScenarios are all that Run explores of strict.
func strictScenarios(seed uint64) []*Scenario {
	k := &strictMaker{seed: seed, make: machines.New}
	return k.all()
}

func (k *strictMaker) all() []*Scenario {
	return []*Scenario{
		k.plain(), k.release(), k.companion(), k.breaks(), k.observed(), k.sameBoot(), k.clone(), k.sessions(), k.sessionBreak(),
		k.endless(), k.jumps(), k.restart(), k.twoLeases(), k.calledDoubtful(), k.calibrates(),
		k.breakJoined(), k.breakObserved(), k.breakSameBoot(), k.changes(), k.leaving(), k.gateway(), k.besideAuto(),
	}
}

func (k *strictMaker) config(name string) core.Config {
	return core.Config{
		Terms: core.Terms{
			Protocol: core.ProtocolStrict, Name: leaseName, TTL: core.TTL(strictTTL), Margin: core.Duration(strictMargin),
			Expiry: core.ExpiryCalibrated, StampSpread: core.OneClock,
		},
		StampUnit: core.Duration(strictUnit), OwnStore: true, Seed: seedOf(name, k.seed),
	}
}

func (k *strictMaker) world(name, about string) *Scenario {
	return &Scenario{
		Name: "strict-" + name, About: about, Store: newBlobs(strictUnit),
		Tick: strictTick, Horizon: 7, StoreWall: start + 700*millisecond,
		Lost: 1, Late: 1, Crashes: 1, Pauses: 2, Patience: 60 * second,
	}
}

// actor has a client of its own, which is told one thing. change, if not nil, is made to cfg,
// which has the client's Config and the terms.
func (k *strictMaker) actor(name string, rate int64, cfg core.Config, change func(*core.Config), kind core.EventKind, tell Command) Actor {
	if change != nil {
		change(&cfg)
	}
	tell.Event = begins(kind, first, cfg)
	return Actor{
		Name: name, RatePercent: rate, MonoOffset: strictMono, Sampled: clientOf(cfg).Samples,
		Start: func() (Program, error) { return k.start(name, cfg) },
		Tell:  []Command{tell},
	}
}

// acquirer asks for a lease and waits. first must ask at once.
func (k *strictMaker) acquirer(name string, rate int64, first bool, change func(*core.Config)) Actor {
	a := k.actor(name, rate, k.config(name), change, core.EventAcquire, Command{Words: asks(name), Must: first})
	a.Waits = true
	return a
}

func (k *strictMaker) start(name string, cfg core.Config) (Program, error) {
	client, err := k.make(clientOf(cfg))
	if err != nil {
		return nil, err
	}
	return newProcess(name, client, cfg.Seed), nil
}

func asks(name string) string { return name + ": acquire " + leaseName + " --wait forever" }

// releases lets an actor release its lease.
func releases(a Actor) Actor {
	a.Tell = append(a.Tell, Command{Event: about(core.EventRelease), Words: a.Name + ": release " + leaseName, In: world.Held})
	return a
}

// companionOf is C, which joins the tenure of a once that was held.
func (k *strictMaker) companionOf(a Actor, rate int64, change func(*core.Config)) Actor {
	const name = "C"
	cfg := k.config(name)
	cfg.Holder, cfg.Epoch = core.HolderID(tenureOf(a)), 1
	return k.actor(name, rate, cfg, change, core.EventAccompany, Command{
		Words: name + ": accompany the lease of " + a.Name, Needs: string(cfg.Holder), Token: 1,
	})
}

// plain: two want it, one is slow and one fast, and a pause or a crash gives it
// to the other.
func (k *strictMaker) plain() *Scenario {
	sc := k.world("plain", "2 acquirers, calibrated, coarse stamps, rates at the bound")
	sc.Actors = []Actor{k.acquirer("A", 99, true, nil), k.acquirer("B", 101, false, nil)}
	return sc
}

func (k *strictMaker) release() *Scenario {
	sc := k.world("release", "2 acquirers that release")
	sc.Actors = []Actor{releases(k.acquirer("A", 99, true, nil)), releases(k.acquirer("B", 101, false, nil))}
	return sc
}

func (k *strictMaker) companion() *Scenario {
	sc := k.world("companion", "2 acquirers, and a companion of the first that may leave")
	a := releases(k.acquirer("A", 99, true, nil))
	c := k.companionOf(a, 99, nil)
	c.Tell = append(c.Tell, Command{Event: about(core.EventLeave), Words: "C: leave", In: world.Held})
	sc.Actors = []Actor{a, k.acquirer("B", 101, false, nil), c}
	sc.Lost, sc.Late = 1, 0
	return sc
}

// breaker is D, which breaks the tenure of a once that was held.
func (k *strictMaker) breaker(a Actor, change func(*core.Config)) Actor {
	const name = "D"
	cfg := k.config(name)
	cfg.Why, cfg.Holder = "it hangs", core.HolderID(tenureOf(a))
	return k.actor(name, 100, cfg, change, core.EventBreak, Command{
		Words: name + ": break " + leaseName, Needs: string(cfg.Holder), Token: 1,
	})
}

func (k *strictMaker) breaks() *Scenario {
	sc := k.world("break", "2 acquirers, and a breaker of the lease of the first")
	a := k.acquirer("A", 99, true, nil)
	sc.Actors = []Actor{a, k.acquirer("B", 101, false, nil), k.breaker(a, nil)}
	return sc
}

// breakJoined: while a breaker breaks a lease whose holder may be dead, a companion
// may join it.
func (k *strictMaker) breakJoined() *Scenario {
	sc := k.world("break-joined", "2 acquirers, a companion of the first, and a breaker of its lease")
	a := k.acquirer("A", 99, true, nil)
	sc.Actors = []Actor{a, k.acquirer("B", 101, false, nil), k.companionOf(a, 99, nil), k.breaker(a, nil)}
	sc.Lost, sc.Late = 1, 0
	return sc
}

func (k *strictMaker) breakObserved() *Scenario {
	sc := k.world("break-observed", "2 acquirers that judge by unchanged beats alone, and a breaker")
	a := k.acquirer("A", 99, true, judgesByLooking)
	sc.Actors = []Actor{a, k.acquirer("B", 101, false, judgesByLooking), k.breaker(a, judgesByLooking)}
	sc.Horizon = 9
	return sc
}

// remote is a process whose store others may answer for.
func remote(c *core.Config) { c.OwnStore = false }

func (k *strictMaker) gateway() *Scenario {
	sc := k.world("gateway", "2 acquirers that release, behind what answers a list now and then, with nothing in it")
	sc.Actors = []Actor{releases(k.acquirer("A", 99, true, remote)), releases(k.acquirer("B", 101, false, remote))}
	sc.Store, sc.Odd, sc.Late = gateway{newBlobs(strictUnit)}, 2, 0
	return sc
}

func judgesByLooking(c *core.Config) { c.Expiry = core.ExpiryObserved }

// onOneBoot is a process of the first boot, as on a local directory, whose stamps
// are a clock that may be set.
func onOneBoot(c *core.Config) { c.Boot, c.Expiry = "boot-1", core.ExpiryObserved }

func (k *strictMaker) breakSameBoot() *Scenario {
	sc := k.world("break-same-boot", "2 acquirers, a companion and a breaker of one boot")
	a := k.acquirer("A", 100, true, onOneBoot)
	sc.Actors = []Actor{
		a, k.acquirer("B", 100, false, onOneBoot), k.companionOf(a, 100, onOneBoot), k.breaker(a, onOneBoot),
	}
	sc.Lost, sc.Late = 1, 0
	return sc
}

// changes: the holder and its companion are told that something has changed, but not
// what, and ask what is above them between any two of their own requests.
func (k *strictMaker) changes() *Scenario {
	sc := k.world("changes", "2 acquirers, a companion of the first, a breaker, and holders that are told of changes")
	told := func(a Actor) Actor {
		changed := Command{Event: core.Event{Kind: core.EventChanged}, Words: a.Name + " is told of a change", In: world.Held}
		a.Tell = append(a.Tell, changed, changed)
		return a
	}
	a := k.acquirer("A", 99, true, watches)
	sc.Actors = []Actor{told(a), k.acquirer("B", 101, false, nil), told(k.companionOf(a, 99, watches)), k.breaker(a, nil)}
	sc.Lost, sc.Late = 1, 0
	return sc
}

// watches is a process whose host tells of changes.
func watches(c *core.Config) { c.Watches = true }

func (k *strictMaker) observed() *Scenario {
	sc := k.world("observed", "2 acquirers that judge by unchanged beats alone")
	sc.Actors = []Actor{k.acquirer("A", 99, true, judgesByLooking), k.acquirer("B", 101, false, judgesByLooking)}
	sc.Horizon = 9
	return sc
}

// sameBoot: two processes of one boot have one clock, and no unit and no rate
// lies between them; the third is elsewhere.
func (k *strictMaker) sameBoot() *Scenario {
	sc := k.world("same-boot", "2 acquirers of one boot, and a companion of another boot")
	a := releases(k.acquirer("A", 100, true, onOneBoot))
	sc.Actors = []Actor{
		a, k.acquirer("B", 100, false, onOneBoot), k.companionOf(a, 101, func(c *core.Config) { c.Boot = "boot-2" }),
	}
	sc.Lost, sc.Late = 1, 0
	return sc
}

// clone: the machines of A and B are clones of one snapshot, and share its boot's name.
// B's boot clock is ahead, so that all that A writes looks old to it.
func (k *strictMaker) clone() *Scenario {
	sc := k.sameBoot()
	sc.Name, sc.About = "strict-clone", "2 acquirers on clones of one machine, whose boot clocks differ"
	sc.Actors = []Actor{sc.Actors[0], ahead(sc.Actors[1], 60*second)}
	sc.Horizon = 9
	return sc
}

// ahead is an actor whose monotonic clock shows so much more, and its wall clock does not.
func ahead(a Actor, by int64) Actor { a.MonoOffset += by; return a }

// onSession is a process with a lease on a session, or with one of each name.
func (k *strictMaker) onSession(name string, rate int64, must bool, names ...string) Actor {
	shares := func(c *core.Config) { c.OnSession = true }
	a := k.acquirer(name, rate, must, shares)
	for i, leased := range names {
		cfg := k.config(name)
		cfg.Name = leased
		shares(&cfg)
		tell := Command{Event: begins(core.EventAcquire, first+uint64(i), cfg), Words: name + ": acquire " + leased, Must: must}
		if i == 0 {
			a.Tell = nil
		}
		a.Tell = append(a.Tell, tell)
	}
	return a
}

func (k *strictMaker) sessions() *Scenario {
	sc := k.world("sessions", "2 acquirers, each on a session of its own")
	sc.Actors = []Actor{releases(k.onSession("A", 99, true)), k.onSession("B", 101, false)}
	return sc
}

// leaving: a process asks at each step of its idle session's leaving, and another wants the same.
func (k *strictMaker) leaving() *Scenario {
	sc := k.world("leaving", "2 acquirers; the session of the first has been idle for 10 s")
	a := k.onSession("A", 100, false)
	a.Tell[0].Event.Terms.TTL, a.Tell[0].Event.Terms.Margin = core.TTL(lastingTTL), core.Duration(lastingTTL/10)
	sc.Actors = []Actor{releases(a), k.acquirer("B", 100, false, lasts)}
	return idleSession(sc)
}

// besideAuto: a name that is held by strict has a lock.json that an old client has released, and auto
// comes to it.
func (k *strictMaker) besideAuto() *Scenario {
	sc := k.world("beside-auto", "an acquirer by strict, then one by auto, of a name with a lock.json")
	b := newBlobs(strictUnit)
	b.Blobs, _ = b.Blobs.Apply(start, &core.Action{
		Kind: core.ActionPut, Key: leaseName + "/" + core.LockFile,
		Body: []byte(`{"writer_id": "old", "expire_s": 5, "written_at": "2020-01-01T00:00:00+00:00", "released_at": "2020-01-01T00:00:00+00:00"}`),
	})
	a := k.acquirer("A", 99, true, nil)
	auto := k.acquirer("B", 101, false, func(c *core.Config) { c.Protocol, c.Expiry = 0, 0 })
	auto.Tell[0].Needs, auto.Tell[0].Token = tenureOf(a), 1
	sc.Store, sc.Actors = b, []Actor{a, auto}
	return sc
}

// lastingTTL is longer than a session is idle before it is left, and lasts a process with it.
const lastingTTL = 24 * second

func lasts(c *core.Config) { c.TTL, c.Margin = core.TTL(lastingTTL), core.Duration(lastingTTL/10) }

// idleSession is a world whose first process comes to it with a session on which nothing
// stands. It is left at the first tick. Nothing is lost, so that there is time for each order.
func idleSession(sc *Scenario) *Scenario {
	for i := range sc.Actors {
		sc.Actors[i].Tell[0].From = 1
	}
	sc.Tick, sc.Horizon, sc.Patience = 10*second, 2, 120*second
	sc.Lost, sc.Late, sc.Crashes, sc.Pauses = 0, 0, 0, 1
	sc.hasSession(0, true)
	return sc
}

func (k *strictMaker) sessionBreak() *Scenario {
	sc := k.world("session-break", "an acquirer on a session, one without, and a breaker")
	a := k.onSession("A", 99, true)
	sc.Actors = []Actor{a, k.acquirer("B", 101, false, nil), k.breaker(a, nil)}
	sc.Lost, sc.Late = 1, 0
	return sc
}

// endless: only its holder gives away a lease without a TTL.
func (k *strictMaker) endless() *Scenario {
	endless := func(c *core.Config) { c.TTL, c.Margin = core.TTLEndless, 0 }
	sc := k.world("endless", "2 acquirers of a lease without a TTL, that release")
	sc.Actors = []Actor{releases(k.acquirer("A", 99, true, endless)), releases(k.acquirer("B", 101, false, endless))}
	sc.Tick, sc.Horizon, sc.Patience = 20*second, 8, 0 // a holder that stops has it forever
	return sc
}

// jumps: ticks so long that each is half of what a superseded version is kept for.
func (k *strictMaker) jumps() *Scenario {
	sc := k.world("jumps", "2 acquirers that release, and pauses of many minutes: versions are collected")
	sc.Actors = []Actor{releases(k.acquirer("A", 99, true, nil)), releases(k.acquirer("B", 101, false, nil))}
	for i := range sc.Actors {
		a := &sc.Actors[i]
		a.Tell = append(a.Tell, Command{
			Event: begins(core.EventAcquire, another, k.config(a.Name)), Words: asks(a.Name) + ", once more", In: core.ActionReleased.String(),
		}, Command{Event: core.Event{Kind: core.EventRelease, Claim: another}, Words: a.Name + ": release " + leaseName, In: world.Held})
	}
	sc.Tick, sc.Horizon, sc.Patience = 310*second, 5, 3100*second
	return sc
}
