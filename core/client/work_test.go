package client_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/client"
	"github.com/mopslock/mopslock/tests/world"
)

func (p *process) ended(claim uint64, outcome core.Outcome, result bool) {
	p.t.Helper()
	p.do(core.Event{Kind: core.EventEnded, Claim: claim, Outcome: outcome, Result: result})
}

// TestInvoke: one launches the work, the other waits for its result; then it is there.
func TestInvoke(t *testing.T) {
	for _, terms := range []core.Terms{
		{Name: "w"}, {Name: "w", OnSession: true}, {Name: "w", Protocol: core.ProtocolLastWriter},
	} {
		b := newBucket()
		p, q := newProcess(t, b, 1), newProcess(t, b, 2)
		one := p.begin(core.EventInvoke, terms, core.Event{Wait: core.Forever})
		p.until(p.now + int64(core.Second))
		p.hears(map[bool]string{true: "0 held; ", false: ""}[terms.OnSession] + "1 held; 1 launch")
		second := p.begin(core.EventInvoke, terms, core.Event{Wait: core.Forever})
		q.now = p.now
		two := q.begin(core.EventInvoke, terms, core.Event{Wait: core.Forever})
		if got := q.heard(); !strings.HasSuffix(got, "1 waiting") {
			t.Error(got)
		}
		p.told = nil
		p.ended(one, core.OutcomeYes, true)
		for _, want := range []string{"1 found; ", "2 found; 2 left", "1 released; 1 left"} {
			if !strings.Contains(strings.Join(p.told, "; "), want) {
				t.Errorf("%q, want %s", p.told, want)
			}
		}
		q.until(q.now + int64(30*core.Second))
		if got := q.heard(); !strings.Contains(got, "1 found; 1 left") {
			t.Error(got)
		}
		third := q.begin(core.EventInvoke, terms, core.Event{})
		q.hears("2 found; 2 left")
		_, _, _ = second, two, third
		p.do(core.Event{Kind: core.EventClose})
		if !strings.HasSuffix(p.heard(), "0 closed") || !p.Client.Idle() {
			t.Error("not closed")
		}
	}
}

// TestRemoteCarriesOn: the orchestrator dies, the remote stores the result.
func TestRemoteCarriesOn(t *testing.T) {
	b := newBucket()
	p, q, r := newProcess(t, b, 1), newProcess(t, b, 2), newProcess(t, b, 3)
	p.begin(core.EventInvoke, core.Terms{Name: "w"}, core.Event{Wait: core.Forever})
	p.hears("1 held; 1 launch")
	q.now = p.now
	remote := q.begin(core.EventRemote, core.Terms{Name: "w", Holder: p.holder, Epoch: 1}, core.Event{})
	q.hears("1 held; 1 launch")
	q.until(q.now + int64(100*core.Second)) // and p is gone
	r.now = q.now
	r.begin(core.EventInvoke, core.Terms{Name: "w"}, core.Event{Wait: core.Forever})
	r.hears("1 waiting")
	q.told = nil
	q.ended(remote, core.OutcomeYes, true)
	q.hears("1 found; 1 left")
	r.until(q.now + int64(60*core.Second))
	r.hears("1 found; 1 left")
}

func TestWorkEndsWithoutResult(t *testing.T) {
	p := newProcess(t, newBucket(), 1)
	one := p.begin(core.EventInvoke, core.Terms{Name: "w"}, core.Event{})
	p.ended(one, core.OutcomeNo, false)
	p.hears("1 held; 1 launch; 1 absent failed; 1 released; 1 left")
	two := p.begin(core.EventInvoke, core.Terms{Name: "w"}, core.Event{})
	p.do(core.Event{Kind: core.EventCancel, Claim: two})
	p.hears("2 held; 2 launch; 2 released; 2 refused cancelled; 2 left")
	p.bucket.objects["w/lock/lock.json"] = world.Object{}
	p.begin(core.EventInvoke, core.Terms{Name: "w"}, core.Event{})
	p.hears("3 refused kind; 3 left")
	_, err := p.Client.Step(core.Instant{Mono: p.now, Wall: wallBase}, core.Event{Kind: core.EventInvoke, Claim: 9, Terms: &core.Terms{Name: "a/lock"}})
	if err == nil || !strings.Contains(err.Error(), "memo") {
		t.Error(err)
	}
}

// TestBeatsHaveASlot: polls that hang in all slots that they may have leave one for what keeps a
// claim, however few there are.
func TestBeatsHaveASlot(t *testing.T) {
	for slots := uint64(2); slots <= 5; slots++ {
		b := newBucket()
		other := newProcess(t, b, 9)
		p := newProcessOf(t, b, core.Config{Seed: [16]byte{1}, OwnStore: true, InFlight: slots})
		p.begin(core.EventAcquire, core.Terms{Name: "session", OnSession: true}, core.Event{Wait: core.Forever})
		p.begin(core.EventAcquire, core.Terms{Name: "own"}, core.Event{Wait: core.Forever})
		for n := range 2 * slots {
			name := fmt.Sprint("taken-", n)
			other.begin(core.EventAcquire, core.Terms{Name: name}, core.Event{Wait: core.Forever})
			p.begin(core.EventAcquire, core.Terms{Name: name}, core.Event{Wait: core.Forever})
		}
		p.told = nil
		p.holds = func(a *core.Action) bool { return strings.HasPrefix(a.Key, "taken-") } // never answered
		p.until(p.now + int64(50*core.Second))
		if got := p.heard(); strings.Count(got, "0 renewed") < 2 || strings.Count(got, "2 renewed") < 2 {
			t.Error(slots, "slots:", got)
		}
		if uint64(len(p.kept)) >= slots {
			t.Error(len(p.kept), "polls under way, of", slots)
		}
	}
	if _, err := client.New(core.Config{Machine: core.MachineClient, Seed: [16]byte{1}, InFlight: 1}); err == nil {
		t.Error("one slot was accepted")
	}
}

// TestRemoteCancelledOutOfContact: a remote that is cancelled while it is out of contact, before
// its work began, joins no more.
func TestRemoteCancelledOutOfContact(t *testing.T) {
	b := newBucket()
	q := newProcess(t, b, 9)
	q.begin(core.EventAcquire, core.Terms{Name: "w", Protocol: core.ProtocolStrict}, core.Event{Wait: core.Forever})
	p := newProcess(t, b, 1)
	p.now = q.now
	looks := 0
	p.holds = func(a *core.Action) bool { // the look after it has joined is answered late
		if a.Kind == core.ActionExists && a.Key == "w/result" {
			looks++
		}
		return looks > 1
	}
	remote := p.begin(core.EventRemote, core.Terms{Name: "w", Holder: q.holder, Epoch: 1}, core.Event{})
	p.hears("1 held")
	p.now += 100 * int64(core.Second) // the process was paused
	kept := p.kept
	p.kept, p.holds = nil, all
	for _, ev := range kept {
		p.do(ev)
	}
	p.hears("1 contact_lost")
	p.do(core.Event{Kind: core.EventCancel, Claim: remote})
	p.letGo()
	p.sent = 0
	p.until(p.now + 1000*int64(core.Second))
	p.do(core.Event{Kind: core.EventClose})
	p.until(p.now + 1000*int64(core.Second))
	if got := p.heard(); !strings.HasSuffix(got, "0 closed") || p.sent > 0 {
		t.Errorf("it goes on: %s, %d requests", got, p.sent)
	}
}
