package client_test

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"testing"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/client"
	"pgregory.net/rapid"
)

// A world is one bucket and a few clients, each with a clock of its own, requests that are
// applied and answered late or never, and a reader of what its claims may believe.
type world struct {
	t       *rapid.T
	bucket  *bucket
	now     int64 // the true time
	clients []*actor
}

type actor struct {
	w       *world
	client  *client.Client
	ahead   int64 // of the true time
	wake    int64
	flights []request
	last    uint64
	claims  map[uint64]*belief
	until   map[uint64]int64 // of sessions
	closed  bool
	paused  int64           // until then it stands still
	keys    map[string]bool // that are watched
}

// belief is what a host keeps of a claim.
type belief struct {
	name     string
	kind     core.EventKind
	protocol core.Protocol
	holder   core.HolderID
	epoch    core.Epoch
	held     bool
	at       int64
	on       uint64
	over     bool // nobody here relies on it
	ended    bool // its end was told
}

type request struct {
	action core.Action
	limit  int64 // Mono
}

var debug = os.Getenv("DEBUG") != ""

// isWork reports whether the claim ends with left, whatever its outcome.
func (b *belief) isWork() bool { return b.kind == core.EventInvoke || b.kind == core.EventRemote }

func (a *actor) mono() int64 { return a.w.now + a.ahead }

// relied is until when a claim may be believed: the session's deadline first, then its own.
func (a *actor) relied(b *belief) int64 {
	if !b.held || b.over {
		return 0
	}
	if b.on != 0 {
		return max(b.at, a.until[b.on])
	}
	return b.at
}

func (a *actor) step(ev core.Event) {
	t := a.w.t
	for number, b := range a.claims { // who gives it back believes in nothing from then on
		switch ev.Kind {
		case core.EventRelease, core.EventCancel, core.EventLeave:
			b.over = b.over || number == ev.Claim && !b.isWork()
			b.held = b.held && number != ev.Claim
		case core.EventClose:
			b.held = false
		}
	}
	twin := a.client.Clone()
	for more := true; more; ev = (core.Event{Kind: core.EventWoke}) {
		now := core.Instant{Mono: a.mono(), Wall: wallBase + a.mono()}
		actions, err := a.client.Step(now, ev)
		if err != nil {
			t.Fatalf("%v: %v", ev.Kind, err)
		}
		same, err := twin.Step(now, ev)
		if err != nil || !reflect.DeepEqual(clean(actions), clean(same)) {
			t.Fatalf("a copy answers otherwise: %v %+v %+v", err, actions, same)
		}
		if len(actions) > core.MaxClientActions {
			t.Fatalf("%d actions", len(actions))
		}
		message := core.AppendAnswer(nil, a.client, actions)
		var answer core.Answer
		if err := core.DecodeAnswer(message, new(core.AnswerBuffer), &answer); err != nil {
			t.Fatalf("%v in %+v", err, actions)
		}
		more = false
		a.wake = 0
		if debug {
			fmt.Printf("%.3f c%s %v claim=%d req=%d %v\n", float64(a.mono())/1e9, fmt.Sprint(a.ahead/1e9), ev.Kind, ev.Claim, ev.Request, ev.Outcome)
			for i := range actions {
				x := &actions[i]
				fmt.Printf("      %v claim=%d req=%d key=%s reason=%v at=%.3f on=%d\n", x.Kind, x.Claim, x.Request, x.Key, x.Reason, float64(x.At)/1e9, x.On)
			}
		}
		for i := range actions {
			more = a.hear(&actions[i]) || more
		}
	}
	if !bytes.Equal(a.client.AppendState(nil), twin.AppendState(nil)) {
		t.Fatal("a copy is another client")
	}
}

func clean(actions []core.Action) []core.Action {
	out := append([]core.Action(nil), actions...)
	for i := range out {
		if len(out[i].Body) == 0 {
			out[i].Body = nil
		}
	}
	return out
}

func (a *actor) hear(x *core.Action) (more bool) {
	b := a.claims[x.Claim]
	switch x.Kind {
	case core.ActionMore:
		return true
	case core.ActionWake:
		a.wake = x.At
	case core.ActionClosed:
		a.closed = true
	case core.ActionHeld:
		if b == nil {
			a.until[x.On] = x.At
			return false
		}
		b.holder, b.epoch = x.Holder, x.Epoch
		b.held, b.at, b.on, b.protocol = !b.over, x.At, x.On, x.Protocol
	case core.ActionRenewed:
		if b == nil {
			a.until[x.On] = x.At
			return false
		}
		b.at = x.At
	case core.ActionDeadline:
		b.at, b.on = x.At, x.On
	case core.ActionContactLost:
		b.held = false
	case core.ActionWatch, core.ActionUnwatch:
		a.keys[x.Key] = x.Kind == core.ActionWatch
	case core.ActionFound, core.ActionAbsent:
		b.held = false // what is held is about to be given back
	case core.ActionLost, core.ActionReleased:
		if b == nil {
			a.until[x.On] = 0
			return false
		}
		b.held = false
		if !b.isWork() {
			b.over, b.ended = true, true
		}
	case core.ActionRefused, core.ActionLeft, core.ActionCannotMaintain:
		if b != nil {
			if b.ended && !b.isWork() {
				a.w.t.Fatalf("claim %d ended twice: %v", x.Claim, x.Kind)
			}
			b.ended = true
			b.over = b.over || x.Kind == core.ActionLeft || !b.isWork()
		}
	default:
		if x.Kind.IsRequest() {
			y := *x
			y.Body = bytes.Clone(x.Body)
			a.flights = append(a.flights, request{y, a.mono() + int64(x.Limit)})
		}
	}
	return false
}

// settleOne answers a request: what the store says, or nothing, after it was applied or not.
func (a *actor) settleOne(i int, outcome string) {
	f := a.flights[i]
	a.flights = append(a.flights[:i], a.flights[i+1:]...)
	ev := core.Event{Kind: core.EventAnswer, Request: f.action.Request, Outcome: core.OutcomeUnknown, Class: core.ClassUnreachable}
	late := a.mono() >= f.limit
	if outcome != "lost" && !late {
		applied := a.w.bucket.apply(&f.action, wallBase+a.w.now)
		switch outcome {
		case "done":
			ev = applied
		case "throttled":
			ev.Class, ev.RetryAfter = core.ClassThrottled, core.Second
		}
	}
	a.step(ev)
}

// check: of two claims on one strict name, one at the most may be believed; of permits as
// many as there are.
func (w *world) check() {
	held := map[string]core.HolderID{}
	permits := 0
	for n, a := range w.clients {
		for number, b := range a.claims {
			if b.protocol != core.ProtocolStrict || a.relied(b) <= a.mono() {
				continue
			}
			if b.kind == core.EventPermit {
				if permits++; permits > 2 {
					w.t.Fatalf("%d of 2 permits are believed in", permits)
				}
				continue
			}
			who := fmt.Sprintf("client %d claim %d", n, number)
			if other := held[b.name]; other != "" && other != b.holder { // a companion's tenure is its holder's
				w.t.Fatalf("%s believes in %s for %s, and %s has it", who, b.name, b.holder, other)
			}
			held[b.name] = b.holder
		}
	}
}

// advance lets time pass, in which every wake and every limit is kept.
func (w *world) advance(to int64) {
	for {
		next, at := (*actor)(nil), to
		for _, a := range w.clients {
			if a.wake != 0 && max(a.paused, a.wake-a.ahead) <= at {
				next, at = a, max(w.now, a.paused, a.wake-a.ahead)
			}
			for _, f := range a.flights {
				if max(a.paused, f.limit-a.ahead) < at {
					next, at = a, max(w.now, a.paused, f.limit-a.ahead)
				}
			}
		}
		if next == nil {
			w.now = to
			return
		}
		w.now = at
		late := -1
		for i, f := range next.flights {
			if f.limit <= next.mono() {
				late = i
				break
			}
		}
		if late >= 0 {
			next.settleOne(late, "lost")
		} else {
			next.step(core.Event{Kind: core.EventWoke})
		}
		w.check()
	}
}

// someHeld is a lease that somebody believes in, or nil.
func (w *world) someHeld(t *rapid.T) *belief {
	var all []*belief
	for _, a := range w.clients {
		for number := range a.last + 1 {
			if b := a.claims[number]; b != nil && b.held && b.kind != core.EventPermit {
				all = append(all, b)
			}
		}
	}
	if len(all) == 0 {
		return nil
	}
	return rapid.SampledFrom(all).Draw(t, "held")
}

func (a *actor) begin(kind core.EventKind, terms core.Config, ev core.Event) {
	a.last++
	ev.Kind, ev.Claim, ev.Terms = kind, a.last, &terms
	a.claims[a.last] = &belief{name: terms.Name, kind: kind}
	a.step(ev)
}

// TestBelief: whatever is asked for, answered, lost and late, no two claims believe in one
// name; every Step is bounded; a copy of a client does the same; and a client that is closed
// comes to its end.
func TestBelief(t *testing.T) { rapid.Check(t, believes) }

// FuzzBelief lets a fuzzer choose what TestBelief draws.
func FuzzBelief(f *testing.F) { f.Fuzz(rapid.MakeFuzz(believes)) }

func believes(t *rapid.T) {
	w := &world{t: t, bucket: newBucket(), now: int64(core.Second)}
	for i := range 3 {
		cfg := core.Config{
			Machine: core.MachineClient, Seed: [16]byte{byte(i + 1)}, Host: "h", PID: fmt.Sprint(i), Samples: true, StampUnit: 1,
			OwnStore: rapid.Bool().Draw(t, "own"), Watches: rapid.Bool().Draw(t, "watches"), InFlight: uint64(rapid.IntRange(2, 8).Draw(t, "slots")),
		}
		c, err := client.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		w.clients = append(w.clients, &actor{w: w, client: c, ahead: int64(i) * 1e9, keys: map[string]bool{}, claims: map[uint64]*belief{}, until: map[uint64]int64{}})
	}
	names := []string{"a", "b"}
	for range rapid.IntRange(5, 120).Draw(t, "steps") {
		a := rapid.SampledFrom(w.clients).Draw(t, "client")
		if a.closed || a.paused > w.now {
			w.advance(w.now + int64(core.Second)/10)
			continue
		}
		name := rapid.SampledFrom(names).Draw(t, "name")
		wait := rapid.SampledFrom([]core.Duration{0, core.Forever, 3 * core.Second}).Draw(t, "wait")
		switch rapid.IntRange(0, 17).Draw(t, "what") {
		case 0, 1:
			a.begin(core.EventAcquire, core.Config{Name: name, Protocol: core.ProtocolStrict, TTL: core.TTL(10 * core.Second), OnSession: rapid.Bool().Draw(t, "session")}, core.Event{Wait: wait})
		case 2:
			ttl := core.TTL(rapid.SampledFrom([]core.Duration{10, 20}).Draw(t, "ttl") * core.Second)
			a.begin(core.EventPermit, core.Config{Name: "s", TTL: ttl}, core.Event{Wait: wait, Capacity: 2, Width: 1})
		case 3:
			a.begin(core.EventInvoke, core.Config{Name: "w", Protocol: core.ProtocolStrict, TTL: core.TTL(10 * core.Second), OnSession: rapid.Bool().Draw(t, "session")}, core.Event{Wait: wait})
		case 4:
			a.begin(core.EventBreak, core.Config{Name: name, Why: "x", Protocol: core.ProtocolStrict}, core.Event{})
		case 5, 6:
			if a.last > 0 {
				kind := rapid.SampledFrom([]core.EventKind{core.EventRelease, core.EventCancel}).Draw(t, "command")
				a.step(core.Event{Kind: kind, Claim: rapid.Uint64Range(1, a.last).Draw(t, "claim")})
			}
		case 7:
			w.advance(w.now + rapid.Int64Range(0, int64(20*core.Second)).Draw(t, "pass"))
		case 8:
			a.paused = w.now + rapid.Int64Range(0, int64(15*core.Second)).Draw(t, "pause")
		case 9:
			if b := w.someHeld(t); b != nil {
				terms := core.Config{Name: b.name, Holder: b.holder, Epoch: b.epoch, TTL: core.TTL(10 * core.Second)}
				a.begin(rapid.SampledFrom([]core.EventKind{core.EventAccompany, core.EventResume, core.EventRemote}).Draw(t, "join"), terms, core.Event{})
			}
		case 10:
			kind := rapid.SampledFrom([]core.EventKind{core.EventLook, core.EventWatch}).Draw(t, "look")
			a.begin(kind, core.Config{Name: name}, core.Event{})
		case 11:
			for _, key := range slices.Sorted(maps.Keys(a.keys)) {
				if a.keys[key] {
					a.step(core.Event{Kind: core.EventChanged, Key: []byte(key)})
				}
			}
		case 12:
			if a.last > 0 {
				outcome := rapid.SampledFrom([]core.Outcome{core.OutcomeYes, core.OutcomeNo}).Draw(t, "ended")
				claim := rapid.Uint64Range(1, a.last).Draw(t, "claim")
				a.step(core.Event{Kind: core.EventEnded, Outcome: outcome, Result: outcome == core.OutcomeYes, Claim: claim})
			}
		case 13:
			if rapid.IntRange(0, 9).Draw(t, "close") == 0 {
				a.step(core.Event{Kind: core.EventClose})
			}
		default:
			for n := rapid.IntRange(1, 12).Draw(t, "answers"); n > 0 && len(a.flights) > 0; n-- {
				a.settleOne(rapid.IntRange(0, len(a.flights)-1).Draw(t, "which"),
					rapid.SampledFrom([]string{"done", "done", "done", "done", "lost", "applied", "throttled"}).Draw(t, "outcome"))
			}
		}
		w.check()
	}
	for _, a := range w.clients {
		if a.paused = 0; !a.closed {
			a.step(core.Event{Kind: core.EventClose})
		}
	}
	for range 20_000 {
		busy := false
		for _, a := range w.clients {
			for len(a.flights) > 0 {
				a.settleOne(0, "done")
				busy = true
			}
		}
		w.check()
		if !busy {
			done := true
			for _, a := range w.clients {
				done = done && a.closed && a.client.Idle()
			}
			if done {
				return
			}
			w.advance(w.now + int64(core.Second))
		}
	}
	for i, a := range w.clients {
		t.Errorf("client %d: closed %v, idle %v, wake %d at %d", i, a.closed, a.client.Idle(), a.wake, a.mono())
	}
}
