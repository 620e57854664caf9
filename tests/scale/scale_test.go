package main

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/tests/world"
)

// play is one scenario with a fleet of a size.
func play(t *testing.T, key string, orchestrators int, change func(*plan)) *fleet {
	t.Helper()
	o := &options{orchestrators: orchestrators, leases: 10 * orchestrators, shrunk: true}
	for _, p := range plans(o) {
		if p.key == key {
			if change != nil {
				change(p)
			}
			f := newFleet(p, 1)
			f.run()
			if f.stats.overlaps != 0 {
				t.Errorf("%s: %d names were held by two", key, f.stats.overlaps)
			}
			return f
		}
	}
	t.Fatalf("no scenario %s", key)
	return nil
}

func TestSameSeedSameBytes(t *testing.T) {
	page := func(seed uint64) []byte {
		o := &options{orchestrators: 100, leases: 1000, seed: seed, only: "s3-16,s3-8-waiters,s3-16-herd,s3-16-outage", shrunk: true}
		return report(o, simulate(o, func(*outcome, time.Duration) {}))
	}
	one := page(1)
	if !bytes.Equal(one, page(1)) {
		t.Error("the same seed gave another page")
	}
	if bytes.Equal(one, page(2)) {
		t.Error("another seed gave the same page")
	}
}

// TestHoldingCostsPutAndExists: in fair weather a renewal is one put and one exists, each
// TTL/3 × [5/6, 1], each second one asks for the session's own object as well (N3), and
// there is nothing more: no lease asks for itself.
func TestHoldingCostsPutAndExists(t *testing.T) {
	f := play(t, "s3-16", 200, func(p *plan) { p.cloud = s3 })
	s := &f.stats
	if s.losses != 0 || s.dead != 0 || s.refusals != 0 || s.throttled != [2]int64{} || s.holding != 2000 {
		t.Errorf("lost %d leases and %d sessions, refused %d, throttled %v, %d held in the end", s.losses, s.dead, s.refusals, s.throttled, s.holding)
	}
	third := f.plan.ttl / 3
	renewals := int64(len(s.late))
	if s.retried > renewals/2+200 || s.intervals.least() < third/6*5 || s.intervals.most() > third {
		t.Errorf("%d renewals of %d took another number of requests than 2; they came each %v to %v", s.retried, renewals, s.intervals.least(), s.intervals.most())
	}
	puts, exists := s.verbs[core.ActionPut], s.verbs[core.ActionExists]
	if other := s.writers() + s.readers() + s.verbs[core.ActionDelete] - puts - exists; other != 0 {
		t.Errorf("%d requests were neither put nor exists", other)
	}
	if max(puts, exists*2/3) > renewals+200 || min(puts, exists*2/3) < renewals-200 { // less those under way
		t.Errorf("%d puts and %d exists for %d renewals", puts, exists, renewals)
	}
	if least := f.plan.ttl*9/10 - third - time.Second*5; s.left.least() < least {
		t.Errorf("only %v were left to a deadline, want %v", s.left.least(), least)
	}
}

// TestHandOver: names change hands within the bounds that doctor tells, and a dead
// holder's name is free after its TTL.
func TestHandOver(t *testing.T) {
	f := play(t, "s3-16-hour", 60, func(p *plan) { p.cloud, p.window, p.deaths = s3, 20*time.Minute, 500 })
	s := &f.stats
	if s.losses != 0 || len(s.handover) < 10 || len(s.takeover) < 3 {
		t.Fatalf("%d leases lost, %d handed over, %d taken over", s.losses, len(s.handover), len(s.takeover))
	}
	if most := core.PollCap*6/5 + 4*time.Second; s.handover.most() > most {
		t.Errorf("a hand-over took %v, more than %v", s.handover.most(), most)
	}
	if least, most := f.plan.ttl*2/3-time.Second, f.plan.ttl+core.DefaultSpread+stampUnit+core.PollCap+4*time.Second; s.takeover.least() < least || s.takeover.most() > most {
		t.Errorf("take-overs took %v to %v, not %v to %v", s.takeover.least(), s.takeover.most(), least, most)
	}
}

// TestOneHolder: no process ever holds what another does, however much is throttled, lost
// or away.
func TestOneHolder(t *testing.T) {
	for _, key := range []string{"s3-1", "s3-4-by-name", "azure-1-waiters", "s3-1-herd", "s3-2-outage", "gcs-8-ramp"} {
		f := play(t, key, 100, func(p *plan) { p.window = min(p.window, 3*time.Minute) })
		if t.Logf("%s: %d losses, throttled %v of %v", key, f.stats.losses, f.stats.throttled, f.stats.asked); f.stats.throttled == [2]int64{} {
			t.Errorf("%s: nothing was throttled", key)
		}
	}
}

// TestOverlapIsCounted: the simulation notices two holders.
func TestOverlapIsCounted(t *testing.T) {
	f := play(t, "s3-16", 200, nil)
	first, second := f.processes[0].slots[0], f.processes[1].slots[0]
	second.name = first.name
	if f.held(second); f.stats.overlaps != 1 {
		t.Errorf("%d overlaps, not 1", f.stats.overlaps)
	}
}

// TestThrottledIsPaced: a session that is throttled asks again and again, but not too often.
func TestThrottledIsPaced(t *testing.T) {
	const most = 20 // in a second, the last one before its deadline
	f := play(t, "s3-1", 100, nil)
	s := &f.stats
	if s.throttled[0] == 0 || s.retried == 0 || s.dead == 0 {
		t.Fatalf("throttled %v, %d renewals retried, %d sessions lost", s.throttled, s.retried, s.dead)
	}
	if s.busiest > most {
		t.Errorf("a session sent %d requests in a second, more than %d", s.busiest, most)
	}
}

// TestOutage: no lease is lost in an outage that is shorter than the time left to the
// first deadline.
func TestOutage(t *testing.T) {
	f := play(t, "s3-16-outage", 200, func(p *plan) { p.cloud = s3 })
	s := &f.stats
	if s.losses != 0 || s.holding != 2000 {
		t.Errorf("%d leases lost, %d held in the end", s.losses, s.holding)
	}
	if s.late.most() < f.plan.outage-time.Second {
		t.Errorf("no renewal was late by more than %v: was there an outage?", s.late.most())
	}
}

// TestHeavyIsATenth: a scenario that takes hours is played on a tenth of the fleet against
// a tenth of the limits, and says so.
func TestHeavyIsATenth(t *testing.T) {
	for _, p := range plans(&options{orchestrators: 1000, leases: 20_000}) {
		parts, clouds := 1, map[string]cloud{s3.name: s3, gcs.name: gcs, azure.name: azure}
		if strings.HasSuffix(p.name(), tenthMark) {
			parts = 10
		}
		limit := clouds[p.cloud.name].writes + clouds[p.cloud.name].all
		if p.heavy != (parts == 10) || p.tenth != p.heavy || p.orchestrators*parts != 1000 || p.leases*parts != 20_000 ||
			p.heavy && (p.cloud.writes+p.cloud.all)*int64(parts) != limit {
			t.Errorf("%s: %d with %d leases and %d writes a second", p.name(), p.orchestrators, p.leases, p.cloud.writes)
		}
	}
}

func TestPartitionKeepsItsLimit(t *testing.T) {
	for _, c := range []cloud{s3, gcs, azure} {
		draw := rand.New(rand.NewPCG(1, 1)) //nolint:gosec // chance of a test
		var p partition
		admitted := int64(0)
		for now := int64(0); now < int64(10*time.Second); now += draw.Int64N(int64(40 * time.Microsecond)) {
			if p.admit(&c, nil, true, now) {
				admitted++
			}
		}
		if limit := 10 * max(c.writes, c.all); admitted < limit || admitted > limit+limit/50 {
			t.Errorf("%s: %d writes in 10 s, limit %d", c.name, admitted, limit)
		}
	}
	var p partition
	var o valves
	if !p.admit(&gcs, &o, true, 0) || p.admit(&gcs, &o, true, int64(999*time.Millisecond)) || !p.admit(&gcs, &o, false, 0) || !p.admit(&gcs, &o, true, int64(time.Second)) {
		t.Error("GCS takes one write a second to an object, and also reads")
	}
}

func TestLatencyHasItsQuantiles(t *testing.T) {
	c := world.NewChance(1, 1)
	l := s3.put
	var drawn []time.Duration
	for range 1_000_000 {
		drawn = append(drawn, time.Duration(l.draw(c)))
	}
	slices.Sort(drawn)
	for _, q := range []struct {
		perMille int
		want     time.Duration
	}{{500, l.p50}, {900, l.p90}, {990, l.p99}, {999, l.p999}} {
		if got := drawn[len(drawn)*q.perMille/1000]; got < q.want*95/100 || got > q.want*105/100 {
			t.Errorf("quantile %d is %v, want %v", q.perMille, got, q.want)
		}
	}
}

func TestBadOptions(t *testing.T) {
	file := filepath.Join(t.TempDir(), "page.md")
	for _, o := range []options{{orchestrators: 0, leases: 1}, {orchestrators: 2, leases: 1}, {orchestrators: 1, leases: 1, only: "no such"}} {
		if err := run(&o, file); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("a page was written all the same")
	}
}

// TestPageIsWhole: the page has every scenario, as the command writes them.
func TestPageIsWhole(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range plans(&options{orchestrators: fullSize, leases: 10 * fullSize}) {
		if !strings.Contains(string(text), "\n| "+p.what+" `"+p.key+"` ") {
			t.Errorf("README.md has no %s; run make scale", p.key)
		}
	}
	if !strings.Contains(string(text), "Made by `go run ./tests/scale") {
		t.Error("README.md does not say by which command it was made; run make scale")
	}
}
