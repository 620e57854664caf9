package machines

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
)

// What is true of invocations in whatever story; the stories are scripts.

// TestRefusalsAreRiddenOut: a call that the store has answered goes on when the store refuses
// it for a day, in everything or only in what it asks for beside its lease. Once the work
// has ended there is a bound.
func TestRefusalsAreRiddenOut(t *testing.T) {
	refused := map[string]func(*request) bool{
		"everything": func(*request) bool { return true },
		"results":    func(r *request) bool { return r.Request%2 == 1 },
	}
	for _, protocol := range []core.Protocol{core.ProtocolStrict, core.ProtocolLastWriter} {
		for what, meant := range refused {
			for _, state := range []string{"waiting", "confirming"} {
				w := newWorld(t)
				if state == "waiting" {
					w.bring(w.calling("f", core.Config{Terms: core.Terms{Protocol: protocol}, Creates: true}), "launched")
				}
				a := w.calling("a", core.Config{Terms: core.Terms{Protocol: protocol}, Creates: true})
				w.bring(a, state)
				w.fails(a, core.ClassUnauthorized, meant)
				if a.machine.String() == "refused" {
					t.Errorf("%s: %s refused from %s on: it ends", protocol, what, state)
					continue
				}
				w.bring(a, "launched")
			}
			w := newWorld(t)
			a := w.calling("a", core.Config{Terms: core.Terms{Protocol: protocol}, Creates: true})
			w.bring(a, "launched")
			w.say(a, ended(false))
			w.fails(a, core.ClassUnauthorized, meant)
			if a.machine.String() != "done" {
				t.Errorf("%s: %s refused from the end of the work on: it is %s", protocol, what, a.machine)
			}
		}
	}
}

// TestDeliveryIsBounded: a store that takes no result is given up in the end.
func TestDeliveryIsBounded(t *testing.T) {
	w := newWorld(t)
	a := w.calling("a", core.Config{Terms: core.Terms{Protocol: core.ProtocolStrict}})
	w.bring(a, "launched")
	w.say(a, ended(true))
	began := w.now
	w.fails(a, core.ClassThrottled, func(r *request) bool { return isResult(r.Kind) })
	if took := time.Duration(w.now - began); a.machine.String() != "done" || took > core.DeliverLimit+time.Minute {
		t.Errorf("%s after %v", a.machine, took)
	}
}

// TestEndedHasOutcome: the end of the work is good or bad, and nothing else is taken.
func TestEndedHasOutcome(t *testing.T) {
	w := newWorld(t)
	r := w.calling("r", core.Config{Terms: core.Terms{Protocol: core.ProtocolStrict, Role: core.RoleRemote, WithoutLease: true}})
	w.bring(r, "launched")
	for _, outcome := range []core.Outcome{0, core.OutcomeUnknown, 77} {
		if _, err := w.step(r, core.Event{Kind: core.EventEnded, Outcome: outcome, Result: true}); err == nil {
			t.Errorf("outcome %d is taken: %s", outcome, r.machine)
		}
	}
}

// TestInvocationConfigSuits: whatever an invocation can be made with, the machine
// in it can be made with.
func TestInvocationConfigSuits(t *testing.T) {
	dice := rand.New(rand.NewPCG(1, 2))
	of := func(d ...core.Duration) core.Duration { return d[dice.IntN(len(d))] }
	made, panics := 0, map[string]core.Config{}
	for range 30_000 {
		cfg := core.Config{
			Machine: core.MachineInvocation,
			Terms: core.Terms{
				Name: "n", Protocol: core.Protocol(1 + dice.IntN(2)), Role: core.Role(dice.IntN(3)),
				Renewal: core.Renewal(dice.IntN(3)), Expiry: core.Expiry(dice.IntN(4)),
				TTL:    core.TTL(of(0, core.Duration(core.TTLEndless), time.Second, 10*time.Second, 88*time.Second, core.MaxTTL)),
				Margin: of(0, time.Second, 20*time.Second), AcquireMargin: of(0, time.Second, 5*time.Second),
				FleetExpire: core.TTL(of(0, core.Duration(core.TTLEndless), time.Minute)),
				StampSpread: of(0, core.OneClock, time.Second), Holder: []core.HolderID{"", "x", "y z"}[dice.IntN(3)],
				Owner: []string{"", "o"}[dice.IntN(2)], Epoch: core.Epoch(dice.IntN(2)), OnSession: dice.IntN(4) == 0,
				WithoutLease: dice.IntN(2) == 0, MemoFailures: dice.IntN(2) == 0,
			},
			Seed: [16]byte{1}, StampUnit: of(0, time.Second), LastEpoch: core.Epoch(dice.IntN(3)), LockFilePresent: dice.IntN(4) == 0,
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
func firstAttempt(m core.Machine) (panicked any) {
	defer func() { panicked = recover() }()
	for _, ev := range []core.Event{{Kind: core.EventBegin}, {Kind: core.EventAnswer, Request: 1, Outcome: core.OutcomeNo}} {
		if _, err := m.Step(core.Instant{Mono: 1}, ev); err != nil {
			return nil // a remote without an id has launched, and asked for nothing
		}
	}
	return nil
}
