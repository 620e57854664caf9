package explore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/tests/explore/check"
)

// engine makes the successors of worlds of one scenario.
type engine struct {
	sc      *Scenario
	actors  table[*actorState]
	stores  table[Store]
	actions table[core.Action]
	replies table[core.Event]
	ledgers table[*check.Ledger]
	steps   map[stepKey]stepped
	applied map[applyKey]applied
	drained map[drainKey]*check.Violation
	dues    [maxActors]dueAt
	needs   bool // some command needs a tenure
	buf     []byte
	claims  []check.Claim
	permits []check.Permit
	failure error // the scenario or a program is at fault: the search ends
}

type stepKey struct {
	actor uint32
	ref   uint32 // a reply, a class or a command
	now   uint16
	kind  uint8
	group uint8 // whose request it answers
	// ledger is where a command that follows another actor's launch finds it.
	ledger uint32
}

// stepped is the result of a Step.
type stepped struct {
	actor     uint32
	requests  []issued
	notices   []core.Action
	dropped   []uint8 // groups of requests that nobody waits for any more
	moved     bool    // claims have changed
	idle      bool
	violation *check.Violation
}

type issued struct {
	action uint32
	group  uint8
}

type applyKey struct {
	store, action uint32
	now           uint16
	choice        uint8
}

type applied struct {
	store, reply uint32
}

// The kinds of a local move, in a stepKey and in a move.
const (
	moveTell = uint8(iota)
	moveWake
	moveAnswer
	moveLose
	moveGiveUp
	moveCrash
	moveApply
	moveTick
)

func newEngine(sc *Scenario) *engine {
	e := &engine{
		sc: sc, actors: newTable[*actorState](), stores: newTable[Store](), actions: newTable[core.Action](),
		replies: newTable[core.Event](), ledgers: newTable[*check.Ledger](),
		steps: map[stepKey]stepped{}, applied: map[applyKey]applied{}, drained: map[drainKey]*check.Violation{},
	}
	for i := range sc.Actors {
		a := &sc.Actors[i]
		if !sc.Verbatim {
			e.dues[i] = func(mono int64) int64 { return sc.dueAt(uint8(i), mono) }
		}
		for _, c := range a.Tell {
			e.needs = e.needs || c.Needs != "" || c.Follows != ""
		}
	}
	return e
}

// root is the world before anything has happened.
func (e *engine) root() (state, error) {
	sc := e.sc
	if len(sc.Actors) > maxActors || sc.Tick%100 != 0 || sc.Tick == 0 {
		return state{}, fmt.Errorf("explore: scenario %s: at most %d actors and a tick that is a multiple of 100 ns", sc.Name, maxActors)
	}
	w := state{turn: 0, sweep: true, last: nobody}
	w.store = e.internStore(sc.Store)
	w.ledger = e.internLedger(&check.Ledger{})
	for i := range sc.Actors {
		p, err := e.sc.start(uint8(i))
		if err != nil {
			return state{}, fmt.Errorf("explore: scenario %s: %s: %w", sc.Name, sc.Actors[i].Name, err)
		}
		wake := noWake
		if sc.Actors[i].Woken {
			wake = sc.clock(uint8(i), 0).Mono
		}
		w.actors[i] = e.internActor(uint8(i), &actorState{program: p, wake: wake})
	}
	e.settle(&w)
	return w, nil
}

func (e *engine) internStore(s Store) uint32 {
	e.buf = s.AppendState(e.buf[:0])
	return e.stores.id(hash(e.buf), func() Store { return s })
}

func (e *engine) internLedger(l *check.Ledger) uint32 {
	e.buf = l.AppendState(e.buf[:0])
	return e.ledgers.id(hash(e.buf), func() *check.Ledger { return l })
}

func (e *engine) internActor(index uint8, s *actorState) uint32 {
	crashed := byte(0)
	if s.crashed {
		crashed = 1
	}
	b := e.buf[:0]
	b = append(b, index, s.told, crashed)
	due := e.dues[index]
	b = due.append(b, s.wake)
	if n, ok := s.program.(normal); ok && !s.crashed {
		b = n.appendNormal(b, due)
	} else if !s.crashed {
		b = s.program.AppendState(b)
	}
	e.buf = b
	return e.actors.id(hash(b), func() *actorState { return s })
}

func (e *engine) internAction(a *core.Action) uint32 {
	b := e.buf[:0]
	b = append(b, byte(a.Kind))
	b = append(append(b, a.Key...), 0)
	b = append(append(b, a.After...), 0)
	b = binary.LittleEndian.AppendUint64(b, a.Count)
	b = append(b, a.Body...)
	e.buf = b
	return e.actions.id(hash(b), func() core.Action {
		kept := *a
		kept.Request, kept.Limit, kept.Body, kept.Observed = 0, 0, slices.Clone(a.Body), nil
		return kept
	})
}

func (e *engine) internReply(ev *core.Event) uint32 {
	b := e.buf[:0]
	b = append(b, byte(ev.Outcome), byte(len(ev.Entries)))
	b = binary.LittleEndian.AppendUint64(b, uint64(ev.Stamp))
	for i := range ev.Entries {
		b = append(append(b, ev.Entries[i].Key...), 0)
		b = binary.LittleEndian.AppendUint64(b, uint64(ev.Entries[i].Stamp))
	}
	if ev.More {
		b = append(b, 1)
	}
	b = append(b, ev.Body...)
	e.buf = b
	return e.replies.id(hash(b), func() core.Event { return *ev })
}

// grouped is a Program of several machines: an answer is for one of them.
type grouped interface {
	Group(id core.RequestID) uint8
	// Dropped are those whose requests the latest Step has abandoned.
	Dropped() []uint8
}

// event is what a key of the memo stands for.
func (e *engine) event(index uint8, k *stepKey) core.Event {
	var ev core.Event
	request := core.RequestID(e.actors.items[k.actor].asked[k.group])
	switch k.kind {
	case moveTell:
		c := &e.sc.Actors[index].Tell[k.ref]
		ev = c.Event
		if c.follows() {
			launch, _ := e.ledgers.items[k.ledger].Launch(c.Follows)
			terms := *ev.Terms
			terms.Holder, terms.Epoch = core.HolderID(launch.Tenure), launch.Epoch
			ev.Terms = &terms
		}
	case moveWake:
		ev = core.Event{Kind: core.EventWoke}
	case moveAnswer:
		ev = e.replies.items[k.ref]
		ev.Request = request
	default:
		ev = core.Event{
			Kind: core.EventAnswer, Request: request,
			Outcome: core.OutcomeUnknown, Class: core.ClassUnreachable,
		}
	}
	return ev
}

// step gives a program an event, or remembers the result.
func (e *engine) step(index uint8, k stepKey) stepped {
	if done, ok := e.steps[k]; ok {
		return done
	}
	before := e.actors.items[k.actor]
	after := &actorState{wake: noWake, told: before.told, asked: before.asked}
	now := e.sc.clock(index, k.now)
	var err error
	after.program, err = e.program(index, before, &k, now)
	if k.kind == moveTell && !e.sc.Actors[index].Tell[k.ref].Again {
		after.told = uint8(k.ref) + 1
	}
	var actions []core.Action
	if err == nil {
		actions, err = stepSafely(after.program, now, e.event(index, &k))
	}
	var done stepped
	if g, ok := after.program.(grouped); ok && err == nil {
		done.dropped = slices.Clone(g.Dropped())
	}
	if err != nil && !errors.As(err, &done.violation) {
		e.failure = fmt.Errorf("explore: scenario %s: %s: %w", e.sc.Name, e.sc.Actors[index].Name, err)
		return stepped{actor: k.actor}
	}
	for i := range actions {
		a := &actions[i]
		switch {
		case a.Kind == core.ActionWake:
			after.wake = a.At
		case a.Kind.IsRequest():
			r := issued{action: e.internAction(a)}
			if g, ok := after.program.(grouped); ok {
				r.group = g.Group(a.Request)
			}
			after.asked[r.group] = uint32(a.Request)
			done.requests = append(done.requests, r)
		case a.Kind == core.ActionAbandon || a.Kind == core.ActionWatch || a.Kind == core.ActionUnwatch:
		default:
			notice := *a
			notice.Body, notice.Observed = nil, nil
			done.notices = append(done.notices, notice)
		}
	}
	done.moved = !slices.Equal(before.program.Claims(), after.program.Claims())
	if p, ok := after.program.(permitted); ok {
		was, _ := before.program.(permitted)
		done.moved = done.moved || was == nil || !slices.Equal(was.Permits(), p.Permits())
	}
	done.idle = after.program.Idle()
	done.actor = e.internActor(index, after)
	e.steps[k] = done
	return done
}

func (e *engine) program(index uint8, before *actorState, k *stepKey, now core.Instant) (Program, error) {
	if k.kind == moveTell {
		c := &e.sc.Actors[index].Tell[k.ref]
		if c.Make != nil {
			p, err := c.Make(before.program, now.Mono)
			if err != nil {
				return nil, err
			}
			return p, e.sc.sample(index, p)
		}
	}
	return before.program.Copy(), nil
}

// stepSafely makes a Violation of a machine's panic.
func stepSafely(p Program, now core.Instant, ev core.Event) (actions []core.Action, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &check.Violation{Checker: "NoPanic", Text: fmt.Sprint(r)}
		}
	}()
	return p.Step(now, ev)
}

// bytes is what the tables take, by the usual size of a machine, a listing and a
// remembered Step, with the maps that lead to them.
func (e *engine) bytes() int64 {
	const perActor, perStore, perOther, perStep = 4 << 10, 1 << 10, 512, 768
	return perActor*int64(len(e.actors.items)) + perStore*int64(len(e.stores.items)) +
		perOther*int64(len(e.actions.items)+len(e.replies.items)+len(e.ledgers.items)+len(e.drained)+len(e.applied)) +
		perStep*int64(len(e.steps))
}
