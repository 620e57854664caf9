package simulate

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
)

// TestChanceIsFixed: a seed draws the same on every machine and forever. Otherwise
// a seed in a report would replay nothing.
func TestChanceIsFixed(t *testing.T) {
	c := newChance(7)
	got := []int64{
		c.upTo(1000), c.within(1000), c.between(5, 9), c.exponential(1e9), c.exponential(1e9), c.logNormal(1e9), c.logNormal(1e9),
	}
	want := []int64{950, -558, 7, 1022787506, 434592086, 121254302, 281758026}
	if !slices.Equal(got, want) {
		t.Errorf("seed 7 draws %v, and drew %v", got, want)
	}
}

// TestShapes: the distributions have the mean that they are asked for.
func TestShapes(t *testing.T) {
	const n, mean = 200_000, int64(time.Second)
	for _, shape := range []Shape{Constant, Uniform, Exponential, LogNormal} {
		f, c, sum := Faults{Latency: shape, Mean: time.Duration(mean)}, newChance(1), int64(0)
		for range n {
			sum += f.draw(c)
		}
		if off := sum/n - mean; off > mean/8 || off < -mean/8 {
			t.Errorf("%s: mean %v, want about %v", shape, time.Duration(sum/n), time.Duration(mean))
		}
	}
}

// TestClocksInvert: trueAt is the first instant at which a clock shows what was asked.
func TestClocksInvert(t *testing.T) {
	c := newChance(5)
	for _, drift := range []int64{0, 1, -1, 9999, 10000, -10000} {
		k := computer{start: 12345, drift: drift}
		for range 2000 {
			mono := k.start + c.upTo(int64(time.Hour))
			at := k.trueAt(mono)
			if k.mono(at) < mono || k.mono(at-1) >= mono {
				t.Fatalf("drift %d: %d is shown at %d, not first at %d", drift, mono, k.mono(at), at)
			}
		}
	}
}

// TestStore: six verbs.
func TestStore(t *testing.T) {
	s := newStore(&Faults{StampUnit: time.Second})
	for i, c := range []struct {
		kind      core.ActionKind
		key, body string
		outcome   core.Outcome
		got       string
	}{
		{core.ActionGet, "n/b", "", core.OutcomeNo, ""},
		{core.ActionExists, "n/b", "", core.OutcomeNo, ""},
		{core.ActionCreate, "n/b", "1", core.OutcomeYes, ""},
		{core.ActionCreate, "n/b", "2", core.OutcomeNo, ""},
		{core.ActionGet, "n/b", "", core.OutcomeYes, "1"},
		{core.ActionPut, "n/b", "3", core.OutcomeYes, ""},
		{core.ActionGet, "n/b", "", core.OutcomeYes, "3"},
		{core.ActionPut, "n/c", "", core.OutcomeYes, ""},
		{core.ActionPut, "n/a", "", core.OutcomeYes, ""},
		{core.ActionPut, "m/a", "", core.OutcomeYes, ""},
		{core.ActionPut, "n/d", "", core.OutcomeYes, ""},
		{core.ActionDelete, "n/c", "", core.OutcomeYes, ""},
		{core.ActionExists, "n/c", "", core.OutcomeNo, ""},
	} {
		got := s.apply(&core.Action{Kind: c.kind, Key: c.key, Body: []byte(c.body)}, 1_500_000_000, 0, 0)
		if got.Outcome != c.outcome || string(got.Body) != c.got || c.got != "" && got.Stamp != epoch+int64(time.Second) {
			t.Errorf("%d, %s of %s: %v %q at %d, want %v %q", i, c.kind, c.key, got.Outcome, got.Body, got.Stamp, c.outcome, c.got)
		}
	}
	for after, want := range map[string]string{"": "n/a n/b true", "n/b": "n/d false"} {
		page := s.apply(&core.Action{Kind: core.ActionList, Key: "n/", After: after, Count: 2}, 0, 0, 0)
		var got string
		for _, e := range page.Entries {
			got += string(e.Key) + " "
		}
		if got += fmt.Sprint(page.More); got != want {
			t.Errorf("list after %q: %s, want %s", after, got, want)
		}
	}
}

// TestStaleReads show what was there before, and never what was not.
func TestStaleReads(t *testing.T) {
	s := newStore(&Faults{Stale: 10})
	put := func(now int64, body string) {
		s.apply(&core.Action{Kind: core.ActionPut, Key: "k", Body: []byte(body)}, now, 0, 0)
	}
	put(100, "a")
	put(105, "b")
	s.apply(&core.Action{Kind: core.ActionDelete, Key: "k"}, 110, 0, 0)
	for lag, want := range map[int64]string{0: "", 1: "", 2: "", 3: "b", 7: "b", 8: "a", 12: "a"} {
		got := s.apply(&core.Action{Kind: core.ActionGet, Key: "k"}, 112, 0, lag)
		if string(got.Body) != want || got.Outcome == core.OutcomeYes != (want != "") {
			t.Errorf("%d ago: %v %q, want %q", lag, got.Outcome, got.Body, want)
		}
	}
}

// TestReports: a result says the same as JSON as in words.
func TestReports(t *testing.T) {
	opts, err := ByName("lastwriter")
	if err != nil {
		t.Fatal(err)
	}
	opts.Seed = 42
	r := Run(opts)
	var back Result
	if err := json.Unmarshal(r.JSON(), &back); err != nil || back.Hash != r.Hash || back.Holds != r.Holds || back.Holds == 0 {
		t.Errorf("%v: %+v", err, back)
	}
	for _, want := range []string{"seed 42", r.Hash, "hand-over", "Jain"} {
		if !strings.Contains(r.String(), want) {
			t.Errorf("%q is not in\n%s", want, r.String())
		}
	}
	if _, err := ByName("paxos"); err == nil || !strings.Contains(err.Error(), "lastwriter-blind") {
		t.Errorf("an unknown protocol: %v", err)
	}
}
