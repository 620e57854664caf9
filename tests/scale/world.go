package main

import (
	"fmt"
	"time"

	"github.com/mopslock/mopslock/core"
)

// world is one run of a scenario: true time, one store, and all processes at work.
type world struct {
	plan   *plan
	cloud  cloud
	chance chance
	stats  stats

	now   int64
	queue queue
	store store

	partitions []partition
	cards      []*object // of each prefix
	processes  []*process
	names      [][]*register // of each prefix, that a slot wants
	named      int

	pending []told
	spare   []*request
}

// told is an event that a machine is to be given once a Step is through.
type told struct {
	unit  *unit
	event core.Event
}

// request is one on its way.
type request struct {
	unit      *unit
	verb      core.ActionKind
	id        core.RequestID
	key       string
	after     string
	count     uint64
	body      []byte // what is sent, and then what was read
	limitAt   int64  // unknown from then on
	down      int64  // what its answer takes
	partition *partition
	register  *register // it is about a version of this name, or otherwise
	object    *object

	outcome core.Outcome
	class   core.Class
	stamp   int64
	entries []core.Entry
	more    bool
}

// stampUnit is that of all three clouds, as their drivers tell it.
const stampUnit = time.Second

func newWorld(p *plan, seed uint64) *world {
	w := &world{
		plan: p, cloud: p.cloud, chance: newChance(seed, uint64(p.number)), stats: newStats(p),
		store:      store{objects: map[string]*object{}, stamps: int64(stampUnit)},
		partitions: make([]partition, p.prefixes*p.splits), names: make([][]*register, p.prefixes),
	}
	for range p.prefixes {
		w.cards = append(w.cards, &object{there: true})
	}
	w.populate()
	return w
}

// populate makes processes and slots, and says when each begins.
func (w *world) populate() {
	p := w.plan
	left := p.leases
	for i := range p.orchestrators {
		proc := &process{number: i}
		w.processes = append(w.processes, proc)
		own := left / (p.orchestrators - i)
		left -= own
		waiters := own * p.waiters / 1000
		if w.chance.perMille(own * p.waiters % 1000) {
			waiters++
		}
		for j := range own + waiters {
			proc.slots = append(proc.slots, &slot{process: proc, host: w.hostFor(proc), waits: j >= own})
		}
		at := int64(0)
		if p.within > 0 {
			at = w.chance.between(0, int64(p.within))
		}
		w.queue.push(item{at: at, kind: occasionBegin, process: proc})
		if w.chance.perMille(p.deaths) {
			w.queue.push(item{at: w.chance.between(int64(p.from()), int64(p.end())), kind: occasionDie, process: proc})
		}
	}
}

// hostFor is the host of a process for the prefix that a name of its own is under.
func (w *world) hostFor(p *process) *host {
	shard := p.number % w.plan.prefixes
	if w.plan.byName {
		shard = int(w.chance.below(uint64(w.plan.prefixes)))
	}
	for _, h := range p.hosts {
		if h.shard == shard {
			return h
		}
	}
	p.hosts = append(p.hosts, &host{process: p, shard: shard})
	return p.hosts[len(p.hosts)-1]
}

// run plays it from beginning to end.
func (w *world) run() {
	end := int64(w.plan.end())
	for w.queue.left > 0 {
		it := w.queue.pop()
		if it.at >= end {
			break
		}
		w.now = it.at
		w.happen(&it)
		w.settle()
	}
	w.now = end
	w.stats.finish(w)
}

// settle gives out events until there are no more.
func (w *world) settle() {
	for at := 0; at != len(w.pending); at++ {
		if t := w.pending[at]; !t.unit.gone {
			w.step(t.unit, t.event)
		}
	}
	w.pending = w.pending[:0]
}

func (w *world) happen(it *item) {
	switch it.kind {
	case occasionApply:
		w.apply(it.request)
	case occasionAnswer:
		w.answer(it.request)
	case occasionWake:
		w.woke(it)
	case occasionScript:
		if it.turn == it.slot.turn {
			w.play(it.slot)
		}
	case occasionBegin:
		for _, s := range it.process.slots {
			w.play(s)
		}
	case occasionDie:
		w.die(it.process)
	}
}

// tell gives a machine an event once the Step under way is through.
func (w *world) tell(u *unit, ev core.Event) { w.pending = append(w.pending, told{u, ev}) }

func (w *world) woke(it *item) {
	u := it.unit
	if u.gone || it.at != u.queued {
		return // another one was queued before it
	}
	u.queued = never
	if u.wakeAt > w.now {
		w.setWake(u)
		return
	}
	w.step(u, core.Event{Kind: core.EventWoke})
}

// setWake queues a machine's wake, unless one before it is queued, or the answer to
// a request comes before it, which sets another.
func (w *world) setWake(u *unit) {
	if u.wakeAt == never || u.queued <= u.wakeAt || u.asking != 0 && u.answeredBy <= u.wakeAt {
		return
	}
	u.queued = max(u.wakeAt, w.now)
	w.queue.push(item{at: u.queued, kind: occasionWake, unit: u})
}

// step tells a machine what happened, and does what it asks for.
func (w *world) step(u *unit, ev core.Event) {
	h := u.host
	if u.kind != 0 {
		ev.StoreStamp, ev.StoreAt = h.stamp, h.stampAt
	}
	if u.kind == core.MachineLease {
		if h.sid != nil && w.now >= h.until { // it hears the reason from its session
			w.step(h.session, core.Event{Kind: core.EventWoke})
		}
		ev.Session, ev.SessionUntil, ev.SessionEnd = h.sid, h.until, h.end
	}
	const wall = 1_800_000_000 * int64(time.Second)
	actions, err := u.machine.Step(core.Instant{Mono: w.now, Wall: wall + w.now}, ev)
	if err != nil {
		panic(fmt.Sprintf("scale: %s, told %s: %v", u.machine, ev.Kind, err))
	}
	w.stats.steps++
	u.wakeAt = never
	for i := range actions {
		switch a := &actions[i]; {
		case a.Kind.IsRequest():
			w.send(u, a)
		case a.Kind == core.ActionWake:
			u.wakeAt = a.At
		case u.kind == core.MachineSession:
			w.heedSession(u, a)
		case u.kind == core.MachineStoreClockSample:
			w.heedSample(u, a)
		default:
			w.heedLease(u, a)
		}
	}
	if u.gone {
		return
	}
	if u.kind == 0 && u.machine.Idle() {
		w.probed(u)
		return
	}
	w.setWake(u)
}

// send puts a request on its way. If the store does not get the request in time, or we do
// not get its answer, it is given up at its limit.
func (w *world) send(u *unit, a *core.Action) {
	r := w.newRequest()
	r.unit, r.verb, r.id, r.key, r.after, r.count = u, a.Kind, a.Request, a.Key, a.After, a.Count
	r.body = append(r.body, a.Body...)
	r.limitAt, r.outcome = w.now+int64(a.Limit), core.OutcomeYes
	u.asking, u.answeredBy = uint64(a.Request), r.limitAt
	if u.kind == core.MachineSession {
		w.noteBeat(u, r.verb)
	}
	w.aim(r)
	took := w.chance.latency(w.latencyOf(r.verb))
	up := took / 2
	r.down = took - up
	w.stats.count(w, &w.stats.verbs[r.verb])
	if out := w.plan.isOut(w.now + up); out || w.now+up > r.limitAt {
		r.outcome, r.class = core.OutcomeUnknown, core.ClassUnreachable
		at := r.limitAt
		if out && w.chance.below(2) == 0 { // the connection breaks; otherwise nothing comes back
			at = min(at, w.now+took)
		}
		w.queue.push(item{at: at, kind: occasionAnswer, request: r})
		return
	}
	w.queue.push(item{at: w.now + up, kind: occasionApply, request: r})
}

// noteBeat notes a session's request: the first put of a renewal is sent when it is due.
func (w *world) noteBeat(u *unit, verb core.ActionKind) {
	h := u.host
	h.asked++
	if verb == core.ActionPut {
		if h.sid != nil && h.due == 0 {
			h.due = w.now
			w.stats.sample(w, &w.stats.intervals, w.now-h.put)
		}
		h.put = w.now
	}
	w.stats.attempt(u, w.now)
}

func (w *world) latencyOf(verb core.ActionKind) latency {
	switch verb {
	case core.ActionGet, core.ActionExists:
		return w.cloud.get
	case core.ActionList:
		return w.cloud.list
	}
	return w.cloud.put
}

// apply lets a request reach the store, which throttles it if it must.
func (w *world) apply(r *request) {
	writes := r.verb == core.ActionPut || r.verb == core.ActionCreate || r.verb == core.ActionDelete
	if w.stats.counts(w) {
		r.partition.count(writes, w.now)
	}
	admitted := w.now < int64(w.plan.lenient) || r.partition.admit(&w.cloud, r.object, writes, w.now)
	w.stats.offered(w, writes, admitted)
	switch {
	case !admitted:
		r.outcome, r.class = core.OutcomeUnknown, core.ClassThrottled
	case r.register != nil:
		w.store.applyVersion(r, w.now)
	case r.object != nil:
		w.store.applyObject(r, w.now)
	default:
		r.outcome = core.OutcomeNo // a call to a session
	}
	at := w.now + r.down
	if at > r.limitAt {
		at, r.outcome, r.class = r.limitAt, core.OutcomeUnknown, core.ClassUnreachable
	}
	w.queue.push(item{at: at, kind: occasionAnswer, request: r})
}

// answer gives a request's answer to its machine, if its process lives.
func (w *world) answer(r *request) {
	u := r.unit
	if !u.gone {
		if u.asking == uint64(r.id) {
			u.asking = 0
		}
		ev := core.Event{Kind: core.EventAnswer, Request: r.id, Outcome: r.outcome}
		switch r.outcome {
		case core.OutcomeUnknown:
			ev.Class = r.class
		default:
			u.host.reached = true
			ev.Stamp, ev.Entries, ev.More = r.stamp, r.entries, r.more
			if r.verb == core.ActionGet && r.outcome == core.OutcomeYes {
				ev.Body = r.body
			}
		}
		w.step(u, ev)
	}
	*r = request{body: r.body[:0], entries: r.entries[:0]}
	w.spare = append(w.spare, r)
}

func (w *world) newRequest() *request {
	if n := len(w.spare); n > 0 {
		r := w.spare[n-1]
		w.spare = w.spare[:n-1]
		return r
	}
	return &request{}
}
