package report

import (
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
)

// A narrow line shortens the id and the date. What was broken or released is not said to be held,
// and on a narrow terminal when it is free stands before why.
func TestWaitingLine(t *testing.T) {
	at := time.Date(2026, 11, 21, 6, 30, 0, 0, time.Local)
	held := host.Status{State: core.ObservedHeld, Holder: "3f0c2b1a-5d6e-4f70-8192-a3b4c5d6e7f8", Host: "build-07", Acquired: at, TTL: 90 * time.Second, Left: 89 * time.Second}
	broken := host.Status{State: core.ObservedBroken, Holder: "h", By: "2989@vm", Why: "test\x1b[2J", Left: 12 * time.Second}
	released := host.Status{State: core.ObservedReleased, Holder: "h", Host: "vm", PID: "7", Left: 9 * time.Second}
	for _, test := range []struct {
		s     host.Status
		ago   time.Duration
		width int
		want  string
	}{
		{held, 0, 200, `waiting for n: held by 3f0c2b1a-5d6e-4f70-8192-a3b4c5d6e7f8 on build-07 since 2026-11-21 06:30:00, renewed 1 s ago`},
		{held, 0, 80, `waiting for n: held by 3f0c2b1a… on build-07, renewed 1 s ago, since 06:30:00`},
		{broken, 2 * time.Second, 200, `waiting for n: broken by 2989@vm: "test\x1b[2J"; free in 10s at the latest`},
		{broken, 2 * time.Second, 55, `waiting for n: broken, free in 10s at the latest; by 2`},
		{broken, time.Minute, 200, `waiting for n: broken by 2989@vm: "test\x1b[2J"; not free yet`},
		{released, 0, 200, `waiting for n: released on vm; free in 9s at the latest`},
	} {
		if got := WaitingLine("n", &test.s, test.ago, test.width); got != test.want {
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
	took := []time.Duration{250 * time.Second, 83 * time.Second, 61 * time.Minute}
	for _, test := range []struct {
		s     host.Status
		took  []time.Duration
		width int
		want  string
	}{
		{s, took, 300, "waiting for the result of n: computed by 3f0c2b1a-5d6e-4f70-8192-a3b4c5d6e7f8 on build-07 since 2026-11-21 06:30:00, others took 1m23s to 1h1m, can expire in 40s"},
		{s, took, 121, "waiting for n: computed by 3f0c2b1a… on build-07 since 06:30:00, others took 1m23s to 1h1m, can expire in 40s"},
		{s, took, 80, "waiting for n: computed by 3f0c2b1a… on build-07 since 06:30:00, others took 1m"},
		{s, nil, 100, "waiting for n: computed by 3f0c2b1a… on build-07 since 06:30:00, can expire in 40s"},
		{s, []time.Duration{1500 * time.Millisecond}, 110, "waiting for n: computed by 3f0c2b1a… on build-07 since 06:30:00, others took 1.5s, can expire in 40s"},
		{healthy, nil, 100, "waiting for n: computed by 3f0c2b1a… on build-07 since 06:30:00, renewed 11 s ago"},
		{released, took, 200, "waiting for the result of n: its lease was released on vm; not free yet"},
	} {
		if test.s.State == core.ObservedReleased {
			test.s.Left = 0
		}
		if got := ComputingLine("n", &test.s, test.took, 10*time.Second, test.width); got != test.want {
			t.Errorf("%q, want %q", got, test.want)
		}
	}
}
