//go:build unix

package main

import (
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
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
