package check_test

import (
	"testing"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/tests/explore/check"
)

// TestCaller: what an invocation may say and send after what it was told.
func TestCaller(t *testing.T) {
	yes, no := core.OutcomeYes, core.OutcomeNo
	for _, c := range []struct {
		what    string
		verb    core.ActionKind // that was answered before the last action; 0 is none
		outcome core.Outcome
		actions []core.Action
		checker string
	}{
		{"launches", core.ActionExists, no, []core.Action{{Kind: core.ActionHeld}, {Kind: core.ActionLaunch}}, ""},
		{"launches what is there", core.ActionExists, yes, []core.Action{{Kind: core.ActionHeld}, {Kind: core.ActionLaunch}}, check.ResultHeeded},
		{"stores", 0, 0, []core.Action{{Kind: core.ActionLaunch}, {Kind: core.ActionCreateResult}}, ""},
		{"stores once more", core.ActionCreateResult, core.OutcomeUnknown, []core.Action{{Kind: core.ActionLaunch}, {Kind: core.ActionCreateResult}}, ""},
		{"puts over one that was first", core.ActionCreateResult, no, []core.Action{{Kind: core.ActionPutResult}}, check.ResultHeeded},
		{"stores when late", 0, 0, []core.Action{{Kind: core.ActionLost, Reason: core.ReasonExpired}, {Kind: core.ActionCreateResult}}, ""},
		{"stores when it is taken", 0, 0, []core.Action{{Kind: core.ActionLost, Reason: core.ReasonTaken}, {Kind: core.ActionCreateResult}}, check.LoserWritesNothing},
		{"stores when it is broken", 0, 0, []core.Action{{Kind: core.ActionLost, Reason: core.ReasonBroken}, {Kind: core.ActionPutResult}}, check.LoserWritesNothing},
		{
			"stores when it has won again", 0, 0,
			[]core.Action{{Kind: core.ActionLost, Reason: core.ReasonTaken}, {Kind: core.ActionHeld}, {Kind: core.ActionCreateResult}},
			"",
		},
		{"stores after it has ended", 0, 0, []core.Action{{Kind: core.ActionAbsent}, {Kind: core.ActionCreateResult}}, check.NoClobber},
		{"launches after it has ended", 0, 0, []core.Action{{Kind: core.ActionRefused}, {Kind: core.ActionLaunch}}, check.NoResurrection},
		{"ends twice", 0, 0, []core.Action{{Kind: core.ActionFound}, {Kind: core.ActionAbsent}}, check.NoResurrection},
	} {
		var g check.Caller
		last := len(c.actions) - 1
		wants(t, c.what, g.Watch(stepper{}, c.actions[:last]), "")
		if c.verb != 0 {
			g.Heard(c.verb, c.outcome)
		}
		wants(t, c.what, g.Watch(stepper{}, c.actions[last:]), c.checker)
	}
	var g check.Caller
	wants(t, "waits when it has ended", g.Watch(stepper{true}, []core.Action{{Kind: core.ActionWake}}), check.QuietWhenIdle)
}

// TestLaunched: under which leases work may be begun.
func TestLaunched(t *testing.T) {
	a, b := check.Claim{Actor: "A", Name: "n", Tenure: "t1", Epoch: 2}, check.Claim{Actor: "B", Name: "n", Tenure: "t2"}
	r := check.Claim{Actor: "R", Name: "n", Tenure: "t1", Epoch: 3}
	for _, c := range []struct {
		what     string
		there    bool
		believed []check.Claim
		checker  string
	}{
		{"alone", false, []check.Claim{a}, ""},
		{"with its companion", false, []check.Claim{r, a}, ""},
		{"without a lease", false, nil, check.NoIdleDouble},
		{"beside another", false, []check.Claim{a, b}, check.NoIdleDouble},
		{"for nothing", true, []check.Claim{a}, check.NoIdleDouble},
	} {
		var l check.Ledger
		l.Won("A", c.there)
		before := string(l.AppendState(nil))
		twin := l.Clone()
		wants(t, c.what, twin.Launched("A", c.believed), c.checker)
		launch, ok := twin.Launch("A")
		if ok != (c.checker == "") || ok && launch != (check.Launch{Actor: "A", Tenure: "t1", Epoch: 2}) {
			t.Errorf("%s: %v, %t", c.what, launch, ok)
		}
		if _, ok := l.Launch("A"); ok || before != string(l.AppendState(nil)) {
			t.Errorf("%s: a copy and its original are one", c.what)
		}
	}
	var l check.Ledger
	wants(t, "that was never won", l.Launched("A", []check.Claim{a}), check.NoIdleDouble)
}

func TestResult(t *testing.T) {
	one, other := []byte("1"), []byte("2")
	wants(t, "the first", check.Stored("k", nil, one), "")
	wants(t, "the same", check.Stored("k", one, one), "")
	wants(t, "another", check.Stored("k", one, other), check.FirstResultWins)
	wants(t, "none any more", check.Stored("k", one, nil), check.FirstResultWins)
	wants(t, "there", check.Finds("A", "k", true), "")
	wants(t, "not there", check.Finds("A", "k", false), check.FoundIsThere)
}
