package simulate

import (
	"hash"
	"hash/fnv"
	"slices"
	"strconv"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/tests/explore/check"
)

// world is one run: true time, one store, and all processes at work in it.
type world struct {
	opts    Options
	faults  *Faults
	chance  chance
	checker *Checker
	stats   stats

	now    int64 // true time
	queue  queue
	store  store
	life   time.Duration // what times are measured by: the TTL, or 5 s
	expiry core.Expiry

	processes  []*process
	companions []*slot
	breakers   []*slot
	names      []string
	memory     map[*computer]map[string][]byte // what a process leaves to the next one of its boot
	watchers   map[string][]*process           // of a key
	beats      map[string]int                  // the process that put it first, + 1
	newest     map[string]*request             // the last put to a key
	meters     map[string]*meter
	claims     int
	lives      int

	outageUntil int64
	calm        bool
	newcome     bool          // newcomers have come
	calmAfter   uint64        // events
	cut         time.Duration // when the faults were ended by the bound of events, or 0
	progress    int64         // when an actor was last served
	events      uint64
	played      int64       // when the last of them was
	hash        hash.Hash64 // of all events
	folded      []byte      // into it last
	trace       *trace
	holds       *holds
}

// mostEvents bounds a run for each actor, first with faults and then without: a
// long one ends there and says so, and a live-lock also ends. A few hundred are
// usual.
const mostEvents = 100_000

func newWorld(opts Options) *world {
	c := newChance(opts.Seed)
	opts = opts.settle(c)
	w := &world{
		opts: opts, faults: opts.Faults, chance: c, stats: newStats(opts.TTL), store: newStore(opts.Faults),
		life: max(opts.TTL, 5*time.Second), hash: fnv.New64a(),
		memory: map[*computer]map[string][]byte{}, watchers: map[string][]*process{}, beats: map[string]int{}, newest: map[string]*request{}, meters: map[string]*meter{},
		checker: NewChecker(Rules{Overlaps: !opts.promised(), Keep: 2}),
	}
	if opts.Trace {
		w.trace = &trace{}
	}
	if opts.Trace || opts.Holds {
		w.holds = newHolds()
	}
	w.expiry = pick(c, core.ExpiryCalibrated, core.ExpiryCalibrated, core.ExpiryObserved)
	switch {
	case opts.Protocol == core.ProtocolLastWriter:
		w.expiry = pick(c, core.ExpiryWall, core.ExpiryObserved)
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
func (w *world) populate() {
	c, o := w.chance, &w.opts
	computers := make([]*computer, c.between(1, int64(max(2, o.Actors/2))))
	for i := range computers {
		k := &computer{
			start: c.between(1, int64(time.Hour)), drift: c.within(int64(w.faults.Drift)), wall: c.within(int64(w.faults.Skew)),
		}
		if w.faults.InOrder || o.BootAnywhere {
			k.boot = "boot-" + strconv.Itoa(i)
		}
		computers[i], w.memory[k] = k, map[string][]byte{}
	}
	add := func(r role, p *process) *process {
		if p == nil {
			p = &process{number: len(w.processes), computer: pick(c, computers...)}
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
		p.onSession = strict && o.TTL > 0 && !o.NoSessions && (o.Sessions || c.oneIn(3))
		for ; p.onSession && left > 0 && c.oneIn(2); left-- {
			add(roleOrchestrator, p)
		}
	}
	for range o.Companions {
		add(roleCompanion, nil)
	}
	if endless := o.TTL < 0; strict && !o.Once && (c.oneIn(3) || endless || o.Works) {
		add(roleBreaker, nil)
	}
	if strict && !o.Once && c.oneIn(3) {
		add(roleObserver, nil)
	}
	w.stats.turns = make([]int, o.Actors)
}

// sharers are the processes of a semaphore: as many as the options say, or as chance has it.
func (w *world) sharers(add func(role, *process) *process) {
	var all []*process
	for left := w.opts.Actors; left > 0; left-- {
		var p *process
		if n := len(all); n > 0 && (n == w.opts.Processes || w.opts.Processes == 0 && w.chance.oneIn(3)) {
			p = pick(w.chance, all...)
		}
		if joined := add(roleOrchestrator, p); p == nil {
			joined.onSession = true
			all = append(all, joined)
		}
	}
}

// run plays it from beginning to end.
func (w *world) run() {
	for _, p := range w.processes {
		w.start(p)
		w.trouble(p)
	}
	w.outage()
	w.queue.push(item{at: int64(w.opts.Duration), kind: occasionCalm})
	patience := 8*int64(max(w.life, core.CorruptMin)) + 4*int64(w.faults.Skew)
	for len(w.queue.items) > 0 && w.checker.found == nil {
		it := w.queue.pop()
		w.now = it.at
		w.events++
		if w.full() && w.calm {
			w.checker.fail(w.now, check.QuietWhenIdle, "there is no end after %d events", w.events)
			return
		} else if w.full() {
			w.cut = time.Duration(w.now)
			w.say("the faults end, at the bound of %d events", w.events)
			w.settle()
		}
		if w.postponed(&it) {
			continue
		}
		if !w.calm || it.kind == occasionWake || it.request != nil {
			w.played = w.now
		}
		w.happen(&it)
		if w.calm && w.stats.waiting > 0 && w.now-w.progress > patience {
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
func (w *world) full() bool {
	return w.events-w.calmAfter > w.opts.mostEvents*uint64(10+w.opts.Actors)
}

// leftovers: nothing is to come any more, so no client may be in the middle of something.
func (w *world) leftovers() {
	for _, p := range w.processes {
		for _, u := range p.units {
			w.checker.fail(w.now, check.QuietWhenIdle, "%s has not ended and goes nowhere", u.label)
		}
		if p.host != nil && !p.host.Client.Idle() {
			w.checker.fail(w.now, check.QuietWhenIdle, "%s has no claims, waits for nothing, and is not idle", p)
		}
	}
}

// postponed keeps what would happen in a process that stands still until it goes on.
func (w *world) postponed(it *item) bool {
	p := it.process
	switch it.kind {
	case occasionAnswer:
		p = it.request.process
	case occasionWake:
		if it.turn != p.wakeTurn {
			return true
		}
	case occasionChange, occasionPoke, occasionScript, occasionClose:
	default:
		return false
	}
	if p.pausedUntil <= w.now {
		return false
	}
	it.at = p.pausedUntil
	w.queue.push(*it)
	return true
}

func (w *world) happen(it *item) {
	switch it.kind {
	case occasionApply:
		w.apply(it.request)
	case occasionAnswer:
		w.answer(it.request)
	case occasionWake:
		w.tell(it.process, core.Event{Kind: core.EventWoke})
	case occasionChange:
		w.tell(it.process, core.Event{Kind: core.EventChanged, Key: []byte(it.key)})
	case occasionScript:
		if it.turn == it.slot.turn && it.process.host != nil {
			w.play(it.slot)
		}
	case occasionPoke:
		w.poke(it.unit)
	case occasionCalm:
		if it.process != nil {
			w.keep(it.process)
		} else if !w.calm {
			w.say("the faults end")
			w.settle()
		}
	default:
		w.misfortune(it)
	}
}

// poke tells a client of a claim that has ended, or of none while it should have closed.
func (w *world) poke(u *unit) {
	p := u.process
	switch {
	case u.host != p.host:
	case u.number == 0:
		w.checker.fail(w.now, check.QuietWhenIdle, "%s has begun to close long ago", p)
	default:
		w.tell(p, core.Event{Kind: core.EventCancel, Claim: u.number})
	}
}

// pause has a process stand still from now on.
func (w *world) pause(p *process) {
	p.stalls, p.pausedUntil = false, w.now+w.chance.upTo(int64(w.faults.PauseFor))
	w.say("%s stands still until %v", p, time.Duration(p.pausedUntil))
}

// trouble schedules the first pause and crash of a process and the first step of
// its computer's wall clock.
func (w *world) trouble(p *process) {
	f := w.faults
	w.later(p, occasionPause, int64(f.PauseEvery))
	w.later(p, occasionCrash, int64(f.CrashEvery))
	w.later(p, occasionClose, int64(f.CloseEvery))
	if f.WallSteps {
		w.later(p, occasionStep, 2*int64(w.life))
	}
}

// later schedules a misfortune, mean from now on average; 0 is never.
func (w *world) later(p *process, kind occasion, mean int64) {
	if mean > 0 {
		w.queue.push(item{at: w.now + 1 + w.chance.exponential(mean), kind: kind, process: p})
	}
}

func (w *world) outage() { w.later(nil, occasionPause, int64(w.faults.OutageEvery)) }

// misfortune lets one happen and schedules the next of its kind.
func (w *world) misfortune(it *item) {
	p, f, c := it.process, w.faults, w.chance
	if it.kind == occasionRestart {
		w.say("%s starts again", p)
		w.start(p)
		return
	}
	if w.calm {
		return
	}
	switch {
	case it.kind == occasionPause && p == nil:
		w.outageUntil = w.now + c.exponential(int64(f.OutageFor))
		w.say("no process reaches the store until %v", time.Duration(w.outageUntil))
		w.outage()
	case it.kind == occasionPause:
		if p.stalls = c.oneIn(2); !p.stalls { // otherwise as soon as something is renewed
			w.pause(p)
		}
		w.later(p, occasionPause, int64(f.PauseEvery))
	case it.kind == occasionCrash:
		if p.host != nil {
			w.say("%s crashes", p)
			w.crash(p)
			w.restart(p)
		}
		w.later(p, occasionCrash, int64(f.CrashEvery))
	case it.kind == occasionClose:
		if p.host != nil && !p.closing && !slices.ContainsFunc(p.slots, w.awaitsRemote) {
			w.close(p)
		}
		w.later(p, occasionClose, int64(f.CloseEvery))
	case it.kind == occasionStep:
		p.computer.wall = c.within(int64(f.Skew))
		w.later(p, occasionStep, 2*int64(w.life))
	}
}
