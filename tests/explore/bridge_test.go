package explore

import (
	"testing"

	"github.com/mopslock/mopslock/core/machines"
)

func TestBridge(t *testing.T) {
	k := &strictMaker{seed: 1, make: machines.New}
	for _, sc := range []*Scenario{k.bridges(), k.bridgesBesideMops(), k.mopsFirst(), k.bridgeCompanion(), k.bridgeBesideStrict()} {
		f := searched(t, sc, 400_000)
		t.Logf("%s: %d states, %d transitions, exhausted %t, faults %d", sc.Name, f.States, f.Transitions, f.Exhausted, f.Faults)
		if f.Violation != nil {
			t.Errorf("%v\n%s", f.Violation, tale(f))
		}
	}
}
