package client_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/register"
)

func (p *process) permit(wait core.Duration, weight uint32) uint64 {
	p.t.Helper()
	return p.begin(core.EventPermit, core.Terms{Name: "s"}, core.Event{Wait: wait, Capacity: 2, Width: 1, Weight: weight})
}

func TestPermits(t *testing.T) {
	b := newBucket()
	p, q := newProcess(t, b, 1), newProcess(t, b, 2)
	one, two := p.permit(core.Forever, 1), p.permit(core.Forever, 1)
	p.hears("0 held; 1 held; 2 held")
	q.permit(0, 1)
	q.hears("0 held; 1 waiting; 1 refused full held")
	q.permit(core.Forever, 1)
	q.hears("2 waiting")
	p.do(core.Event{Kind: core.EventRelease, Claim: one})
	p.hears("1 released")
	q.until(p.now + int64(10*core.Second))
	q.hears("2 held")
	third := p.permit(core.Forever, 2)
	p.hears("3 waiting")
	p.do(core.Event{Kind: core.EventCancel, Claim: third})
	p.hears("3 refused cancelled")
	b.fails = func(*core.Action) core.Class { return core.ClassUnreachable }
	p.until(p.now + int64(120*core.Second))
	if got := p.heard(); !strings.Contains(got, "0 lost unreachable; 2 lost unreachable") {
		t.Error(got)
	}
	b.fails = nil
	_ = two
	q.do(core.Event{Kind: core.EventClose})
	q.hears("2 released; 0 left; 0 closed")
	p.do(core.Event{Kind: core.EventClose})
	p.until(p.now + int64(60*core.Second))
	if got := p.heard(); !strings.HasSuffix(got, "0 closed") || !p.Client.Idle() {
		t.Error(got)
	}
}

func TestLimit(t *testing.T) {
	p := newProcess(t, newBucket(), 1)
	p.begin(core.EventLimit, core.Terms{Name: "s"}, core.Event{StoreLimit: 1})
	p.hears("1 limited")
	p.permit(core.Forever, 1)
	p.permit(0, 1)
	p.hears("0 held; 2 held; 3 refused full held")
	p.sent = 0
	p.begin(core.EventLimit, core.Terms{Name: "s", TTL: core.TTL(30 * core.Second)}, core.Event{})
	if p.hears("4 limited"); p.sent != 1 {
		t.Errorf("%d requests of the machine that knows the name", p.sent)
	}
}

// TestPermitFaults: each is told before anything is changed. That there can never be room has a code of its
// own, unless something else is wrong as well.
func TestPermitFaults(t *testing.T) {
	p := newProcess(t, newBucket(), 1)
	for want, ev := range map[string]core.Event{
		"label: at most":          {Width: 1, Capacity: 4, Spare: 4, Label: []byte("\n")},
		"capacity must be from 1": {Width: 1},
		"limit: more than":        {Kind: core.EventLimit, StoreLimit: 1 << 40},
		"weight and spare 5":      {Width: 1, Capacity: 4, Weight: 5},
		"label":                   {Width: 1, Capacity: 4, Label: []byte("\n")},
		"ttl":                     {Width: 1, Capacity: 4, Terms: &core.Terms{Name: "s", TTL: 1}},
		"a permit's label":        {Width: 1, Capacity: 4, Terms: &core.Terms{Name: "s", Label: "l"}},
		"only strict":             {Width: 1, Capacity: 4, Terms: &core.Terms{Name: "s", Protocol: core.ProtocolLastWriter}},
	} {
		if ev.Claim = 1; ev.Kind == 0 {
			ev.Kind = core.EventPermit
		}
		if ev.Terms == nil {
			ev.Terms = &core.Terms{Name: "s"}
		}
		before := string(p.Client.AppendState(nil))
		_, err := p.Client.Step(core.Instant{Mono: p.now, Wall: wallBase}, ev)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
		code := core.ErrorConfig
		if want == "weight and spare 5" {
			code = core.ErrorTooHeavy
		}
		if !errors.Is(err, &core.Error{Code: code}) {
			t.Errorf("%v: is not %v", err, code)
		}
		if string(p.Client.AppendState(nil)) != before {
			t.Errorf("%s: changed the client", want)
		}
	}
}

// Two hundred claims that wait for a session, of which there can be none, are all refused,
// though one Step has no room for that; and nothing of them is left. A store that takes the
// session's beat, and not its own object, is none for it either.
func TestCrowdWithoutASession(t *testing.T) {
	for _, refused := range []core.ActionKind{core.ActionPut, core.ActionCreate} {
		for kind, terms := range map[core.EventKind]core.Terms{core.EventAcquire: {OnSession: true}, core.EventPermit: {}} {
			b := newBucket()
			p := newProcess(t, b, 1)
			ofSession := func(a *core.Action) bool { return strings.HasPrefix(a.Key, core.SessionPrefix) }
			p.holds = ofSession
			b.fails = func(a *core.Action) core.Class {
				if ofSession(a) && a.Kind == refused {
					return core.ClassReadOnly
				}
				return core.ClassNone
			}
			for n := range 200 {
				terms.Name = "s"
				if kind == core.EventAcquire {
					terms.Name = fmt.Sprint("n", n)
				}
				p.begin(kind, terms, core.Event{Wait: core.Forever, Capacity: 1000, Width: 1})
			}
			p.letGo()
			if got := strings.Count(p.heard(), " refused no_session"); got != 200 || !p.Client.Idle() {
				t.Errorf("%v, %v: %d refused, idle %v", refused, kind, got, p.Client.Idle())
			}
		}
	}
}

// Superseded versions that are being removed have half a second when the client closes: a
// name that only short-lived processes use would grow forever otherwise.
func TestPermitsCloseAfterTidying(t *testing.T) {
	for answered, took := range map[bool]core.Duration{true: 0, false: core.Second / 2} {
		p := newProcess(t, newBucket(), 1)
		for range 7 {
			p.do(core.Event{Kind: core.EventRelease, Claim: p.permit(0, 1)})
		}
		p.permit(0, 1)
		p.holds = func(a *core.Action) bool { return a.Kind == core.ActionGet }
		p.permit(0, 1) // the sixteenth version has the others looked through
		p.heard()
		begun := p.now
		p.do(core.Event{Kind: core.EventClose})
		p.hears("")
		if answered {
			p.letGo()
		}
		p.holds = nil
		p.until(p.Wake)
		p.hears("8 released; 9 released; 0 left; 0 closed")
		if p.now != begun+int64(took) {
			t.Errorf("answered %v: it took %v", answered, core.Duration(p.now-begun))
		}
	}
}

func TestManyPermits(t *testing.T) {
	b := newBucket()
	p, q := newProcess(t, b, 1), newProcess(t, b, 2)
	many := func(of *process, n int, with core.Event) {
		with.Capacity, with.Width = 12, 1
		for range n {
			of.begin(core.EventPermit, core.Terms{Name: "s"}, with)
		}
	}
	isList := func(a *core.Action) bool { return a.Kind == core.ActionGet }
	p.holds = isList
	many(p, 12, core.Event{})
	p.letGo()
	if got := p.heard(); strings.Count(got, " held") != 13 {
		t.Error(got)
	}
	q.holds = isList
	many(q, 12, core.Event{})
	q.letGo()
	if got := q.heard(); strings.Count(got, " refused full held") != 12 {
		t.Errorf("who is refused at the same time sees the same: %s", got)
	}
	p.sent = 0
	p.until(p.now + int64(60*core.Second))
	p.hears("0 renewed; 0 renewed; 0 renewed")
	if p.sent != 7 {
		t.Errorf("%d requests for one session", p.sent)
	}
	b.fails = func(*core.Action) core.Class { return core.ClassUnreachable }
	p.until(p.now + int64(120*core.Second))
	if got := p.heard(); strings.Count(got, " lost unreachable") != 13 || strings.Contains(got, " left") || !p.Client.Idle() {
		t.Errorf("idle %v, and no other session, after %s", p.Client.Idle(), got)
	}
}

// To try the store is a part of the wait.
func TestPermitWaitsForTheStore(t *testing.T) {
	b := newBucket()
	p, q := newProcess(t, b, 1), newProcessOf(t, b, core.Config{Seed: [16]byte{2}})
	p.permit(0, 2)
	q.holds = func(*core.Action) bool { return true }
	q.permit(10*core.Second, 2)
	q.until(q.now + int64(2*core.Second))
	q.letGo()
	q.hears("0 tried; 0 held; 1 waiting")
	q.until(q.now + int64(8*core.Second))
	q.hears("1 refused full held")
}

func TestPermitOfASilentStore(t *testing.T) {
	p := newProcess(t, newBucket(), 1)
	p.holds = func(*core.Action) bool { return true }
	p.permit(core.Forever, 1)
	p.until(p.now + int64(core.FirstAnswerLimit))
	p.hears("1 refused unreachable unreachable")
}

// Permits of another TTL have another machine and session. It hears of a release here at
// once, and does not wait for its next poll.
func TestPermitsOfTwoTTLs(t *testing.T) {
	p := newProcess(t, newBucket(), 1)
	one := p.permit(0, 2)
	p.do(core.Event{Kind: core.EventEnded, Claim: one, Outcome: core.OutcomeYes}) // of work, and changes nothing
	p.begin(core.EventPermit, core.Terms{Name: "s", TTL: core.TTL(30 * core.Second)}, core.Event{Wait: core.Forever, Capacity: 2, Width: 1})
	p.hears("0 held; 1 held; 0 held; 2 waiting")
	p.do(core.Event{Kind: core.EventRelease, Claim: one})
	p.hears("1 released; 2 held")
}

// A breaker calls the session of a lease's holder. A call that names a semaphore takes
// nothing from its permits.
func TestPermitsHearNoCalls(t *testing.T) {
	b := newBucket()
	p, q := newProcess(t, b, 1), newProcess(t, b, 2)
	p.permit(0, 1)
	p.begin(core.EventAcquire, core.Terms{Name: "n", OnSession: true}, core.Event{})
	q.begin(core.EventBreak, core.Terms{Name: "n", Why: "x"}, core.Event{})
	q.hears("1 seen broken; 1 broken")
	for key, object := range b.objects {
		if strings.Contains(key, "/call/") {
			object.Body = bytes.Replace(object.Body, []byte(`"n"`), []byte(`"s"`), 1)
			b.objects[key] = object
			p.heard()
		}
	}
	p.sent = 0
	p.until(p.now + int64(30*core.Second))
	p.hears("0 renewed")
	if p.sent < 3 {
		t.Errorf("%d requests: the call was not read", p.sent)
	}
}

// What waits has the next version watched, which is made when somebody gives back. A change
// that is told while a look is under way is looked for after it.
func TestPermitWatches(t *testing.T) {
	b := newBucket()
	p, q := newProcess(t, b, 1), newProcessOf(t, b, core.Config{Seed: [16]byte{2}, OwnStore: true, Watches: true})
	one := p.permit(0, 2)
	q.permit(core.Forever, 2)
	q.hears("0 held; 1 waiting")
	second := register.VersionKey(register.RegisterPrefix("s"), 2)
	if !slices.Contains(q.Watched, second) {
		t.Errorf("%v are watched", q.Watched)
	}
	changed := core.Event{Kind: core.EventChanged, Key: []byte(second)}
	q.do(changed) // the host watches from now on, and it looks once more
	if q.holds = func(*core.Action) bool { return true }; !slices.Contains(q.Watched, second) {
		t.Error("it is watched no longer")
	}
	q.do(changed)
	p.do(core.Event{Kind: core.EventRelease, Claim: one})
	q.do(changed)
	q.hears("")
	q.letGo()
	if q.hears("1 held"); slices.Contains(q.Watched, second) {
		t.Error("it is watched on")
	}
}

// Nothing is left of names that are not used any more, nor of their session.
func TestPermitsLeaveNothing(t *testing.T) {
	p := newProcess(t, newBucket(), 1)
	size := 0
	for n := range 40 {
		one := p.begin(core.EventPermit, core.Terms{Name: fmt.Sprint("n", n)}, core.Event{Capacity: 1, Width: 1})
		p.do(core.Event{Kind: core.EventRelease, Claim: one})
		p.heard()
		p.until(p.now + int64(11*core.Second))
		p.hears("0 left")
		if n == 0 {
			size = len(p.Client.AppendState(nil))
		}
	}
	if got := len(p.Client.AppendState(nil)); got > size || !p.Client.Idle() {
		t.Errorf("%d bytes of state after 40 names, %d after one", got, size)
	}
}

// TestListedAndDenied: a store that lists a version and denies it has not answered: nobody who
// tries once waits for that without end.
func TestListedAndDenied(t *testing.T) {
	terms := map[core.EventKind]core.Event{core.EventAcquire: {}, core.EventInvoke: {}, core.EventPermit: {Capacity: 1, Width: 1}}
	for kind, with := range terms {
		b := newBucket()
		holder, p := newProcess(t, b, 1), newProcess(t, b, 2)
		with.Wait = core.Forever
		holder.begin(kind, core.Terms{Name: "n"}, with)
		b.denies = "/v"
		with.Wait = 0
		p.begin(kind, core.Terms{Name: "n"}, with)
		p.until(p.now + int64(20*core.Second))
		if got := p.heard(); !strings.Contains(got, "1 refused") || !strings.Contains(got, " other") {
			t.Errorf("%v: %s", kind, got)
		}
		if p.sent > 40 {
			t.Errorf("%v: %d requests", kind, p.sent)
		}
	}
}
