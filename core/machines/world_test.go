package machines

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
	"github.com/mopslock/mopslock/core/internal/invocation"
	"github.com/mopslock/mopslock/core/internal/lastwriter"
	"github.com/mopslock/mopslock/core/internal/register"
	hosts "github.com/mopslock/mopslock/tests/world"
)

// A world is what the tests of the machines run in: one store, one true clock
// and machines by name. Nothing happens in it by itself. A request is sent,
// applied and answered at three separate moments, and the test says when.

// worldStart is the true wall clock at Mono 0: 2026-01-02T03:04:05Z.
const worldStart = int64(1767323045) * 1e9

// request is one get or put on its way.
type request struct {
	core.Action
	sent    int64 // true time
	applied bool
	held    bool       // neither here nor there until a test says so
	reply   core.Event // what the answer will be, once applied
}

// actor is one machine with its clocks.
type actor struct {
	name     string
	machine  core.Machine
	wall     int64      // its wall clock minus the true one
	rate     int64      // of its monotonic clock, in millionths
	flying   []*request // sent, not answered
	stray    []*request // answered unknown or dropped, and still able to land
	wake     int64      // by its own clock; unset for none
	deadline int64      // of the lease, by its own clock, while it believes; else unset
	strict   strictActor
	ended    bool // lost, or its release was answered: nothing of ours is written any more
	pastWake int  // wakes in a row that were not in the future
}

type world struct {
	t       tester
	now     int64 // true time
	store   hosts.Objects
	emptied []string                  // directories that somebody has removed, with a slash
	stamps  bool                      // the store tells modification times
	unit    int64                     // and has them in whole units of so many ns
	sample  register.StoreClockSample // of the store's clock, at a true time; given to who speaks strict
	relays  []relayed                 // what a session's host has passed on in the latest step
	actors  []*actor
	edges   map[string]bool // "lease observing -> claiming", as seen
	events  []string        // what happened, for a failing test
	told    []told          // every message, if keep is set
	keep    bool
}

// told is a machine being made, or a step of it, in messages.
type told struct {
	actor                 *actor
	config, input, answer []byte
}

// tester is what a world needs of a *testing.T, a *testing.F or a *rapid.T.
type tester interface {
	Helper()
	Fatalf(format string, args ...any)
}

func newWorld(t tester) *world {
	return &world{t: t, store: hosts.Objects{}, edges: map[string]bool{}, stamps: true}
}

// add makes a machine; a seed that is left zero is made from its name.
func (w *world) add(name string, cfg core.Config) (*actor, error) {
	if cfg.Seed == [16]byte{} {
		copy(cfg.Seed[:], name+" is the seed of it")
	}
	if cfg.Protocol == 0 {
		cfg.Protocol = core.ProtocolLastWriter
	}
	m, err := New(cfg)
	if err != nil {
		return nil, err
	}
	a := &actor{name: name, machine: m, rate: 1e6, wake: base.Unset, deadline: base.Unset}
	w.actors = append(w.actors, a)
	if w.keep {
		w.told = append(w.told, told{actor: a, config: core.AppendConfig(nil, &cfg)})
	}
	return a, nil
}

func (w *world) actor(name string) *actor {
	for _, a := range w.actors {
		if a.name == name {
			return a
		}
	}
	w.t.Fatalf("no machine %q", name)
	return nil
}

// clock is the actor's reading of its own clocks.
func (w *world) clock(a *actor) core.Instant {
	return core.Instant{Mono: w.mono(a), Wall: worldStart + w.now + a.wall}
}

func (w *world) mono(a *actor) int64 { return w.now/1e6*a.rate + w.now%1e6*a.rate/1e6 }

// trueAt is the true time at which the actor's monotonic clock shows mono.
func (w *world) trueAt(a *actor, mono int64) int64 {
	at := mono/a.rate*1e6 + mono%a.rate*1e6/a.rate
	for at/1e6*a.rate+at%1e6*a.rate/1e6 < mono {
		at++
	}
	return at
}

// step gives the machine one event, takes its requests and its wake, and holds
// it to the contract of Machine.
func (w *world) step(a *actor, ev core.Event) ([]core.Action, error) {
	w.carry(a, &ev)
	before := a.machine.AppendState(nil)
	from := a.machine.String()
	now := w.clock(a)
	actions, err := a.machine.Step(now, ev)
	if w.keep {
		answer := core.AppendAnswer(nil, a.machine, actions)
		if err != nil {
			answer = core.AppendError(nil, err)
		}
		w.told = append(w.told, told{actor: a, input: core.AppendInput(nil, now, &ev), answer: answer})
	}
	w.events = append(w.events, fmt.Sprintf("%s %s %s -> %s", seconds(w.now), a.name, formatEvent(ev), a.machine))
	if err != nil {
		if !bytes.Equal(before, a.machine.AppendState(nil)) {
			w.fail("ErrorsChangeNothing: %s: %v changed the machine", a.name, err)
		}
		return nil, err
	}
	w.rest(a)
	w.noteEdge(a.machine, from)
	w.checkActions(a, now, ev, actions)
	w.checkMessages(ev, a.machine, actions)
	w.take(a, actions)
	w.relay(a, actions)
	return actions, nil
}

// checkMessages holds what comes out to the codec: an engine behind it must
// give the same.
func (w *world) checkMessages(ev core.Event, m core.Machine, actions []core.Action) {
	output := core.AppendAnswer(nil, m, actions)
	if len(output) > core.MaxMessage {
		w.fail("MaxMessage: %d bytes after %s", len(output), formatEvent(ev))
	}
	var buf core.AnswerBuffer
	var a core.Answer
	err := core.DecodeAnswer(output, &buf, &a)
	if err != nil || !bytes.Equal(core.AppendAnswer(nil, m, a.Actions), output) {
		w.fail("MessagesCarryAll: the actions after %s: %v", formatEvent(ev), err)
	}
}

func (w *world) noteEdge(m core.Machine, from string) {
	if to := m.String(); to != from {
		w.edges[edgeKind(m)+" "+from+" -> "+to] = true
	}
}

// take carries out what the machine asked for, as far as sending it goes.
func (w *world) take(a *actor, actions []core.Action) {
	a.wake = base.Unset
	for _, action := range actions {
		w.events = append(w.events, "    "+w.formatAction(action))
		if action.Permit != 0 { // the machine goes on with others
			continue
		}
		switch action.Kind {
		case core.ActionGet, core.ActionPut, core.ActionCreate, core.ActionExists, core.ActionList, core.ActionDelete, core.ActionCreateResult, core.ActionPutResult:
			if isResult(action.Kind) {
				action.Body = workOf(a)
			}
			action.Body = slices.Clone(action.Body)
			a.flying = append(a.flying, &request{Action: action, sent: w.now})
		case core.ActionHeld, core.ActionRenewed:
			if isStrict(a.machine) && a.deadline != base.Unset && action.At < a.deadline {
				w.fail("DeadlineGrows: %s from %s to %s", a.name, seconds(a.deadline), seconds(action.At))
			}
			a.deadline = action.At
			a.ended = a.ended && action.Kind != core.ActionHeld
		case core.ActionLost, core.ActionReleased:
			a.deadline, a.ended = base.Unset, true
		case core.ActionContactLost, core.ActionLeft, core.ActionRefused, core.ActionCannotMaintain:
			a.deadline = base.Unset
			a.ended = a.ended || isStrict(a.machine) && action.Kind != core.ActionContactLost
		case core.ActionWake:
			a.wake = action.At
		}
	}
	if a.machine.String() == core.InvocationAcquiring.String() {
		a.ended = false // another tenure begins
	}
	if a.machine.String() == core.LeaseReleasing.String() {
		a.deadline = base.Unset // the caller has stopped relying on it
	}
}

// apply lets a request reach the store.
func (w *world) apply(r *request) {
	if r.applied {
		return
	}
	r.applied = true
	if r.Overwrites && !w.hasDirectory(r.Key) {
		r.reply = core.Event{Kind: core.EventAnswer, Request: r.Request, Outcome: core.OutcomeNo}
		return
	}
	r.reply = w.store.Apply(w.stamp(), &r.Action)
	r.reply.Body = slices.Clone(r.reply.Body[:min(len(r.reply.Body), core.MaxRecord+1)])
	if !w.stamps {
		r.reply.Stamp = 0
		for i := range r.reply.Entries {
			r.reply.Entries[i].Stamp = 0
		}
	}
	if isWrite(r.Kind) && r.Kind != core.ActionDelete && r.reply.Outcome == core.OutcomeYes {
		w.events = append(w.events, fmt.Sprintf("%s store takes %s #%d %s", seconds(w.now), r.Kind, r.Request, w.formatBodyOf(r.Key, r.Body)))
	}
}

// empty removes all that begins with a prefix, and the directories in which it was.
func (w *world) empty(prefix string) {
	maps.DeleteFunc(w.store, func(key string, _ hosts.Object) bool { return strings.HasPrefix(key, prefix) })
	w.emptied = append(w.emptied, prefix)
}

// hasDirectory reports whether the directory is there that an object was in.
func (w *world) hasDirectory(key string) bool {
	return w.store.HasDirectory(key) || !slices.ContainsFunc(w.emptied, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
}

// stamp is the store's clock as it stamps objects.
func (w *world) stamp() int64 {
	at := worldStart + w.now
	if w.unit > 0 {
		at -= at % w.unit
	}
	return at
}

// answer applies a request if that has not happened and gives the machine its answer.
func (w *world) answer(a *actor, r *request) ([]core.Action, error) {
	w.apply(r)
	a.flying = without(a.flying, r)
	return w.step(a, r.reply)
}

// unknown answers a request with a failure; a write that was not applied
// stays able to land late.
func (w *world) unknown(a *actor, r *request, class core.Class) ([]core.Action, error) {
	a.flying = without(a.flying, r)
	if !r.applied && isWrite(r.Kind) {
		a.stray = append(a.stray, r)
	}
	return w.step(a, core.Event{Kind: core.EventAnswer, Request: r.Request, Outcome: core.OutcomeUnknown, Class: class})
}

// land lets a stray put reach the store, long after it was given up.
func (w *world) land(a *actor, r *request) {
	a.stray = without(a.stray, r)
	w.apply(r)
}

func without(requests []*request, r *request) []*request {
	return slices.DeleteFunc(requests, func(x *request) bool { return x == r })
}

// checkActions holds one Step's actions to the contract.
func (w *world) checkActions(a *actor, now core.Instant, ev core.Event, actions []core.Action) {
	wakes, requests := 0, 0
	for i, action := range actions {
		switch {
		case action.Kind == core.ActionWake:
			wakes++
			if i != len(actions)-1 {
				w.fail("WakeIsLast: %s", a.name)
			}
		case action.Kind.IsRequest():
			requests++
			w.checkRequest(a, now, action)
		}
	}
	timers, flying := internals(a.machine)
	if wakes > 1 || (wakes == 1) != (timers != base.Unset) {
		w.fail("NoWakeNoTimer: %s: %d wakes, timers %d", a.name, wakes, timers)
	}
	if _, twice := a.machine.(*invocation.Invocation); requests > 2 || requests > 1 && !twice {
		w.fail("OneRequestInFlight: %s sends %d requests in one Step", a.name, requests)
	}
	if len(actions) > core.MaxActions {
		w.fail("MaxActions: %s: %d", a.name, len(actions))
	}
	if a.machine.Idle() != (timers == base.Unset && !flying && !standsOnSession(a.machine)) {
		w.fail("Idle: %s", a.name)
	}
	w.checkWake(a, now, ev, actions)
}

// checkWake: a host that sends woke at each wake must not be kept busy.
func (w *world) checkWake(a *actor, now core.Instant, ev core.Event, actions []core.Action) {
	last := len(actions) - 1
	if last < 0 || actions[last].Kind != core.ActionWake || actions[last].At > now.Mono {
		a.pastWake = 0
		return
	}
	if ev.Kind == core.EventWoke {
		a.pastWake++
	}
	if last > 0 && actions[0].Permit != 0 { // one Step has no room for all that it has to tell
		a.pastWake = 0
	}
	if a.pastWake > 2 {
		w.fail("NoBusyLoop: %s: %d wakes in a row not in the future", a.name, a.pastWake)
	}
}

// checkRequest: ids grow, and nothing is sent while an earlier one is waited for.
func (w *world) checkRequest(a *actor, now core.Instant, action core.Action) {
	if !laneIsSorted(a, action.Request) {
		w.fail("RequestIDsIncrease: %s: %d", a.name, action.Request)
	}
	if action.Limit < core.RequestFloor || action.Limit > core.RequestLimit && !isResult(action.Kind) {
		w.fail("RequestLimit: %s: %v", a.name, action.Limit)
	}
	if left := core.Duration(a.deadline - now.Mono); action.Kind == core.ActionPut && a.deadline > now.Mono && action.Limit > max(left/3, core.RequestFloor) {
		w.fail("ThreeLimitsFit: %s: %v of %v", a.name, action.Limit, left)
	}
	if action.Kind == core.ActionPut && a.ended && !w.overOwnPut(a) {
		w.fail("NoClobber: %s writes after its lease has ended", a.name)
	}
	if a.ended && isStrict(a.machine) && innerOf(a.machine) == a.machine && a.machine.String() != core.LeaseReleasing.String() &&
		!(a.machine.String() == core.LeaseReleased.String() && ofCollection(action.Kind)) {
		w.fail("QuietAtTheEnd: %s sends after its lease has ended", a.name)
	}
}

// ofCollection are the requests that remove superseded versions, also after a release.
func ofCollection(kind core.ActionKind) bool {
	return kind == core.ActionGet || kind == core.ActionList || kind == core.ActionDelete
}

// overOwnPut: after a release only a late renewal of our own may be written over, and after
// a refusal what the attempt has left.
func (w *world) overOwnPut(a *actor) bool {
	return a.machine.String() == core.LeaseReleased.String() || a.machine.String() == core.LeaseReleasing.String()
}

func (w *world) fail(format string, args ...any) {
	w.t.Helper()
	const shown = 40
	w.t.Fatalf("%s\nlast events:\n%s", fmt.Sprintf(format, args...),
		strings.Join(w.events[max(0, len(w.events)-shown):], "\n"))
}

// internals looks inside a machine: its earliest timer, and whether it waits
// for an answer.
func internals(m core.Machine) (timers int64, flying bool) {
	if v, ok := m.(*invocation.Invocation); ok {
		return invocationInternals(v)
	}
	k := baseOf(m)
	return k.Timers.Earliest(), k.Flight.ID != 0
}

func tenureOf(m core.Machine) *lastwriter.Tenure {
	switch m := m.(type) {
	case *lastwriter.Lease:
		return &m.Tenure
	case *lastwriter.Companion:
		return &m.Tenure
	}
	panic("no tenure")
}

func kindOf(m core.Machine) core.MachineKind { return baseOf(m).Cfg.Machine }

// drive lets everything happen as it should: each request is applied after
// half a latency and answered after a whole one, each wake is kept. It stops at
// the end, or when visit, which sees every Step, says so.
func (w *world) drive(latency, end int64, visit func(*actor, []core.Action) bool) {
	for {
		a, r, at := w.upcoming(latency)
		if at > end {
			return
		}
		w.now = max(w.now, at)
		var actions []core.Action
		var err error
		switch {
		case r == nil:
			actions, err = w.step(a, core.Event{Kind: core.EventWoke})
		case !r.applied:
			w.apply(r)
			continue
		default:
			actions, err = w.answer(a, r)
		}
		if err != nil {
			w.fail("drive: %s: %v", a.name, err)
		}
		done := visit(a, actions)
		for _, r := range w.relays {
			done = visit(r.actor, r.actions) || done
		}
		if w.relays = nil; done {
			return
		}
	}
}

// upcoming is what happens next: a wake, or r applied or answered.
func (w *world) upcoming(latency int64) (first *actor, r *request, at int64) {
	at = base.Unset
	for _, a := range w.actors {
		if a.wake != base.Unset && w.trueAt(a, a.wake) < at {
			first, r, at = a, nil, w.trueAt(a, a.wake)
		}
		for _, candidate := range a.flying {
			due := candidate.sent + latency
			if !candidate.applied {
				due -= latency / 2
			}
			if due < at && !candidate.held {
				first, r, at = a, candidate, due
			}
		}
	}
	return first, r, at
}
