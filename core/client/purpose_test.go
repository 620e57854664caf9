package client_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/mopslock/mopslock/core"
)

// TestPurposes: each verb with what it was for, once, in the order in which they came. Only
// who has held something renews, and only who was told that it waits polls.
func TestPurposes(t *testing.T) {
	b := newBucket()
	var asked []string
	b.fails = func(a *core.Action) core.Class {
		text := a.Kind.String()
		if a.Purpose != 0 {
			text += " " + a.Purpose.String()
		}
		if !slices.Contains(asked, text) {
			asked = append(asked, text)
		}
		return 0
	}
	is := func(what, want string) {
		t.Helper()
		if got := strings.Join(asked, ", "); got != want {
			t.Errorf("%s: %s; want %s", what, got, want)
		}
		asked = nil
	}
	forever := core.Event{Wait: core.Forever}
	p, q := newProcess(t, b, 1), newProcess(t, b, 2)
	pass := func(p *process, d core.Duration) { p.until(p.now + int64(d)) }
	release := func(p *process, claim uint64) { p.do(core.Event{Kind: core.EventRelease, Claim: claim}) }

	// A lease.
	lease := p.begin(core.EventAcquire, core.Terms{Name: "n"}, forever)
	is("an acquire", "exists, list, create")
	pass(p, 50*core.Second)
	is("what keeps a lease", "put renewal, exists renewal, get renewal")
	q.now = p.now
	waiter := q.begin(core.EventAcquire, core.Terms{Name: "n"}, forever)
	is("a first look, and a sample", "exists, list, get, put probe, get probe")
	pass(q, 5*core.Second)
	is("a waiter", "exists poll")
	watch := q.begin(core.EventWatch, core.Terms{Name: "n"}, core.Event{})
	is("a watch", "list, get")
	pass(q, 2*core.Second)
	is("a watch that looks again", "list poll, get poll, exists poll")
	q.do(core.Event{Kind: core.EventCancel, Claim: watch})
	release(p, lease)
	is("a release", "create")
	pass(q, 6*core.Second)
	is("a waiter that is let in", "exists poll, get poll, create")
	release(q, waiter)
	asked = nil

	// A session, and a permit on it.
	p.now = q.now
	permit := p.permit(core.Forever, 1)
	is("a permit, and its session", "list, put, create")
	pass(p, 40*core.Second)
	is("a session", "put renewal, exists renewal")
	q.now = p.now
	q.permit(core.Forever, 1)
	is("another permit", "list, put, get, create")
	q.permit(core.Forever, 1)
	is("a permit that must wait", "exists, get")
	pass(q, 6*core.Second)
	is("and looks again", "exists poll")
	q.permit(0, 1)
	is("with one that tries once", "exists")
	release(p, permit)
	is("a permit that is given back, by what is not the newest", "create, list, get")
	pass(q, 6*core.Second)
	is("a permit that is let in", "exists poll, get poll, create")
	pass(p, 15*core.Second)
	is("a session that nobody stands on", "list cleanup, delete cleanup")

	// Work.
	p.now = max(p.now, q.now)
	work := p.begin(core.EventInvoke, core.Terms{Name: "w"}, forever)
	is("work", "exists, list, create")
	pass(p, 50*core.Second)
	is("what keeps work", "put renewal, exists renewal, get renewal")
	p.do(core.Event{Kind: core.EventEnded, Claim: work, Outcome: core.OutcomeYes})
	pass(p, core.Second)
	is("work that another may go on with", "exists poll, list poll, get poll")
	pass(p, 100*core.Second)
	is("or not", "exists poll, list poll, get poll, create")

	// What nobody needs any more.
	again := func(round func()) {
		for range 60 {
			round()
		}
		p.now += int64(20 * 60 * core.Second)
		asked = nil
		for range 16 {
			round()
		}
	}
	again(func() { p.round() })
	is("superseded versions of a lease", "exists, list, get, create, get cleanup, list cleanup, delete cleanup")
	again(func() {
		release(p, p.permit(0, 1))
		pass(p, core.Second)
	})
	is("and of a semaphore", "list, put, get, create, get cleanup, list cleanup, delete cleanup")
	again(func() {
		p.do(core.Event{Kind: core.EventEnded, Claim: p.begin(core.EventInvoke, core.Terms{Name: "w"}, forever), Outcome: core.OutcomeNo})
		pass(p, core.Second)
	})
	is("and of work", "exists, list, get, create, exists poll, list poll, get poll, get cleanup, list cleanup, delete cleanup")
	q.now = p.now
	q.do(core.Event{Kind: core.EventClose})
	is("the end of one that has taken a sample", "delete cleanup")

	// A store that must be tried.
	p = newProcessOf(t, b, core.Config{Seed: [16]byte{3}})
	p.begin(core.EventAcquire, core.Terms{Name: "t"}, core.Event{})
	is("a store that is tried", "exists, get probe, create probe, list, create")
}
