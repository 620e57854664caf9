package check_test

import (
	"testing"

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
