package core

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// strictly makes a machine that speaks strict.
func (w *world) strictly(name string, change func(*Config)) *actor {
	w.t.Helper()
	cfg := Config{Machine: MachineLease, Protocol: ProtocolStrict, Name: "n", StampUnit: time.Duration(w.unit)}
	if change != nil {
		change(&cfg)
	}
	a, err := w.add(name, cfg)
	if err != nil {
		w.t.Fatalf("%s: %v", name, err)
	}
	return a
}

// say gives a machine a command.
func (w *world) say(a *actor, ev Event) {
	w.t.Helper()
	if _, err := w.step(a, ev); err != nil {
		w.t.Fatalf("%s: %v", a.name, err)
	}
	w.relays = nil
}

// until lets everything happen as it should until a machine is in a state or has
// ended, and answers the verbs that it asked for on the way.
func (w *world) until(a *actor, state string) (verbs []ActionKind) {
	for _, r := range a.flying {
		verbs = append(verbs, r.Kind)
	}
	w.drive(100e6, w.now+int64(2*time.Hour), func(x *actor, actions []Action) bool {
		for _, action := range actions {
			if x == a && action.Kind <= ActionDelete {
				verbs = append(verbs, action.Kind)
			}
		}
		return a.machine.String() == state || a.machine.Idle()
	})
	if a.machine.String() != state {
		w.t.Helper()
		w.fail("%s is %s, not %s", a.name, a.machine, state)
	}
	return verbs
}

// pass lets time go on, and everything that happens meanwhile.
func (w *world) pass(d time.Duration) {
	end := w.now + int64(d)
	w.drive(100e6, end, func(*actor, []Action) bool { return false })
	w.now = end
}

// gone ends a machine as a crash does.
func (w *world) gone(all ...*actor) {
	for _, a := range all {
		a.flying, a.wake, a.ended, a.strict.stands = nil, unset, true, nil
	}
	w.actors = slices.DeleteFunc(w.actors, func(a *actor) bool { return slices.Contains(all, a) })
}

// TestLateWaiter: whoever comes late to a dead lease has it a ttl and the slop
// after its last sign, if the store's clock can be told; not a ttl after he came.
func TestLateWaiter(t *testing.T) {
	w := newWorld(t)
	w.unit = int64(time.Second)
	a := w.strictly("a", nil)
	w.say(a, Event{Kind: EventAcquire})
	w.until(a, "held")
	w.gone(a)
	w.pass(50 * time.Second)
	b := w.strictly("b", nil)
	w.say(b, Event{Kind: EventAcquire, Wait: Forever})
	k := w.strictly("k", func(c *Config) { c.Machine = MachineCalibration })
	asked := func(_ *actor, actions []Action) bool {
		return slices.ContainsFunc(actions, func(a Action) bool { return a.Kind == ActionCalibrate })
	}
	w.drive(100e6, w.now+int64(time.Minute), asked)
	w.say(k, Event{Kind: EventBegin}) // as a host does that is asked for a sample
	w.until(b, "held")
	if latest := int64(60*time.Second + 3*time.Second + PollCap); w.now > latest {
		t.Errorf("held after %s, not by %s", seconds(w.now), seconds(latest))
	}
}

// TestTryAfterAnother: what a process remembers of its own release is only a
// guess. Where somebody came between and has gone, the name is free.
func TestTryAfterAnother(t *testing.T) {
	w := newWorld(t)
	claimAndRelease := func(name string) *actor {
		a := w.strictly(name, nil)
		w.say(a, Event{Kind: EventAcquire})
		w.until(a, "held")
		w.say(a, Event{Kind: EventRelease})
		w.until(a, "released")
		return a
	}
	a := claimAndRelease("a")
	claimAndRelease("b")
	c := w.strictly("c", func(cfg *Config) { cfg.LastEpoch, cfg.LastAt = a.strict.lastEpoch, a.strict.lastAt })
	w.say(c, Event{Kind: EventAcquire})
	w.until(c, "held")
}

// TestEndlessIsNotStale: a lease without a ttl is held, however long ago it was
// acquired, and nothing is left of no ttl.
func TestEndlessIsNotStale(t *testing.T) {
	w := newWorld(t)
	a := w.strictly("a", func(c *Config) { c.TTL = None })
	w.say(a, Event{Kind: EventAcquire})
	w.until(a, "held")
	w.gone(a)
	w.pass(time.Hour)
	w.sample = clockSample{w.stamp(), w.now}
	o := w.strictly("o", func(c *Config) { c.Machine = MachineObserver })
	w.say(o, Event{Kind: EventBegin})
	w.until(o, "done")
	if s := registerOf(o.machine).sight; s.State != ObservedHeld || s.Left != 0 || s.StoreClock {
		t.Errorf("seen %s", w.formatSight(s))
	}
}

// TestManyCompanions: companions come and crash, and the tenure lives on.
func TestManyCompanions(t *testing.T) {
	w := newWorld(t)
	a := w.strictly("a", nil)
	w.say(a, Event{Kind: EventAcquire})
	w.until(a, "held")
	for i := range MaxOwners + 6 {
		c := w.strictly(fmt.Sprint("c", i), func(cfg *Config) {
			cfg.Machine, cfg.Holder, cfg.Epoch = MachineCompanion, a.machine.(*StrictLease).Holder(), 1
			cfg.Seed = [16]byte{byte(i), 9}
		})
		w.say(c, Event{Kind: EventAccompany})
		w.pass(2 * time.Second)
		w.gone(c)
	}
	w.pass(time.Minute)
	if a.machine.String() != "held" {
		w.fail("a is %s", a.machine)
	}
}

// TestManyBeats: a version with as many owners as there can be is found behind
// all their beats.
func TestManyBeats(t *testing.T) {
	w := newWorld(t)
	m := recorder(t, nil)
	owners := ""
	for i := range MaxOwners {
		id := fmt.Sprint("o-", i)
		owners = withOwner(owners, id)
		w.store[beatKey(registerPrefix("n"), 3, id)] = object{m.appendBeat(nil, id, 1), worldStart}
	}
	v := ownVersion{n: 3, origin: 1, state: VersionHeld, tenure: "o-0", owner: "o-1", owners: owners, nonce: nonce{1, 2}, ttl: time.Minute, margin: 6 * time.Second}
	w.store[versionKey(registerPrefix("n"), 3)] = object{m.appendVersion(nil, &v), worldStart}
	c := w.strictly("c", func(cfg *Config) { cfg.Machine, cfg.Holder, cfg.Epoch, cfg.Owner = MachineCompanion, "o-0", 1, "o-7" })
	w.say(c, Event{Kind: EventAccompany})
	w.until(c, "joined")
}

// keysOf are the versions of a name that the store has.
func (w *world) keysOf(name string) (versions []Epoch) {
	for key := range w.store {
		if n, owner, ok := parseRegisterKey(registerPrefix(name), []byte(key)); ok && owner == nil {
			versions = append(versions, n)
		}
	}
	slices.Sort(versions)
	return versions
}

// TestGarbage: who acquires and releases over and over leaves no more behind than
// what is young, the newest few, and what came since the last collection.
func TestGarbage(t *testing.T) {
	for _, c := range []struct {
		name string
		boot string
		rule Expiry
	}{{"by stamps", "", ExpiryCalibrated}, {"by this boot", "b1", ExpiryObserved}} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.unit = int64(time.Second)
			for i := range 60 {
				a := w.strictly(fmt.Sprint("a", i), func(cfg *Config) {
					cfg.Boot, cfg.Expiry, cfg.Seed = c.boot, c.rule, [16]byte{byte(i), 1}
				})
				w.say(a, Event{Kind: EventAcquire})
				w.until(a, "held")
				w.pass(time.Minute)
				w.say(a, Event{Kind: EventRelease})
				w.until(a, "released")
				w.gone(a)
				if i%2 == 0 {
					w.pass(10 * time.Minute)
				}
			}
			// G is ten minutes: at the most four versions are that young, and two
			// rounds of 16 can lie between one collection and the next.
			if left := w.keysOf("n"); len(left) > 40 {
				t.Errorf("%d versions are left: %v", len(left), left)
			}
		})
	}
}

// TestGarbageIsOld: nothing is collected that superseded another a moment ago, and
// never the newest few.
func TestGarbageIsOld(t *testing.T) {
	w := newWorld(t)
	w.unit = int64(time.Second)
	m := recorder(t, func(c *Config) { c.Boot = "" })
	for n := Epoch(1); n <= 31; n++ {
		v := ownVersion{n: n, origin: n, state: VersionReleased, tenure: "x", owner: "x", owners: `"x"`, nonce: nonce{1, uint64(n)}, ttl: time.Minute, margin: 6 * time.Second, alone: true}
		// Twenty minutes ago the first ten, and then one each half minute.
		age := int64(20 * time.Minute)
		if n > 10 {
			age = int64(31-n) * int64(30*time.Second)
		}
		w.store[versionKey(registerPrefix("n"), n)] = object{m.appendVersion(nil, &v), worldStart - age}
		w.store[beatKey(registerPrefix("n"), n, "x")] = object{m.appendBeat(nil, "x", 1), worldStart - age}
	}
	w.now = int64(time.Minute)
	w.sample = clockSample{w.stamp(), w.now}
	for i := range 16 {
		a := w.strictly(fmt.Sprint("a", i), func(cfg *Config) { cfg.Seed = [16]byte{byte(i), 1} })
		w.say(a, Event{Kind: EventAcquire})
		w.until(a, "held")
		w.pass(time.Second)
		w.say(a, Event{Kind: EventRelease})
		w.until(a, "released")
	}
	left := w.keysOf("n")
	if slices.Contains(left, 9) {
		t.Error("version 9 was superseded twenty minutes ago, and is still there")
	}
	// Version 10 was superseded eleven minutes ago; with the slop that may be both.
	for n := Epoch(13); n <= 63; n++ {
		if !slices.Contains(left, n) {
			t.Errorf("version %d is gone", n)
		}
	}
}

// TestStrictWritesNothingElse: a machine that waits, looks or was refused has
// written nothing.
func TestStrictWritesNothingElse(t *testing.T) {
	w := newWorld(t)
	a := w.strictly("a", nil)
	w.say(a, Event{Kind: EventAcquire})
	w.until(a, "held")
	var before []string
	snapshot := func() (all []string) {
		for key := range w.store {
			if !strings.Contains(key, beatFile) {
				all = append(all, key)
			}
		}
		slices.Sort(all)
		return all
	}
	before = snapshot()
	b := w.strictly("b", nil)
	w.say(b, Event{Kind: EventAcquire, Wait: 30 * time.Second})
	o := w.strictly("o", func(c *Config) { c.Machine = MachineObserver })
	w.say(o, Event{Kind: EventBegin})
	w.until(b, "refused")
	if after := snapshot(); !slices.Equal(before, after) {
		t.Errorf("before %v, after %v", before, after)
	}
}

// TestCalledIsToldToTheHost: from a call on, what the session renews does a lease
// on it no good, and its host must know: it goes by the session's deadline alone
// while the machine is not stepped, as in a process that stands still.
//
//	breaker    create v2 broken, call
//	session                        put ── exists: yes ── called ── renewed
//	lease                                                 get v2 . . . . . . (paused)
//	taker                                                        a ttl after the call: held
func TestCalledIsToldToTheHost(t *testing.T) {
	w := newWorld(t)
	w.unit = int64(time.Second)
	s := w.strictly("s", func(c *Config) { c.Machine = MachineSession })
	w.say(s, Event{Kind: EventBegin})
	w.until(s, "in_force")
	a := w.strictly("a", func(c *Config) { c.OnSession = true })
	a.strict.stands = s
	w.say(a, Event{Kind: EventAcquire})
	w.until(a, "held")
	k := w.strictly("k", func(c *Config) { c.Machine, c.Why = MachineBreaker, "stuck" })
	w.say(k, Event{Kind: EventBegin})
	w.until(k, "done")
	believed := a.deadline
	called := false
	w.drive(100e6, w.now+int64(30*time.Second), func(x *actor, actions []Action) bool {
		for _, action := range actions {
			if x == a && action.Kind == ActionDeadline {
				believed, called = action.At, true
			}
		}
		return x == s && slices.ContainsFunc(actions, func(a Action) bool { return a.Kind == ActionRenewed })
	})
	if !called { // then the host goes on by the session
		believed = s.strict.until
	}
	w.gone(a, s)
	w.now = int64(63 * time.Second)
	w.sample = clockSample{w.stamp(), w.now}
	b := w.strictly("b", nil)
	w.say(b, Event{Kind: EventAcquire, Wait: Forever})
	w.until(b, "held")
	if w.now < believed {
		t.Errorf("b holds at %s, and the host of a believes until %s", seconds(w.now), seconds(believed))
	}
}
