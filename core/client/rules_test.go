package client_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/tests/world"
)

// rules are what must go so: each fails, by what it returns, if the rule of its name is left out.
var rules = map[string]func(t *testing.T, p *process) (wrong string){
	// The session reads the call and is renewed, and the claim has not found out yet.
	"belief-past-call": func(t *testing.T, p *process) string {
		q := newProcess(t, p.bucket, 9)
		p.begin(core.EventAcquire, core.Terms{Name: "n", OnSession: true}, core.Event{Wait: core.Forever})
		q.begin(core.EventBreak, core.Terms{Name: "n", Why: "x"}, core.Event{})
		p.told = nil
		p.holds = func(a *core.Action) bool { return a.Claim == 1 }
		p.until(p.now + int64(20*core.Second))
		fixed, renewed := slices.Index(p.told, "1 deadline"), slices.Index(p.told, "0 renewed")
		if fixed < 0 || renewed < fixed || p.latest[core.ActionDeadline].On != 0 {
			return p.heard()
		}
		return ""
	},
	// Work is broken, and has its name again: its second break says as much as its first.
	"fix-lives-on": func(t *testing.T, p *process) string {
		q := newProcess(t, p.bucket, 9)
		p.begin(core.EventInvoke, core.Terms{Name: "w", OnSession: true}, core.Event{Wait: 50 * core.Second})
		for range 2 {
			q.now = p.now
			q.begin(core.EventBreak, core.Terms{Name: "w", Why: "x", Now: true}, core.Event{})
			p.told = nil
			p.until(p.now + int64(20*core.Second))
			got := p.heard()
			for _, want := range []string{"1 deadline", "0 renewed", "1 lost broken broken"} { // the second renewal asks for more
				if strings.Count(got, want) != 1 {
					return got
				}
			}
			p.do(core.Event{Kind: core.EventEnded, Claim: 1, Outcome: core.OutcomeNo})
			if got := p.heard(); got != "1 held; 1 launch" {
				return got
			}
		}
		return ""
	},
	// What stands on a session is told of its loss after the session is.
	"session-told-last": func(_ *testing.T, p *process) string {
		p.begin(core.EventAcquire, core.Terms{Name: "n", OnSession: true}, core.Event{Wait: core.Forever})
		p.now += int64(100 * core.Second)
		p.told = nil
		p.do(core.Event{Kind: core.EventRelease, Claim: 1})
		if got := p.heard(); got != "0 lost expired; 1 lost expired" {
			return got
		}
		return ""
	},
	// Of four creates that race on a store which takes each for a put, three lose their answers.
	"lost-create-believed": func(_ *testing.T, p *process) string {
		creates := 0
		p.bucket.fails = func(a *core.Action) core.Class {
			if a.Kind != core.ActionCreate {
				return core.ClassNone
			}
			delete(p.bucket.objects, a.Key) // it is taken for a put
			if creates++; creates < 4 {
				return core.ClassUnreachable
			}
			return core.ClassNone
		}
		p.begin(core.EventAcquire, core.Terms{Name: "n"}, core.Event{Wait: core.Forever})
		p.until(p.now + int64(10*core.Second))
		if got := p.heard(); !strings.Contains(got, "tried no_create") {
			return got
		}
		return ""
	},
	// A fleet keeps the record throttled for a minute.
	"throttled-record-awaited": func(_ *testing.T, p *process) string {
		p.bucket.objects["_mopslock/store.json"] = world.Object{Body: []byte(`{"v": 1, "create": "honoured"}`)}
		p.bucket.fails = func(a *core.Action) core.Class {
			if a.Kind == core.ActionCreate && a.Key == "_mopslock/store.json" {
				return core.ClassThrottled
			}
			return core.ClassNone
		}
		p.begin(core.EventAcquire, core.Terms{Name: "n"}, core.Event{Wait: core.Forever})
		p.until(p.now + int64(4*core.Second))
		if got := p.heard(); !strings.Contains(got, "1 held") {
			return "it is not held: " + got
		}
		return ""
	},
	// No time passes between a release here and the next claim here.
	"nobody-nudged": func(_ *testing.T, p *process) string {
		p.begin(core.EventAcquire, core.Terms{Name: "n"}, core.Event{Wait: core.Forever})
		p.begin(core.EventAcquire, core.Terms{Name: "n"}, core.Event{Wait: core.Forever})
		p.until(p.now + int64(core.Second))
		p.told = nil
		p.do(core.Event{Kind: core.EventRelease, Claim: 1})
		if got := p.heard(); got != "1 released; 2 held from here" {
			return got
		}
		return ""
	},
	// Somebody empties the prefix under a lease and a session, where a beat needs no directory.
	"self-unasked": func(_ *testing.T, p *process) string {
		p.bucket.flat = true
		p.begin(core.EventAcquire, core.Terms{Name: "n"}, core.Event{Wait: core.Forever})
		p.begin(core.EventAcquire, core.Terms{Name: "m", OnSession: true}, core.Event{Wait: core.Forever})
		p.heard()
		clear(p.bucket.objects)
		p.until(p.now + int64(core.StrictTTL)*2/3) // two renewals, and no third
		for _, want := range []string{"1 warned emptied; 1 lost taken", "0 warned emptied; 0 lost taken; 2 lost taken"} {
			if got := strings.Join(p.told, "; "); !strings.Contains(got, want) {
				return got
			}
		}
		return ""
	},
	// An old client comes to a name that had no lock.json, and keeps it.
	"lock-file-unasked": func(t *testing.T, p *process) string {
		p.begin(core.EventAcquire, core.Terms{Name: "n"}, core.Event{Wait: core.Forever})
		old := newProcess(t, p.bucket, 9)
		old.begin(core.EventAcquire, core.Terms{Name: "n", Protocol: core.ProtocolLastWriter}, core.Event{})
		old.until(old.now + int64(core.Second))
		p.until(p.now + int64(core.StrictTTL)*2/3) // two renewals, and no third
		if got := p.heard(); !strings.Contains(got, "1 warned mixed held; 1 lost taken") {
			return got
		}
		return ""
	},
}

// probes are those whose process must try its store.
var probes = []string{"lost-create-believed", "throttled-record-awaited"}

func ruleConfig(name string) core.Config {
	return core.Config{Seed: [16]byte{1}, OwnStore: !slices.Contains(probes, name)}
}

func TestRules(t *testing.T) {
	for name, rule := range rules {
		if wrong := rule(t, newProcessOf(t, newBucket(), ruleConfig(name))); wrong != "" {
			t.Errorf("%s: %s", name, wrong)
		}
	}
}
