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

// TestFacts: the checker is checked, fact by fact.
func TestFacts(t *testing.T) {
	held := func(who, tenure string, epoch, token core.Epoch) Fact {
		return Fact{
			Kind: FactBelieves, At: 10, Until: 20,
			Claim: check.Claim{Actor: who, Name: "n", Tenure: tenure, Epoch: epoch, Token: token},
		}
	}
	made := func(state, tenure string, epoch core.Epoch) Fact {
		f := held("a", tenure, epoch, 0)
		f.Kind, f.State = FactVersion, state
		return f
	}
	as := func(kind FactKind, f Fact) Fact { f.Kind = kind; return f }
	at := func(now, until int64, f Fact) Fact { f.At, f.Until = now, until; return f }
	now := func(f Fact) Fact { f.Forfeits = true; return f }
	for _, c := range []struct {
		name  string
		want  string
		facts []Fact
	}{
		{"two tenures at once", check.NoOverlap, []Fact{held("a", "s", 1, 1), held("b", "t", 2, 2)}},
		{"one ends as the other begins", "", []Fact{held("a", "s", 1, 1), at(20, 30, held("b", "t", 2, 2))}},
		{"one stops and the other begins", "", []Fact{held("a", "s", 1, 1), as(FactStops, held("a", "s", 1, 1)), held("b", "t", 2, 2)}},
		{"two owners of one tenure", "", []Fact{held("a", "s", 1, 1), held("b", "s", 2, 1)}},
		{"a renewal makes it overlap", check.NoOverlap, []Fact{
			at(1, 5, held("a", "s", 1, 1)), at(5, 30, held("b", "t", 2, 2)), at(6, 30, held("a", "s", 1, 1)),
		}},
		{"a token goes back", check.EpochOnlyGrows, []Fact{held("a", "s", 2, 2), at(20, 30, held("b", "t", 3, 1))}},
		{"a tenure comes back", check.NoResurrection, []Fact{
			made("held", "s", 1), held("a", "s", 1, 1), made("released", "s", 2), made("held", "s", 3),
		}},
		{"a break, and the next holds too soon", check.NoOverlap, []Fact{
			made("held", "s", 1), held("a", "s", 1, 1), made("broken", "", 2), made("held", "t", 3), held("b", "t", 3, 3),
		}},
		{"a break with now", "", []Fact{
			made("held", "s", 1), held("a", "s", 1, 1), now(made("broken", "", 2)), made("held", "t", 3), held("b", "t", 3, 3),
		}},
		{"the newest is deleted", check.NoClobber, []Fact{made("held", "s", 1), as(FactDeleted, made("", "", 1))}},
		{"a version is put over", check.NoClobber, []Fact{made("held", "s", 1), as(FactOverwritten, made("", "", 1))}},
	} {
		checker := NewChecker(Rules{Keep: 2})
		for _, f := range c.facts {
			checker.Observe(f)
		}
		got := ""
		if v := checker.Verdict(); v != nil {
			got = v.Invariant
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q (%v)", c.name, got, c.want, checker.Verdict())
		}
	}
}
