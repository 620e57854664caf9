package client_test

import (
	"bytes"
	"testing"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/tests/world"
)

// A client closes though what it sends for tidiness finds no slot: requests that nobody wants
// any more hang in all of them.
func TestCloseWithoutSlots(t *testing.T) {
	p := newProcessOf(t, newBucket(), core.Config{Seed: [16]byte{1}, OwnStore: true, InFlight: 2})
	q := newProcess(t, p.bucket, 2)
	q.begin(core.EventAcquire, core.Terms{Name: "n"}, core.Event{Wait: core.Forever})
	q.now += int64(10 * core.Second)
	p.now = q.now
	p.begin(core.EventAcquire, core.Terms{Name: "n"}, core.Event{Wait: core.Forever}) // takes a sample of the store's clock
	p.holds = all
	p.begin(core.EventAcquire, core.Terms{Name: "m"}, core.Event{Wait: core.Forever})
	p.told = nil
	p.do(core.Event{Kind: core.EventClose})
	p.until(p.now + int64(3*core.Second))
	p.hears("1 refused cancelled; 2 refused cancelled; 0 closed")
}

// TestTidyingLeavesTheStoreAlone: what is deleted for tidiness waits while the store asks to be
// left alone. A client that closes leaves it behind instead of waiting.
func TestTidyingLeavesTheStoreAlone(t *testing.T) {
	for _, closes := range []bool{false, true} {
		b := newBucket()
		p := newProcessOf(t, b, core.Config{Seed: [16]byte{1}})
		deletes := 0
		b.fails = func(a *core.Action) core.Class {
			switch {
			case a.Kind == core.ActionDelete:
				deletes++
			case a.Kind == core.ActionCreate && a.Key == "_mopslock/store.json":
				return core.ClassThrottled // an object of its own is tried instead
			}
			return core.ClassNone
		}
		b.objects["_mopslock/store.json"] = world.Object{Body: []byte(`{"v": 1, "create": "honoured"}`)}
		p.begin(core.EventAcquire, core.Terms{Name: "n"}, core.Event{Wait: core.Forever})
		for p.latest[core.ActionHeld].Claim == 0 && p.Wake != 0 {
			p.until(p.Wake)
		}
		tried := b.fails
		b.rest, b.fails = core.Minute, func(*core.Action) core.Class { return core.ClassThrottled }
		p.begin(core.EventLook, core.Terms{Name: "n"}, core.Event{})
		b.fails = tried
		if closes {
			p.told = nil
			p.do(core.Event{Kind: core.EventClose})
			p.until(p.now + int64(10*core.Second))
			if p.hears("1 released; 0 closed"); deletes != 0 {
				t.Error(deletes, "deletes of a client that closes in the store's rest")
			}
		} else if p.until(p.now + int64(50*core.Second)); deletes != 0 {
			t.Error(deletes, "deletes in the store's rest")
		} else if p.until(p.now + int64(20*core.Second)); deletes != 1 {
			t.Error(deletes, "deletes after it")
		}
	}
}

// TestHurry: a lease by lastwriter that was released, and of which a late renewal may still land, is
// looked at until its TTL is over; if its client closes, or it is given up before the release was
// answered, it is looked at for a second.
func TestHurry(t *testing.T) {
	for _, tc := range []struct {
		kind core.EventKind
		most core.Duration
	}{{0, 100 * core.Second}, {core.EventCancel, 2 * core.Second}, {core.EventClose, 2 * core.Second}, {core.EventLeave, 2 * core.Second}} {
		b := newBucket()
		p := newProcess(t, b, 1)
		claim := p.begin(core.EventAcquire, core.Terms{Name: "n", Protocol: core.ProtocolLastWriter}, core.Event{Wait: core.Forever})
		p.until(p.now + int64(core.Second))
		b.fails = func(a *core.Action) core.Class {
			if a.Kind == core.ActionPut {
				return core.ClassUnreachable
			}
			return core.ClassNone
		}
		p.until(p.now + int64(30*core.Second))
		b.fails, p.told = nil, nil
		from := p.now
		switch tc.kind {
		case 0:
			p.do(core.Event{Kind: core.EventRelease, Claim: claim})
		case core.EventClose:
			p.do(core.Event{Kind: core.EventRelease, Claim: claim})
			p.do(core.Event{Kind: tc.kind})
		default:
			p.holds = all
			p.do(core.Event{Kind: core.EventRelease, Claim: claim})
			p.do(core.Event{Kind: tc.kind, Claim: claim})
			p.letGo()
		}
		for !p.Client.Idle() && p.Wake != 0 {
			p.until(p.Wake)
		}
		took := core.Duration(p.now - from)
		if !p.Client.Idle() || took > tc.most || tc.kind == 0 && took < core.Minute {
			t.Errorf("%v: idle %t after %v", tc.kind, p.Client.Idle(), took)
		}
	}
}

// TestNothingAfterTheEnd: a claim that was released looks for a late renewal, and finds one of another TTL. It says
// nothing of that any more.
func TestNothingAfterTheEnd(t *testing.T) {
	p := newProcess(t, newBucket(), 1)
	terms := core.Terms{Name: "n", Protocol: core.ProtocolLastWriter, TTL: core.TTL(20 * core.Second)}
	claim := p.begin(core.EventAcquire, terms, core.Event{Wait: core.Forever})
	p.until(p.now + int64(core.Second))
	p.hears("1 held")
	late := p.bucket.objects["n/lock.json"]
	late.Body = bytes.Replace(late.Body, []byte(`20.0`), []byte(`60.0`), 1)
	failed := false
	p.bucket.fails = func(a *core.Action) core.Class {
		if a.Kind == core.ActionPut && !failed {
			failed = true // and may land late
			return core.ClassUnreachable
		}
		return core.ClassNone
	}
	for !failed {
		p.until(p.Wake)
	}
	p.do(core.Event{Kind: core.EventRelease, Claim: claim})
	p.hears("1 released")
	p.bucket.objects["n/lock.json"] = late
	p.until(p.now + 30*int64(core.Second))
	p.hears("")
	if p.bucket.objects["n/lock.json"].Body == nil || bytes.Equal(p.bucket.objects["n/lock.json"].Body, late.Body) {
		t.Error("it did not look")
	}
}
