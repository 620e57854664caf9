package explore

import (
	"bytes"
	"encoding/binary"
	"reflect"
	"testing"

	"github.com/mopslock/mopslock/core"
)

// TestCanon holds where things stand in the bytes of each machine against the
// machine: what happened at another instant and to no effect is not told apart.
func TestCanon(t *testing.T) {
	k := &strictMaker{seed: 1, make: core.New}
	for _, kind := range []core.MachineKind{
		core.MachineLease, core.MachineCompanion, core.MachineSession, core.MachineBreaker, core.MachineCalibration,
		core.MachineSemaphore,
	} {
		cfg := k.config("A")
		switch cfg.Machine = kind; kind {
		case core.MachineCompanion:
			cfg.Holder, cfg.Epoch = "somebody", 1
		case core.MachineBreaker:
			cfg.Why = "it hangs"
		case core.MachineSession, core.MachineCalibration:
			cfg.Name = ""
		}
		var plain, normal [2][]byte
		for i := range plain {
			m, err := core.New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := m.Step(core.Instant{Mono: int64(1 + i), Wall: start}, core.Event{Kind: core.EventChanged}); err != nil {
				t.Fatalf("%s: %v", kind, err)
			}
			c := newCanon(cfg)
			plain[i], normal[i] = m.AppendState(nil), c.appendState(nil, m, func(mono int64) int64 { return mono })
		}
		if bytes.Equal(plain[0], plain[1]) || !bytes.Equal(normal[0], normal[1]) {
			t.Errorf("%s: the instant of a Step stands elsewhere", kind)
		}
	}
}

// TestCanonWaiter: what a waiter counts, and when it is due.
func TestCanonWaiter(t *testing.T) {
	k := &strictMaker{seed: 1, make: core.New}
	e := newEngine(k.plain())
	w, err := e.root()
	if err != nil {
		t.Fatal(err)
	}
	store := e.sc.Store
	var left [2]*survivor
	for i := range left {
		left[i] = &survivor{uint8(i), e.actors.items[w.actors[i]].program, noWake, []core.Event{{Kind: core.EventAcquire, Wait: core.Forever}}}
	}
	for now := range uint16(2) {
		for _, s := range left {
			if store, err = e.runTick(s, now, store); err != nil {
				t.Fatal(err)
			}
		}
	}
	lease := left[1].program.(*hosted).machine
	b := lease.AppendState(nil)
	of := func(name string) reflect.Value { return reflect.ValueOf(lease).Elem().FieldByName(name) }
	for name, at := range map[string]int{"polls": fromEndPolls, "races": fromEndRaces} {
		if got := binary.BigEndian.Uint64(b[len(b)-at:]); got != uint64(of(name).Int()) {
			t.Errorf("%s is %d, and stands elsewhere: %d", name, of(name).Int(), got)
		}
	}
	for name, at := range map[string]int{"told": fromEndTold, "waitedAt": fromEndWaitedAt} {
		if got := binary.BigEndian.Uint64(b[len(b)-at:]); got != of(name).Uint() || got == 0 {
			t.Errorf("%s is %d, and stands elsewhere: %d", name, of(name).Uint(), got)
		}
	}
	if next := int64(binary.BigEndian.Uint64(b[atNext:])); next != left[1].wake {
		t.Errorf("the timer of what comes next is %d, and a wake is asked for at %d", next, left[1].wake)
	}
}

// TestNormal: with and without the normalisation of states the verdict is the
// same, and with it there are fewer. Each world is explored to its end.
func TestNormal(t *testing.T) {
	k, s := &strictMaker{seed: 1, make: core.New}, shared()
	for _, make := range []func() *Scenario{k.plain, k.release, k.sessions, k.jumps, k.endless, s.cancels, s.batch} {
		var found [2]*Found
		for i, verbatim := range []bool{false, true} {
			sc := make()
			sc.Horizon, sc.Lost, sc.Late, sc.Crashes, sc.Pauses, sc.Verbatim = 2, 1, 0, 0, 1, verbatim
			sc.Faults, sc.Patience = 1, 0
			if sc.Name == "strict-sessions" || sc.Shared {
				sc.Horizon = 1 // two processes of two machines each: enough
			}
			found[i] = searched(t, sc, 0)
		}
		with, without := found[0], found[1]
		if (with.Violation == nil) != (without.Violation == nil) || !with.Exhausted || !without.Exhausted || with.States > without.States {
			t.Errorf("%s: %d states and %v, without %d and %v", with.Scenario.Name, with.States, with.Violation, without.States, without.Violation)
		}
		t.Logf("%s: %d states, %d without", with.Scenario.Name, with.States, without.States)
	}
}
