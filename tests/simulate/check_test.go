package simulate

import (
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/machines"
	"github.com/mopslock/mopslock/tests/explore/check"
)

// liar is a real client that says held again after it has released.
type liar struct{ core.Machine }

func (l *liar) Step(now core.Instant, ev core.Event) ([]core.Action, error) {
	said, err := l.Machine.Step(now, ev)
	for i := range said {
		if said[i].Kind == core.ActionReleased {
			return append(said[:i+1:i+1], core.Action{Kind: core.ActionHeld, Claim: said[i].Claim, At: now.Mono + int64(time.Minute)}), nil
		}
	}
	return said, err
}

// TestLiarIsCaught: in whole runs what each client says is followed. TestTranscript shows what
// is noticed, and TestMutationsAreCaught what a run does.
func TestLiarIsCaught(t *testing.T) {
	opts := Options{Protocol: core.ProtocolLastWriter, Weather: Orderly, Names: 1, Actors: 5}
	opts.New = func(cfg core.Config) (core.Machine, error) {
		m, err := machines.New(cfg)
		if err != nil || cfg.Machine != core.MachineClient {
			return m, err
		}
		return &liar{m}, nil
	}
	s := Swarm(1, 20, 1, opts)
	switch {
	case s.Failed == nil:
		t.Errorf("not noticed in %d seeds", s.Ran)
	case s.Failed.Violation.Invariant != check.NoResurrection:
		t.Errorf("want %s, got %v", check.NoResurrection, s.Failed)
	case len(s.Failed.Last) == 0 || len(s.Failed.Last) > traced:
		t.Errorf("%d events are told", len(s.Failed.Last))
	}
}

// TestChecker: the checker is checked, fact by fact.
func TestChecker(t *testing.T) {
	type fact func(*checker)
	claim := func(tenure string, epoch, token core.Epoch) check.Claim {
		who := map[string]string{"s": "a", "t": "b"}[tenure]
		return check.Claim{Actor: who, Name: "n", Tenure: tenure, Epoch: epoch, Token: token}
	}
	at := func(now, until int64, claim check.Claim) fact {
		claim.Until = until
		return func(c *checker) { c.believes(now, claim) }
	}
	held := func(tenure string, epoch, token core.Epoch) fact { return at(10, 20, claim(tenure, epoch, token)) }
	made := func(tenure string, epoch core.Epoch) fact {
		return func(c *checker) { made := claim(tenure, epoch, 0); c.version(10, &made, false) }
	}
	first, second := claim("s", 1, 1), claim("", 2, 0)
	owner := first
	owner.Actor, owner.Epoch = "b", 2
	brokenNow := func(c *checker) { c.version(10, &second, true) }
	for _, c := range []struct {
		name  string
		want  string
		facts []fact
	}{
		{"two tenures at once", check.NoOverlap, []fact{held("s", 1, 1), held("t", 2, 2)}},
		{"one ends as the other begins", "", []fact{held("s", 1, 1), at(20, 30, claim("t", 2, 2))}},
		{"one stops and the other begins", "", []fact{held("s", 1, 1), func(c *checker) { c.stops(&first) }, held("t", 2, 2)}},
		{"two owners of one tenure", "", []fact{held("s", 1, 1), at(10, 20, owner)}},
		{"a renewal makes it overlap", check.NoOverlap, []fact{at(1, 5, first), at(5, 30, claim("t", 2, 2)), at(6, 30, first)}},
		{"a token goes back", check.EpochOnlyGrows, []fact{held("s", 2, 2), at(20, 30, claim("t", 3, 1))}},
		{"a tenure comes back", check.NoResurrection, []fact{made("s", 1), held("s", 1, 1), made("", 2), made("s", 3)}},
		{"a break, and the next holds too soon", check.NoOverlap, []fact{made("s", 1), held("s", 1, 1), made("", 2), made("t", 3), held("t", 3, 3)}},
		{"a break with now", "", []fact{made("s", 1), held("s", 1, 1), brokenNow, made("t", 3), held("t", 3, 3)}},
		{"the newest is deleted", check.NoClobber, []fact{made("s", 1), func(c *checker) { c.deleted(10, &first) }}},
		{"a version is put over", check.NoClobber, []fact{made("s", 1), func(c *checker) { c.overwritten(10, &first) }}},
	} {
		checker := newChecker(false)
		for _, tell := range c.facts {
			tell(checker)
		}
		got := ""
		if v := checker.found; v != nil {
			got = v.Invariant
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q (%v)", c.name, got, c.want, checker.found)
		}
	}
}
