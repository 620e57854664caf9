//go:build mopslock_mutations

package client_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/client"
	"github.com/mopslock/mopslock/core/internal/base"
)

// TestMutations: each rule that is left out breaks what TestRules has under its name.
func TestMutations(t *testing.T) {
	caught := 0
	for _, m := range base.Mutations() {
		for _, by := range strings.Fields(m.By) {
			if !slices.Contains([]string{"explorer", "simulator", "rules"}, by) {
				t.Errorf("%s: what is %s?", m.Mutation, by)
			}
		}
		if !slices.Contains(strings.Fields(m.By), "rules") {
			continue
		}
		mutation := m.Mutation
		rule := rules[string(mutation)]
		if rule == nil {
			t.Errorf("%s has no rule", mutation)
			continue
		}
		caught++
		cfg := ruleConfig(string(mutation))
		p := newProcessOf(t, newBucket(), cfg)
		cfg.Machine, cfg.Host, cfg.PID, cfg.Samples, cfg.StampUnit = core.MachineClient, "h", "1", true, 1
		c, err := client.NewMutant(cfg, mutation)
		if err != nil {
			t.Fatal(err)
		}
		p.Client = c
		if wrong := rule(t, p); wrong == "" {
			t.Errorf("%s: not caught", mutation)
		} else {
			t.Logf("%s: %s", mutation, wrong)
		}
	}
	if caught != len(rules) {
		t.Errorf("%d rules are of a mutation, and there are %d", caught, len(rules))
	}
}
