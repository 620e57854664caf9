package explore

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/tests/explore/check"
)

// permitted is a Program that takes part in a semaphore.
type permitted interface {
	// Permits is what it was given or may be given, and relies on if so. It is not
	// changed by later Steps.
	Permits() []check.Permit
}

// relied are the permits that are relied on now: those whose processes were told, and
// those that stand in the store and whose processes will be told.
func (e *engine) relied(w *state) []check.Permit {
	e.wanted(w)
	ledger := e.ledgers.items[w.ledger]
	kept := e.permits[:0]
	for i := range e.permits {
		if p := &e.permits[i]; p.Told || ledger.Granted(p) {
			kept = append(kept, *p)
		}
	}
	e.permits = kept
	return kept
}

// wanted are all permits of processes that live and whose session is in force.
func (e *engine) wanted(w *state) []check.Permit {
	all := e.permits[:0]
	for i := range e.sc.Actors {
		s := e.actors.items[w.actors[i]]
		p, ok := s.program.(permitted)
		if !ok || s.crashed {
			continue
		}
		mono := e.sc.clock(uint8(i), w.now).Mono
		for _, permit := range p.Permits() {
			if mono < permit.Until {
				all = append(all, permit)
			}
		}
	}
	e.permits = all
	return all
}

// grants tells the ledger of the permits that a Step has told of, and forgets those
// that are not relied on any more.
func (e *engine) grants(next *state, actor uint8) *check.Violation {
	before := e.ledgers.items[next.ledger]
	believed := e.relied(next)
	ledger := before.Clone()
	ledger.Keep(believed)
	for i := range believed {
		p := &believed[i]
		if p.Actor != e.sc.Actors[actor].Name || ledger.Granted(p) {
			continue
		}
		if v := ledger.Grant(p, believed); v != nil {
			return v
		}
	}
	next.ledger = e.internLedger(ledger)
	return nil
}

// Bringer is a store that knows which permits a request brings.
type Bringer interface {
	// Brings reads the permits that a request has brought, in their order, and the limit
	// that the store sets to all, or 0. There may be old ones among them.
	Brings(request *core.Action, reply *core.Event) (limit uint64, all []broughtPermit)
}

// Brings implements Bringer for the versions of a semaphore.
func (b blobs) Brings(a *core.Action, reply *core.Event) (limit uint64, all []broughtPermit) {
	if a.Kind != core.ActionCreate || reply.Outcome != core.OutcomeYes || !bytes.Contains(a.Body, []byte(`"permits"`)) {
		return 0, nil
	}
	return broughtBy(a.Body)
}

// committed tells the ledger of the permits that a request brings, in their order. A version
// below the newest, whose number was collected, brings none.
func (e *engine) committed(next *state, action, reply uint32) *check.Violation {
	store, ok := e.stores.items[next.store].(Bringer)
	if !ok {
		return nil
	}
	if v, ok := e.stores.items[next.store].(Versioned); ok {
		if name, epoch, _, ok := v.Version(&e.actions.items[action]); ok && epoch < v.Newest(name) {
			return nil
		}
	}
	var ledger *check.Ledger
	limit, brought := store.Brings(&e.actions.items[action], &e.replies.items[reply])
	for i := range brought {
		b := &brought[i]
		p := e.permitOf(next, b)
		if p == nil || e.ledgers.items[next.ledger].Granted(p) {
			continue
		}
		if ledger == nil {
			ledger = e.ledgers.items[next.ledger].Clone()
		}
		if limit != 0 {
			p.Most = min(p.Most, limit)
		}
		if v := ledger.Grant(p, e.relied(next)); v != nil {
			return v
		}
		next.ledger = e.internLedger(ledger)
	}
	return nil
}

// permitOf is the permit of a process that lives, as it stands in a record, or nil.
func (e *engine) permitOf(w *state, b *broughtPermit) *check.Permit {
	for _, p := range e.wanted(w) {
		if p.Session == b.Session && b.Label == string(labelOf(p.Actor, p.Number)) {
			return &p
		}
	}
	return nil
}

// broughtPermit is one that stands in a record.
type broughtPermit struct{ ID, Session, Label string }

// broughtBy reads a record's permits, and its limit.
func broughtBy(body []byte) (limit uint64, all []broughtPermit) {
	var record struct {
		Limit   uint64
		Permits []broughtPermit
	}
	if json.Unmarshal(body, &record) != nil {
		return 0, nil
	}
	last := broughtPermit{}
	for _, p := range record.Permits {
		if p.Session == "" { // what is left out is that of the one before
			p.Session = last.Session
		}
		if p.Label == "" {
			p.Label = last.Label
		}
		all, last = append(all, p), p
	}
	return record.Limit, all
}

// leaks is NothingLeaks: all that live stop for good, or give everything back and go
// on, and a newcomer must get all.
//
// Where no reply can be lost it is asked only while none is awaited: requests on their
// way are taken as lost here.
func (e *engine) leaks(w *state) *check.Violation {
	awaited := slices.ContainsFunc(w.flying[:w.count], func(f flight) bool { return f.phase != flightStray })
	for i := range e.sc.Actors {
		if !e.sc.Actors[i].Newcomer || awaited && e.sc.Lost == 0 {
			continue
		}
		newcomer := uint8(i)
		dead := drainKey{store: w.store, waiter: newcomer}
		back := dead
		back.givesBack = true
		for j := range e.sc.Actors {
			if j != i && e.actors.items[w.actors[j]].told > 0 && !e.actors.items[w.actors[j]].crashed {
				back.actors[j] = w.actors[j] + 1
			}
		}
		for _, k := range []drainKey{dead, back} {
			v, ok := e.drained[k]
			if !ok {
				v = e.newcomer(w, &k)
				e.drained[k] = v
			}
			if v != nil {
				return v
			}
		}
	}
	return nil
}

// newcomer runs those that are left, which give everything back, and one that wants all.
func (e *engine) newcomer(w *state, k *drainKey) *check.Violation {
	var left []*survivor
	for i, id := range k.actors {
		if id != 0 {
			s := e.actors.items[id-1]
			inbox := append(givesBack(s.program), e.unanswered(w, uint8(i))...)
			left = append(left, &survivor{uint8(i), s.program.Copy(), s.wake, inbox})
		}
	}
	self := &e.sc.Actors[k.waiter]
	program, err := self.Start()
	if err != nil {
		return &check.Violation{Checker: check.NothingLeaks, Text: err.Error()}
	}
	mine := &survivor{k.waiter, program, noWake, []core.Event{self.Tell[0].Event}}
	left = append(left, mine)
	store := e.stores.items[w.store]
	for now := w.now; now <= w.now+uint16(e.sc.Patience/e.sc.Tick); now++ {
		for _, s := range left {
			if store, err = e.runTick(s, now, store); err != nil {
				return &check.Violation{Checker: check.NothingLeaks, Text: e.sc.Actors[s.index].Name + ": " + err.Error()}
			}
		}
		if len(program.Claims()) > 0 {
			return nil
		}
	}
	return check.Newcomer(self.Name, program.String(), false)
}

// givesBack is what a program is told that is to give back all that it has.
func givesBack(program Program) []core.Event {
	p, ok := program.(*process)
	if !ok {
		return []core.Event{{Kind: core.EventRelease}}
	}
	var all []core.Event
	for i := range p.Process.Claims {
		if c := &p.Process.Claims[i]; !c.Ended && !c.Given {
			all = append(all, core.Event{Kind: core.EventRelease, Claim: c.Number})
		}
	}
	return all
}
