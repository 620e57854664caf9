package core

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// prompt answers all that a machine asks for, at once.
func (w *world) prompt(a *actor) {
	w.t.Helper()
	for range 300 {
		if len(a.flying) == 0 {
			return
		}
		if _, err := w.answer(a, a.flying[len(a.flying)-1]); err != nil {
			w.t.Fatalf("%s: %v", a.name, err)
		}
	}
	w.fail("%s asks for ever", a.name)
}

// promptly says something to a machine and answers all that it asks for.
func (w *world) promptly(a *actor, ev Event) {
	w.t.Helper()
	w.say(a, ev)
	w.prompt(a)
}

// is checks what state a machine is in.
func (w *world) is(a *actor, state string) {
	w.t.Helper()
	if a.machine.String() != state {
		w.fail("%s is %s, not %s", a.name, a.machine, state)
	}
}

// holding is a machine that holds the name.
func (w *world) holding(name string, change func(*Config)) *actor {
	w.t.Helper()
	a := w.strictly(name, change)
	w.promptly(a, Event{Kind: EventAcquire, Wait: Forever})
	w.is(a, "held")
	return a
}

// holdingOn is a session, and a machine that holds the name on it.
func (w *world) holdingOn(change func(*Config)) (session, lease *actor) {
	w.t.Helper()
	s := w.strictly("s", func(c *Config) {
		c.Machine = MachineSession
		if change != nil {
			change(c)
		}
	})
	w.promptly(s, Event{Kind: EventBegin})
	l := w.strictly("l", func(c *Config) { c.OnSession = true })
	l.strict.stands = s
	w.promptly(l, Event{Kind: EventAcquire, Wait: Forever})
	w.is(l, "held")
	return s, l
}

// breaking is a machine that breaks the name; it has begun.
func (w *world) breaking(now bool) *actor {
	b := w.strictly("k", func(c *Config) { c.Machine, c.Why, c.Now = MachineBreaker, "stuck", now })
	w.say(b, Event{Kind: EventBegin})
	return b
}

// joining is a machine that has joined another's tenure.
func (w *world) joining(name string, a *actor) *actor {
	w.t.Helper()
	c := w.strictly(name, func(c *Config) {
		c.Machine, c.Holder, c.Epoch = MachineCompanion, a.machine.(*StrictLease).Holder(), 1
	})
	w.promptly(c, Event{Kind: EventAccompany})
	w.is(c, "joined")
	return c
}

// darken has every request of a machine that is refused in the end lost on the
// way, and answers how long that took.
func (w *world) darken(a *actor) time.Duration {
	w.t.Helper()
	began := w.now
	for range 1000 {
		if a.machine.Idle() {
			return time.Duration(w.now - began)
		}
		at, r := a.wake, (*request)(nil)
		if n := len(a.flying); n > 0 {
			r = a.flying[n-1]
			at = min(at, r.sent+int64(r.Limit))
		}
		w.now = max(w.now, at)
		if r == nil || at == a.wake {
			w.say(a, Event{Kind: EventWoke})
			continue
		}
		if _, err := w.unknown(a, r, ClassUnreachable); err != nil {
			w.t.Fatalf("%s: %v", a.name, err)
		}
	}
	w.fail("%s tries for ever", a.name)
	return 0
}

// after is a time of the world.
func after(d time.Duration) int64 { return int64(d) }

// has reports whether a Step said so.
func has(actions []Action, kind ActionKind) bool {
	return slices.ContainsFunc(actions, func(a Action) bool { return a.Kind == kind })
}

// TestCalledWhileVerifying: a session tells once of a break. A claim that is being
// verified then is not held, whatever its list shows.
//
//	us       create v1 . . . . . . (5 min) yes   list (shows v1) . . . . . answered
//	breaker                                             v2 broken, call
//	session                                                       called
func TestCalledWhileVerifying(t *testing.T) {
	w := newWorld(t)
	s := w.strictly("s", func(c *Config) { c.Machine, c.TTL = MachineSession, time.Hour })
	w.promptly(s, Event{Kind: EventBegin})
	l := w.strictly("l", func(c *Config) { c.OnSession, c.TTL = true, time.Hour })
	l.strict.stands = s
	w.say(l, Event{Kind: EventAcquire, Wait: Forever})
	w.answer(l, l.flying[0]) // list
	w.apply(l.flying[0])     // create
	w.now = after(310 * time.Second)
	w.answer(l, l.flying[0])
	w.is(l, "verifying")
	w.apply(l.flying[0])
	w.prompt(w.breaking(false))
	w.now = after(20 * time.Minute)
	w.promptly(s, Event{Kind: EventWoke})
	w.answer(l, l.flying[0])
	if l.machine.String() == "held" {
		w.fail("l holds what was broken")
	}
}

// TestReleaseInAHole: who was away for so long that his version was collected wins
// the next one, and that releases nothing. Nor may his process remember it: the
// next claim by memory would stand below the newest.
func TestReleaseInAHole(t *testing.T) {
	for _, early := range []bool{false, true} {
		t.Run(fmt.Sprint("sent early ", early), func(t *testing.T) {
			w := newWorld(t)
			w.now = after(time.Second)
			h := w.holding("h", func(c *Config) { c.TTL = None })
			h.wake = unset // it stands still
			if early {
				w.say(h, Event{Kind: EventRelease})
			}
			w.prompt(w.breaking(true))
			last := w.holding("y", nil)
			for i := range 40 {
				w.promptly(last, Event{Kind: EventRelease})
				w.now += after(time.Minute)
				w.sample = clockSample{w.stamp(), w.now}
				last = w.holding(fmt.Sprint("y", i), nil)
			}
			if slices.Contains(w.keysOf("n"), 2) {
				t.Fatal("version 2 was not collected")
			}
			if !early {
				w.say(h, Event{Kind: EventRelease})
			}
			w.prompt(h)
			if h.strict.lastAt != 0 {
				w.fail("h is %s, and remembers epoch %d", h.machine, h.strict.lastEpoch)
			}
			if !early && slices.Contains(w.keysOf("n"), 2) {
				w.fail("h has made a version far below the newest")
			}
			w.promptly(last, Event{Kind: EventRelease})
			newest := last.machine.(*StrictLease).cur.n
			z := w.holding("z", func(c *Config) { c.LastEpoch, c.LastAt = h.strict.lastEpoch, h.strict.lastAt })
			if n := z.machine.(*StrictLease).cur.n; n <= newest {
				w.fail("z holds epoch %d, and the newest was %d", n, newest)
			}
		})
	}
}

// TestBreakNowCalls: who is broken at once hears of it at his session's next
// renewal, too.
func TestBreakNowCalls(t *testing.T) {
	w := newWorld(t)
	s, l := w.holdingOn(nil)
	k := w.breaking(true)
	w.prompt(k)
	w.is(k, "done")
	w.pass(21 * time.Second)
	w.is(l, "lost")
	w.is(s, "in_force")
}

// TestMoreOwners: once the list could not take an owner, there are more of them
// than it says, wherever the mark stands.
func TestMoreOwners(t *testing.T) {
	list := ""
	for i := range MaxOwners + 6 {
		list = withOwner(list, fmt.Sprintf("o%02d", i))
	}
	if !hasMoreOwners(list) {
		t.Fatalf("no mark in %s", list)
	}
	list = withOwner(withoutOwner(withoutOwner(list, "o01"), "o02"), "new")
	if !hasMoreOwners(list) {
		t.Errorf("lost the mark: %s", list)
	}
	for _, id := range []string{"o00", "new"} {
		if isAlone(withOwner(`"`+id+`"`, moreOwners), id) || isAlone(withOwner(`"`+moreOwners+`"`, id), id) {
			t.Error("alone beside the mark")
		}
	}
}

// TestHiddenOwner: nobody takes over from an owner that the list had no place for.
func TestHiddenOwner(t *testing.T) {
	w := newWorld(t)
	a := w.holding("a", nil)
	var all []*actor
	for i := range MaxOwners + 2 {
		all = append(all, w.joining(fmt.Sprint("c", i), a))
	}
	hidden := all[len(all)-1]
	w.pass(45 * time.Second)
	for _, c := range all[:2] { // two go, one comes
		w.promptly(c, Event{Kind: EventLeave})
		w.is(c, "left")
	}
	newest := w.joining("d", a)
	if !strings.Contains(newest.machine.(*StrictCompanion).cur.owners, moreOwners+`", "`) {
		t.Fatalf("the mark stands where it always did: %s", newest.machine.(*StrictCompanion).cur.owners)
	}
	w.gone(append(all[:len(all)-1], a, newest)...)
	x := w.strictly("x", nil)
	w.say(x, Event{Kind: EventAcquire, Wait: Forever})
	w.pass(4 * time.Minute)
	w.is(hidden, "joined")
	w.is(x, "waiting")
}

// TestPrintedReleaseOnSession: a release on paper does not know whether the session
// lives. Its version frees nothing at once, and the session is called.
func TestPrintedReleaseOnSession(t *testing.T) {
	w := newWorld(t)
	s, l := w.holdingOn(nil)
	id := l.machine.(*StrictLease).Holder()
	r := w.strictly("r", func(c *Config) { c.Holder, c.Epoch, c.Owner = id, 1, string(id) })
	w.promptly(r, Event{Kind: EventRelease})
	w.is(r, "released")
	if r.machine.(*StrictLease).cur.alone || r.strict.lastAt != 0 {
		t.Error("it says that nobody else keeps it")
	}
	x := w.strictly("x", nil)
	w.say(x, Event{Kind: EventAcquire, Wait: Forever})
	w.until(x, "held")
	w.is(l, "lost")
	w.is(s, "in_force")
}

// TestHostileBoottime: a boottime near the end of all numbers makes a record
// corrupt; with a ttl added it would be long ago.
func TestHostileBoottime(t *testing.T) {
	w := newWorld(t)
	w.now = after(time.Second)
	here := func(c *Config) { c.Boot, c.Expiry = "b1", ExpiryObserved }
	w.holding("h", here)
	key := versionKey(registerPrefix("n"), 1)
	o := w.store[key]
	for _, at := range []string{"9223372036854775807", "9223372036854775000"} {
		body := strings.Replace(string(o.body), `"boottime_ns": 1000000000`, `"boottime_ns": `+at, 1)
		if body == string(o.body) {
			t.Fatalf("no boottime in %s", body)
		}
		w.store[key] = object{[]byte(body), o.stamp}
		x := w.strictly("x", here)
		w.promptly(x, Event{Kind: EventAcquire})
		w.is(x, "refused")
	}
}

// TestHostileEpoch: no version stands above the last of all numbers.
func TestHostileEpoch(t *testing.T) {
	w := newWorld(t)
	w.store[versionKey(registerPrefix("n"), ^Epoch(0))] = object{[]byte("{}"), w.stamp()}
	x := w.holding("x", nil)
	if n := x.machine.(*StrictLease).cur.n; n != 1 {
		t.Errorf("held at epoch %d", n)
	}
}

// TestEmptyPage: a page without entries, behind which there are more, tells nothing.
func TestEmptyPage(t *testing.T) {
	w := newWorld(t)
	w.holding("h", nil)
	x := w.strictly("x", nil)
	w.say(x, Event{Kind: EventAcquire, Wait: Forever})
	list := x.flying[0]
	x.flying = nil
	if _, err := w.step(x, Event{Kind: EventAnswer, Request: list.Request, Outcome: OutcomeYes, More: true}); err != nil {
		t.Fatal(err)
	}
	w.is(x, "observing")
}

// TestSessionsTTLCounts: whoever has called a session waits for the longer of its
// ttl and the version's, since it may hear of it as late as that.
func TestSessionsTTLCounts(t *testing.T) {
	for _, end := range []string{"broken", "released"} {
		t.Run(end, func(t *testing.T) {
			w := newWorld(t)
			_, l := w.holdingOn(func(c *Config) { c.TTL = 10 * time.Minute })
			if end == "broken" {
				w.prompt(w.breaking(false))
			} else {
				id := l.machine.(*StrictLease).Holder()
				r := w.strictly("r", func(c *Config) { c.Holder, c.Epoch, c.Owner = id, 1, string(id) })
				w.promptly(r, Event{Kind: EventRelease})
			}
			x := w.strictly("x", nil)
			w.say(x, Event{Kind: EventAcquire, Wait: Forever})
			w.until(x, "held")
			if w.now < after(10*time.Minute) {
				w.fail("x holds after %s, and l is %s", seconds(w.now), l.machine)
			}
		})
	}
}

// TestBreaksNoOther: a breaker that was overtaken by a release does not break
// whoever came then.
func TestBreaksNoOther(t *testing.T) {
	w := newWorld(t)
	a := w.holding("a", nil)
	k := w.breaking(false)
	w.answer(k, k.flying[0]) // list
	w.answer(k, k.flying[0]) // a's version; the create is on its way
	w.promptly(a, Event{Kind: EventRelease})
	x := w.holding("x", nil)
	w.prompt(k)
	w.is(k, "refused")
	w.pass(30 * time.Second)
	w.is(x, "held")
}
