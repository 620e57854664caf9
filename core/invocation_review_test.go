package core

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

func callConfig(strict bool) Config {
	cfg := Config{Machine: MachineInvocation, Role: RoleOwner, Name: "n", Protocol: ProtocolLastWriter}
	if strict {
		cfg.Protocol = ProtocolStrict
	}
	return cfg
}

func callAdd(t *testing.T, w *world, name string, cfg Config) *actor {
	t.Helper()
	a, err := w.add(name, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func callStep(t *testing.T, w *world, a *actor, ev Event) []Action {
	t.Helper()
	acts, err := w.step(a, ev)
	if err != nil {
		t.Fatal(err)
	}
	return append([]Action(nil), acts...)
}

// reach drives everybody until a is in a state.
func callReach(t *testing.T, w *world, a *actor, state string, most time.Duration) {
	t.Helper()
	if a.machine.String() == state {
		return
	}
	w.drive(int64(100*time.Millisecond), w.now+int64(most), func(*actor, []Action) bool { return a.machine.String() == state })
	if a.machine.String() != state {
		t.Fatalf("%s is %s, not %s\n%s", a.name, a.machine, state, strings.Join(w.events[max(0, len(w.events)-30):], "\n"))
	}
}

func callSaid(acts []Action, kinds ...ActionKind) bool {
	for _, a := range acts {
		for _, k := range kinds {
			if a.Kind == k {
				return true
			}
		}
	}
	return false
}

func callFlying(t *testing.T, w *world, a *actor, own bool) *request {
	t.Helper()
	for i := len(a.flying) - 1; i >= 0; i-- {
		if (a.flying[i].Request%2 == 1) == own {
			return a.flying[i]
		}
	}
	t.Fatalf("nothing in flight (own %v)", own)
	return nil
}

// 1: with a session, found gives nothing back.
func TestInvocationSessionReleases(t *testing.T) {
	w := newWorld(t)
	s := callAdd(t, w, "s", Config{Machine: MachineSession, Protocol: ProtocolStrict})
	callStep(t, w, s, Event{Kind: EventBegin})
	callReach(t, w, s, "in_force", time.Minute)
	cfg := callConfig(true)
	cfg.OnSession = true
	a := callAdd(t, w, "a", cfg)
	a.strict.stands = s
	callStep(t, w, a, Event{Kind: EventBegin, Wait: Forever})
	callReach(t, w, a, "launched", time.Minute)
	callStep(t, w, a, Event{Kind: EventEnded, Outcome: OutcomeYes, Result: true})
	callReach(t, w, a, "done", time.Minute)
	if _, ok := w.store[versionKey(registerPrefix("n"), 2)]; !ok {
		t.Errorf("nothing was released:\n%s", strings.Join(w.events[len(w.events)-8:], "\n"))
	}
}

// 2: the retry timer writes after taken.
func TestInvocationLoserDeliversOnRetry(t *testing.T) {
	for _, creates := range []bool{true, false} {
		w := newWorld(t)
		cfg := callConfig(false)
		cfg.Creates = creates
		a := callAdd(t, w, "a", cfg)
		callStep(t, w, a, Event{Kind: EventBegin, Wait: Forever})
		callReach(t, w, a, "launched", time.Minute)
		w.now += int64(28 * time.Second)
		acts := callStep(t, w, a, Event{Kind: EventEnded, Outcome: OutcomeYes, Result: true}) // and a renewal's get
		_ = acts
		w.unknown(a, callFlying(t, w, a, true), ClassUnreachable)
		get := callFlying(t, w, a, false)
		w.apply(get)
		get.reply.Body = []byte(strings.ReplaceAll(string(get.reply.Body), string(a.machine.(*Invocation).holder), "somebody-else"))
		lost, _ := w.answer(a, get)
		if !callSaid(lost, ActionLost) {
			t.Fatal("not lost")
		}
		w.now += int64(5 * time.Second)
		acts = callStep(t, w, a, Event{Kind: EventWoke})
		if creates && callSaid(acts, ActionCreateResult) {
			t.Errorf("creates: offers its result after lost taken")
		}
		if !creates && a.machine.String() == "delivering" {
			x := callFlying(t, w, a, true)
			acts, _ = w.answer(a, x)
			if callSaid(acts, ActionPutResult) {
				t.Errorf("no create: puts its result over another's after lost taken")
			}
		}
	}
}

// 2b: the look's answer (no create) is taken for a go after lost.
func TestInvocationLatePutWithoutCreate(t *testing.T) {
	for _, reason := range []string{"expired", "released"} {
		w := newWorld(t)
		cfg := callConfig(false)
		a := callAdd(t, w, "a", cfg)
		callStep(t, w, a, Event{Kind: EventBegin, Wait: Forever})
		callReach(t, w, a, "launched", time.Minute)
		if reason == "expired" {
			callStep(t, w, a, Event{Kind: EventEnded, Outcome: OutcomeYes, Result: true}) // exists #
			look := callFlying(t, w, a, true)
			w.apply(look) // says no; then we are paused for two TTLs, and another works and puts his
			w.now += int64(200 * time.Second)
			w.store["n/result"] = object{[]byte("by b"), w.stamp()}
			acts, _ := w.answer(a, look)
			if callSaid(acts, ActionPutResult) {
				t.Errorf("%s: put_result after lost", reason)
			}
			continue
		}
		// somebody breaks it (released_at): the name is free, and others may work and put.
		w.now += int64(28 * time.Second)
		callStep(t, w, a, Event{Kind: EventWoke})
		get := callFlying(t, w, a, false)
		w.apply(get)
		get.reply.Body = []byte(strings.Replace(string(get.reply.Body), `"released_at": ""`, `"released_at": "2026-01-02T03:04:05.000000+00:00"`, 1))
		lost, _ := w.answer(a, get)
		if !callSaid(lost, ActionLost) {
			t.Fatalf("not lost: %s %v", get.reply.Body, lost)
		}
		callStep(t, w, a, Event{Kind: EventEnded, Outcome: OutcomeYes, Result: true})
		look := callFlying(t, w, a, true)
		acts, _ := w.answer(a, look)
		if callSaid(acts, ActionPutResult) {
			t.Errorf("%s: put_result after lost", reason)
		}
	}
}

// 3: a remote launches when contact was lost between joining and the second look.
func TestInvocationRemoteLaunchesOutOfContact(t *testing.T) {
	for _, strict := range []bool{false, true} {
		w := newWorld(t)
		o := callAdd(t, w, "o", func() Config { c := callConfig(strict); c.Creates = true; return c }())
		callStep(t, w, o, Event{Kind: EventBegin, Wait: Forever})
		callReach(t, w, o, "launched", time.Minute)
		cfg := callConfig(strict)
		cfg.Creates, cfg.Role, cfg.Holder, cfg.Epoch = true, RoleRemote, o.machine.(*Invocation).holder, 1
		r := callAdd(t, w, "r", cfg)
		callStep(t, w, r, Event{Kind: EventBegin})
		callReach(t, w, r, "confirming", time.Minute)
		look := callFlying(t, w, r, true)
		w.apply(look)                    // no
		o.flying, o.wake = nil, unset    // the orchestrator dies
		w.now += int64(10 * time.Minute) // the remote is paused; another takes over
		b := callAdd(t, w, "b", func() Config { c := callConfig(strict); c.Creates = true; return c }())
		rw, rf := r.wake, r.flying
		r.wake, r.flying = unset, nil
		callStep(t, w, b, Event{Kind: EventBegin, Wait: Forever})
		callReach(t, w, b, "launched", 10*time.Minute)
		r.wake, r.flying = rw, rf
		acts, _ := w.answer(r, look)
		if callSaid(acts, ActionLaunch) {
			t.Errorf("strict %v: %s launches while %s works: %v", strict, r.name, b.name, callSaid(acts, ActionContactLost))
		}
	}
}

// 4: a remote out of contact puts its result on a store without create.
func TestInvocationRemotePutsOutOfContact(t *testing.T) {
	w := newWorld(t)
	o := callAdd(t, w, "o", callConfig(false))
	callStep(t, w, o, Event{Kind: EventBegin, Wait: Forever})
	callReach(t, w, o, "launched", time.Minute)
	cfg := callConfig(false)
	cfg.Role, cfg.Holder = RoleRemote, o.machine.(*Invocation).holder
	r := callAdd(t, w, "r", cfg)
	callStep(t, w, r, Event{Kind: EventBegin})
	callReach(t, w, r, "launched", time.Minute)
	w.now += int64(200 * time.Second)
	acts := callStep(t, w, r, Event{Kind: EventEnded, Outcome: OutcomeYes, Result: true})
	if !callSaid(acts, ActionContactLost) {
		t.Fatal("contact?")
	}
	if r.machine.String() == "delivering" {
		acts, _ = w.answer(r, callFlying(t, w, r, true))
		if callSaid(acts, ActionPutResult) {
			t.Errorf("put_result while out of contact")
		}
	}
}

// 5: stranded: tried once, lost before launch, store silent for ever.
func TestInvocationTryOnceStranded(t *testing.T) {
	w := newWorld(t)
	a := callAdd(t, w, "a", func() Config { c := callConfig(false); c.Creates = true; return c }())
	callStep(t, w, a, Event{Kind: EventBegin, Wait: 0})
	callReach(t, w, a, "confirming", time.Minute)
	r1outage(t, w, a, ClassUnreachable, 24*time.Hour)
	if s := a.machine.String(); s != "refused" {
		t.Errorf("a day later it is still %s", s)
	}
}

// 6: permanent errors in confirming and settling.
func TestInvocationPermanentStranded(t *testing.T) {
	for _, state := range []string{"confirming", "launched"} {
		w := newWorld(t)
		a := callAdd(t, w, "a", func() Config { c := callConfig(true); c.Creates = true; return c }())
		callStep(t, w, a, Event{Kind: EventBegin, Wait: time.Minute})
		callReach(t, w, a, state, time.Minute)
		if state == "launched" {
			callStep(t, w, a, Event{Kind: EventEnded, Outcome: OutcomeYes})
		}
		r1outage(t, w, a, ClassUnauthorized, 24*time.Hour)
		t.Logf("%s -> %s", state, a.machine)
		if s := a.machine.String(); s != "refused" && s != "done" {
			t.Errorf("%s: a day later it is still %s", state, s)
		}
	}
}

// own requests fail (all=false: only own), for so long
func r1outage(t *testing.T, w *world, a *actor, class Class, d time.Duration) {
	t.Helper()
	end := w.now + int64(d)
	for w.now < end && a.machine.String() != "refused" && a.machine.String() != "done" {
		switch {
		case len(a.flying) > 0:
			w.now += int64(10 * time.Millisecond)
			if _, err := w.unknown(a, a.flying[0], class); err != nil {
				t.Fatal(err)
			}
			a.stray = nil
		case a.wake != unset:
			w.now = max(w.now, a.wake)
			callStep(t, w, a, Event{Kind: EventWoke})
		default:
			t.Fatalf("stranded in %s: nothing in flight, no wake", a.machine)
		}
		w.events = nil
	}
}

// 7: a remote on a session.
func TestInvocationRemoteOnSession(t *testing.T) {
	defer func() {
		if p := recover(); p != nil {
			t.Errorf("panic: %v", p)
		}
	}()
	w := newWorld(t)
	cfg := callConfig(true)
	cfg.Role, cfg.Holder, cfg.Epoch, cfg.OnSession = RoleRemote, "x", 1, true
	a, err := w.add("r", cfg)
	if err != nil {
		return
	}
	callStep(t, w, a, Event{Kind: EventBegin})
	w.answer(a, callFlying(t, w, a, true))
}

// 8: ended without an outcome counts as well.
func TestInvocationEndedOutcome(t *testing.T) {
	w := newWorld(t)
	cfg := callConfig(true)
	cfg.Role, cfg.WithoutLease = RoleRemote, true
	a := callAdd(t, w, "r", cfg)
	callStep(t, w, a, Event{Kind: EventBegin})
	for _, o := range []Outcome{0, OutcomeUnknown, 77} {
		c := a.machine.Clone()
		if _, err := c.Step(w.clock(a), Event{Kind: EventEnded, Outcome: o, Result: true}); err == nil {
			t.Errorf("ended with outcome %d is taken: %s", o, c)
		}
	}
}

// 9: a look that fails half-way forgets the observation.
func TestInvocationWatchForgotten(t *testing.T) {
	w := newWorld(t)
	w.stamps = false
	d := callAdd(t, w, "d", Config{Machine: MachineLease, Name: "n", Protocol: ProtocolStrict, Expiry: ExpiryObserved})
	callStep(t, w, d, Event{Kind: EventAcquire})
	callReach(t, w, d, "held", time.Minute)
	w.drive(int64(100*time.Millisecond), w.now+int64(30*time.Second), func(*actor, []Action) bool { return false })
	d.wake, d.flying = unset, nil
	cfg := callConfig(true)
	cfg.Expiry = ExpiryObserved
	a := callAdd(t, w, "a", cfg)
	callStep(t, w, a, Event{Kind: EventBegin, Wait: Forever})
	callReach(t, w, a, "waiting", time.Minute)
	v := a.machine.(*Invocation)
	was := v.watch
	if was.print == 0 {
		t.Fatal("nothing watched")
	}
	beats := 0
	for range 6 {
		callReach(t, w, a, "acquiring", time.Minute)
		for a.machine.String() == "acquiring" {
			r := callFlying(t, w, a, false)
			w.now += 1e6
			if strings.Contains(r.Key, "/b.") {
				beats++
				if was.print == 0 || beats > 1 {
					w.unknown(a, r, ClassThrottled)
					continue
				}
			}
			w.answer(a, r)
		}
		if beats == 1 {
			was = v.watch
		}
	}
	t.Log(beats, was, v.watch)
	if v.watch != was {
		t.Errorf("watch was %v and is %v", was, v.watch)
	}
}

// 10: roundOver ends with absent{none} though the lease is lost.
func TestInvocationAbsentNoneThoughLost(t *testing.T) {
	w := newWorld(t)
	a := callAdd(t, w, "a", func() Config { c := callConfig(false); c.Creates = true; return c }())
	callStep(t, w, a, Event{Kind: EventBegin, Wait: Forever})
	callReach(t, w, a, "launched", time.Minute)
	callStep(t, w, a, Event{Kind: EventEnded, Outcome: OutcomeYes})
	w.answer(a, callFlying(t, w, a, true)) // no result: get lock.json
	get := callFlying(t, w, a, true)
	if get.Kind != ActionGet {
		t.Fatal(get.Kind)
	}
	w.apply(get)
	w.now += int64(200 * time.Second) // paused
	acts, _ := w.answer(a, get)
	if !callSaid(acts, ActionLost) {
		t.Fatal("not lost")
	}
	if callSaid(acts, ActionAbsent) {
		t.Errorf("absent{%v} in the Step in which it is lost, not a waiter again", acts[1].Reason)
	}
}

// 11: a foreign object below the register hides the companion.
func TestInvocationForeignKeyHidesCompanion(t *testing.T) {
	w := newWorld(t)
	o := callAdd(t, w, "o", callConfig(true))
	callStep(t, w, o, Event{Kind: EventBegin, Wait: Forever})
	callReach(t, w, o, "launched", time.Minute)
	cfg := callConfig(true)
	cfg.Role, cfg.Holder, cfg.Epoch = RoleRemote, o.machine.(*Invocation).holder, 1
	r := callAdd(t, w, "r", cfg)
	callStep(t, w, r, Event{Kind: EventBegin})
	callReach(t, w, r, "launched", time.Minute)
	w.store["n/"+RegisterDir+"/.keep"] = object{nil, w.stamp()}
	callStep(t, w, o, Event{Kind: EventEnded, Outcome: OutcomeYes})
	var got Reason = 99
	w.drive(int64(100*time.Millisecond), w.now+int64(2*time.Minute), func(a *actor, acts []Action) bool {
		for _, x := range acts {
			if a == o && x.Kind == ActionAbsent {
				got = x.Reason
			}
		}
		return got != 99
	})
	if got != 99 {
		t.Errorf("absent{%v} while the companion works", got)
	}
}

// 12: cancel while put_result is in flight releases at once.
func TestInvocationCancelWithPutInFlight(t *testing.T) {
	w := newWorld(t)
	a := callAdd(t, w, "a", callConfig(false))
	callStep(t, w, a, Event{Kind: EventBegin, Wait: Forever})
	callReach(t, w, a, "launched", time.Minute)
	callStep(t, w, a, Event{Kind: EventEnded, Outcome: OutcomeYes, Result: true})
	w.answer(a, callFlying(t, w, a, true))
	put := callFlying(t, w, a, true)
	if put.Kind != ActionPutResult {
		t.Fatal(put.Kind)
	}
	callStep(t, w, a, Event{Kind: EventCancel})
	if len(a.flying) > 1 {
		a.flying = without(a.flying, put)
	}
	callReach(t, w, a, "refused", time.Minute)
	b := callAdd(t, w, "b", callConfig(false))
	callStep(t, w, b, Event{Kind: EventBegin, Wait: Forever})
	w.drive(int64(100*time.Millisecond), w.now+int64(time.Minute), func(*actor, []Action) bool { return b.machine.String() == "launched" })
	if b.machine.String() == "done" { // it found a's
		return
	}
	callStep(t, w, b, Event{Kind: EventEnded, Outcome: OutcomeYes, Result: true})
	callReach(t, w, b, "done", time.Minute)
	w.apply(put)
	if string(w.store["n/result"].body) != "by b" {
		t.Errorf("b's result became %q", w.store["n/result"].body)
	}
}

// 13: changed in acquiring is forgotten.
func TestInvocationChangedInAcquiring(t *testing.T) {
	w := newWorld(t)
	d := callAdd(t, w, "d", Config{Machine: MachineLease, Name: "n", Protocol: ProtocolStrict})
	callStep(t, w, d, Event{Kind: EventAcquire})
	callReach(t, w, d, "held", time.Minute)
	a := callAdd(t, w, "a", callConfig(true))
	callStep(t, w, a, Event{Kind: EventBegin, Wait: Forever})
	callReach(t, w, a, "acquiring", time.Minute)
	list := callFlying(t, w, a, false)
	w.apply(list)
	callStep(t, w, d, Event{Kind: EventRelease})
	wk, fl := a.wake, a.flying
	a.wake, a.flying = unset, nil
	callReach(t, w, d, "released", time.Minute)
	a.wake, a.flying = wk, fl
	callStep(t, w, a, Event{Kind: EventChanged})
	w.answer(a, list)
	for a.machine.String() == "acquiring" {
		w.answer(a, callFlying(t, w, a, false))
	}
	if a.machine.String() == "waiting" && a.wake > w.mono(a) {
		t.Errorf("waits %v after it was told", time.Duration(a.wake-w.mono(a)))
	}
}

// 14: release{brief} while releasing.
func TestInvocationBriefLater(t *testing.T) {
	w := newWorld(t)
	a := callAdd(t, w, "a", func() Config { c := callConfig(false); c.Creates = true; return c }())
	callStep(t, w, a, Event{Kind: EventBegin, Wait: Forever})
	callReach(t, w, a, "launched", time.Minute)
	w.now += int64(28 * time.Second)
	callStep(t, w, a, Event{Kind: EventWoke})
	w.answer(a, callFlying(t, w, a, false)) // get: put
	w.unknown(a, callFlying(t, w, a, false), ClassOther)
	callStep(t, w, a, Event{Kind: EventEnded, Outcome: OutcomeYes, Result: true})
	w.answer(a, callFlying(t, w, a, true))
	callReach(t, w, a, "done", time.Minute)
	callStep(t, w, a, Event{Kind: EventRelease, Brief: true})
	at := w.now
	for !a.machine.Idle() {
		before := w.now
		w.drive(int64(100*time.Millisecond), w.now+int64(10*time.Minute), func(*actor, []Action) bool { return a.machine.Idle() })
		if w.now == before {
			break
		}
	}
	if took := time.Duration(w.now - at); took > 5*time.Second {
		t.Errorf("brief: idle after %v", took)
	}
}

// 6b: only the own lane fails, for good: the lease is held for ever.
func TestInvocationPermanentOwnLane(t *testing.T) {
	for _, state := range []string{"confirming", "launched"} {
		w := newWorld(t)
		a := callAdd(t, w, "a", func() Config { c := callConfig(false); c.Creates = true; return c }())
		callStep(t, w, a, Event{Kind: EventBegin, Wait: time.Minute})
		callReach(t, w, a, state, time.Minute)
		if state == "launched" {
			callStep(t, w, a, Event{Kind: EventEnded, Outcome: OutcomeYes})
		}
		end := w.now + int64(6*time.Hour)
		for w.now < end && a.machine.String() != "refused" && a.machine.String() != "done" {
			w.now += 1e7
			switch {
			case len(a.flying) > 0 && a.flying[0].Request%2 == 1:
				w.unknown(a, a.flying[0], ClassUnauthorized)
			case len(a.flying) > 0:
				w.answer(a, a.flying[0])
			default:
				w.now = max(w.now, a.wake)
				callStep(t, w, a, Event{Kind: EventWoke})
			}
			w.events = nil
		}
		if s := a.machine.String(); s != "refused" && s != "done" {
			t.Errorf("%s: six hours later it is %s, and holds the lease", state, s)
		}
	}
}

// AppendState covers every field: each one is flipped in turn.
func TestInvocationSnapshot(t *testing.T) {
	w := newWorld(t)
	a := callAdd(t, w, "a", callConfig(true))
	v := a.machine.(*Invocation)
	for _, f := range []struct {
		n string
		f func(*Invocation)
	}{{"told", func(v *Invocation) { v.told++ }}, {"key", func(v *Invocation) { v.key += "x" }}} {
		c := v.Clone().(*Invocation)
		f.f(c)
		if string(c.AppendState(nil)) == string(v.AppendState(nil)) {
			t.Log("not covered: ", f.n)
		}
	}
}

// Whatever an invocation is made with, its inner machine can be made with.
func TestInvocationConfigFuzz(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	pick := func(d ...Duration) Duration { return d[r.IntN(len(d))] }
	bad := map[string]int{}
	for range 200000 {
		cfg := Config{
			Machine: MachineInvocation, Name: "n", Protocol: Protocol(1 + r.IntN(2)), Role: Role(r.IntN(3)),
			TTL: pick(0, None, time.Second, 10*time.Second, 88*time.Second, MaxTTL), Margin: pick(0, time.Second, 20*time.Second),
			AcquireMargin: pick(0, time.Second, 5*time.Second), FleetExpire: pick(0, None, time.Minute), Renewal: Renewal(r.IntN(3)), Expiry: Expiry(r.IntN(4)),
			StampUnit: pick(0, time.Second), Holder: []HolderID{"", "x", "y z"}[r.IntN(3)], StampSpread: pick(0, None, time.Second),
			OnSession: r.IntN(4) == 0, Beside: r.IntN(4) == 0, Epoch: Epoch(r.IntN(2)), LastEpoch: Epoch(r.IntN(3)), Owner: []string{"", "o"}[r.IntN(2)],
			WithoutLease: r.IntN(2) == 0, MemoFailures: r.IntN(2) == 0, Seed: [16]byte{1},
		}
		m, err := New(cfg)
		if err != nil {
			continue
		}
		func() {
			defer func() {
				if p := recover(); p != nil {
					bad[fmt.Sprint(p)]++
				}
			}()
			m.Step(Instant{Mono: 1}, Event{Kind: EventBegin})
			m.Step(Instant{Mono: 2}, Event{Kind: EventAnswer, Request: 1, Outcome: OutcomeNo})
		}()
	}
	for p, n := range bad {
		t.Errorf("%d times: %s", n, p)
	}
}

// 15: the result is stored between the exists and the reads of the last round.
func TestInvocationAbsentThoughStored(t *testing.T) {
	for _, strict := range []bool{true, false} {
		w := newWorld(t)
		o := callAdd(t, w, "o", func() Config { c := callConfig(strict); c.Creates = true; return c }())
		callStep(t, w, o, Event{Kind: EventBegin, Wait: Forever})
		callReach(t, w, o, "launched", time.Minute)
		callStep(t, w, o, Event{Kind: EventEnded, Outcome: OutcomeYes})
		look := callFlying(t, w, o, true)
		w.apply(look) // no
		w.now += int64(2500 * time.Millisecond)
		w.answer(o, look)
		w.store["n/result"] = object{[]byte("by r"), w.stamp()} // a remote stores, and leaves
		w.now += int64(2600 * time.Millisecond)                 // a slow store
		for range 3 {
			if o.machine.String() != "settling" {
				break
			}
			acts, _ := w.answer(o, callFlying(t, w, o, true))
			if callSaid(acts, ActionAbsent) {
				t.Errorf("strict %v: absent, and the result is there", strict)
			}
		}
	}
}
