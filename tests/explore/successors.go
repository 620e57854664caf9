package explore

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/tests/explore/check"
)

// move is one transition, as a report tells it.
type move struct {
	kind   uint8
	actor  uint8
	choice uint8  // of apply: which way; of tell: which command
	action uint32 // of what is about a request
	reply  uint32
	stray  bool
	step   stepKey // of a local move
	first  *move   // of an answer that comes at once: its request being applied
}

// yield is given each successor, in one order.
type yield func(next *state, m *move, v *check.Violation)

// successors makes all worlds that can come next. The actor that acted last goes
// first: so the search finds, among shortest counter-examples, the one in which an
// actor goes on with what it is doing, which is the one that a person would tell.
func (e *engine) successors(w *state, out yield) {
	n := uint8(len(e.sc.Actors))
	for i := range n {
		actor := i
		if w.last < n {
			actor = (w.last + i) % n
		}
		switch {
		case e.sc.OutOfOrder:
			e.local(w, actor, out)
		case actor == w.turn, w.sweep && actor > w.turn:
			e.local(w, actor, out)
		}
		e.applies(w, actor, out)
	}
	e.tick(w, out)
}

// local makes what an actor can do without the store.
func (e *engine) local(w *state, actor uint8, out yield) {
	s := e.actors.items[w.actors[actor]]
	if s.crashed && len(e.sc.Actors[actor].Tell) == int(s.told) {
		return
	}
	for i := range int(w.count) {
		f := &w.flying[i]
		if f.actor == actor && f.phase != flightStray {
			e.answers(w, i, nil, out)
		}
	}
	if e.due(w, actor) {
		e.take(w, move{kind: moveWake, actor: actor}, 0, out)
	}
	for n := range e.commands(w, actor) {
		e.take(w, move{kind: moveTell, actor: actor, choice: uint8(n)}, 0, out)
	}
	if e.spare(w, faultCrash, e.sc.Crashes) && !s.crashed && !e.sc.Actors[actor].Flawless && s.told > 0 {
		e.crash(w, actor, out)
	}
}

// answers makes what an actor can learn of one request. A read that is lost is
// given up: no machine can tell whether it was applied.
func (e *engine) answers(w *state, i int, first *move, out yield) {
	f := w.flying[i]
	m := move{actor: f.actor, action: f.action, reply: f.reply, first: first}
	write := check.Changes(e.actions.items[f.action].Kind)
	if f.phase == flightApplied {
		m.kind = moveAnswer
		e.take(w, m, i, out)
	}
	if e.sc.Actors[f.actor].Flawless {
		return
	}
	lost, late := e.spare(w, faultLost, e.sc.Lost), e.spare(w, faultLate, e.sc.Late)
	switch {
	case write && f.phase == flightApplied && lost:
		m.kind = moveLose
		e.take(w, m, i, out)
	case write && f.phase == flightSent && late, !write && f.phase == flightSent && lost:
		m.kind = moveGiveUp
		e.take(w, m, i, out)
	}
}

// take makes a Step; i is the flight that it is about, of the moves that are
// about one.
func (e *engine) take(w *state, m move, i int, out yield) {
	next := *w
	k := stepKey{actor: w.actors[m.actor], now: w.now, kind: m.kind}
	switch m.kind {
	case moveTell:
		k.ref = uint32(m.choice)
		c := &e.sc.Actors[m.actor].Tell[m.choice]
		if c.Make != nil {
			e.abandon(&next, m.actor, nil)
		}
		if c.follows() {
			k.ledger = w.ledger
		}
	case moveAnswer:
		k.ref, k.group = m.reply, next.flying[i].group
		next.remove(i)
	case moveLose:
		k.group = next.flying[i].group
		next.spent[faultLost]++
		next.remove(i)
	case moveGiveUp:
		k.group = next.flying[i].group
		if check.Changes(e.actions.items[m.action].Kind) {
			next.spent[faultLate]++
			next.stray(i)
		} else {
			next.spent[faultLost]++
			next.remove(i)
		}
	}
	if m.kind >= moveLose {
		k.kind = moveLose // to the machine they are one
	}
	m.step = k
	done := e.step(m.actor, k)
	v := done.violation
	next.actors[m.actor] = done.actor
	next.turn = m.actor
	e.sendAll(&next, m.actor, &done)
	if done.moved && v == nil {
		v = e.begin(&next, m.actor, w)
	}
	if e.sc.Result != "" && v == nil {
		v = e.worked(&next, m.actor, done.notices)
	}
	next.last = m.actor
	next.paused &^= 1 << m.actor
	e.settle(&next)
	out(&next, &m, v)
}

// sendAll puts the requests of a Step on their way. A new one abandons what the
// same machine sent before, and a machine that is idle waits for none.
func (e *engine) sendAll(w *state, actor uint8, done *stepped) {
	if done.idle {
		e.abandon(w, actor, nil)
	}
	for i := range done.dropped {
		e.abandon(w, actor, &done.dropped[i])
	}
	for i := range done.requests {
		r := &done.requests[i]
		e.abandon(w, actor, &r.group)
		if w.count == maxFlights {
			e.failure = errCrowded
			return
		}
		f := flight{actor: actor, group: r.group, action: r.action}
		if e.sc.Within > 0 { // otherwise sent is not used
			f.sent = w.now
		}
		w.insert(f)
	}
}

// abandon gives up requests for which no machine waits: a write that was not applied
// can still land, and the rest is gone. group nil is all of the actor's.
func (e *engine) abandon(w *state, actor uint8, group *uint8) {
	for i := int(w.count) - 1; i >= 0; i-- {
		f := &w.flying[i]
		if f.actor != actor || f.phase == flightStray || group != nil && f.group != *group {
			continue
		}
		if f.phase == flightSent && check.Changes(e.actions.items[f.action].Kind) {
			w.stray(i)
		} else {
			w.remove(i)
		}
	}
}

// begin tells the ledger of claims that are new or have moved.
func (e *engine) begin(next *state, actor uint8, before *state) *check.Violation {
	old := e.actors.items[before.actors[actor]].program.Claims()
	var ledger *check.Ledger
	if e.sc.Shared {
		return e.grants(next, actor)
	}
	for _, c := range e.actors.items[next.actors[actor]].program.Claims() {
		known := false
		for _, o := range old {
			known = known || o.Name == c.Name && o.Tenure == c.Tenure && o.Epoch == c.Epoch && o.Token == c.Token
		}
		if known || !c.Believes(e.sc.clock(actor, next.now).Mono) {
			continue
		}
		if ledger == nil {
			ledger = e.ledgers.items[next.ledger].Clone()
		}
		if v := ledger.Began(&c); v != nil {
			return v
		}
	}
	if ledger != nil {
		next.ledger = e.internLedger(ledger)
		if e.needs {
			next.turn, next.sweep = 0, true
		}
	}
	return nil
}

func (e *engine) crash(w *state, actor uint8, out yield) {
	next := *w
	s := e.actors.items[w.actors[actor]]
	gone := &actorState{program: s.program, wake: noWake, told: s.told, crashed: true}
	next.actors[actor] = e.internActor(actor, gone)
	next.spent[faultCrash]++
	if e.sc.Shared {
		_ = e.grants(&next, actor) // a dead actor relies on nothing: its permits are forgotten
	}
	e.abandon(&next, actor, nil)
	for i := int(next.count) - 1; e.sc.Prompt && i >= 0; i-- {
		if next.flying[i].actor == actor {
			next.remove(i)
		}
	}
	next.last = actor
	next.paused &^= 1 << actor
	next.turn = actor
	e.settle(&next)
	out(&next, &move{kind: moveCrash, actor: actor}, nil)
}

// applies makes what the store can do with an actor's requests.
func (e *engine) applies(w *state, actor uint8, out yield) {
	for i := range int(w.count) {
		f := &w.flying[i]
		if f.actor != actor || f.phase == flightApplied {
			continue
		}
		a := &e.actions.items[f.action]
		choices := e.stores.items[w.store].Choices(a, e.crowded(w, actor, a.Key))
		for choice := range choices {
			if choice == 0 || e.spare(w, faultOdd, e.sc.Odd) {
				e.apply(w, i, uint8(choice), out)
			}
		}
	}
}

func (e *engine) apply(w *state, i int, choice uint8, out yield) {
	next := *w
	f := &next.flying[i]
	k := applyKey{w.store, f.action, w.now, choice}
	done, ok := e.applied[k]
	if !ok {
		store, reply := e.stores.items[k.store].Apply(e.sc.wall(k.now), &e.actions.items[k.action], int(choice))
		done = applied{e.internStore(store), e.internReply(&reply)}
		e.applied[k] = done
	}
	m := move{
		kind: moveApply, actor: f.actor, choice: choice, action: f.action, reply: done.reply, stray: f.phase == flightStray,
	}
	if choice != 0 {
		next.spent[faultOdd]++
	}
	next.store = done.store
	next.turn, next.sweep = nobody, false
	if m.stray {
		next.remove(i)
	} else {
		f.phase, f.reply = flightApplied, done.reply
	}
	next.last = m.actor
	next.paused &^= 1 << m.actor
	v := e.version(&next, w.store, m.action)
	if a := &e.actions.items[m.action]; v == nil && a.Kind == core.ActionPut {
		v = e.note(&next, func(l *check.Ledger) *check.Violation { return l.Put(e.sc.Actors[m.actor].Name, a.Key) })
	}
	if e.sc.Shared && v == nil && next.store != w.store {
		v = e.committed(&next, m.action, m.reply)
	}
	if e.sc.Result != "" && !e.sc.Overwrites && v == nil {
		v = check.Stored(e.sc.Result, e.object(w, e.sc.Result), e.object(&next, e.sc.Result))
	}
	if v == nil && !m.stray && !e.sc.OutOfOrder {
		e.answers(&next, i, &m, out)
	}
	e.settle(&next)
	out(&next, &m, v)
}

// version tells the ledger when the store has a new version of a name.
func (e *engine) version(next *state, before, action uint32) *check.Violation {
	versioned, ok := e.stores.items[before].(Versioned)
	if !ok || next.store == before {
		return nil
	}
	name, epoch, tenure, ok := versioned.Version(&e.actions.items[action])
	if !ok {
		return nil
	}
	ledger := e.ledgers.items[next.ledger].Clone()
	v := ledger.Version(name, epoch, e.stores.items[next.store].(Versioned).Newest(name), tenure)
	next.ledger = e.internLedger(ledger)
	return v
}

// spare reports whether one more fault of a kind may happen.
func (e *engine) spare(w *state, kind, most int) bool {
	all := 0
	for _, n := range w.spent {
		all += int(n)
	}
	return int(w.spent[kind]) < most && (e.sc.Faults == 0 || all < e.sc.Faults)
}

// tick lets time pass, where the scenario's promises allow it.
func (e *engine) tick(w *state, out yield) {
	if int(w.now) >= e.sc.Horizon {
		return
	}
	next := *w
	for i := range uint8(len(e.sc.Actors)) {
		due := e.due(w, i)
		if e.sc.Punctual && due || e.owed(w, i) {
			return
		}
		if w.paused&(1<<i) == 0 && (due || w.waits(i)) {
			if e.sc.Actors[i].Flawless || !e.spare(&next, faultPause, e.sc.Pauses) {
				return
			}
			next.paused |= 1 << i
			next.spent[faultPause]++
		}
	}
	for i := range w.flying[:w.count] {
		if f := &w.flying[i]; e.sc.Within > 0 && f.phase != flightStray && int(w.now)-int(f.sent) >= e.sc.Within {
			return
		}
	}
	next.now++
	next.turn, next.sweep, next.last = 0, true, nobody
	e.settle(&next)
	out(&next, &move{kind: moveTick, actor: nobody}, nil)
}

// owed reports whether the actor must be told something before time passes.
func (e *engine) owed(w *state, actor uint8) bool {
	n := int(e.actors.items[w.actors[actor]].told)
	tell := e.sc.Actors[actor].Tell
	return n < len(tell) && tell[n].Must && e.mayTell(w, actor, n)
}

// settle names whose turn it is in one way only: it is nobody's if the actors whose
// turn it would be can do nothing.
func (e *engine) settle(w *state) {
	if e.sc.OutOfOrder {
		w.turn, w.sweep = nobody, false
		return
	}
	for w.turn != nobody && !e.canAct(w) {
		if !w.sweep {
			w.turn = nobody
		} else if w.turn++; int(w.turn) >= len(e.sc.Actors) {
			w.turn = nobody
		}
	}
	if w.turn == nobody {
		w.sweep = false
	}
}

// canAct reports whether local would make anything of w.turn.
func (e *engine) canAct(w *state) bool {
	s, flawless := e.actors.items[w.actors[w.turn]], e.sc.Actors[w.turn].Flawless
	lost, late := !flawless && e.spare(w, faultLost, e.sc.Lost), !flawless && e.spare(w, faultLate, e.sc.Late)
	for i := range w.flying[:w.count] {
		f := &w.flying[i]
		if f.actor != w.turn || f.phase == flightStray {
			continue
		}
		write := check.Changes(e.actions.items[f.action].Kind)
		if f.phase == flightApplied || write && late || !write && lost {
			return true
		}
	}
	if e.due(w, w.turn) {
		return true
	}
	for range e.commands(w, w.turn) {
		return true
	}
	return e.spare(w, faultCrash, e.sc.Crashes) && !s.crashed && !flawless && s.told > 0
}

// quiet reports whether no actor has anything left to do.
func (e *engine) quiet(w *state) bool {
	if w.count != 0 || w.turn != nobody {
		return false
	}
	for i := range e.sc.Actors {
		s := e.actors.items[w.actors[i]]
		if s.told == 0 || !s.crashed && (s.wake != noWake || !s.program.Idle()) {
			return false
		}
	}
	return true
}

var errCrowded = &core.Error{Code: core.ErrorRequest, Text: "more requests on their way than a world has room for"}
