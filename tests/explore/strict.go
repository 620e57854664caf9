package explore

import (
	"strings"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/machines"
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
		k.breakJoined(), k.breakObserved(), k.breakSameBoot(), k.changes(),
	}
}

func (k *strictMaker) config(name string) core.Config {
	return core.Config{
		Machine: core.MachineLease, Protocol: core.ProtocolStrict, Name: leaseName,
		TTL: core.TTL(strictTTL), Margin: core.Duration(strictMargin), Expiry: core.ExpiryCalibrated,
		StampUnit: core.Duration(strictUnit), StampSpread: core.OneClock, Seed: seedOf(name, k.seed),
	}
}

// tenure is the id of the tenure that a lease machine of this name would have.
func (k *strictMaker) tenure(name string) string {
	return idOf(k.config(name))
}

// idOf is the id that a machine makes of its seed: of a tenure, of an owner or of
// a session.
func idOf(cfg core.Config) string {
	m, err := machines.New(core.Config{
		Machine: core.MachineLease, Protocol: core.ProtocolStrict, Name: leaseName, TTL: core.TTL(strictTTL), Seed: cfg.Seed,
	})
	if err != nil {
		return ""
	}
	return string(m.(interface{ Holder() core.HolderID }).Holder())
}

func (k *strictMaker) world(name, about string) *Scenario {
	return &Scenario{
		Name: "strict-" + name, About: about, Store: newBlobs(strictUnit),
		Tick: strictTick, Horizon: 7, StoreWall: start + 700*millisecond,
		Lost: 1, Late: 1, Crashes: 1, Pauses: 2, Patience: 60 * second,
	}
}

// actor has a machine of its own, which is told one thing. change, if not nil, is made to cfg.
func (k *strictMaker) actor(name string, rate int64, cfg *core.Config, change func(*core.Config), tell Command) Actor {
	if change != nil {
		change(cfg)
	}
	return Actor{
		Name: name, RatePercent: rate, MonoOffset: strictMono, Sampled: cfg.Expiry == core.ExpiryCalibrated,
		Start: func() (Program, error) { return k.start(name, *cfg) },
		Tell:  []Command{tell},
	}
}

// acquirer is a lease machine that asks and waits. first must ask at once.
func (k *strictMaker) acquirer(name string, rate int64, first bool, change func(*core.Config)) Actor {
	cfg := k.config(name)
	a := k.actor(name, rate, &cfg, change, Command{
		Event: core.Event{Kind: core.EventAcquire, Wait: core.Forever}, Words: name + " asks for the lease", Must: first,
	})
	a.Waits = true
	return a
}

func (k *strictMaker) start(name string, cfg core.Config) (Program, error) {
	m, err := k.make(cfg)
	if err != nil {
		return nil, err
	}
	h := hostMachine(name, cfg, m)
	h.guard.Own = own(cfg)
	return h, nil
}

// own is what a machine may put or delete: it puts its own beat and nothing else,
// and a lease that collects deletes below the name only.
func own(cfg core.Config) func(core.ActionKind, string) bool {
	id := idOf(cfg)
	return func(verb core.ActionKind, key string) bool {
		switch {
		case cfg.Machine == core.MachineSession:
			return strings.HasPrefix(key, core.SessionPrefix+id+"/") && (verb == core.ActionDelete || strings.HasSuffix(key, "/beat"))
		case cfg.Machine == core.MachineStoreClockSample:
			return key == core.StoreClockPrefix+cfg.Owner
		case !strings.HasPrefix(key, cfg.Name+registers):
			return false
		case verb == core.ActionDelete:
			return cfg.Machine == core.MachineLease
		}
		return cfg.Machine != core.MachineRevocation && strings.HasSuffix(key, "/b."+id)
	}
}

func releases(a Actor) Actor {
	a.Tell = append(a.Tell, Command{
		Event: core.Event{Kind: core.EventRelease}, Words: a.Name + " is told to release", In: core.LeaseHeld.String(),
	})
	return a
}

// companionOf is C, which joins A's tenure once that was held.
func (k *strictMaker) companionOf(rate int64, change func(*core.Config)) Actor {
	const name, holder = "C", "A"
	cfg := k.config(name)
	cfg.Machine, cfg.Holder, cfg.Epoch = core.MachineCompanion, core.HolderID(k.tenure(holder)), 1
	return k.actor(name, rate, &cfg, change, Command{
		Event: core.Event{Kind: core.EventAccompany}, Words: name + " joins the tenure of " + holder,
		Needs: string(cfg.Holder), Token: 1,
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
	c := k.companionOf(99, nil)
	c.Tell = append(c.Tell, Command{
		Event: core.Event{Kind: core.EventLeave}, Words: "C is told to leave", In: core.CompanionJoined.String(),
	})
	sc.Actors = []Actor{releases(k.acquirer("A", 99, true, nil)), k.acquirer("B", 101, false, nil), c}
	sc.Lost, sc.Late = 1, 0
	return sc
}

// breaker is D, which breaks the tenure of A once that was held.
func (k *strictMaker) breaker(change func(*core.Config)) Actor {
	const name = "D"
	cfg := k.config(name)
	cfg.Machine, cfg.Why = core.MachineRevocation, "it hangs"
	return k.actor(name, 100, &cfg, change, Command{
		Event: core.Event{Kind: core.EventBegin}, Words: name + " breaks the lease", Needs: k.tenure("A"), Token: 1,
	})
}

func (k *strictMaker) breaks() *Scenario {
	sc := k.world("break", "2 acquirers, and a breaker of the lease of the first")
	sc.Actors = []Actor{k.acquirer("A", 99, true, nil), k.acquirer("B", 101, false, nil), k.breaker(nil)}
	return sc
}

// breakJoined: while a breaker breaks a lease whose holder may be dead, a companion
// may join it.
func (k *strictMaker) breakJoined() *Scenario {
	sc := k.world("break-joined", "2 acquirers, a companion of the first, and a breaker of its lease")
	sc.Actors = []Actor{k.acquirer("A", 99, true, nil), k.acquirer("B", 101, false, nil), k.companionOf(99, nil), k.breaker(nil)}
	sc.Lost, sc.Late = 1, 0
	return sc
}

func (k *strictMaker) breakObserved() *Scenario {
	sc := k.world("break-observed", "2 acquirers that judge by unchanged beats alone, and a breaker")
	sc.Actors = []Actor{k.acquirer("A", 99, true, judgesByLooking), k.acquirer("B", 101, false, judgesByLooking), k.breaker(judgesByLooking)}
	sc.Horizon = 9
	return sc
}

func judgesByLooking(c *core.Config) { c.Expiry = core.ExpiryObserved }

// onOneBoot is a process of the first boot, as on a local directory, whose stamps
// are a clock that may be set.
func onOneBoot(c *core.Config) { c.Boot, c.Expiry = "boot-1", core.ExpiryObserved }

func (k *strictMaker) breakSameBoot() *Scenario {
	sc := k.world("break-same-boot", "2 acquirers, a companion and a breaker of one boot")
	sc.Actors = []Actor{
		k.acquirer("A", 100, true, onOneBoot), k.acquirer("B", 100, false, onOneBoot),
		k.companionOf(100, onOneBoot), k.breaker(onOneBoot),
	}
	sc.Lost, sc.Late = 1, 0
	return sc
}

// changes: the holder and its companion are told that something has changed, but not
// what, and ask what is above them between any two of their own requests.
func (k *strictMaker) changes() *Scenario {
	sc := k.world("changes", "2 acquirers, a companion of the first, a breaker, and holders that are told of changes")
	told := func(a Actor, state string) Actor {
		changed := Command{Event: core.Event{Kind: core.EventChanged}, Words: a.Name + " is told of a change", In: state}
		a.Tell = append(a.Tell, changed, changed)
		return a
	}
	sc.Actors = []Actor{
		told(k.acquirer("A", 99, true, nil), core.LeaseHeld.String()), k.acquirer("B", 101, false, nil),
		told(k.companionOf(99, nil), core.CompanionJoined.String()), k.breaker(nil),
	}
	sc.Lost, sc.Late = 1, 0
	return sc
}

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
	sc.Actors = []Actor{
		releases(k.acquirer("A", 100, true, onOneBoot)), k.acquirer("B", 100, false, onOneBoot),
		k.companionOf(101, func(c *core.Config) { c.Boot = "boot-2" }),
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

// onSession is a process with a session and a lease on it, or one of each name.
func (k *strictMaker) onSession(name string, rate int64, first bool, names ...string) Actor {
	if len(names) == 0 {
		names = []string{leaseName}
	}
	beat := k.config(name + "'s session")
	beat.Machine, beat.Name = core.MachineSession, ""
	a := k.acquirer(name, rate, first, nil)
	a.Start = func() (Program, error) {
		var leases []*hosted
		for i, leased := range names {
			cfg := k.config(name)
			cfg.Name, cfg.OnSession = leased, true
			cfg.Seed[15] ^= byte(i)
			lease, err := k.start(name, cfg)
			if err != nil {
				return nil, err
			}
			leases = append(leases, lease.(*hosted))
		}
		return newProcess(k.making(beat), leases...)
	}
	return a
}

// making makes the n-th session of a process, each with an id of its own.
func (k *strictMaker) making(beat core.Config) func(n int) (core.Machine, core.Config, error) {
	return func(n int) (core.Machine, core.Config, error) {
		fresh := beat
		fresh.Seed[15] ^= byte(n)
		m, err := k.make(fresh)
		return m, fresh, err
	}
}

func (k *strictMaker) sessions() *Scenario {
	sc := k.world("sessions", "2 acquirers, each on a session of its own")
	sc.Actors = []Actor{releases(k.onSession("A", 99, true)), k.onSession("B", 101, false)}
	return sc
}

func (k *strictMaker) sessionBreak() *Scenario {
	sc := k.world("session-break", "an acquirer on a session, one without, and a breaker")
	sc.Actors = []Actor{k.onSession("A", 99, true), k.acquirer("B", 101, false, nil), k.breaker(nil)}
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
		again := sc.Actors[i].Name + " again"
		cfg := k.config(again)
		sc.Actors[i].Tell = append(sc.Actors[i].Tell, Command{
			Event: core.Event{Kind: core.EventAcquire, Wait: core.Forever}, Words: again, In: core.LeaseReleased.String(),
			Make: func(Program, int64) (Program, error) { return k.start(sc.Actors[i].Name, cfg) },
		}, Command{Event: core.Event{Kind: core.EventRelease}, Words: again + " is told to release", In: core.LeaseHeld.String()})
	}
	sc.Tick, sc.Horizon, sc.Patience = 310*second, 5, 3100*second
	return sc
}
