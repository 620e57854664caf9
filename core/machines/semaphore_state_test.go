package machines

import (
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
	"github.com/mopslock/mopslock/core/internal/register"
	"github.com/mopslock/mopslock/core/internal/semaphore"
)

// asking is a semaphore that was begun and is driven by hand, on a session in force.
type asking struct {
	tb  testing.TB
	m   *semaphore.Semaphore
	now core.Instant
	sid string
}

func newAsking(tb testing.TB, change func(*core.Config)) *asking {
	cfg := core.Config{Machine: core.MachineSemaphore, Terms: core.Terms{
		Protocol: core.ProtocolStrict, Name: "n",
	}, Seed: [16]byte{7, 1}, Host: "worker-7f9c4d", PID: "12345", Boot: "b1", OwnStore: true}
	if change != nil {
		change(&cfg)
	}
	m, err := semaphore.New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return &asking{tb, m, core.Instant{Mono: int64(time.Hour), Wall: worldStart}, "sid"}
}

// step gives it an event on its session.
func (k *asking) step(ev core.Event) []core.Action {
	k.tb.Helper()
	ev.Session, ev.SessionUntil = []byte(k.sid), core.MaxClockRange
	actions, err := k.m.Step(k.now, ev)
	if err != nil {
		k.tb.Fatal(err)
	}
	return actions
}

func (k *asking) acquire(n uint64, wait time.Duration) []core.Action {
	k.tb.Helper()
	return k.step(core.Event{Kind: core.EventAcquire, Permit: n, Capacity: 100, Width: 1, Wait: wait, Label: []byte("nightly")})
}

// yes answers its request.
func (k *asking) yes(ev core.Event) []core.Action {
	k.tb.Helper()
	ev.Kind, ev.Request, ev.Outcome = core.EventAnswer, k.m.Flight.ID, core.OutcomeYes
	return k.step(ev)
}

// no answers its request.
func (k *asking) no() []core.Action {
	k.tb.Helper()
	return k.step(core.Event{Kind: core.EventAnswer, Request: k.m.Flight.ID, Outcome: core.OutcomeNo})
}

// page is a list's answer that shows version n.
func (k *asking) page(n core.Epoch) core.Event { return core.Event{Entries: testPage(n)[1:]} }

// busySemaphores are semaphores and an observer of one: committing with a create in doubt
// behind it, waiting with a session known, collecting.
func busySemaphores(tb testing.TB) map[string]core.Machine {
	full := register.Value{Capacity: 1, Width: 1, Limit: 9, Permits: []register.PermitEntry{{ID: "p", Session: "other", Weight: 100, Host: "h", PID: "1", Label: "l"}}}
	waiting := newAsking(tb, nil)
	waiting.acquire(1, core.Forever)
	waiting.yes(waiting.page(7))
	waiting.yes(core.Event{Body: testValue(waiting.m, 7, &full)})
	waiting.yes(core.Event{Body: testBeat(waiting.m)})
	committing := newAsking(tb, nil)
	committing.acquire(1, core.Forever)
	committing.yes(core.Event{})
	committing.m.Garbage = &register.Garbage{Keys: []string{"k"}}
	observer := strictCycle(tb, core.Config{Machine: core.MachineInspection})
	observer.step(core.Event{Kind: core.EventBegin})
	observer.step(core.Event{Kind: core.EventAnswer, Request: observer.id, Outcome: core.OutcomeYes, Entries: testPage(7)})
	observer.yes(testValue(observer.m, 7, &full))
	all := map[string]core.Machine{"waiting": waiting.m, "committing": committing.m, "working": observer.m}
	for state, m := range all {
		if m.String() != state {
			tb.Fatalf("%s, not %s", m, state)
		}
	}
	return all
}

// TestSemaphoreCloneIsIndependent: neither side sees what the other does, and both do
// the same when they are told the same.
func TestSemaphoreCloneIsIndependent(t *testing.T) {
	k := newAsking(t, nil)
	k.acquire(1, core.Forever)
	k.acquire(2, 0)
	twin := *k
	twin.m = k.m.Clone().(*semaphore.Semaphore)
	for round := range 3 {
		before := string(k.m.AppendState(nil))
		switch round {
		case 0:
			twin.yes(core.Event{})
		case 1:
			twin.yes(core.Event{})
		case 2:
			twin.step(core.Event{Kind: core.EventRelease})
			twin.yes(core.Event{})
		}
		if string(k.m.AppendState(nil)) != before {
			t.Fatalf("round %d: the clone's step changed it", round)
		}
		if k.m = twin.m.Clone().(*semaphore.Semaphore); string(k.m.AppendState(nil)) != string(twin.m.AppendState(nil)) {
			t.Fatalf("round %d: the clone is not the same", round)
		}
	}
}

// TestMostAsks: one machine has room for so many, and the next is told so.
func TestMostAsks(t *testing.T) {
	k := newAsking(t, nil)
	for n := range uint64(core.MaxAsked) {
		k.acquire(n+1, core.Forever)
	}
	if last := k.acquire(core.MaxAsked+1, core.Forever); last[0].Kind != core.ActionRefused || last[0].Reason != core.ReasonCrowded {
		t.Errorf("%v %v", last[0].Kind, last[0].Reason)
	}
}

// TestLimitCanBeRead: whatever limit is asked for, the record says one that is read.
func TestLimitCanBeRead(t *testing.T) {
	k := newAsking(t, nil)
	k.step(core.Event{Kind: core.EventLimit, Permit: 1, StoreLimit: 1<<64 - 1})
	k.yes(core.Event{})
	var v register.Version
	if result := register.ParseVersion(k.m.Body, 1, &v); result != register.ReadGood || v.Limit != core.MaxCapacity*core.MaxWidth {
		t.Errorf("read %d: limit %d in %s", result, v.Limit, k.m.Body)
	}
}

// TestOverdueGarbage: a machine that never rests collects all the same, and goes on with what
// was asked for when that is done: from a poll as from rest.
func TestOverdueGarbage(t *testing.T) {
	for _, from := range []string{"rest", "poll", "waiting"} {
		k := newAsking(t, nil)
		k.acquire(1, 0)
		k.yes(core.Event{})
		k.yes(core.Event{}) // held, version 1
		if from == "waiting" {
			k.step(core.Event{Kind: core.EventAcquire, Permit: 9, Capacity: 100, Width: 1, Weight: 100, Wait: core.Forever})
			k.step(core.Event{Kind: core.EventAnswer, Request: k.m.Flight.ID, Outcome: core.OutcomeNo})
		}
		k.m.Cur.N, k.m.ValueOf, k.m.TidiedAt = 200, 200, 1
		if from == "poll" {
			k.now.Mono += int64(core.NewestWindow) + 1
		}
		k.acquire(2, 0)
		if from == "poll" {
			k.yes(k.page(200))
		}
		if !k.m.Tidying() || k.m.Flight.Verb != core.ActionGet || k.m.Timers.Earliest() != base.Unset {
			t.Fatalf("%s: %s, doing %d", from, k.m, k.m.Doing)
		}
		k.yes(core.Event{}) // there is no garbage
		if k.m.Flight.Verb != core.ActionExists {
			t.Fatalf("%s: %s with a %s", from, k.m, k.m.Flight.Verb)
		}
		k.step(core.Event{Kind: core.EventAnswer, Request: k.m.Flight.ID, Outcome: core.OutcomeNo})
		if k.m.Flight.Verb != core.ActionCreate {
			t.Fatalf("%s: %s with a %s", from, k.m, k.m.Flight.Verb)
		}
		if last := k.yes(core.Event{}); last[0].Kind != core.ActionHeld || last[0].Permit != 2 || k.m.TidiedAt != 200 {
			t.Errorf("%s: %+v, tidied at %d", from, last, k.m.TidiedAt)
		}
	}
}

// TestOverdueGarbageInBites: a semaphore that never rests collects so few requests at a time,
// between two commits, that callers hardly wait for it; and the next collection begins soon
// if this one has left something.
func TestOverdueGarbageInBites(t *testing.T) {
	k := newAsking(t, nil)
	k.acquire(1, 0)
	k.yes(core.Event{})
	k.yes(core.Event{}) // held, version 1
	k.m.Cur.N, k.m.ValueOf, k.m.TidiedAt = 300, 300, 1
	deletes, bites, permit := 0, 0, uint64(2)
	for ; k.m.TidiedAt == 1; permit++ {
		if permit == 30 {
			t.Fatalf("not done: %d deleted in %d bites", deletes, bites)
		}
		k.acquire(permit, 0)
		asked := 0
		for ; k.m.Tidying(); asked++ {
			ev := core.Event{StoreStamp: worldStart, StoreAt: k.now.Mono}
			switch k.m.Flight.Verb {
			case core.ActionGet:
				n, _, _ := register.ParseRegisterKey(k.m.Prefix, []byte(k.m.Key))
				if ev.Stamp = worldStart; n < 200 {
					ev.Stamp -= int64(time.Hour)
				}
			case core.ActionList:
				for n := core.Epoch(198); n > 198-register.CollectMost; n-- {
					ev.Entries = append(ev.Entries, core.Entry{Key: []byte(register.VersionKey(k.m.Prefix, n)), Stamp: worldStart})
				}
			case core.ActionDelete:
				deletes++
			}
			k.yes(ev)
		}
		if asked > 0 {
			bites++
		}
		if asked > semaphore.TidyBite || k.m.Flight.Verb != core.ActionExists {
			t.Fatalf("bite %d: %d requests, then %s", bites, asked, k.m.Flight.Verb)
		}
		k.step(core.Event{Kind: core.EventAnswer, Request: k.m.Flight.ID, Outcome: core.OutcomeNo})
		k.yes(core.Event{}) // held
		if k.m.Cur.N != 299+core.Epoch(permit) {
			t.Fatalf("version %d with permit %d", k.m.Cur.N, permit)
		}
	}
	if deletes != register.CollectMost || bites != 10 || k.m.TidiedAt+semaphore.TidyOverdue != 309+register.CollectEach {
		t.Errorf("%d deleted in %d bites; the next after %d", deletes, bites, k.m.TidiedAt+semaphore.TidyOverdue)
	}
}

// TestGarbageOfBusyProcess: a commit that comes between does not end all collecting.
func TestGarbageOfBusyProcess(t *testing.T) {
	w := newWorld(t)
	w.unit = 1000
	s := w.strictly("s", func(c *core.Config) { c.Machine = core.MachineSession })
	w.say(s, core.Event{Kind: core.EventBegin})
	w.until(s, "in_force")
	a := w.strictly("a", func(c *core.Config) { c.Machine, c.OnSession = core.MachineSemaphore, true })
	a.strict.stands = s
	for n := range uint64(600) {
		w.sample = register.StoreClockSample{Stamp: w.stamp(), At: w.now}
		w.say(a, core.Event{Kind: core.EventAcquire, Permit: n + 1, Capacity: 1, Width: 1})
		w.until(a, "idle")
		w.pass(3 * time.Second) // no time to finish collecting: the next one comes at once
		w.say(a, core.Event{Kind: core.EventRelease, Permit: n + 1})
		w.until(a, "idle")
	}
	// Ten minutes of versions must stay, and what came since the last collection.
	if left := len(w.keysOf("n")); left > 600 {
		t.Errorf("%d versions are left of 1200", left)
	}
}

// TestGarbageOfEmptiedName: what was to be removed when somebody emptied the prefix has the keys
// of the versions that are made after that. None of those is removed.
func TestGarbageOfEmptiedName(t *testing.T) {
	k := newAsking(t, nil)
	k.acquire(1, core.Forever)
	k.yes(k.page(7))
	k.yes(core.Event{Body: testValue(k.m, 7, &register.Value{Capacity: 1, Width: 1})})
	k.m.Garbage = &register.Garbage{Keys: []string{register.VersionKey(k.m.Prefix, 1)}, Left: register.CollectMost}
	k.no()              // v8 is there
	k.yes(core.Event{}) // the list shows nothing, and exists says the same of v7
	k.no()
	k.yes(core.Event{}) // v1
	if k.m.Cur.N != 1 || k.m.String() != "idle" || k.m.Flight.ID != 0 {
		t.Errorf("%s at version %d, %v %s", k.m, k.m.Cur.N, k.m.Flight.Verb, k.m.Key)
	}
}
