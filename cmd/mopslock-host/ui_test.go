//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
	"github.com/mopslock/mopslock/host/doctor"
)

// What was broken or released is not said to be held, and on a narrow terminal
// when it is free stands before why.
func TestWaitingLineOfWhatHasEnded(t *testing.T) {
	broken := host.Status{State: core.ObservedBroken, Holder: "h", By: "2989@vm", Why: "test\x1b[2J", Left: 12 * time.Second}
	released := host.Status{State: core.ObservedReleased, Holder: "h", Host: "vm", PID: "7", Left: 9 * time.Second}
	for _, test := range []struct {
		s     host.Status
		ago   time.Duration
		width int
		want  string
	}{
		{broken, 2 * time.Second, 200, `waiting for n: broken by 2989@vm: "test\x1b[2J"; free in 10s at the latest`},
		{broken, 2 * time.Second, 55, `waiting for n: broken, free in 10s at the latest; by 2`},
		{broken, time.Minute, 200, `waiting for n: broken by 2989@vm: "test\x1b[2J"; not free yet`},
		{released, 0, 200, `waiting for n: released on vm; free in 9s at the latest`},
	} {
		if got := waitingLine("n", &test.s, test.ago, test.width); got != test.want {
			t.Errorf("%q, want %q", got, test.want)
		}
	}
}

// Who computes it comes first on a narrow terminal, then how long others took; a date goes before them.
func TestComputingLine(t *testing.T) {
	at := time.Date(2026, 11, 21, 6, 30, 0, 0, time.Local)
	s := host.Status{State: core.ObservedHeld, Holder: "3f0c2b1a-5d6e-4f70-8192-a3b4c5d6e7f8", Host: "build-07", Acquired: at, TTL: 90 * time.Second, Left: 50 * time.Second}
	healthy := s
	healthy.Left = 89 * time.Second
	released := host.Status{State: core.ObservedReleased, Holder: "h", Host: "vm", Left: 9 * time.Second}
	took := pastWork{[]time.Duration{250 * time.Second, 83 * time.Second, 61 * time.Minute}}
	for _, test := range []struct {
		s     host.Status
		took  pastWork
		width int
		want  string
	}{
		{s, took, 300, "waiting for the result of n: computed by 3f0c2b1a-5d6e-4f70-8192-a3b4c5d6e7f8 on build-07 since 2026-11-21 06:30:00, others took 1m23s to 1h1m, can expire in 40s"},
		{s, took, 121, "waiting for n: computed by 3f0c2b1a… on build-07 since 06:30:00, others took 1m23s to 1h1m, can expire in 40s"},
		{s, took, 80, "waiting for n: computed by 3f0c2b1a… on build-07 since 06:30:00, others took 1m"},
		{s, pastWork{}, 100, "waiting for n: computed by 3f0c2b1a… on build-07 since 06:30:00, can expire in 40s"},
		{s, pastWork{[]time.Duration{1500 * time.Millisecond}}, 110, "waiting for n: computed by 3f0c2b1a… on build-07 since 06:30:00, others took 1.5s, can expire in 40s"},
		{healthy, pastWork{}, 100, "waiting for n: computed by 3f0c2b1a… on build-07 since 06:30:00, renewed 11 s ago"},
		{released, took, 200, "waiting for the result of n: its lease was released on vm; not free yet"},
	} {
		if test.s.State == core.ObservedReleased {
			test.s.Left = 0
		}
		if got := computingLine("n", &test.s, test.took.text(), 10*time.Second, test.width); got != test.want {
			t.Errorf("%q, want %q", got, test.want)
		}
	}
}

// A process id is a number in JSON, or null: what others wrote need not be one.
func TestPIDNumber(t *testing.T) {
	for text, want := range map[string]string{
		"4711": "4711", "0": "0", "9007199254740991": "9007199254740991",
		"9007199254740992": "null", "": "null", "007": "null", "-1": "null", "+1": "null", "1e3": "null", "\a": "null",
	} {
		if got, err := json.Marshal(pidNumber(text)); err != nil || string(got) != want {
			t.Errorf("%q: %s, %v", text, got, err)
		}
	}
}

// Who is shown on a row: as much as there is, three of them by name, whole where that fits.
func TestOccupancyText(t *testing.T) {
	one := host.PermitHolder{ID: "3f0c2b1a-5d6e-4f70-8192-a3b4c5d6e7f8", Host: "build-07", PID: "7", Weight: 1}
	two := host.PermitHolder{ID: "99dc2b1a-5d6e-4f70-8192-a3b4c5d6e7f8", Host: "evil\x1b[2J", PID: "8", Weight: 2}
	many := []host.PermitHolder{one, two, one, one}
	for _, test := range []struct {
		full  occupancy
		s     host.Status
		width int
		want  string
	}{
		{occupancy{host.View{Capacity: 3, Width: 2}, 1, 0}, host.Status{Held: 1, Holders: many[:1]}, 200, "waiting for a permit of n: 1/6 permits (3 x 2) held by 3f0c2b1a-5d6e-4f70-8192-a3b4c5d6e7f8 on build-07 (pid 7)"},
		{occupancy{host.View{Capacity: 3, Width: 2}, 1, 0}, host.Status{Held: 1, Holders: many[:1]}, 80, "waiting for a permit of n: 1/6 permits (3 x 2) held by 3f0c2b1a… on build-07"},
		{occupancy{host.View{Capacity: 50, Width: 2}, 1, 4}, host.Status{Held: 140, Limit: 60, Holders: many}, 190, `waiting for a permit of n: 140/60 permits (50 x 2, limit 60 in the store, 4 spared) held by 3f0c2b1a… on build-07, 99dc2b1a… on "evil\x1b[2J" with 2, 3f0c2b1a… on build-07 and others`},
		{occupancy{host.View{Capacity: 3, Width: 2}, 1, 0}, host.Status{Held: 1, Holders: many[:1]}, 40, "waiting for a permit of n: 1/6 permits "},
		{occupancy{host.View{Capacity: 3, Width: 2}, 1, 0}, host.Status{Held: 6}, 80, "waiting for a permit of n: 6/6 permits (3 x 2) held by others"},
	} {
		if got := test.full.line("n", &test.s, test.width); got != test.want {
			t.Errorf("%s\nwant %s", got, test.want)
		}
	}
}

// Of a semaphore ls --stale looks at each holder, of a lease at its state.
func TestHasExpired(t *testing.T) {
	for _, test := range []struct {
		s    host.Status
		want bool
	}{
		{host.Status{State: core.ObservedStale}, true},
		{host.Status{State: core.ObservedHeld}, false},
		{host.Status{State: core.ObservedHeld, Capacity: 1, Holders: []host.PermitHolder{{}, {Stale: true}}}, true},
		{host.Status{State: core.ObservedHeld, Capacity: 1, Holders: []host.PermitHolder{{}}}, false},
		{host.Status{State: core.ObservedVacant, Capacity: 1}, false},
	} {
		if got := hasExpired(&test.s); got != test.want {
			t.Errorf("%+v: %v", test.s, got)
		}
	}
}

// A record that has no room for another holder is 78.
func TestCrowdedIsUnfit(t *testing.T) {
	out := exitOf(&host.Error{Kind: host.Refused, Name: "n", Reason: core.ReasonCrowded})
	if out.Status != statusUnfit || out.Reason != "crowded" {
		t.Error(out)
	}
}

// The report names whom the command broke, also where another has taken the name before it looks again.
func TestBreakReportNamesWhomItBroke(t *testing.T) {
	whom := &host.Status{Name: "n", Protocol: core.ProtocolStrict, State: core.ObservedHeld, Holder: "first", Epoch: 4, Token: 4}
	after := &host.Status{Name: "n", Protocol: core.ProtocolStrict, State: core.ObservedHeld, Holder: "second", Epoch: 6, Token: 6}
	for _, asJSON := range []bool{false, true} {
		var out bytes.Buffer
		a := &app{stdout: &out, json: asJSON}
		if err := a.reportBreak(whom, after, &breakFlags{why: "it hangs", now: true}); err != nil {
			t.Fatal(err)
		}
		want := "n was held by first; broken, and taken again by second\n"
		if asJSON {
			want = `"state":"broken","epoch":0,"token":4,"holder":"first"`
		}
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q, not %q", &out, want)
		}
	}
}

// What is denied is 69, whether to these credentials or to everybody; what the store
// cannot do is 78. What only disturbs is neither.
func TestVerdict(t *testing.T) {
	for kind, want := range map[string]exit{
		"no_list_right": {Status: statusUnavailable, Reason: "unauthorized"},
		"read_only":     {Status: statusUnavailable, Reason: "read_only"},
		"two_winners":   {Status: statusUnfit, Reason: "unusable"},
	} {
		r := &doctor.Report{Protocol: "lastwriter", Findings: []doctor.Finding{{Kind: kind, Bad: true}}}
		got, ok := errors.AsType[*exit](verdict(r))
		if !ok || got.Status != want.Status || got.Reason != want.Reason {
			t.Errorf("%s: %+v", kind, got)
		}
	}
	good := &doctor.Report{Protocol: "strict", Findings: []doctor.Finding{{Kind: "read_only"}}}
	if err := verdict(good); err != nil {
		t.Error(err)
	}
}

// A round without a winner is not told as one with one.
func TestCreateText(t *testing.T) {
	for want, c := range map[string]doctor.Create{
		"one winner in each of 5 rounds of 16 writers":                                      {},
		"never two winners in 5 rounds of 16 writers; in 2 nobody was told that he had won": {Lost: 2},
		"3 of 16 writers were told they won; more than one in 1 of 5 rounds":                {Lost: 2, Doubled: 1, MostWinners: 3},
	} {
		c.Rounds, c.Writers = 5, 16
		if got := createText(&c); got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
}

// The rate is that of the time in which there were leases, however long ago the latest one was.
func TestBenchRate(t *testing.T) {
	begun := time.Unix(1_700_000_000, 0)
	r := &benchResult{Leases: 1210, latest: begun.Add(3 * time.Second)}
	if got := r.rate(begun); got != 403.3 {
		t.Errorf("%v a second", got)
	}
}
