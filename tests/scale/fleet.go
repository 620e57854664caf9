package main

import (
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/tests/world"
)

// fleet is one run of a scenario: true time, a store below each prefix, and all processes at work.
type fleet struct {
	world.Queue
	plan      *plan
	chance    world.Chance
	stats     stats
	prefixes  []*prefix
	processes []*process
	named     int
}

// stampUnit is that of all three clouds, as their drivers tell it.
const stampUnit = time.Second

func newFleet(p *plan, seed uint64) *fleet {
	f := &fleet{plan: p, chance: world.NewChance(seed, uint64(p.number)), stats: newStats(p)}
	for range p.prefixes {
		x := &prefix{store: world.NewStore(stampUnit, 0), partitions: make([]partition, p.splits), valves: map[string]*valves{}}
		card := core.Action{Kind: core.ActionPut, Key: core.RegisterDir + "/store.json"} // somebody has been here
		x.store.Apply(0, &card, 0, 0)
		f.prefixes = append(f.prefixes, x)
	}
	f.populate()
	return f
}

// populate makes processes and slots, and says when each begins.
func (f *fleet) populate() {
	p := f.plan
	left := p.leases
	for i := range p.orchestrators {
		proc := &process{number: i}
		f.processes = append(f.processes, proc)
		own := left / (p.orchestrators - i)
		left -= own
		waiters := own * p.waiters / 1000
		if f.chance.PerMille(own * p.waiters % 1000) {
			waiters++
		}
		for j := range own + waiters {
			proc.slots = append(proc.slots, &slot{host: f.hostFor(proc), waits: j >= own})
		}
		f.At(f.chance.UpTo(int64(p.within)), func() {
			for _, s := range proc.slots {
				f.begin(s)
			}
		})
		if f.chance.PerMille(p.deaths) {
			f.At(f.chance.Between(int64(p.from()), int64(p.end())), func() { f.die(proc) })
		}
	}
}

// hostFor is the host of a process for the prefix that a name of its own is under.
func (f *fleet) hostFor(p *process) *host {
	n := p.number % len(f.prefixes)
	if f.plan.byName {
		n = int(f.chance.Below(uint64(len(f.prefixes))))
	}
	for _, h := range p.hosts {
		if h.prefix == f.prefixes[n] {
			return h
		}
	}
	h := &host{process: p, prefix: f.prefixes[n]}
	p.hosts = append(p.hosts, h)
	return h
}

// run plays it from beginning to end.
func (f *fleet) run() {
	end := int64(f.plan.end())
	for do := f.Next(); do != nil && f.Now < end; do = f.Next() {
		do()
	}
	for _, x := range f.prefixes {
		for i := range x.partitions {
			for j, peak := range x.partitions[i].peak {
				f.stats.peak[j] = max(f.stats.peak[j], peak)
			}
		}
	}
}

// send puts a request on its way. If the store does not get the request in time, or we do
// not get its answer, it is given up at its limit.
func (f *fleet) send(h *host, a *core.Action) {
	client, limit := h.client, f.Now+int64(a.Limit)
	h.asked[a.Request] = true
	f.stats.request(f.Now, h, a)
	took := f.plan.cloud.latencyOf(a.Kind).draw(f.chance)
	up := took / 2
	reply := &core.Event{Kind: core.EventAnswer, Request: a.Request, Outcome: core.OutcomeUnknown, Class: core.ClassUnreachable}
	answer := func() {
		if h.client == client && h.asked[a.Request] {
			delete(h.asked, a.Request)
			f.step(h, *reply)
		}
	}
	switch {
	case f.plan.isOut(f.Now+up) && f.chance.Below(2) == 0: // the connection breaks
		f.At(min(limit, f.Now+took), answer)
	case f.plan.isOut(f.Now + up), f.Now+up > limit: // nothing comes back
		f.At(limit, answer)
	default:
		f.After(up, func() {
			got := f.apply(h.prefix, a)
			if f.Now+took-up > limit {
				f.At(limit, answer)
				return
			}
			*reply = got
			f.After(took-up, answer)
		})
	}
}

// apply lets a request reach the store, which throttles it if it must.
func (f *fleet) apply(x *prefix, a *core.Action) core.Event {
	writes := !reads(a.Kind)
	p := x.partition(a.Key)
	if f.stats.counts(f.Now) {
		p.count(writes, f.Now)
	}
	admitted := f.Now < int64(f.plan.lenient) || p.admit(&f.plan.cloud, x.valvesOf(&f.plan.cloud, a.Key), writes, f.Now)
	f.stats.offered(f.Now, writes, admitted)
	if !admitted {
		return core.Event{Kind: core.EventAnswer, Request: a.Request, Outcome: core.OutcomeUnknown, Class: core.ClassThrottled}
	}
	return x.store.Apply(f.Now, a, 0, 0)
}

// reads reports whether a request changes nothing.
func reads(verb core.ActionKind) bool {
	return verb == core.ActionGet || verb == core.ActionExists || verb == core.ActionList
}
