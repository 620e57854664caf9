package core

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// From the begin to the launch: what is waited for, who may not launch, and that
// everybody comes to an end.

// TestNoLaunchOutOfContact: a remote that lost contact between joining and its
// second look launches nothing: somebody may work by now.
//
//	remote     joins   exists . . no . . . (stopped) . . . . answered
//	launcher      dies
//	another                               takes over, launches
func TestNoLaunchOutOfContact(t *testing.T) {
	for _, protocol := range []Protocol{ProtocolStrict, ProtocolLastWriter} {
		w := newWorld(t)
		o := w.calling("o", protocol, creating)
		w.bring(o, "launched")
		r := w.remoteOf("r", o)
		w.bring(r, "confirming")
		look := w.ownRequest(r)
		w.apply(look)
		dies(o)
		w.now += int64(10 * time.Minute)
		b := w.caller("b", protocol, creating)
		pausing(r, func() {
			w.say(b, Event{Kind: EventBegin, Wait: Forever})
			w.bring(b, "launched")
		})
		if has(w.answered(r, look), ActionLaunch) {
			t.Errorf("%s: a remote launches while another one works", protocol)
		}
	}
}

// TestAloneLaunchesUnanswered: a remote that may work without a lease, and has
// none, launches though its second look is not answered.
func TestAloneLaunchesUnanswered(t *testing.T) {
	w := newWorld(t)
	r := w.calling("r", ProtocolLastWriter, func(c *Config) { c.Role, c.Holder, c.WithoutLease = RoleRemote, "x", true })
	w.bring(r, "confirming")
	if _, err := w.unknown(r, w.ownRequest(r), ClassUnreachable); err != nil {
		t.Fatal(err)
	}
	w.is(r, "launched")
}

// TestOneTryEnds: who tries once, and lost before the launch what it had got, does
// not ask a silent store for ever.
func TestOneTryEnds(t *testing.T) {
	w := newWorld(t)
	a := w.caller("a", ProtocolLastWriter, creating)
	w.say(a, Event{Kind: EventBegin})
	w.bring(a, "confirming")
	w.fails(a, ClassUnreachable, func(*request) bool { return true })
	w.is(a, "refused")
}

// TestPermanentErrorsEnd: a call ends, and holds nothing, when the store refuses
// it for good: in everything, or only in what it asks for beside its lease.
func TestPermanentErrorsEnd(t *testing.T) {
	refused := map[string]func(*request) bool{
		"everything": func(*request) bool { return true },
		"results":    func(r *request) bool { return r.Request%2 == 1 },
	}
	for _, protocol := range []Protocol{ProtocolStrict, ProtocolLastWriter} {
		for what, meant := range refused {
			for state, end := range map[string]string{"confirming": "refused", "launched": "done"} {
				w := newWorld(t)
				a := w.caller("a", protocol, creating)
				w.say(a, Event{Kind: EventBegin, Wait: time.Minute})
				w.bring(a, state)
				if state == "launched" {
					w.say(a, ended(false))
				}
				w.fails(a, ClassUnauthorized, meant)
				if got := a.machine.String(); got != end {
					t.Errorf("%s: %s refused from %s on: it is %s, not %s", protocol, what, state, got, end)
				}
			}
		}
	}
}

// TestFailedLookForgetsNothing: since when another's lease stands still is
// remembered through an attempt that could not see all of it.
func TestFailedLookForgetsNothing(t *testing.T) {
	w := newWorld(t)
	w.stamps = false
	d := w.holding("d", func(c *Config) { c.Expiry = ExpiryObserved })
	w.drive(100e6, w.now+int64(30*time.Second), func(*actor, []Action) bool { return false })
	dies(d)
	a := w.calling("a", ProtocolStrict, func(c *Config) { c.Expiry = ExpiryObserved })
	w.bring(a, "waiting")
	w.until(a, "acquiring")
	w.bring(a, "waiting")
	seen := a.machine.(*Invocation).watch
	if seen.print == 0 {
		t.Fatal("nothing is watched")
	}
	w.until(a, "acquiring")
	failed := 0
	for a.machine.String() == "acquiring" {
		w.now += 1e6
		r := w.leaseRequest(a)
		if !strings.Contains(r.Key, "/b.") {
			w.answered(a, r)
			continue
		}
		failed++
		if _, err := w.unknown(a, r, ClassThrottled); err != nil {
			t.Fatal(err)
		}
	}
	if got := a.machine.(*Invocation).watch; failed == 0 || got != seen {
		t.Errorf("%d looks failed; what was watched as %v is %v", failed, seen, got)
	}
}

// TestChangedWhileLooking: told of a change while it looks, perhaps too early to
// see it, a waiter looks again at once.
//
//	us       list (shows held) . . . . . . changed . . answered
//	holder                      releases
func TestChangedWhileLooking(t *testing.T) {
	w := newWorld(t)
	d := w.holding("d", nil)
	a := w.calling("a", ProtocolStrict, nil)
	w.bring(a, "acquiring")
	list := w.leaseRequest(a)
	w.apply(list)
	pausing(a, func() {
		w.say(d, Event{Kind: EventRelease})
		w.bring(d, "released")
	})
	w.say(a, Event{Kind: EventChanged})
	w.answered(a, list)
	for a.machine.String() == "acquiring" {
		w.answered(a, w.leaseRequest(a))
	}
	w.is(a, "waiting")
	if a.wake > w.mono(a) {
		t.Errorf("waits %v after it was told", time.Duration(a.wake-w.mono(a)))
	}
}

// TestNoRemoteOnSession: a companion stands on no session, and so no remote does.
func TestNoRemoteOnSession(t *testing.T) {
	_, err := New(Config{
		Machine: MachineInvocation, Protocol: ProtocolStrict, Name: "n", Seed: [16]byte{1},
		Role: RoleRemote, Holder: "x", Epoch: 1, OnSession: true,
	})
	if err == nil || !strings.Contains(err.Error(), "session: only a lease and permits stand on one") {
		t.Errorf("error %v", err)
	}
}

// TestInvocationConfigSuits: whatever an invocation can be made with, the machine
// in it can be made with.
func TestInvocationConfigSuits(t *testing.T) {
	dice := rand.New(rand.NewPCG(1, 2))
	of := func(d ...Duration) Duration { return d[dice.IntN(len(d))] }
	made, panics := 0, map[string]Config{}
	for range 30_000 {
		cfg := Config{
			Machine: MachineInvocation, Name: "n", Seed: [16]byte{1},
			Protocol: Protocol(1 + dice.IntN(2)), Role: Role(dice.IntN(3)), Renewal: Renewal(dice.IntN(3)), Expiry: Expiry(dice.IntN(4)),
			TTL: of(0, None, time.Second, 10*time.Second, 88*time.Second, MaxTTL), Margin: of(0, time.Second, 20*time.Second),
			AcquireMargin: of(0, time.Second, 5*time.Second), FleetExpire: of(0, None, time.Minute),
			StampUnit: of(0, time.Second), StampSpread: of(0, None, time.Second),
			Holder: []HolderID{"", "x", "y z"}[dice.IntN(3)], Owner: []string{"", "o"}[dice.IntN(2)],
			Epoch: Epoch(dice.IntN(2)), LastEpoch: Epoch(dice.IntN(3)),
			OnSession: dice.IntN(4) == 0, Beside: dice.IntN(4) == 0, WithoutLease: dice.IntN(2) == 0, MemoFailures: dice.IntN(2) == 0,
		}
		m, err := New(cfg)
		if err != nil {
			continue
		}
		made++
		if p := firstAttempt(m); p != nil {
			panics[fmt.Sprint(p)] = cfg
		}
	}
	for p, cfg := range panics {
		t.Errorf("%s: from %+v", p, cfg)
	}
	if made < 100 {
		t.Errorf("only %d were made", made)
	}
}

// firstAttempt begins a call for which there is no result, and is what it panics with.
func firstAttempt(m Machine) (panicked any) {
	defer func() { panicked = recover() }()
	for _, ev := range []Event{{Kind: EventBegin}, {Kind: EventAnswer, Request: 1, Outcome: OutcomeNo}} {
		if _, err := m.Step(Instant{Mono: 1}, ev); err != nil {
			return nil // a remote without an id has launched, and asked for nothing
		}
	}
	return nil
}

// TestInvocationStateIsComplete is TestAppendStateIsComplete for invocations, with
// a lease or a companion in them and without.
func TestInvocationStateIsComplete(t *testing.T) {
	outside := map[string]bool{
		"cfg": true, "key": true, "deliberate": true, // constant, or made anew for each request
		"out": true, "bodies": true, "said": true, "event": true, // of the latest Step
		"inner": true, // has a test of its own
	}
	for _, protocol := range []Protocol{ProtocolStrict, ProtocolLastWriter} {
		w := newWorld(t)
		o := w.calling("o", protocol, nil)
		checkState(t, o.machine, outside) // checking
		w.bring(o, "launched")
		r := w.remoteOf("r", o)
		w.bring(r, "launched")
		waiter := w.calling("waiter", protocol, nil)
		w.bring(waiter, "waiting")
		w.say(o, ended(false))
		w.bring(o, "awaiting")
		w.until(o, "settling")
		for _, a := range []*actor{o, r, waiter} {
			checkState(t, a.machine, outside)
			v := a.machine.(*Invocation)
			if v.inner != nil && !strings.Contains(string(v.AppendState(nil)), string(v.inner.AppendState(nil))) {
				t.Errorf("%s: the state of the machine in it is not in its own", a.name)
			}
		}
	}
}

// TestLostWhileCheckingAnew: a remote that lost contact before its launch, and is
// told while it looks anew that the lease is another's, joins nobody and runs nothing.
//
//	remote   joins   contact lost   exists . . . . . . . . . . no
//	thief                                   claims
//	renewal                           get . . . . . taken
func TestLostWhileCheckingAnew(t *testing.T) {
	w := newWorld(t)
	o := w.calling("o", ProtocolLastWriter, nil)
	w.bring(o, "launched")
	r := w.remoteOf("r", o)
	w.bring(r, "confirming")
	dies(o)
	w.now += int64(200 * time.Second)
	if !has(w.tells(r, Event{Kind: EventWoke}), ActionContactLost) {
		t.Fatal("still in contact")
	}
	w.is(r, "checking")
	w.rob(88 * time.Second)
	if !has(w.answered(r, w.leaseRequest(r)), ActionLost) {
		t.Fatal("not lost")
	}
	w.bring(r, "done")
}
