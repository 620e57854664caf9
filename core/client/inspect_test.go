package client_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/tests/world"
)

// TestLooks: what a name is, by either protocol, once, at every change, and broken.
func TestLooks(t *testing.T) {
	for _, protocol := range []core.Protocol{core.ProtocolStrict, core.ProtocolLastWriter} {
		b := newBucket()
		p, q := newProcess(t, b, 1), newProcess(t, b, 2)
		q.begin(core.EventLook, core.Terms{Name: "n"}, core.Event{})
		q.hears("1 seen vacant")
		watching := q.begin(core.EventWatch, core.Terms{Name: "n"}, core.Event{})
		q.hears("2 seen vacant")
		p.begin(core.EventAcquire, core.Terms{Name: "n", Protocol: protocol}, core.Event{Wait: core.Forever})
		p.until(p.now + int64(core.Second))
		p.hears("1 held")
		q.until(p.now + int64(2*core.Second))
		q.hears("2 seen held")
		q.begin(core.EventBreak, core.Terms{Name: "n", Why: "stuck", Holder: "other"}, core.Event{})
		q.hears("3 refused held held")
		q.begin(core.EventBreak, core.Terms{Name: "n", Why: "stuck"}, core.Event{})
		state := map[core.Protocol]string{core.ProtocolStrict: "broken", core.ProtocolLastWriter: "released"}[protocol]
		q.hears("4 seen " + state + "; 4 broken")
		q.until(q.now + int64(2*core.Second))
		q.hears("2 seen " + state)
		p.until(p.now + int64(60*core.Second))
		p.hears("1 lost " + state + " " + state)
		q.begin(core.EventBreak, core.Terms{Name: "n", Why: "stuck"}, core.Event{})
		q.hears("5 refused vacant " + state)
		q.do(core.Event{Kind: core.EventCancel, Claim: watching})
		q.hears("2 refused cancelled")
		q.do(core.Event{Kind: core.EventClose})
		q.hears("0 closed")
	}
}

// leaves puts a name into a bucket as one protocol keeps it.
func leaves(t *testing.T, b *bucket, protocol core.Protocol, released bool) {
	t.Helper()
	alone := newBucket()
	p := newProcess(t, alone, byte(10+protocol))
	claim := p.begin(core.EventAcquire, core.Terms{Name: "n", Protocol: protocol}, core.Event{Wait: core.Forever})
	p.until(p.now + int64(core.Second))
	if released {
		p.do(core.Event{Kind: core.EventRelease, Claim: claim})
	}
	for key, object := range alone.objects {
		b.objects[key] = object
	}
}

// TestLookHoweverItIsKept: the protocol of what is seen, with both in the bucket.
func TestLookHoweverItIsKept(t *testing.T) {
	const none, held, released = 0, 1, 2
	for _, tc := range []struct {
		versions, record int
		asks             core.Protocol
		want             string
	}{
		{none, none, 0, "strict vacant"},
		{held, none, 0, "strict held"},
		{released, none, 0, "strict released"},
		{none, held, 0, "lastwriter held"},
		{none, released, 0, "lastwriter released"},
		{held, held, 0, "strict held"},
		{released, held, 0, "lastwriter held"},
		{released, released, 0, "strict released"},
		{released, held, core.ProtocolStrict, "strict released"},
		{held, released, core.ProtocolLastWriter, "lastwriter released"},
		{held, none, core.ProtocolLastWriter, "lastwriter vacant"},
	} {
		b := newBucket()
		if tc.versions != none {
			leaves(t, b, core.ProtocolStrict, tc.versions == released)
		}
		if tc.record != none {
			leaves(t, b, core.ProtocolLastWriter, tc.record == released)
		}
		p := newProcess(t, b, 1)
		p.now += int64(2 * core.Second)
		p.begin(core.EventLook, core.Terms{Name: "n", Protocol: tc.asks}, core.Event{})
		seen := p.latest[core.ActionSeen]
		if got := fmt.Sprint(seen.Protocol, " ", seen.Observed.State); got != tc.want || !p.Client.Idle() {
			t.Errorf("%+v: seen %s", tc, got)
		}
	}
}

func TestLookThatFails(t *testing.T) {
	b := newBucket()
	p := newProcess(t, b, 1)
	for i, class := range []core.Class{core.ClassUnreachable, core.ClassUnauthorized} {
		want := []core.Reason{core.ReasonUnreachable, core.ReasonUnusable}[i]
		for _, protocol := range []core.Protocol{core.ProtocolStrict, core.ProtocolLastWriter} {
			b.fails = func(*core.Action) core.Class { return class }
			p.begin(core.EventLook, core.Terms{Name: "n", Protocol: protocol}, core.Event{})
			if a := p.latest[core.ActionRefused]; a.Reason != want || a.Claim != p.last || a.Class != class {
				t.Errorf("%v %v: %v %v", protocol, class, a.Reason, a.Class)
			}
		}
	}
	p.begin(core.EventWatch, core.Terms{Name: "n"}, core.Event{}) // a store that has never answered a read for good ends a watch
	if a := p.latest[core.ActionRefused]; a.Reason != core.ReasonUnusable || a.Claim != p.last {
		t.Errorf("a watch: %v", a.Reason)
	}
	b.fails = nil
	watching := p.begin(core.EventWatch, core.Terms{Name: "n"}, core.Event{})
	for _, class := range []core.Class{core.ClassUnauthorized, core.ClassNoSuchStore, core.ClassUnreachable} {
		p.told = nil
		b.fails = func(*core.Action) core.Class { return class }
		p.until(p.now + int64(10*core.Second))
		b.fails = nil
		p.until(p.now + int64(2*core.Second))
		if got := p.heard(); strings.Count(got, "warned") != 1 || !strings.HasPrefix(got, fmt.Sprint(watching, " warned un")) {
			t.Errorf("%v: a watch that has read: %s", class, got)
		}
	}
	if _, err := p.Client.Step(core.Instant{Mono: p.now}, core.Event{
		Kind: core.EventLook, Claim: p.last + 1, Terms: &core.Terms{Name: "n", Protocol: 7},
	}); err == nil {
		t.Error("looked by a protocol that does not exist")
	}
}

// TestWatchOfKeys: the host tells of the record and of the next version. A change while the
// name is being read has it read once more, and once only.
func TestWatchOfKeys(t *testing.T) {
	b := newBucket()
	p, q := newProcess(t, b, 1), newProcessOf(t, b, core.Config{Seed: [16]byte{2}, OwnStore: true, Watches: true})
	watching := q.begin(core.EventWatch, core.Terms{Name: "n"}, core.Event{})
	claim := p.begin(core.EventAcquire, core.Terms{Name: "n", Protocol: core.ProtocolStrict}, core.Event{})
	q.hears("1 seen vacant")
	changed := func(key string) {
		t.Helper()
		if !slices.Contains(q.Watched, key) {
			t.Errorf("watches %v, and not %s", q.Watched, key)
		}
		q.do(core.Event{Kind: core.EventChanged, Key: []byte(key)})
	}
	changed(newest(b))
	q.until(q.now)
	q.hears("1 seen held")
	q.now += int64(core.Second / 10)
	q.holds = all
	changed("n/lock.json")
	q.until(q.now)
	reading := len(q.kept)
	p.do(core.Event{Kind: core.EventRelease, Claim: claim})
	changed(newest(b))
	q.letGo()
	q.until(q.now)
	q.hears("1 seen released")
	if got := q.latest[core.ActionSeen]; got.Protocol != core.ProtocolStrict {
		t.Error(got.Protocol)
	}
	before := q.sent
	q.until(q.now + int64(core.Second/2))
	if reading != 1 || q.sent != before {
		t.Error(reading, "were asked for, then", q.sent-before)
	}
	q.do(core.Event{Kind: core.EventCancel, Claim: watching})
	if len(q.Watched) != 0 || !q.Client.Idle() {
		t.Error(q.Watched)
	}
}

// newest is the key of the newest version, which is listed first.
func newest(b *bucket) string {
	first := ""
	for key := range b.objects {
		if strings.HasPrefix(key, "n/_mopslock/") && strings.HasSuffix(key, "/v") && (first == "" || key < first) {
			first = key
		}
	}
	return first
}

// TestWatchOfCompanion: who writes is news.
func TestWatchOfCompanion(t *testing.T) {
	b := newBucket()
	p, q, r := newProcess(t, b, 1), newProcess(t, b, 2), newProcess(t, b, 3)
	terms := core.Terms{Name: "n", Protocol: core.ProtocolLastWriter}
	p.begin(core.EventAcquire, terms, core.Event{})
	p.until(p.now + int64(core.Second))
	q.now, r.now = p.now, p.now
	r.begin(core.EventWatch, core.Terms{Name: "n"}, core.Event{})
	terms.Holder = p.holder
	q.begin(core.EventAccompany, terms, core.Event{})
	for range 40 {
		q.until(q.now + int64(core.Second))
		r.until(q.now)
	}
	r.hears("1 seen held; 1 seen held")
	if !r.latest[core.ActionSeen].Observed.Remote {
		t.Error("the owner's")
	}
}

// TestWatchesSpread: polls of one instant do not stay together.
func TestWatchesSpread(t *testing.T) {
	p := newProcess(t, newBucket(), 1)
	for range 20 {
		p.begin(core.EventWatch, core.Terms{Name: "n"}, core.Event{})
	}
	at := map[int64]bool{}
	for end := p.now + int64(core.Second*3/2); p.Wake < end; {
		at[p.Wake] = true
		p.until(p.Wake)
	}
	if len(at) < 20 {
		t.Error(len(at), "instants")
	}
}

// TestBreakLetsWaiterIn: one that waits here is told at once; and a break that is there is
// told whatever becomes of the look after it.
func TestBreakLetsWaiterIn(t *testing.T) {
	for _, protocol := range []core.Protocol{core.ProtocolStrict, core.ProtocolLastWriter} {
		for _, ends := range []string{"fails", "cancel", "close"} {
			b := newBucket()
			p, q := newProcess(t, b, 1), newProcess(t, b, 2)
			p.begin(core.EventAcquire, core.Terms{Name: "n", Protocol: protocol}, core.Event{})
			p.until(p.now + int64(core.Second))
			q.now = p.now
			q.begin(core.EventAcquire, core.Terms{Name: "n", Protocol: protocol}, core.Event{Wait: core.Forever})
			q.told = nil
			written := false
			b.fails = func(a *core.Action) core.Class {
				if written && ends == "fails" && a.Claim == 2 {
					return core.ClassUnreachable
				}
				if a.Claim == 2 && (a.Kind == core.ActionCreate || a.Kind == core.ActionPut) {
					written = true
					if q.holds = nil; ends != "fails" {
						q.holds = all
					}
				}
				return 0
			}
			breaking := q.begin(core.EventBreak, core.Terms{Name: "n", Why: "stuck", Now: true}, core.Event{})
			if ends != "fails" { // the answer to the write, and then not that to the read
				kept := q.kept
				q.kept = nil
				for _, ev := range kept {
					q.do(ev)
				}
				if protocol == core.ProtocolStrict && len(q.kept) < 2 {
					t.Error(len(q.kept), "are asked for: the waiter's and the look's")
				}
			}
			switch ends {
			case "cancel":
				q.do(core.Event{Kind: core.EventCancel, Claim: breaking})
			case "close":
				q.do(core.Event{Kind: core.EventClose})
			}
			if got := q.heard(); !strings.Contains(got, "2 broken") || strings.Contains(got, "2 refused") {
				t.Errorf("%v %s: %s", protocol, ends, got)
			}
			if ends == "close" {
				continue
			}
			q.letGo()
			q.until(q.now + int64(core.Second/2))
			if got := q.latest[core.ActionHeld]; got.Claim != 1 || got.Origin != core.OriginElsewhere {
				t.Errorf("%v %s: not held, but %+v", protocol, ends, got)
			}
		}
	}
}

// TestBreakOfRecord: what it comes to if the record cannot be read, is another's by now, or
// cannot be written.
func TestBreakOfRecord(t *testing.T) {
	for _, tc := range []struct {
		name   string
		then   func(b *bucket) // once it was read
		reason core.Reason
		class  core.Class
	}{
		{"unreadable", nil, core.ReasonUnusable, core.ClassOther},
		{"another's", func(b *bucket) {
			object := b.objects["n/lock.json"]
			other := newBucket()
			p := newProcess(t, other, 9)
			p.begin(core.EventAcquire, core.Terms{Name: "n", Protocol: core.ProtocolLastWriter}, core.Event{})
			p.until(p.now + int64(core.Second))
			object.Body = other.objects["n/lock.json"].Body
			b.objects["n/lock.json"] = object
		}, core.ReasonHeld, core.ClassNone},
		{"silent", func(b *bucket) {
			b.fails = func(*core.Action) core.Class { return core.ClassUnreachable }
		}, core.ReasonUnreachable, core.ClassUnreachable},
	} {
		b := newBucket()
		leaves(t, b, core.ProtocolLastWriter, false)
		if tc.then == nil {
			b.objects["n/lock.json"] = world.Object{Body: []byte("{"), Stamp: wallBase}
		}
		p := newProcess(t, b, 1)
		p.now += int64(2 * core.Second)
		p.holds = all
		p.begin(core.EventBreak, core.Terms{Name: "n", Protocol: core.ProtocolLastWriter}, core.Event{})
		if tc.then != nil {
			tc.then(b)
		}
		p.letGo()
		p.until(p.now + int64(200*core.Second))
		a := p.latest[core.ActionRefused]
		if a.Claim != 1 || a.Reason != tc.reason || a.Class != tc.class || !p.Client.Idle() {
			t.Errorf("%s: claim %d, %v %v", tc.name, a.Claim, a.Reason, a.Class)
		}
	}
}

// TestLookAtSemaphore: it is shown, also while nobody holds a permit, and not an old
// client's record beside it.
func TestLookAtSemaphore(t *testing.T) {
	b := newBucket()
	p := newProcess(t, b, 1)
	claim := p.begin(core.EventPermit, core.Terms{Name: "n"}, core.Event{Capacity: 2, Width: 1, Weight: 1, Wait: core.Forever})
	p.begin(core.EventLook, core.Terms{Name: "n"}, core.Event{})
	held := p.latest[core.ActionSeen]
	if held.Observed.Held != 1 || held.Observed.State != core.ObservedHeld {
		t.Errorf("%+v", held.Observed)
	}
	p.do(core.Event{Kind: core.EventRelease, Claim: claim})
	leaves(t, b, core.ProtocolLastWriter, false)
	p.begin(core.EventLook, core.Terms{Name: "n"}, core.Event{})
	if a := p.latest[core.ActionSeen]; a.Protocol != core.ProtocolStrict || a.Observed.Capacity != 2 || a.Observed.State != core.ObservedVacant {
		t.Errorf("%v %+v", a.Protocol, a.Observed)
	}
}

// TestLooksDoNotRest: who looks does not wait for a store that asks to be left alone; who
// writes does.
func TestLooksDoNotRest(t *testing.T) {
	for kind, want := range map[core.EventKind]int{core.EventLook: 1, core.EventWatch: 1, core.EventBreak: 0} {
		b := newBucket()
		p := newProcess(t, b, 1)
		b.rest = core.Second
		b.fails = func(*core.Action) core.Class { return core.ClassThrottled }
		p.begin(core.EventAcquire, core.Terms{Name: "other"}, core.Event{Wait: core.Forever})
		b.fails = nil
		p.sent, p.holds = 0, all
		p.begin(kind, core.Terms{Name: "n", Why: "stuck"}, core.Event{})
		if p.sent != want {
			t.Errorf("%v: %d requests", kind, p.sent)
		}
	}
}

// TestWatchIsToldOfChanges: a watch polls until the host has said that it tells of changes. Time ends what
// is held, and that is read when it can be so.
func TestWatchIsToldOfChanges(t *testing.T) {
	for _, protocol := range []core.Protocol{core.ProtocolStrict, core.ProtocolLastWriter} {
		b := newBucket()
		q := newProcessOf(t, b, core.Config{Seed: [16]byte{2}, OwnStore: true, Watches: true})
		q.begin(core.EventWatch, core.Terms{Name: "n"}, core.Event{})
		changed := func() {
			for _, key := range slices.Clone(q.Watched) {
				q.do(core.Event{Kind: core.EventChanged, Key: []byte(key)})
			}
		}
		before := q.sent
		if q.until(q.now + int64(10*core.Second)); q.sent < before+8 {
			t.Errorf("%v: %d requests before the host watches", protocol, q.sent-before)
		}
		changed()
		q.until(q.now)
		before = q.sent
		q.until(q.now + int64(core.Minute/2))
		if q.hears("1 seen vacant"); q.sent != before {
			t.Errorf("%v: %d requests about nothing", protocol, q.sent-before)
		}
		leaves(t, b, protocol, false) // and its process has died
		changed()
		q.until(q.now)
		q.hears("1 seen held")
		changed() // it watches the next version
		q.until(q.now)
		before = q.sent
		q.until(q.now + int64(100*core.Second))
		if q.hears("1 seen stale"); q.sent != before+2 {
			t.Errorf("%v: %d requests until it is stale", protocol, q.sent-before)
		}
	}
}

// TestWatchLeavesTheStoreAlone: it reads again when the store has had its rest.
func TestWatchLeavesTheStoreAlone(t *testing.T) {
	b := newBucket()
	p := newProcess(t, b, 1)
	p.begin(core.EventWatch, core.Terms{Name: "n"}, core.Event{})
	b.rest = core.Minute
	b.fails = func(*core.Action) core.Class { return core.ClassThrottled }
	p.until(p.now + int64(2*core.Second))
	b.fails, p.sent = nil, 0
	if p.until(p.now + int64(core.Minute/2)); p.sent != 0 {
		t.Error(p.sent, "requests of a watch in its rest")
	}
	if p.until(p.now + int64(core.Minute)); p.sent == 0 {
		t.Error("it does not read again")
	}
}
