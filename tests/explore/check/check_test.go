package check_test

import (
	"errors"
	"testing"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/tests/explore/check"
)

// wants compares a checker's answer with its name; "" is none.
func wants(t *testing.T, what string, v *check.Violation, checker string) {
	t.Helper()
	switch {
	case v == nil && checker != "":
		t.Errorf("%s: nothing found, want %s", what, checker)
	case v != nil && v.Checker != checker:
		t.Errorf("%s: %v, want %q", what, v, checker)
	}
}

func TestOverlap(t *testing.T) {
	a := check.Claim{Actor: "A", Name: "n", Tenure: "t1"}
	wants(t, "nobody", check.Overlap(nil), "")
	wants(t, "two owners of one tenure", check.Overlap([]check.Claim{a, {Actor: "C", Name: "n", Tenure: "t1"}}), "")
	wants(t, "two names", check.Overlap([]check.Claim{a, {Actor: "B", Name: "m", Tenure: "t2"}}), "")
	wants(t, "two tenures", check.Overlap([]check.Claim{a, {Actor: "B", Name: "n", Tenure: "t2"}}), check.NoOverlap)
	until := check.Claim{Until: 10}
	if !until.Believes(9) || until.Believes(10) {
		t.Error("a claim is believed up to its deadline and not at it")
	}
}

// began tells a ledger of claims, the last of which is judged.
func began(claims ...check.Claim) (v *check.Violation) {
	var l check.Ledger
	for i := range claims {
		v = l.Began(&claims[i])
	}
	return v
}

func TestEpochs(t *testing.T) {
	first := check.Claim{Actor: "A", Name: "n", Tenure: "t1", Epoch: 3, Token: 3}
	moved := first
	moved.Epoch = 4
	wants(t, "the first", began(first), "")
	wants(t, "adopted", began(first, moved), "")
	wants(t, "a companion", began(first, moved, check.Claim{Actor: "C", Name: "n", Tenure: "t1", Epoch: 4, Token: 3}), "")
	wants(t, "the next", began(first, check.Claim{Actor: "B", Name: "n", Tenure: "t2", Epoch: 5, Token: 5}), "")
	wants(t, "another name", began(first, check.Claim{Actor: "B", Name: "m", Tenure: "t2", Epoch: 1, Token: 1}), "")
	wants(t, "an earlier token", began(first, check.Claim{Actor: "B", Name: "n", Tenure: "t2", Epoch: 2, Token: 2}), check.EpochOnlyGrows)
	wants(t, "one epoch for two", began(first, moved, check.Claim{Actor: "B", Name: "n", Tenure: "t2", Epoch: 4, Token: 4}), check.OneHolderPerEpoch)
	moved.Token = 4
	wants(t, "a token that moves", began(first, moved), check.EpochOnlyGrows)
	wants(t, "no epochs at all", began(check.Claim{Name: "n", Tenure: "t1"}, check.Claim{Name: "n", Tenure: "t2"}), "")
}

func TestVersions(t *testing.T) {
	type made struct {
		epoch  core.Epoch
		tenure string
	}
	for _, c := range []struct {
		what    string
		held    string // a tenure that was relied on
		made    []made
		checker string
	}{
		{"held, joined, released, held", "t1", []made{{1, "t1"}, {2, "t1"}, {3, ""}, {4, "t2"}}, ""},
		{"one number twice", "t1", []made{{1, "t1"}, {1, "t2"}}, check.EpochOnlyGrows},
		{"from the beginning again", "t1", []made{{1, "t1"}, {2, ""}, {1, "t2"}}, check.EpochOnlyGrows},
		{"back after its release", "t1", []made{{1, "t1"}, {2, ""}, {3, "t1"}}, check.NoResurrection},
		{"back after another", "t1", []made{{1, "t1"}, {2, "t2"}, {3, "t1"}}, check.NoResurrection},
		{"an attempt that nobody relied on", "", []made{{1, "t1"}, {2, ""}, {3, "t1"}}, ""},
	} {
		var l check.Ledger
		if c.held != "" {
			wants(t, c.what, l.Began(&check.Claim{Name: "n", Tenure: c.held, Epoch: 1, Token: 1}), "")
		}
		for i, m := range c.made {
			checker := ""
			if i == len(c.made)-1 {
				checker = c.checker
			}
			wants(t, c.what, l.Version("n", m.epoch, m.epoch, m.tenure), checker)
		}
	}
}

// TestLateVersion: a version that is made below the newest is not the value.
func TestLateVersion(t *testing.T) {
	var l check.Ledger
	wants(t, "the newest", l.Version("n", 9, 9, "t1"), "")
	wants(t, "a late one below it", l.Version("n", 4, 9, "t2"), "")
	wants(t, "the next", l.Version("n", 10, 10, ""), "")
	wants(t, "one when the newest is gone", l.Version("n", 4, 4, "t2"), check.EpochOnlyGrows)
}

// TestClone: the ledger does not hear what a copy is told.
func TestClone(t *testing.T) {
	var l check.Ledger
	l.Began(&check.Claim{Name: "n", Tenure: "t1", Epoch: 1, Token: 1})
	l.Version("n", 1, 1, "t1")
	before := string(l.AppendState(nil))
	twin := l.Clone()
	twin.Began(&check.Claim{Name: "n", Tenure: "t1", Epoch: 2, Token: 1})
	twin.Version("n", 2, 2, "")
	if string(l.AppendState(nil)) != before || string(twin.AppendState(nil)) == before {
		t.Error("a copy and its original are one")
	}
	if token, held := twin.Held("t1"); !held || token != 1 || twin.Tenures() != 1 {
		t.Error("the copy has forgotten")
	}
}

// stepper is a client as far as a Transcript looks at one.
type stepper struct{ idle bool }

func (s stepper) Step(core.Instant, core.Event) ([]core.Action, error) { return nil, nil }
func (s stepper) Idle() bool                                           { return s.idle }
func (s stepper) String() string                                       { return "toy" }

// TestTranscript: what a client may say of a claim, and send for it.
func TestTranscript(t *testing.T) {
	act := func(kinds ...core.ActionKind) (out []core.Action) {
		for _, k := range kinds {
			out = append(out, core.Action{Kind: k, Claim: 1, Key: "k"})
		}
		return out
	}
	for _, c := range []struct {
		what    string
		of      core.EventKind
		idle    bool
		actions []core.Action
		checker string
	}{
		{"holds and renews", core.EventAcquire, false, act(core.ActionHeld, core.ActionPut, core.ActionRenewed, core.ActionWake), ""},
		{"ends", core.EventAcquire, true, act(core.ActionLost), ""},
		{"writes after lost", core.EventAcquire, false, act(core.ActionLost, core.ActionPut), check.NoClobber},
		{"creates after refused", core.EventAcquire, false, act(core.ActionRefused, core.ActionCreate), check.NoClobber},
		{"deletes after left", core.EventAcquire, false, act(core.ActionLeft, core.ActionDelete), check.NoClobber},
		{"removes superseded versions after released", core.EventAcquire, false, act(core.ActionReleased, core.ActionDelete), ""},
		{"looks again after released", core.EventAcquire, false, act(core.ActionReleased, core.ActionGet), ""},
		{"holds after lost", core.EventAcquire, true, act(core.ActionLost, core.ActionHeld), check.NoResurrection},
		{"ends twice", core.EventAcquire, true, act(core.ActionLost, core.ActionReleased), check.NoResurrection},
		{"sets a timer and waits for none", core.EventAcquire, true, act(core.ActionWake), check.QuietWhenIdle},
		{"is idle, and has not ended", core.EventAcquire, true, act(core.ActionWaiting), check.QuietWhenIdle},
		{"waits, holds and gives back", core.EventPermit, true, act(core.ActionWaiting, core.ActionHeld, core.ActionReleased), ""},
		{"holds twice", core.EventPermit, false, act(core.ActionHeld, core.ActionHeld), check.NoResurrection},
		{"is refused what it holds", core.EventPermit, false, act(core.ActionHeld, core.ActionRefused), check.NoResurrection},
	} {
		var said check.Transcript
		said.Heard(&core.Event{Kind: c.of, Claim: 1, Terms: &core.Terms{Name: "n"}})
		twin := said.Copy()
		before := string(said.AppendState(nil))
		wants(t, c.what, twin.Watch(stepper{c.idle}, c.actions), c.checker)
		if string(said.AppendState(nil)) != before {
			t.Errorf("%s: a copy and its original are one", c.what)
		}
	}
	var again check.Transcript
	again.Heard(&core.Event{Kind: core.EventAcquire, Claim: 1, Terms: &core.Terms{Name: "n"}})
	wants(t, "waits", again.Forgotten(), check.QuietWhenIdle)
	lost := []core.Action{{Kind: core.ActionLost, On: 1}, {Kind: core.ActionLost, Claim: 1}}
	wants(t, "a session, and what stands on it", check.Tells(lost, 1, true), "")
	wants(t, "what stands on a session alone", check.Tells(lost[1:], 1, true), check.SessionFirst)
	wants(t, "renews what has expired", check.Renewed(9, 9, 20), check.NoResurrection)
}

func TestWaiter(t *testing.T) {
	wants(t, "held in the end", check.Waiter("A", "held", true), "")
	v := check.Waiter("A", "waiting", false)
	wants(t, "never", v, check.EventuallyHeld)
	var as *check.Violation
	if err := error(v); !errors.As(err, &as) || err.Error() == "" {
		t.Error("a violation is an error")
	}
}
