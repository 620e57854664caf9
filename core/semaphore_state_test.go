package core

import (
	"testing"
	"time"
)

// asking is a semaphore that was begun and is driven by hand, on a session in force.
type asking struct {
	tb  testing.TB
	m   *Semaphore
	now Instant
	sid string
}

func newAsking(tb testing.TB, change func(*Config)) *asking {
	cfg := Config{Machine: MachineSemaphore, Protocol: ProtocolStrict, Name: "n", Seed: [16]byte{7, 1}, Host: "worker-7f9c4d", PID: "12345", Boot: "b1"}
	if change != nil {
		change(&cfg)
	}
	m, err := NewSemaphore(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return &asking{tb, m, Instant{int64(time.Hour), worldStart}, "sid"}
}

// step gives it an event on its session.
func (k *asking) step(ev Event) []Action {
	k.tb.Helper()
	ev.Session, ev.SessionUntil = []byte(k.sid), MaxClockRange
	actions, err := k.m.Step(k.now, ev)
	if err != nil {
		k.tb.Fatal(err)
	}
	return actions
}

func (k *asking) acquire(n uint64, wait time.Duration) []Action {
	k.tb.Helper()
	return k.step(Event{Kind: EventAcquire, Permit: n, Capacity: 100, Width: 1, Wait: wait, Label: []byte("nightly")})
}

// yes answers its request.
func (k *asking) yes(ev Event) []Action {
	k.tb.Helper()
	ev.Kind, ev.Request, ev.Outcome = EventAnswer, k.m.flight.id, OutcomeYes
	return k.step(ev)
}

// page is a list's answer that shows version n.
func (k *asking) page(n Epoch) Event { return Event{Entries: testPage(n)[1:]} }

// TestSemaphoreStateIsComplete is TestAppendStateIsComplete for semaphores and for an
// observer of one: committing with a create in doubt behind it, waiting with a session
// known, collecting.
func TestSemaphoreStateIsComplete(t *testing.T) {
	// Constant after New, and the actions of the latest Step.
	outside := map[string]bool{"cfg": true, "prefix": true, "out": true, "deliberate": true}
	full := value{capacity: 1, width: 1, limit: 9, permits: []permit{{id: "p", session: "other", weight: 100, host: "h", pid: "1", label: "l"}}}
	waiting := newAsking(t, nil)
	waiting.acquire(1, Forever)
	waiting.yes(waiting.page(7))
	waiting.yes(Event{Body: testValue(waiting.m, 7, &full)})
	waiting.yes(Event{Body: testBeat(waiting.m)})
	committing := newAsking(t, nil)
	committing.acquire(1, Forever)
	committing.yes(Event{})
	committing.m.garbage = &garbage{keys: []string{"k"}}
	observer := strictCycle(t, Config{Machine: MachineObserver})
	observer.step(Event{Kind: EventBegin})
	observer.step(Event{Kind: EventAnswer, Request: observer.id, Outcome: OutcomeYes, Entries: testPage(7)})
	observer.yes(testValue(observer.m, 7, &full))
	for state, m := range map[string]Machine{"waiting": waiting.m, "committing": committing.m, "working": observer.m} {
		if m.String() != state {
			t.Fatalf("%s, not %s", m, state)
		}
		checkState(t, m, outside)
	}
}

// TestSemaphoreCloneIsIndependent: neither side sees what the other does, and both do
// the same when they are told the same.
func TestSemaphoreCloneIsIndependent(t *testing.T) {
	k := newAsking(t, nil)
	k.acquire(1, Forever)
	k.acquire(2, 0)
	twin := *k
	twin.m = k.m.Clone().(*Semaphore)
	for round := range 3 {
		before := string(k.m.AppendState(nil))
		switch round {
		case 0:
			twin.yes(Event{})
		case 1:
			twin.yes(Event{})
		case 2:
			twin.step(Event{Kind: EventRelease})
			twin.yes(Event{})
		}
		if string(k.m.AppendState(nil)) != before {
			t.Fatalf("round %d: the clone's step changed it", round)
		}
		if k.m = twin.m.Clone().(*Semaphore); string(k.m.AppendState(nil)) != string(twin.m.AppendState(nil)) {
			t.Fatalf("round %d: the clone is not the same", round)
		}
	}
}

// TestSemaphoreImpossibleMovePanics names the move.
func TestSemaphoreImpossibleMovePanics(t *testing.T) {
	defer func() {
		if got := recover(); got != "mopslock: core: invalid transition [idle -> waiting]" {
			t.Errorf("panic %v", got)
		}
	}()
	newAsking(t, nil).m.become(SemaphoreWaiting)
}

// TestManyAsks: a hundred that wait at the same time are one version, and none of them
// is told twice, or not at all.
func TestManyAsks(t *testing.T) {
	const asks = 100
	k := newAsking(t, nil)
	creates, held := 0, map[uint64]int{}
	count := func(actions []Action) {
		for i := range actions {
			switch actions[i].Kind {
			case ActionCreate:
				creates++
			case ActionHeld:
				held[actions[i].Permit]++
			}
		}
	}
	for n := range uint64(asks) {
		k.acquire(n+1, Forever)
	}
	count(k.yes(Event{}))
	count(k.yes(Event{}))
	steps := 1
	for ; k.m.timers.earliest() <= k.now.Mono; steps++ {
		count(k.step(Event{Kind: EventWoke}))
	}
	if creates != 1 || len(held) != asks || steps != asks/5 {
		t.Errorf("%d creates, %d are told in %d steps", creates, len(held), steps)
	}
	for n, times := range held {
		if times != 1 {
			t.Errorf("%d is told %d times", n, times)
		}
	}
}

// TestMostAsks: one machine has room for so many, and the next is told so.
func TestMostAsks(t *testing.T) {
	k := newAsking(t, nil)
	for n := range uint64(MaxAsked) {
		k.acquire(n+1, Forever)
	}
	if last := k.acquire(MaxAsked+1, Forever); last[0].Kind != ActionRefused || last[0].Reason != ReasonCrowded {
		t.Errorf("%v %v", last[0].Kind, last[0].Reason)
	}
}

// TestLimitCanBeRead: whatever limit is asked for, the record says one that is read.
func TestLimitCanBeRead(t *testing.T) {
	k := newAsking(t, nil)
	k.step(Event{Kind: EventLimit, Permit: 1, StoreLimit: 1<<64 - 1})
	k.yes(Event{})
	var v version
	if result := parseVersion(k.m.body, 1, &v); result != readGood || v.limit != MaxCapacity*MaxWidth {
		t.Errorf("read %d: limit %d in %s", result, v.limit, k.m.body)
	}
}

// TestOverdueGarbage: whoever never rests collects all the same, and goes on with what
// was asked for when that is done: from a poll as from rest.
func TestOverdueGarbage(t *testing.T) {
	for _, from := range []string{"rest", "poll", "waiting"} {
		k := newAsking(t, nil)
		k.acquire(1, 0)
		k.yes(Event{})
		k.yes(Event{}) // held, version 1
		if from == "waiting" {
			k.step(Event{Kind: EventAcquire, Permit: 9, Capacity: 100, Width: 1, Weight: 100, Wait: Forever})
			k.step(Event{Kind: EventAnswer, Request: k.m.flight.id, Outcome: OutcomeNo})
		}
		k.m.cur.n, k.m.valueOf, k.m.tidiedAt = 200, 200, 1
		if from == "poll" {
			k.now.Mono += int64(BasisWindow) + 1
		}
		k.acquire(2, 0)
		if from == "poll" {
			k.yes(k.page(200))
		}
		if !k.m.tidying() || k.m.flight.verb != ActionList || k.m.timers.earliest() != unset {
			t.Fatalf("%s: %s, doing %d", from, k.m, k.m.doing)
		}
		k.yes(Event{}) // there is no garbage
		if k.m.flight.verb != ActionExists {
			t.Fatalf("%s: %s with a %s", from, k.m, k.m.flight.verb)
		}
		k.step(Event{Kind: EventAnswer, Request: k.m.flight.id, Outcome: OutcomeNo})
		if k.m.flight.verb != ActionCreate {
			t.Fatalf("%s: %s with a %s", from, k.m, k.m.flight.verb)
		}
		if last := k.yes(Event{}); last[0].Kind != ActionHeld || last[0].Permit != 2 || k.m.tidiedAt != 200 {
			t.Errorf("%s: %+v, tidied at %d", from, last, k.m.tidiedAt)
		}
	}
}

// TestOverdueGarbageInBites: who never rests removes so much at a time that callers wait
// for few requests, and more than comes in until the next time, which is soon.
func TestOverdueGarbageInBites(t *testing.T) {
	k := newAsking(t, nil)
	k.acquire(1, 0)
	k.yes(Event{})
	k.yes(Event{}) // held, version 1
	k.m.cur.n, k.m.valueOf, k.m.tidiedAt = 300, 300, 1
	k.acquire(2, 0)
	old := Event{StoreStamp: worldStart, StoreAt: k.now.Mono}
	for n := Epoch(297); n > 100; n-- {
		old.Entries = append(old.Entries, Entry{[]byte(versionKey("n/_mopslock/", n)), worldStart - int64(time.Hour)})
	}
	k.yes(old)
	deletes := 0
	for ; k.m.flight.verb == ActionDelete; deletes++ {
		k.yes(Event{})
	}
	if deletes != tidyBite || k.m.flight.verb != ActionExists || k.m.tidiedAt+tidyOverdue != 300+collectEach {
		t.Errorf("%d deleted, then %s; the next after %d", deletes, k.m.flight.verb, k.m.tidiedAt+tidyOverdue)
	}
}

// TestGarbageOfBusyProcess: a commit that comes between does not end all collecting.
func TestGarbageOfBusyProcess(t *testing.T) {
	w := newWorld(t)
	w.unit = 1000
	s := w.strictly("s", func(c *Config) { c.Machine = MachineSession })
	w.say(s, Event{Kind: EventBegin})
	w.until(s, "in_force")
	a := w.strictly("a", func(c *Config) { c.Machine, c.OnSession = MachineSemaphore, true })
	a.strict.stands = s
	for n := range uint64(600) {
		w.sample = clockSample{w.stamp(), w.now}
		w.say(a, Event{Kind: EventAcquire, Permit: n + 1, Capacity: 1, Width: 1})
		w.until(a, "idle")
		w.pass(3 * time.Second) // no time to finish collecting: the next one comes at once
		w.say(a, Event{Kind: EventRelease, Permit: n + 1})
		w.until(a, "idle")
	}
	// Ten minutes of versions must stay, and what came since the last collection.
	if left := len(w.keysOf("n")); left > 600 {
		t.Errorf("%d versions are left of 1200", left)
	}
}
