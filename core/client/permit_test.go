package client_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mopslock/mopslock/core"
)

func (p *process) permit(wait core.Duration, weight uint32) uint64 {
	p.t.Helper()
	return p.begin(core.EventPermit, core.Config{Name: "s"}, core.Event{Wait: wait, Capacity: 2, Width: 1, Weight: weight})
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
	if got := p.heard(); !strings.HasSuffix(got, "0 closed") || !p.client.Idle() {
		t.Error(got)
	}
}

func TestLimit(t *testing.T) {
	p := newProcess(t, newBucket(), 1)
	p.begin(core.EventLimit, core.Config{Name: "s"}, core.Event{StoreLimit: 1})
	p.hears("1 limited")
	p.permit(core.Forever, 1)
	p.permit(0, 1)
	p.hears("0 held; 2 held; 3 refused full held")
}

func TestPermitFaults(t *testing.T) {
	p := newProcess(t, newBucket(), 1)
	for want, ev := range map[string]core.Event{
		"capacity must be from 1": {Width: 1},
		"weight and spare 5":      {Width: 1, Capacity: 4, Weight: 5},
		"label":                   {Width: 1, Capacity: 4, Label: []byte("\n")},
		"ttl":                     {Width: 1, Capacity: 4, Terms: &core.Config{Name: "s", TTL: 1}},
		"only strict":             {Width: 1, Capacity: 4, Terms: &core.Config{Name: "s", Protocol: core.ProtocolLastWriter}},
	} {
		ev.Kind, ev.Claim = core.EventPermit, 1
		if ev.Terms == nil {
			ev.Terms = &core.Config{Name: "s"}
		}
		before := string(p.client.AppendState(nil))
		_, err := p.client.Step(core.Instant{Mono: p.now, Wall: wallBase}, ev)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
		if string(p.client.AppendState(nil)) != before {
			t.Errorf("%s: changed the client", want)
		}
	}
}

// Two hundred claims that wait for a session, of which there can be none, are all refused,
// though one Step has no room for that; and nothing of them is left.
func TestCrowdWithoutASession(t *testing.T) {
	for kind, terms := range map[core.EventKind]core.Config{core.EventAcquire: {OnSession: true}, core.EventPermit: {}} {
		b := newBucket()
		p := newProcess(t, b, 1)
		ofSession := func(a *core.Action) bool { return strings.HasPrefix(a.Key, core.SessionPrefix) }
		p.holds = ofSession
		b.fails = func(a *core.Action) core.Class {
			if ofSession(a) {
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
		if got := strings.Count(p.heard(), " refused no_session"); got != 200 || !p.client.Idle() {
			t.Errorf("%v: %d refused, idle %v", kind, got, p.client.Idle())
		}
	}
}
