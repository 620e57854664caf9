package core

import (
	"strings"
	"testing"
	"time"
)

// TestSilentAfterTheList: where the store falls silent after the list, a caller is
// refused a minute and two requests after his patience at the latest, whatever ttl
// he wanted.
func TestSilentAfterTheList(t *testing.T) {
	for _, ttl := range []Duration{time.Minute, time.Hour, MaxTTL, None} {
		w := newWorld(t)
		x := w.strictly("x", func(c *Config) { c.TTL = ttl })
		w.say(x, Event{Kind: EventAcquire, Wait: 5 * time.Second})
		w.answer(x, x.flying[0])
		took := w.darken(x)
		w.is(x, "refused")
		if most := 5*time.Second + DoubtLimit + 2*RequestLimit; took > most {
			t.Errorf("ttl %s: refused after %s, not by %s", ttl, took, most)
		}
	}
}

// TestSameBootWaiter: who waits on the same boot takes over one ttl after the last
// sign, where nothing but watching would tell otherwise.
func TestSameBootWaiter(t *testing.T) {
	w := newWorld(t)
	w.now = after(time.Second)
	here := func(c *Config) { c.Boot, c.Expiry = "b1", ExpiryObserved }
	h := w.holding("h", here)
	w.gone(h)
	w.pass(time.Second)
	x := w.strictly("x", here)
	w.say(x, Event{Kind: EventAcquire, Wait: Forever})
	w.until(x, "held")
	if latest := after(62 * time.Second); w.now < after(61*time.Second) || w.now > latest {
		t.Errorf("held after %s, not by %s", seconds(w.now), seconds(latest))
	}
}

// TestPollOverlooksNothing: a poll reads no list, so it cannot show a beat under an
// earlier version of the tenure, which may be newer than the newest version.
//
//	holder     put b (under v1) ── exists v2: no, believes
//	companion  create v2 (emitted before b) . . . . . landed
//	waiter                                                   list . . . poll: v2 is a ttl old
func TestPollOverlooksNothing(t *testing.T) {
	w := newWorld(t)
	w.now = after(time.Second)
	here := func(c *Config) { c.Boot, c.Expiry = "b1", ExpiryObserved }
	a := w.holding("a", here)
	c := w.strictly("c", func(c *Config) {
		here(c)
		c.Machine, c.Holder, c.Epoch = MachineCompanion, a.machine.(*StrictLease).Holder(), 1
	})
	w.say(c, Event{Kind: EventAccompany})
	w.answer(c, c.flying[0]) // list
	w.answer(c, c.flying[0]) // v1
	slow := c.flying[0]
	w.gone(c)
	w.pass(44 * time.Second)
	w.apply(slow)
	believed := a.deadline
	w.gone(a)
	x := w.strictly("x", here)
	w.say(x, Event{Kind: EventAcquire, Wait: Forever})
	w.until(x, "held")
	if w.now < believed {
		w.fail("x holds at %s, and a believes until %s", seconds(w.now), seconds(believed))
	}
}

// TestHostileBeat: a beat whose boottime is near the end of all numbers says nothing
// about this boot's clock.
func TestHostileBeat(t *testing.T) {
	w := newWorld(t)
	w.now = after(time.Second)
	here := func(c *Config) { c.Boot, c.Expiry = "b1", ExpiryObserved }
	h := w.holding("h", here)
	w.pass(30 * time.Second)
	w.gone(h)
	key := beatKey(registerPrefix("n"), 1, ownID(h.machine))
	body, _, found := strings.Cut(string(w.store[key].body), `"boottime_ns": `)
	if !found {
		t.Fatalf("no boottime in %s", w.store[key].body)
	}
	w.store[key] = object{[]byte(body + `"boottime_ns": 9223372036854775807}`), w.stamp()}
	w.now = after(62 * time.Second)
	x := w.strictly("x", here)
	w.promptly(x, Event{Kind: EventAcquire})
	w.is(x, "refused")
}

// TestNoSessionBeside: beside a lock.json no lease stands on a session, so that one
// that was yielded without a word does not live on with it.
func TestNoSessionBeside(t *testing.T) {
	w := newWorld(t)
	s := w.strictly("s", func(c *Config) { c.Machine = MachineSession })
	w.promptly(s, Event{Kind: EventBegin})
	l := w.strictly("l", func(c *Config) { c.OnSession, c.Beside = true, true })
	l.strict.stands = s
	w.promptly(l, Event{Kind: EventAcquire, Wait: Forever})
	w.is(l, "held")
	if session := l.machine.(*StrictLease).cur.session; session != "" {
		t.Errorf("it stands on %s", session)
	}
	o, err := w.add("o", Config{Machine: MachineLease, Name: "n"})
	if err != nil {
		t.Fatal(err)
	}
	w.say(o, Event{Kind: EventAcquire, Wait: Forever})
	w.pass(40 * time.Second)
	w.is(o, "held")
	w.is(l, "lost")
	w.promptly(o, Event{Kind: EventRelease})
	x := w.strictly("x", nil)
	w.say(x, Event{Kind: EventAcquire, Wait: Forever})
	w.until(x, "held")
	w.is(s, "in_force")
}

// TestJoinBacksOff: where each join is won too late to be relied on, the next one
// is not tried at once, nor for ever.
func TestJoinBacksOff(t *testing.T) {
	w := newWorld(t)
	h := w.holding("h", func(c *Config) { c.TTL = time.Second })
	h.wake = unset
	x := w.strictly("x", func(c *Config) {
		c.Machine, c.Holder, c.Epoch = MachineCompanion, h.machine.(*StrictLease).Holder(), 1
	})
	w.say(x, Event{Kind: EventAccompany})
	creates := 0
	w.drive(after(time.Second), after(10*time.Minute), func(_ *actor, actions []Action) bool {
		if has(actions, ActionCreate) {
			creates++
		}
		return false
	})
	w.is(x, "refused")
	if creates > 20 {
		t.Errorf("%d versions were made for nothing", creates)
	}
}

// TestBusyGarbage: where a name changes hands all the time, so many versions are
// young that no collection gets through them. It goes on farther below.
func TestBusyGarbage(t *testing.T) {
	const young, old = 20*MaxEntries + 40, 10000
	w := newWorld(t)
	w.now = after(time.Minute)
	m := recorder(t, func(c *Config) { c.Boot = "" })
	newest := Epoch(young + old + 15 - (young+old)%16)
	for n := Epoch(1); n <= newest; n++ {
		age := after(time.Second)
		if n <= old {
			age = after(time.Hour)
		}
		w.store[versionKey(registerPrefix("n"), n)] = object{nil, w.stamp() - age}
	}
	v := ownVersion{n: newest, origin: newest, state: VersionReleased, tenure: "x", owner: "x", owners: `"x"`, nonce: nonce{1, 2}, ttl: time.Minute, margin: 6 * time.Second, alone: true}
	w.store[versionKey(registerPrefix("n"), newest)] = object{m.appendVersion(nil, &v), w.stamp()}
	w.sample = clockSample{w.stamp(), w.now}
	w.holding("a", nil)
	if left := len(w.store); left > int(newest)+1-collectMost {
		t.Errorf("%d objects are left of %d", left, newest+1)
	}
}

// TestEndlessSession: a session without a ttl would never be dead.
func TestEndlessSession(t *testing.T) {
	w := newWorld(t)
	w.strictly("s", func(c *Config) { c.Machine = MachineSession })
	cfg := Config{Machine: MachineSession, Protocol: ProtocolStrict, TTL: None, StampUnit: time.Second}
	if _, err := w.add("e", cfg); err == nil {
		t.Error("it was made")
	}
}

// TestEndlessPrintedRelease: a printed lease without a ttl is tried to be released
// for a minute, as one with the usual ttl is.
func TestEndlessPrintedRelease(t *testing.T) {
	w := newWorld(t)
	h := w.holding("h", func(c *Config) { c.TTL = None })
	id := h.machine.(*StrictLease).Holder()
	r := w.strictly("r", func(c *Config) { c.TTL, c.Holder, c.Epoch, c.Owner = None, id, 1, string(id) })
	w.say(r, Event{Kind: EventRelease})
	if took := w.darken(r); took < DefaultStrictTTL {
		w.fail("given up after %s", took)
	}
	w.is(r, "lost")
}

// TestEndlessByMemoryInTheDark: a claim without a ttl that nobody knows the fate of
// is shut out, also where the store has not answered once: it would never expire.
func TestEndlessByMemoryInTheDark(t *testing.T) {
	w := newWorld(t)
	a := w.strictly("a", func(c *Config) { c.TTL, c.LastEpoch, c.LastAt = None, 2, 1 })
	w.now = 2
	w.say(a, Event{Kind: EventAcquire, Wait: Forever})
	w.now += int64(FirstAnswerLimit)
	w.say(a, Event{Kind: EventWoke})
	if a.machine.String() != "releasing" {
		w.fail("a is %s", a.machine)
	}
}

// TestTryByMemoryInTheDark: a claim by memory on a store that is silent is refused
// as soon as a look would be.
func TestTryByMemoryInTheDark(t *testing.T) {
	w := newWorld(t)
	w.now = after(time.Second)
	x := w.strictly("x", func(c *Config) { c.LastEpoch, c.LastAt = 2, 1 })
	w.say(x, Event{Kind: EventAcquire})
	w.is(x, "claiming")
	if took := w.darken(x); took > 6*time.Second {
		t.Errorf("refused after %s", took)
	}
	w.is(x, "refused")
}

// TestBrokenWithoutCall: what was broken is, though the call could not be made.
func TestBrokenWithoutCall(t *testing.T) {
	w := newWorld(t)
	w.holdingOn(nil)
	k := w.breaking(false)
	for range 3 { // list, version, create
		w.answer(k, k.flying[0])
	}
	w.darken(k)
	w.is(k, "done")
	if n := k.machine.(*Breaker).cur; n.n != 2 || n.state != VersionBroken {
		t.Errorf("epoch %d, %s", n.n, n.state)
	}
}

// TestLeaveFromBelow: who has not yet heard of the joins above him can leave.
func TestLeaveFromBelow(t *testing.T) {
	w := newWorld(t)
	a := w.holding("a", nil)
	first := w.joining("b", a)
	for _, name := range []string{"c", "d", "e"} {
		w.joining(name, a)
	}
	w.promptly(first, Event{Kind: EventLeave})
	w.is(first, "left")
	o := w.strictly("o", func(c *Config) { c.Machine = MachineObserver })
	w.promptly(o, Event{Kind: EventBegin})
	c := &registerOf(o.machine).cur
	if id := first.machine.(*StrictCompanion).owner.owner; c.n != 6 || withoutOwner(c.owners, id) != c.owners {
		t.Errorf("epoch %d is kept by %s, and %s has left", c.n, c.owners, id)
	}
}

// TestTryAsksForSample: who tries once has no later look, so he asks for the store's
// clock where it could show that the lease is dead, and does not wait for it long.
func TestTryAsksForSample(t *testing.T) {
	try := func(t *testing.T) (*world, *actor) {
		w := newWorld(t)
		w.gone(w.holding("h", nil))
		w.now = after(5 * time.Minute)
		x := w.strictly("x", nil)
		w.say(x, Event{Kind: EventAcquire})
		asked := false
		for len(x.flying) > 0 {
			actions, _ := w.answer(x, x.flying[0])
			asked = asked || has(actions, ActionCalibrate)
		}
		w.is(x, "waiting")
		if !asked {
			t.Error("it asks for no sample")
		}
		return w, x
	}
	t.Run("it comes", func(t *testing.T) {
		w, x := try(t)
		w.now += after(time.Second)
		w.sample = clockSample{w.stamp(), w.now}
		w.promptly(x, Event{Kind: EventChanged})
		w.is(x, "held")
	})
	t.Run("it does not", func(t *testing.T) {
		w, x := try(t)
		from := w.now
		w.until(x, "refused")
		if took := time.Duration(w.now - from); took > SampleLimit+time.Second {
			t.Errorf("refused after %s", took)
		}
	})
}
