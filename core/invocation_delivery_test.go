package core

import (
	"testing"
	"time"
)

// From the end of the work to the end of the call: who may store a result, and
// when there is none.

// TestLoserOffersNothing: a result whose storing was not answered is not offered
// again once the lease is another's.
//
//	us      result . . . . lost on the way                      again
//	thief              claims
//	renewal   get . . . . . . . . . . . . . . . taken
func TestLoserOffersNothing(t *testing.T) {
	for _, creates := range []bool{true, false} {
		w := newWorld(t)
		a := w.calling("a", ProtocolLastWriter, func(c *Config) { c.Creates = creates })
		w.bring(a, "launched")
		w.now = w.trueAt(a, a.wake) // a renewal is due, too
		w.say(a, ended(true))
		if _, err := w.unknown(a, w.ownRequest(a), ClassUnreachable); err != nil {
			t.Fatal(err)
		}
		w.rob(88 * time.Second)
		if !has(w.answered(a, w.leaseRequest(a)), ActionLost) {
			t.Fatalf("creates %v: not lost", creates)
		}
		w.now += int64(5 * time.Second)
		if w.offers(a, w.tells(a, Event{Kind: EventWoke})) {
			t.Errorf("creates %v: offers its result though the lease is another's", creates)
		}
	}
}

// TestLateResultNeedsCreate: where the last result wins, none is put past the
// deadline, though the look for another's was answered no before it.
func TestLateResultNeedsCreate(t *testing.T) {
	w := newWorld(t)
	a := w.calling("a", ProtocolLastWriter, nil)
	w.bring(a, "launched")
	w.say(a, ended(true))
	look := w.ownRequest(a)
	w.apply(look)                     // no; then the process is stopped
	w.now += int64(200 * time.Second) // and another one works
	w.store["n/"+ResultFile] = object{[]byte("by b"), w.stamp()}
	if w.offers(a, w.answered(a, look)) {
		t.Error("puts its result past the deadline")
	}
}

// TestFreedResultNeedsCreate: where the last result wins, none is put once
// somebody has released the lease by hand: others may work.
func TestFreedResultNeedsCreate(t *testing.T) {
	w := newWorld(t)
	a := w.calling("a", ProtocolLastWriter, nil)
	w.bring(a, "launched")
	w.now = w.trueAt(a, a.wake)
	w.say(a, Event{Kind: EventWoke})
	w.freeByHand(t)
	if !has(w.answered(a, w.leaseRequest(a)), ActionLost) {
		t.Fatal("not lost")
	}
	if w.offers(a, w.tells(a, ended(true))) {
		t.Error("puts its result though the lease was released")
	}
}

// TestRemoteOutOfContactNeedsCreate: where the last result wins, a remote puts
// none while it is out of contact, and does once it has joined again.
func TestRemoteOutOfContactNeedsCreate(t *testing.T) {
	w := newWorld(t)
	o := w.calling("o", ProtocolLastWriter, nil)
	w.bring(o, "launched")
	r := w.remoteOf("r", o)
	w.bring(r, "launched")
	w.now += int64(200 * time.Second)
	if !has(w.tells(r, ended(true)), ActionContactLost) {
		t.Fatal("still in contact")
	}
	w.is(r, "delivering")
	if has(w.answered(r, w.ownRequest(r)), ActionPutResult) {
		t.Error("puts its result out of contact")
	}
	dies(o)
	if end := w.ending(r, 5*time.Minute); end == nil || end.Kind != ActionFound {
		t.Errorf("%v, back in contact", end)
	}
}

// TestDeliveryIsBounded: a store that takes no result is given up in the end.
func TestDeliveryIsBounded(t *testing.T) {
	w := newWorld(t)
	a := w.calling("a", ProtocolStrict, nil)
	w.bring(a, "launched")
	w.say(a, ended(true))
	began := w.now
	w.fails(a, ClassThrottled, func(r *request) bool { return isResult(r.Kind) })
	if took := time.Duration(w.now - began); a.machine.String() != "done" || took > DeliverLimit+time.Minute {
		t.Errorf("%s after %v", a.machine, took)
	}
}

// TestSettlingIsMendedEachTime: one error ends no call that has waited long for a
// companion: the bound is on an outage, not on the wait.
func TestSettlingIsMendedEachTime(t *testing.T) {
	w := newWorld(t)
	o := w.calling("o", ProtocolStrict, nil)
	w.bring(o, "launched")
	r := w.remoteOf("r", o)
	w.bring(r, "launched")
	w.say(o, ended(false))
	if end := w.ending(o, DeliverLimit+time.Minute); end != nil {
		t.Fatalf("%s{%s} while the companion works", end.Kind, end.Reason)
	}
	w.bring(o, "settling")
	if _, err := w.unknown(o, w.ownRequest(o), ClassUnreachable); err != nil {
		t.Fatal(err)
	}
	w.is(o, "settling")
}

// TestCancelAwaitsPut: cancelled while a put that nothing can shut out is under
// way, the lease is given back only when that put has ended: it would land on
// the next one's result.
func TestCancelAwaitsPut(t *testing.T) {
	w := newWorld(t)
	a := w.calling("a", ProtocolLastWriter, nil)
	w.bring(a, "launched")
	w.say(a, ended(true))
	w.answered(a, w.ownRequest(a))
	put := w.ownRequest(a)
	if put.Kind != ActionPutResult {
		t.Fatalf("sends %s", put.Kind)
	}
	a.flying = without(a.flying, put) // neither here nor there
	w.say(a, Event{Kind: EventCancel})
	b := w.calling("b", ProtocolLastWriter, nil)
	w.drive(100e6, w.now+int64(5*time.Minute), func(x *actor, actions []Action) bool {
		if x == b && has(actions, ActionLaunch) {
			t.Fatal("another one works while the put is under way")
		}
		return false
	})
	if _, err := w.unknown(a, put, ClassUnreachable); err != nil {
		t.Fatal(err)
	}
	w.bring(a, "refused")
	w.bring(b, "launched")
}

// TestLostIsNotAbsent: in the Step in which the lease is lost nobody says that
// there will be no result: another one may be at work.
func TestLostIsNotAbsent(t *testing.T) {
	w := newWorld(t)
	a := w.calling("a", ProtocolLastWriter, creating)
	w.bring(a, "launched")
	w.say(a, ended(false))
	w.answered(a, w.ownRequest(a)) // no result: is there a companion?
	get := w.ownRequest(a)
	w.apply(get)
	w.now += int64(200 * time.Second) // stopped
	actions := w.answered(a, get)
	if !has(actions, ActionLost) {
		t.Fatal("not lost")
	}
	if has(actions, ActionAbsent) {
		t.Error("absent, though the lease was lost in the same Step")
	}
	w.is(a, "checking")
}

// TestAbsentLooksLast: there is no result only when the look for it was sent
// after the last who could have stored it had gone.
//
//	launcher   ends   exists . . . no   reads . . . . . . . . answered
//	remote                                stores, leaves
//	moment     |------------------- 5 s --------------|
func TestAbsentLooksLast(t *testing.T) {
	for _, protocol := range []Protocol{ProtocolStrict, ProtocolLastWriter} {
		w := newWorld(t)
		o := w.calling("o", protocol, creating)
		w.bring(o, "launched")
		w.say(o, ended(false))
		look := w.ownRequest(o)
		w.apply(look)
		w.now += int64(LaunchGrace / 2)
		w.answered(o, look)
		w.store["n/"+ResultFile] = object{[]byte("by r"), w.stamp()}
		w.now += int64(LaunchGrace/2) + 100e6
		if end := w.ending(o, 5*time.Minute); end == nil || end.Kind != ActionFound {
			t.Errorf("%s: %v, and the result is there", protocol, end)
		}
	}
}

// TestForeignKeyHidesNoCompanion: an object that is not ours below the register
// does not stand before the version that names the companions.
func TestForeignKeyHidesNoCompanion(t *testing.T) {
	w := newWorld(t)
	o := w.calling("o", ProtocolStrict, nil)
	w.bring(o, "launched")
	r := w.remoteOf("r", o)
	w.bring(r, "launched")
	w.store[registerPrefix("n")+".keep"] = object{nil, w.stamp()}
	w.say(o, ended(false))
	if end := w.ending(o, 2*time.Minute); end != nil {
		t.Fatalf("%s{%s} while the companion works", end.Kind, end.Reason)
	}
	w.say(r, ended(true))
	if end := w.ending(o, 2*time.Minute); end == nil || end.Kind != ActionFound {
		t.Errorf("%v, and the companion has stored a result", end)
	}
}

// TestResultGivesBackOnSession: a lease that stands on a session is given back as
// soon as the result is stored.
func TestResultGivesBackOnSession(t *testing.T) {
	w := newWorld(t)
	s := w.strictly("s", func(c *Config) { c.Machine = MachineSession })
	w.promptly(s, Event{Kind: EventBegin})
	a := w.caller("a", ProtocolStrict, func(c *Config) { c.OnSession = true })
	a.strict.stands = s
	w.say(a, Event{Kind: EventBegin, Wait: Forever})
	w.bring(a, "launched")
	w.say(a, ended(true))
	w.bring(a, "done")
	var second version
	if o := w.store[versionKey(registerPrefix("n"), 2)]; parseVersion(o.body, 2, &second) != readGood || second.state != VersionReleased {
		w.fail("done, and version 2 does not release")
	}
}

// TestBriefWhileGivingBack: told that the process is about to end, a lease that is
// being given back does not wait for a late write of its own.
func TestBriefWhileGivingBack(t *testing.T) {
	w := newWorld(t)
	a := w.calling("a", ProtocolLastWriter, creating)
	w.bring(a, "launched")
	w.drive(100e6, w.now+int64(time.Minute), func(_ *actor, actions []Action) bool { return has(actions, ActionPut) })
	if _, err := w.unknown(a, w.leaseRequest(a), ClassOther); err != nil { // the renewal can land yet
		t.Fatal(err)
	}
	w.say(a, ended(true))
	w.answered(a, w.ownRequest(a))
	w.bring(a, "done")
	w.say(a, Event{Kind: EventRelease, Brief: true})
	told := w.now
	w.drive(100e6, w.now+int64(10*time.Minute), func(*actor, []Action) bool { return a.machine.Idle() })
	if took := time.Duration(w.now - told); !a.machine.Idle() || took > 5*time.Second {
		t.Errorf("idle %v after %v", a.machine.Idle(), took)
	}
}

// TestEndedHasOutcome: the end of the work is good or bad, and nothing else is taken.
func TestEndedHasOutcome(t *testing.T) {
	w := newWorld(t)
	r := w.calling("r", ProtocolStrict, func(c *Config) { c.Role, c.WithoutLease = RoleRemote, true })
	w.bring(r, "launched")
	for _, outcome := range []Outcome{0, OutcomeUnknown, 77} {
		if _, err := w.step(r, Event{Kind: EventEnded, Outcome: outcome, Result: true}); err == nil {
			t.Errorf("outcome %d is taken: %s", outcome, r.machine)
		}
	}
}
