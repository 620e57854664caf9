package check_test

import (
	"testing"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/tests/explore/check"
)

// TestGrant: which permits may be given beside those that are relied on.
func TestGrant(t *testing.T) {
	at := func(actor string, weight, most uint64) check.Permit {
		return check.Permit{Actor: actor, Name: "n", Number: 1, Session: "s" + actor, Weight: weight, Most: most}
	}
	for _, c := range []struct {
		what     string
		permit   check.Permit
		believed []check.Permit
		checker  string
	}{
		{"alone", at("A", 1, 1), nil, ""},
		{"itself", at("A", 1, 1), []check.Permit{at("A", 1, 1)}, ""},
		{"beside one", at("A", 1, 1), []check.Permit{at("B", 1, 2)}, check.PermitsWithinCapacity},
		{"beside one, and sees more", at("A", 1, 2), []check.Permit{at("B", 1, 1)}, ""},
		{"too heavy", at("A", 2, 2), []check.Permit{at("B", 1, 2)}, check.PermitsWithinCapacity},
		{"another name", at("A", 1, 1), []check.Permit{{Actor: "B", Name: "m", Weight: 1}}, ""},
	} {
		var l check.Ledger
		before := string(l.AppendState(nil))
		twin := l.Clone()
		wants(t, c.what, twin.Grant(&c.permit, c.believed), c.checker)
		if twin.Granted(&c.permit) != (c.checker == "") || l.Granted(&c.permit) || before != string(l.AppendState(nil)) {
			t.Errorf("%s: what was given is not remembered, or by another", c.what)
		}
		if twin.Keep(nil); twin.Granted(&c.permit) {
			t.Errorf("%s: what ended is remembered", c.what)
		}
	}
	wants(t, "newcomer", check.Newcomer("N", "waiting", false), check.NothingLeaks)
	wants(t, "newcomer that holds", check.Newcomer("N", "held", true), "")
}

// TestDesk: what a semaphore may say of a permit, and send.
func TestDesk(t *testing.T) {
	say := func(kinds ...core.ActionKind) (out []core.Action) {
		for _, k := range kinds {
			out = append(out, core.Action{Kind: k, Permit: 1})
		}
		return out
	}
	send := func(kind core.ActionKind, key string) []core.Action { return []core.Action{{Kind: kind, Key: key}} }
	for _, c := range []struct {
		what    string
		idle    bool
		actions []core.Action
		checker string
	}{
		{"waits, holds and gives back", true, say(core.ActionWaiting, core.ActionHeld, core.ActionReleased), ""},
		{"is refused", true, say(core.ActionRefused), ""},
		{"is lost twice", false, say(core.ActionHeld, core.ActionLost, core.ActionLost), check.NoResurrection},
		{"holds twice", false, say(core.ActionHeld, core.ActionHeld), check.NoResurrection},
		{"is refused what it holds", false, say(core.ActionHeld, core.ActionRefused), check.NoResurrection},
		{"forgets one", true, say(core.ActionHeld), check.QuietWhenIdle},
		{"wants to be woken", true, append(say(core.ActionRefused), core.Action{Kind: core.ActionWake}), check.QuietWhenIdle},
		{"creates a version", false, send(core.ActionCreate, "n/_mopslock/0/v"), ""},
		{"creates another's", false, send(core.ActionCreate, "m/_mopslock/0/v"), check.NoClobber},
		{"puts", false, send(core.ActionPut, "n/_mopslock/0/v"), check.NoClobber},
		{"deletes another's", false, send(core.ActionDelete, "m/_mopslock/0/v"), check.NoClobber},
	} {
		var d check.Desk
		d.Asked(1)
		twin := d.Copy()
		wants(t, c.what, twin.Watch(stepper{c.idle}, "n", c.actions), c.checker)
		if string(d.AppendState(nil)) != string([]byte{1, 1, 0, 0, 0}) {
			t.Errorf("%s: a copy and its original are one", c.what)
		}
	}
}
