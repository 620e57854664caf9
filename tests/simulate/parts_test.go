package simulate

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
)

// TestChanceIsFixed: a seed draws the same on every machine and for ever, or a
// seed in a report would replay nothing.
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

// TestQueueIsInOrder: by time, and first come first served within an instant.
func TestQueueIsInOrder(t *testing.T) {
	var q queue
	c := newChance(3)
	for range 5000 {
		q.push(item{at: c.upTo(100)})
		if c.oneIn(3) {
			q.pop()
		}
	}
	last := q.pop()
	for len(q.items) > 0 {
		next := q.pop()
		if next.before(&last) {
			t.Fatalf("%d (%d) comes after %d (%d)", next.at, next.sequence, last.at, last.sequence)
		}
		last = next
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
	f := Faults{StampUnit: time.Second}
	s := newStore(&f)
	do := func(kind core.ActionKind, key, body string) core.Event {
		a := core.Action{Kind: kind, Key: key, Body: []byte(body), Count: 2}
		return s.apply(&a, 1_500_000_000, 0, 0)
	}
	expect := func(what string, got core.Event, want core.Outcome, body string) {
		t.Helper()
		if got.Outcome != want || string(got.Body) != body {
			t.Errorf("%s: %v %q, want %v %q", what, got.Outcome, got.Body, want, body)
		}
	}
	expect("get of nothing", do(core.ActionGet, "n/b", ""), core.OutcomeNo, "")
	expect("exists of nothing", do(core.ActionExists, "n/b", ""), core.OutcomeNo, "")
	expect("create", do(core.ActionCreate, "n/b", "1"), core.OutcomeYes, "")
	expect("create again", do(core.ActionCreate, "n/b", "2"), core.OutcomeNo, "")
	expect("get", do(core.ActionGet, "n/b", ""), core.OutcomeYes, "1")
	expect("put over", do(core.ActionPut, "n/b", "3"), core.OutcomeYes, "")
	got := do(core.ActionGet, "n/b", "")
	expect("get again", got, core.OutcomeYes, "3")
	if want := epoch + int64(time.Second); got.Stamp != want {
		t.Errorf("stamp %d, want %d", got.Stamp, want)
	}
	for _, key := range []string{"n/c", "n/a", "m/a", "n/d"} {
		do(core.ActionPut, key, "")
	}
	do(core.ActionDelete, "n/c", "")
	expect("exists after delete", do(core.ActionExists, "n/c", ""), core.OutcomeNo, "")
	keys := func(after string) (out []string) {
		a := core.Action{Kind: core.ActionList, Key: "n/", After: after, Count: 2}
		answer := s.apply(&a, 0, 0, 0)
		for _, e := range answer.Entries {
			out = append(out, string(e.Key))
		}
		if answer.More {
			out = append(out, "more")
		}
		return out
	}
	if got := strings.Join(keys(""), " "); got != "n/a n/b more" {
		t.Errorf("list: %s", got)
	}
	if got := strings.Join(keys("n/b"), " "); got != "n/d" {
		t.Errorf("list after n/b: %s", got)
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

// TestVersionKeys are taken apart.
func TestVersionKeys(t *testing.T) {
	name, epoch, rest, ok := versionKey("a/b/_mopslock/fffffffffffffffe/b.x")
	if name != "a/b" || epoch != 1 || rest != "b.x" || !ok {
		t.Errorf("%q %d %q %v", name, epoch, rest, ok)
	}
	for _, key := range []string{"_mopslock/s/x/beat", "a/lock.json", "a/_mopslock/x/v", "a/_mopslock/zzzzzzzzzzzzzzzz/v"} {
		if _, _, _, ok := versionKey(key); ok {
			t.Errorf("%s is none", key)
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
