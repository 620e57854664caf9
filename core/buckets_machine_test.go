package core

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"
)

func bucketsConfig() Config {
	return Config{Machine: MachineBuckets, Protocol: ProtocolStrict, Seed: [16]byte{1}}
}

func newBuckets(tb testing.TB) *BucketsMachine {
	tb.Helper()
	m, err := New(bucketsConfig())
	if err != nil {
		tb.Fatal(err)
	}
	return m.(*BucketsMachine)
}

// bucketsSaid is what a step answered as the stories say it, and the counters.
func bucketsSaid(t tester, ev Event, actions []Action) (result, counters string) {
	t.Helper()
	want := 2
	if ev.Kind == EventChanged || ev.Kind == EventWoke {
		want = 1
	}
	last := len(actions) - 1
	if len(actions) != want || actions[last].Kind != ActionCounted {
		t.Fatalf("%s: %d actions", formatEvent(ev), len(actions))
	}
	switch a := actions[0]; a.Kind {
	case ActionGranted:
		result = strconv.FormatUint(a.Total, 10)
		if a.Total != actions[last].Total {
			t.Fatalf("granted %d, counted %d", a.Total, actions[last].Total)
		}
	case ActionReleased:
		result = "ok"
	case ActionRefused:
		result = a.Reason.String()
	}
	return result, string(actions[last].Body)
}

// TestBucketsMachineCases: behind messages buckets do what they do without.
func TestBucketsMachineCases(t *testing.T) {
	for _, c := range bucketsCases() {
		w := newWorld(t)
		a, err := w.add("a", bucketsConfig())
		if err != nil {
			t.Fatal(err)
		}
		for _, op := range c.ops(t) {
			actions, err := w.step(a, op.event)
			if err != nil {
				t.Fatalf("%s: %s: %v", c.name, op.line, err)
			}
			result, counters := bucketsSaid(t, op.event, actions)
			if op.event.Kind == EventDown {
				op.result = "ok"
			}
			if result != op.result || op.counters != "" && counters != op.counters {
				t.Errorf("%s: %s: got %s %s", c.name, op.line, result, counters)
			}
		}
	}
}

// bucketsContract is each event that breaks the contract, with its words.
func bucketsContract() []struct {
	name string
	ev   Event
	want string
} {
	const knows = ": only acquire has a capacity and a width, down has no weight, and buckets know no wait, brief, permit, spare, limit and label"
	const view = "capacity must be from 1 to 1048576 and width from 1 to 65536"
	acquire := func(change func(*Event)) Event {
		ev := Event{Kind: EventAcquire, Capacity: 1, Width: 1, Weight: 1, Holder: []byte("h")}
		change(&ev)
		return ev
	}
	return []struct {
		name string
		ev   Event
		want string
	}{
		{"capacity 0", acquire(func(ev *Event) { ev.Capacity = 0 }), view},
		{"capacity", acquire(func(ev *Event) { ev.Capacity = MaxCapacity + 1 }), view},
		{"width 0", acquire(func(ev *Event) { ev.Width = 0 }), view},
		{"width", acquire(func(ev *Event) { ev.Width = MaxWidth + 1 }), view},
		{"wait", acquire(func(ev *Event) { ev.Wait = 1 }), "acquire" + knows},
		{"wait out of range", acquire(func(ev *Event) { ev.Wait = -2 }), "acquire: wait -2ns is out of range"},
		{"permit", acquire(func(ev *Event) { ev.Permit = 1 }), "acquire" + knows},
		{"spare", acquire(func(ev *Event) { ev.Spare = 1 }), "acquire" + knows},
		{"label", acquire(func(ev *Event) { ev.Label = []byte("l") }), "acquire" + knows},
		{"store limit", acquire(func(ev *Event) { ev.StoreLimit = 1 }), "acquire" + knows},
		{"holder bytes", acquire(func(ev *Event) { ev.Holder = []byte("\xff") }), "acquire: holder: at most 512 bytes of UTF-8"},
		{"holder long", acquire(func(ev *Event) { ev.Holder = make([]byte, MaxHolder+1) }), "acquire: holder: at most 512 bytes of UTF-8"},
		{"brief", Event{Kind: EventRelease, Brief: true}, "release" + knows},
		{"release of a permit", Event{Kind: EventRelease, Permit: 1}, "release" + knows},
		{"release of a view", Event{Kind: EventRelease, Capacity: 1}, "release" + knows},
		{"down of a weight", Event{Kind: EventDown, Holder: []byte("h"), Weight: 1}, "down" + knows},
		{"down of a width", Event{Kind: EventDown, Holder: []byte("h"), Width: 1}, "down" + knows},
		{"down of nobody", Event{Kind: EventDown}, "down: without a holder"},
		{"down long", Event{Kind: EventDown, Holder: make([]byte, MaxHolder+1)}, "down: holder: at most 512 bytes of UTF-8"},
		{"woke for a holder", Event{Kind: EventWoke, Holder: []byte("h")}, "woke" + knows},
		{"limit", Event{Kind: EventLimit, Permit: 1}, "event limit has no meaning in state ready"},
		{"cancel", Event{Kind: EventCancel}, "event cancel has no meaning in state ready"},
		{"begin", Event{Kind: EventBegin}, "event begin has no meaning in state ready"},
		{"nothing", Event{}, "event EventKind(0) has no meaning in state ready"},
	}
}

// TestBucketsContract: what breaks the contract is told, and changes nothing.
func TestBucketsContract(t *testing.T) {
	m := newBuckets(t)
	stepping(t, m, Instant{5, 5}, Event{Kind: EventAcquire, Capacity: 3, Width: 2, Holder: bytes.Repeat([]byte("h"), MaxHolder)})
	before := m.AppendState(nil)
	for _, c := range bucketsContract() {
		_, err := m.Step(Instant{6, 6}, c.ev)
		if !errors.Is(err, &Error{Code: ErrorEvent}) || err.Error() != "mopslock: "+c.want {
			t.Errorf("%s: got %v, want %s", c.name, err, c.want)
		}
	}
	for code, ev := range map[ErrorCode]Event{
		ErrorRequest: {Kind: EventAnswer, Request: 1, Outcome: OutcomeYes}, ErrorClock: {Kind: EventWoke},
	} {
		if _, err := m.Step(Instant{4, 6}, ev); err == nil {
			t.Errorf("%s: accepted", code)
		}
	}
	if !bytes.Equal(before, m.AppendState(nil)) {
		t.Error("an error changed the machine")
	}
	if !m.Idle() || m.State() != BucketsReady || m.String() != "ready" {
		t.Error(m)
	}
}

// TestBucketsMachineIsMade: of seed alone, under strict.
func TestBucketsMachineIsMade(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"machine: only strict has it":                          func(c *Config) { c.Protocol, c.Expiry = ProtocolLastWriter, ExpiryWall },
		"seed: must be 16 fresh random bytes for each machine": func(c *Config) { c.Seed = [16]byte{} },
		"session: only a lease and permits stand on one":       func(c *Config) { c.OnSession = true },
		"machine: no such machine":                             func(c *Config) { c.Machine, c.Name = MachineBuckets+1, "n" },
	} {
		cfg := bucketsConfig()
		change(&cfg)
		if m, err := New(cfg); m != nil || !errors.Is(err, &Error{Code: ErrorConfig}) || err.Error() != "mopslock: "+want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestBucketsManyHolders: one too many is told, and nobody else is kept from
// anything: not who holds already, nor who is refused anyway.
func TestBucketsManyHolders(t *testing.T) {
	m := newBuckets(t)
	acquire := func(who string, width uint32) ([]Action, error) {
		return m.Step(Instant{}, Event{Kind: EventAcquire, Capacity: 1, Width: width, Holder: []byte(who)})
	}
	for n := range MaxAsked {
		if _, err := acquire(strconv.Itoa(n), MaxAsked); err != nil {
			t.Fatal(n, err)
		}
	}
	before := m.AppendState(nil)
	if _, err := acquire("one more", MaxAsked+2); err == nil || err.Error() != "mopslock: acquire: at most 1024 holders at once" {
		t.Error(err)
	}
	if !bytes.Equal(before, m.AppendState(nil)) {
		t.Error("the error changed it")
	}
	if actions, err := acquire("one more", MaxAsked); err != nil || actions[0].Reason != ReasonFull {
		t.Error(actions, err)
	}
	if actions, err := acquire("7", MaxAsked+1); err != nil || actions[0].Total != MaxAsked+1 {
		t.Error(actions, err)
	}
	stepping(t, m, Instant{}, Event{Kind: EventDown, Holder: []byte("8")})
	if actions, err := acquire("one more", MaxAsked+1); err != nil || actions[0].Kind != ActionGranted {
		t.Error(actions, err)
	}
}

// TestBucketsMessageFits: the first MaxCounters counters of the largest, and how
// many there are; in a message that may be sent.
func TestBucketsMessageFits(t *testing.T) {
	m := newBuckets(t)
	var actions []Action
	for range 4 {
		actions = stepping(t, m, Instant{}, Event{Kind: EventAcquire, Capacity: MaxCapacity, Width: MaxWidth, Weight: 1 << 31})
	}
	a := actions[1]
	want := "[" + strings.Repeat("1048577,", MaxCounters-1) + "1048577]"
	if string(a.Body) != want || a.Count != 8192 || a.Total != 1<<33 {
		t.Errorf("%.20s... of %d bytes, %d counters, %d held", a.Body, len(a.Body), a.Count, a.Total)
	}
	if n := len(AppendAnswer(nil, m, actions)); n > MaxMessage {
		t.Errorf("%d bytes", n)
	}
}

// busyBuckets have a holder that stands first, two others, a full bucket that was
// walked past, and one that is not full.
func busyBuckets(tb testing.TB) *BucketsMachine {
	m := newBuckets(tb)
	for _, who := range []string{"q", "p", "r", "p"} {
		ev := Event{Kind: EventAcquire, Capacity: 3, Width: 2, Holder: []byte(who)}
		if _, err := m.Step(Instant{7, 8}, ev); err != nil {
			tb.Fatal(err)
		}
	}
	return m
}

// TestBucketsStateIsComplete is TestAppendStateIsComplete for buckets.
func TestBucketsStateIsComplete(t *testing.T) {
	checkState(t, busyBuckets(t), map[string]bool{
		"cfg": true, "key": true, "deliberate": true, // constant
		"out": true, "counters": true, "body": true, // of the latest Step
	})
}

// TestBucketsStateIsCanonical: however it came about, one standing has one state,
// and what has no meaning is not in it.
func TestBucketsStateIsCanonical(t *testing.T) {
	for name, pair := range map[string][2]string{
		"order of holders": {"p a(3,3) 1\nq a(3,3) 2\nr a(3,3) 3", "r a(3,3) 1\nq a(3,3) 2\np a(3,3) 3"},
		"scale of nothing": {"a(3,1) 1\nr ok", "a(5,1) 1\nr ok"},
	} {
		var states [2][]byte
		for i, story := range pair {
			m := newBuckets(t)
			for _, op := range (bucketsCase{name: name, story: story}).ops(t) {
				stepping(t, m, Instant{}, op.event)
			}
			states[i] = m.AppendState(nil)
		}
		if !bytes.Equal(states[0], states[1]) {
			t.Errorf("%s: two states", name)
		}
	}
}

// TestBucketsCloneIsIndependent: neither side sees what the other does, and a
// clone of any standing is the same.
func TestBucketsCloneIsIndependent(t *testing.T) {
	for _, c := range bucketsCases() {
		m := newBuckets(t)
		for _, op := range c.ops(t) {
			before := m.AppendState(nil)
			twin := m.Clone()
			if !bytes.Equal(before, twin.AppendState(nil)) {
				t.Fatalf("%s: before %s: the clone is another", c.name, op.line)
			}
			first := appendActions(nil, stepping(t, twin, Instant{}, op.event))
			if !bytes.Equal(before, m.AppendState(nil)) {
				t.Fatalf("%s: %s: the clone's step changed it", c.name, op.line)
			}
			actions := stepping(t, m, Instant{}, op.event)
			if second := appendActions(nil, actions); !bytes.Equal(first, second) {
				t.Fatalf("%s: %s: %x, of the clone %x", c.name, op.line, second, first)
			}
			stepping(t, m.Clone(), Instant{}, Event{Kind: EventAcquire, Capacity: 9, Width: 9, Weight: 9})
			if !bytes.Equal(first, appendActions(nil, actions)) {
				t.Fatalf("%s: %s: a clone's step changed its actions", c.name, op.line)
			}
		}
	}
}

// bucketsVectors is each case as a vector, and what is refused.
func bucketsVectors(t *testing.T) map[string][]byte {
	files := map[string][]byte{}
	cfg := bucketsConfig()
	for _, c := range bucketsCases() {
		v := newVector(c.theorem, "the table in buckets_cases_test.go")
		n := v.made(AppendConfig(nil, &cfg))
		for i, op := range c.ops(t) {
			v.stepped(n, AppendInput(nil, Instant{int64(i), worldStart}, &op.event))
		}
		files["buckets_"+c.name+".vec"] = v.end()
	}
	v := newVector("An event that buckets do not have is refused, and changes nothing; changed and woke only count.",
		"buckets_machine_test.go")
	n := v.made(AppendConfig(nil, &cfg))
	step := func(ev Event) { v.stepped(n, AppendInput(nil, Instant{5, worldStart}, &ev)) }
	step(Event{Kind: EventAcquire, Capacity: 3, Width: 2, Holder: []byte("h\u00e9")})
	for _, c := range bucketsContract() {
		step(c.ev)
		step(Event{Kind: EventWoke})
	}
	step(Event{Kind: EventAnswer, Request: 1, Outcome: OutcomeYes})
	step(Event{Kind: EventAcquire, Capacity: 1, Width: MaxWidth, Weight: MaxCounters + 1}) // more than are shown
	step(Event{Kind: EventChanged})
	files["buckets_refused_step.vec"] = v.end()
	return files
}

// FuzzBucketsStep tells buckets whatever can be made of the bytes. It must never
// panic, an error must change nothing, and what is held decides.
func FuzzBucketsStep(f *testing.F) {
	f.Add([]byte("\x00\x11\x00\x01\x21\x01\x00\x31\x02\x02\x00\x00\x01\x00\x00"))
	f.Add(bytes.Repeat([]byte("\x00\x22\x01\x02\x00\x01\x01\x00\x02"), 20))
	f.Fuzz(func(t *testing.T, data []byte) {
		w, in, s := newWorld(t), &source{data}, shelf{}
		a, err := w.add("a", bucketsConfig())
		if err != nil {
			t.Fatal(err)
		}
		for steps := 0; len(in.data) > 0 && steps < 300; steps++ {
			w.now += in.jump() % 1e9
			w.fuzzBuckets(a, in, s)
		}
	})
}

func (w *world) fuzzBuckets(a *actor, in *source, s shelf) {
	kinds := [...]EventKind{EventAcquire, EventRelease, EventDown, EventAcquire, EventRelease, EventWoke, EventChanged, EventAnswer}
	b, view, who := in.octet(), in.octet(), in.octet()
	ev := Event{Kind: kinds[b&7], Weight: uint32(b >> 3), Holder: []byte{'a' + who&15, who | 'a'}[:who>>4%3]}
	if ev.Kind == EventAcquire || b == 255 {
		ev.Capacity, ev.Width = uint32(view&15), uint32(view>>4)
	}
	if ev.Kind == EventDown && view&3 != 0 {
		ev.Weight = 0
	}
	most, more, before := uint64(ev.Capacity)*uint64(ev.Width), uint64(max(ev.Weight, 1)), maps.Clone(s)
	actions, err := w.step(a, ev)
	if err != nil {
		return
	}
	result, _ := bucketsSaid(w.t, ev, actions)
	want, holder := "", string(ev.Holder)
	switch ev.Kind {
	case EventAcquire:
		want = s.acquire(most, more, holder).String()
		if want == "none" {
			want = strconv.FormatUint(s.total(), 10)
		}
	case EventRelease:
		want = ReasonOutOfBuckets.String()
		if s.release(holder, more) {
			want = "ok"
		}
	case EventDown:
		want = "ok"
		delete(s, holder)
	}
	if last := actions[len(actions)-1]; result != want || last.Total != s.total() {
		w.fail("WhatIsHeldDecides: %s: %s, want %s; %d held, want %d of %s", formatEvent(ev), result, want, last.Total, s.total(), fmt.Sprint(before))
	}
}
