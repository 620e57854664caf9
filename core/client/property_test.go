package client_test

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/client"
	"github.com/mopslock/mopslock/tests/explore/check"
	"github.com/mopslock/mopslock/tests/world"
	"pgregory.net/rapid"
)

// A model is one bucket and a few clients, each with a clock of its own, requests that are
// applied and answered late or never, and a reader of what its claims may believe.
type model struct {
	t       *rapid.T
	bucket  *bucket
	now     int64 // the true time
	clients []*actor
}

type actor struct {
	world.Process
	said    check.Transcript
	w       *model
	ahead   int64 // of the true time
	flights []request
	last    uint64
	closed  bool
	paused  int64 // until then it stands still
}

type request struct {
	action core.Action
	limit  int64 // Mono
}

func (a *actor) mono() int64 { return a.w.now + a.ahead }

// compared is a client that is held to its contract, and compared with a copy at each Step.
type compared struct {
	core.Machine
	t *rapid.T
}

// Step implements core.Machine.
func (c compared) Step(now core.Instant, ev core.Event) ([]core.Action, error) {
	twin := c.Clone()
	actions, err := c.Machine.Step(now, ev)
	if err != nil {
		return nil, err
	}
	same, err := twin.Step(now, ev)
	if err != nil || !reflect.DeepEqual(clean(actions), clean(same)) || !bytes.Equal(c.AppendState(nil), twin.AppendState(nil)) {
		c.t.Fatalf("a copy answers otherwise: %v %+v %+v", err, actions, same)
	}
	if len(actions) > core.MaxClientActions {
		c.t.Fatalf("%d actions", len(actions))
	}
	var answer core.Answer
	if err := core.DecodeAnswer(core.AppendAnswer(nil, c.Machine, actions), new(core.AnswerBuffer), &answer); err != nil {
		c.t.Fatalf("%v in %+v", err, actions)
	}
	return actions, nil
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

func (a *actor) step(ev core.Event) {
	a.said.Heard(&ev)
	actions, err := a.Process.Step(core.Instant{Mono: a.mono(), Wall: wallBase + a.mono()}, ev)
	if err != nil {
		a.w.t.Fatalf("%v: %v", ev.Kind, err)
	}
	if v := a.said.Watch(a.Client, actions); v != nil {
		a.w.t.Fatal(v)
	}
	for i := range actions {
		if x := &actions[i]; x.Kind.IsRequest() {
			a.flights = append(a.flights, request{*x, a.mono() + int64(x.Limit)})
		}
		a.closed = a.closed || actions[i].Kind == core.ActionClosed
	}
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

// check: of two claims on one name, one at the most may be believed; of permits as many as
// there are.
func (w *model) check() {
	held := map[string]string{}
	permits := 0
	for n, a := range w.clients {
		for i := range a.Claims {
			c := &a.Claims[i]
			if a.Until(c) <= a.mono() {
				continue
			}
			if c.Kind == core.EventPermit {
				if permits++; permits > 2 {
					w.t.Fatalf("%d of 2 permits are believed in", permits)
				}
				continue
			}
			if other := held[c.Name]; other != "" && other != c.Tenure { // a companion's tenure is its holder's
				w.t.Fatalf("client %d claim %d believes in %s for %s, and %s has it", n, c.Number, c.Name, c.Tenure, other)
			}
			held[c.Name] = c.Tenure
		}
	}
}

// advance lets time pass, in which every wake and every limit is kept.
func (w *model) advance(to int64) {
	for {
		next, at := (*actor)(nil), to
		for _, a := range w.clients {
			if a.Wake != 0 && max(a.paused, a.Wake-a.ahead) <= at {
				next, at = a, max(w.now, a.paused, a.Wake-a.ahead)
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
func (w *model) someHeld(t *rapid.T) *world.Claim {
	var all []*world.Claim
	for _, a := range w.clients {
		for i := range a.Claims {
			if c := &a.Claims[i]; a.Until(c) != 0 && c.Kind != core.EventPermit {
				all = append(all, c)
			}
		}
	}
	if len(all) == 0 {
		return nil
	}
	return rapid.SampledFrom(all).Draw(t, "held")
}

func (a *actor) begin(kind core.EventKind, terms core.Terms, ev core.Event) {
	a.last++
	ev.Kind, ev.Claim, ev.Terms = kind, a.last, &terms
	a.step(ev)
}

// TestBelief: whatever is asked for, answered, lost and late, no two claims believe in one
// name; every Step is bounded; a copy of a client does the same; and a client that is closed
// comes to its end.
func TestBelief(t *testing.T) { rapid.Check(t, believes) }

// FuzzBelief lets a fuzzer choose what TestBelief draws.
func FuzzBelief(f *testing.F) { f.Fuzz(rapid.MakeFuzz(believes)) }

func believes(t *rapid.T) {
	w := &model{t: t, bucket: newBucket(), now: int64(core.Second)}
	for i := range 3 {
		cfg := core.Config{
			Machine: core.MachineClient, Seed: [16]byte{byte(i + 1)}, Host: "h", PID: fmt.Sprint(i), Samples: true, StampUnit: 1,
			OwnStore: rapid.Bool().Draw(t, "own"), Watches: rapid.Bool().Draw(t, "watches"), InFlight: uint64(rapid.IntRange(2, 8).Draw(t, "slots")),
		}
		c, err := client.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		w.clients = append(w.clients, &actor{w: w, Process: world.Process{Client: compared{c, t}, Late: true}, ahead: int64(i) * 1e9})
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
			a.begin(core.EventAcquire, core.Terms{
				Name: name, Protocol: core.ProtocolStrict, TTL: core.TTL(10 * core.Second), OnSession: rapid.Bool().Draw(t, "session"),
			}, core.Event{Wait: wait})
		case 2:
			ttl := core.TTL(rapid.SampledFrom([]core.Duration{10, 20}).Draw(t, "ttl") * core.Second)
			a.begin(core.EventPermit, core.Terms{Name: "s", TTL: ttl}, core.Event{Wait: wait, Capacity: 2, Width: 1})
		case 3:
			a.begin(core.EventInvoke, core.Terms{
				Name: "w", Protocol: core.ProtocolStrict, TTL: core.TTL(10 * core.Second), OnSession: rapid.Bool().Draw(t, "session"),
			}, core.Event{Wait: wait})
		case 4:
			a.begin(core.EventBreak, core.Terms{Name: name, Why: "x", Protocol: core.ProtocolStrict}, core.Event{})
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
			if c := w.someHeld(t); c != nil {
				terms := core.Terms{Name: c.Name, Holder: core.HolderID(c.Tenure), Epoch: c.Epoch, TTL: core.TTL(10 * core.Second)}
				a.begin(rapid.SampledFrom([]core.EventKind{core.EventAccompany, core.EventResume, core.EventRemote}).Draw(t, "join"), terms, core.Event{})
			}
		case 10:
			kind := rapid.SampledFrom([]core.EventKind{core.EventLook, core.EventWatch}).Draw(t, "look")
			a.begin(kind, core.Terms{Name: name}, core.Event{})
		case 11:
			for _, key := range slices.Clone(a.Watched) {
				a.step(core.Event{Kind: core.EventChanged, Key: []byte(key)})
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
				done = done && a.closed && a.Client.Idle()
			}
			if done {
				return
			}
			w.advance(w.now + int64(core.Second))
		}
	}
	for i, a := range w.clients {
		t.Errorf("client %d: closed %v, idle %v, wake %d at %d", i, a.closed, a.Client.Idle(), a.Wake, a.mono())
	}
}
