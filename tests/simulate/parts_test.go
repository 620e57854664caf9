package simulate

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestChanceIsFixed: a seed draws the same on every machine and forever. Otherwise
// a seed in a report would replay nothing.
func TestChanceIsFixed(t *testing.T) {
	c := newChance(7)
	got := []int64{
		c.UpTo(1000), c.Within(1000), c.Between(5, 9), exponential(c, 1e9), exponential(c, 1e9), logNormal(c, 1e9), logNormal(c, 1e9),
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
			mono := k.start + c.UpTo(int64(time.Hour))
			at := k.trueAt(mono)
			if k.mono(at) < mono || k.mono(at-1) >= mono {
				t.Fatalf("drift %d: %d is shown at %d, not first at %d", drift, mono, k.mono(at), at)
			}
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
	text, err := json.Marshal(&r)
	if err == nil {
		err = json.Unmarshal(text, &back)
	}
	if err != nil || back.Hash != r.Hash || back.Holds != r.Holds || back.Holds == 0 {
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
