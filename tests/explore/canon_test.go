package explore

import (
	"bytes"
	"encoding/binary"
	"reflect"
	"strings"
	"testing"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/machines"
)

// TestCanon checks where things stand in the bytes of each machine: two Steps without
// effect, at different instants, have the same normalised bytes.
func TestCanon(t *testing.T) {
	k := &strictMaker{seed: 1, make: machines.New}
	for _, kind := range []core.MachineKind{
		core.MachineLease, core.MachineCompanion, core.MachineSession, core.MachineRevocation, core.MachineStoreClockSample,
		core.MachineSemaphore,
	} {
		cfg := k.config("A")
		switch cfg.Machine = kind; kind {
		case core.MachineCompanion:
			cfg.Holder, cfg.Epoch = "somebody", 1
		case core.MachineRevocation:
			cfg.Why = "it hangs"
		case core.MachineSession, core.MachineStoreClockSample:
			cfg.Name = ""
		}
		var plain, normal [2][]byte
		for i := range plain {
			m, err := machines.New(cfg)
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

// TestCanonWaiter checks the same for what a waiter counts, and when it is due.
func TestCanonWaiter(t *testing.T) {
	k := &strictMaker{seed: 1, make: machines.New}
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
	stands(t, "a waiter", lease, map[string]int{
		"polls": len(b) - fromEndPolls, "races": len(b) - fromEndRaces, "told": len(b) - fromEndTold, "waitedAt": len(b) - fromEndWaitedAt,
	})
	for _, field := range []string{"Told", "waitedAt"} {
		if reflect.ValueOf(lease).Elem().FieldByName(field).IsZero() {
			t.Errorf("%s is nothing", field)
		}
	}
	if next := int64(binary.BigEndian.Uint64(b[atNext:])); next != left[1].wake {
		t.Errorf("the timer of what comes next is %d, and a wake is asked for at %d", next, left[1].wake)
	}
}

// stands checks that fields stand in the bytes of a machine where they are said to.
func stands(t *testing.T, what string, m core.Machine, fields map[string]int) {
	t.Helper()
	b := m.AppendState(nil)
	for name, at := range fields {
		field := reflect.ValueOf(m).Elem().FieldByNameFunc(func(f string) bool { return strings.EqualFold(f, name) })
		var want uint64
		if field.CanInt() {
			want = uint64(field.Int())
		} else {
			want = field.Uint()
		}
		if got := binary.BigEndian.Uint64(b[at:]); got != want {
			t.Errorf("%s: %s is %d, and stands elsewhere: %d", what, name, want, got)
		}
	}
}
