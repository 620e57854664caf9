package simulate

import (
	"hash"
	"hash/fnv"
	"slices"
	"strconv"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/tests/explore/check"
	"github.com/mopslock/mopslock/tests/world"
)

// simulation is one run: true time, one store, and all processes at work in it.
type simulation struct {
	world.Queue
	opts    Options
	faults  *Faults
	chance  world.Chance
	checker *checker
	stats   stats

	store  *world.Store
	life   time.Duration // what times are measured by: the TTL, or 5 s
	expiry core.Expiry

	processes  []*process
	companions []*slot
	breakers   []*slot
	names      []string
	memory     map[*computer]map[string][]byte // what a process leaves to the next one of its boot
	watchers   map[string][]*process           // of a key
	beats      map[string]*process             // the one that put it first
	newest     map[string]*request             // the last put to a key
	meters     map[string]int                  // requests to a prefix in this second
	second     int64
	claims     int
	lives      int

	outageUntil int64
	calm        bool
	newcome     bool        // newcomers have come
	calmAfter   uint64      // events
	progress    int64       // when an actor was last served
	hash        hash.Hash64 // of all events
	folded      []byte      // into it last
	holds       *holds
}

// mostEvents bounds a run for each actor, first with faults and then without: a
// long one ends there and says so, and a live-lock also ends. A few hundred are
// usual.
const mostEvents = 100_000

func newSimulation(opts Options) *simulation {
	c := newChance(opts.Seed)
	opts = opts.settle(c)
	w := &simulation{
		opts: opts, faults: opts.Faults, chance: c, stats: newStats(opts.TTL), store: world.NewStore(opts.Faults.StampUnit, opts.Faults.Stale),
		life: max(opts.TTL, 5*time.Second), hash: fnv.New64a(),
		memory: map[*computer]map[string][]byte{}, watchers: map[string][]*process{}, beats: map[string]*process{}, newest: map[string]*request{}, meters: map[string]int{},
		checker: newChecker(!opts.promised()),
	}
	if opts.Trace || opts.Holds {
		w.holds = &holds{open: map[*unit]int{}}
	}
	w.expiry = world.Pick(c, core.ExpiryCalibrated, core.ExpiryCalibrated, core.ExpiryObserved)
	switch {
	case opts.Protocol == core.ProtocolLastWriter:
		w.expiry = world.Pick(c, core.ExpiryWall, core.ExpiryObserved)
	case w.faults.InOrder:
		w.expiry = core.ExpiryObserved
	}
	for i := range opts.Names {
		w.names = append(w.names, "name-"+strconv.Itoa(i))
	}
	w.populate()
	return w
}

// populate makes computers, processes and actors.
func (w *simulation) populate() {
	c, o := w.chance, &w.opts
	computers := make([]*computer, c.Between(1, int64(max(2, o.Actors/2))))
	for i := range computers {
		k := &computer{
			start: c.Between(1, int64(time.Hour)), drift: c.Within(int64(w.faults.Drift)), wall: c.Within(int64(w.faults.Skew)),
		}
		if w.faults.InOrder || o.BootAnywhere {
			k.boot = "boot-" + strconv.Itoa(i)
		}
		computers[i], w.memory[k] = k, map[string][]byte{}
	}
	add := func(r role, p *process) *process {
		if p == nil {
			p = &process{number: len(w.processes), computer: world.Pick(c, computers...)}
			w.processes = append(w.processes, p)
		}
		s := &slot{number: w.stats.actors, role: r, process: p}
		p.slots = append(p.slots, s)
		switch r {
		case roleOrchestrator:
			w.stats.actors++
		case roleCompanion:
			w.companions = append(w.companions, s)
		case roleBreaker:
			w.breakers = append(w.breakers, s)
		}
		return p
	}
	strict := o.Protocol == core.ProtocolStrict && !o.Shared
	if o.Shared {
		w.sharers(add)
	}
	for left := o.Actors; left > 0 && !o.Shared; {
		p := add(roleOrchestrator, nil)
		left--
		p.onSession = strict && o.TTL > 0 && !o.NoSessions && (o.Sessions || c.OneIn(3))
		for ; p.onSession && left > 0 && c.OneIn(2); left-- {
			add(roleOrchestrator, p)
		}
	}
	for range o.Companions {
		add(roleCompanion, nil)
	}
	if endless := o.TTL < 0; strict && !o.Once && (c.OneIn(3) || endless || o.Works) {
		add(roleBreaker, nil)
	}
	if strict && !o.Once && c.OneIn(3) {
		add(roleObserver, nil)
	}
	w.stats.turns = make([]int, o.Actors)
}

// sharers are the processes of a semaphore: as many as the options say, or as chance has it.
func (w *simulation) sharers(add func(role, *process) *process) {
	var all []*process
	for left := w.opts.Actors; left > 0; left-- {
		var p *process
		if n := len(all); n > 0 && (n == w.opts.Processes || w.opts.Processes == 0 && w.chance.OneIn(3)) {
			p = world.Pick(w.chance, all...)
		}
		if joined := add(roleOrchestrator, p); p == nil {
			joined.onSession = true
			all = append(all, joined)
		}
	}
}

// run plays it from beginning to end.
func (w *simulation) run() {
	for _, p := range w.processes {
		w.start(p)
		w.trouble(p)
	}
	w.outages()
	w.At(int64(w.opts.Duration), func() {
		if !w.calm {
			w.say("the faults end")
			w.settle()
		}
	})
	patience := 8*int64(max(w.life, core.CorruptMin)) + 4*int64(w.faults.Skew)
	for w.checker.found == nil {
		do := w.Next()
		if do == nil {
			break
		}
		w.stats.Events++
		if w.full() && w.calm {
			w.checker.fail(w.Now, check.QuietWhenIdle, "there is no end after %d events", w.stats.Events)
			return
		} else if w.full() {
			w.stats.Cut = time.Duration(w.Now)
			w.say("the faults end, at the bound of %d events", w.stats.Events)
			w.settle()
		}
		if !w.calm {
			w.stats.Virtual = time.Duration(w.Now)
		}
		do()
		if w.calm && w.stats.waiting > 0 && w.Now-w.progress > patience {
			w.starving()
		}
		if w.opts.Shared && !w.newcome && w.allOver() {
			w.newcomers()
		}
	}
	if w.checker.found == nil {
		w.starving()
		w.leftovers()
	}
}

// full reports whether there were as many events as may be, of those with faults
// or of those since.
func (w *simulation) full() bool {
	return w.stats.Events-w.calmAfter > w.opts.mostEvents*uint64(10+w.opts.Actors)
}

// leftovers: nothing is to come any more, so no client may be in the middle of something.
func (w *simulation) leftovers() {
	for _, p := range w.processes {
		for _, u := range p.units {
			w.checker.fail(w.Now, check.QuietWhenIdle, "%s has not ended and goes nowhere", u.label)
		}
		if p.host != nil && !p.host.Client.Idle() {
			w.checker.fail(w.Now, check.QuietWhenIdle, "%s has no claims, waits for nothing, and is not idle", p)
		}
	}
}

// in has something happen in a process; if that stands still then, as soon as it goes on.
func (w *simulation) in(p *process, at int64, do func()) {
	w.At(at, func() {
		if p.pausedUntil > w.Now {
			w.in(p, p.pausedUntil, do)
			return
		}
		do()
	})
}

// pause has a process stand still from now on.
func (w *simulation) pause(p *process) {
	p.stalls, p.pausedUntil = false, w.Now+w.chance.UpTo(int64(w.faults.PauseFor))
	w.say("%s stands still until %v", p, time.Duration(p.pausedUntil))
}

// trouble has a process pause, crash and close, and its computer's wall clock be set.
func (w *simulation) trouble(p *process) {
	f, c := w.faults, w.chance
	w.again(f.PauseEvery, w.At, func() {
		if p.stalls = c.OneIn(2); !p.stalls { // otherwise as soon as something is renewed
			w.pause(p)
		}
	})
	w.again(f.CrashEvery, w.At, func() {
		if p.host != nil {
			w.say("%s crashes", p)
			w.crash(p)
			w.restart(p)
		}
	})
	w.again(f.CloseEvery, func(at int64, do func()) { w.in(p, at, do) }, func() {
		if p.host != nil && !p.closing && !slices.ContainsFunc(p.slots, w.awaitsRemote) {
			w.close(p)
		}
	})
	if f.WallSteps {
		w.again(2*w.life, w.At, func() { p.computer.wall = c.Within(int64(f.Skew)) })
	}
}

func (w *simulation) outages() {
	w.again(w.faults.OutageEvery, w.At, func() {
		w.outageUntil = w.Now + exponential(w.chance, int64(w.faults.OutageFor))
		w.say("no process reaches the store until %v", time.Duration(w.outageUntil))
	})
}

// again has a misfortune happen again and again, so far apart on average, until the faults end;
// 0 is never.
func (w *simulation) again(mean time.Duration, schedule func(int64, func()), misfortune func()) {
	if mean <= 0 {
		return
	}
	schedule(w.Now+1+exponential(w.chance, int64(mean)), func() {
		if !w.calm {
			misfortune()
			w.again(mean, schedule, misfortune)
		}
	})
}
