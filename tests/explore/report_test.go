package explore

import (
	"strings"
	"testing"
)

// TestBoundAtTheBeginning: a search that met its bound before it had expanded
// anything has gone through no worlds, with faults or without.
func TestBoundAtTheBeginning(t *testing.T) {
	for faults, want := range map[int]string{
		-1: "cut at the bound of states at the beginning: ",
		0:  "cut at the bound of states among worlds without a fault: ",
		1:  "cut at the bound of states among worlds with 1 fault: ",
	} {
		found := &Found{Scenario: &Scenario{Name: "s", About: "a"}, Bound: BoundStates, Faults: faults}
		r := Result{Scenarios: []*Found{found, found}}
		var text strings.Builder
		if err := r.WriteText(&text); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(text.String(), want) {
			t.Errorf("%d: %s; want %q", faults, text.String(), want)
		}
	}
}
