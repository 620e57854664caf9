//go:build linux

package stress

import (
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
	"github.com/mopslock/mopslock/host/trace"
)

// requestsIn is when the machines of a recording wanted something of the store, by
// CLOCK_MONOTONIC: what was asked where nobody listened can be counted there alone.
func requestsIn(t *testing.T, file string) []time.Duration {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Error(err)
		return nil
	}
	defer f.Close()
	c := &counting{apart: bootTime() - monotonic()}
	report, err := trace.Replay(f, c)
	if err != nil || report.Difference != nil || report.EndsEarly {
		t.Errorf("%s: %+v, %v", file, report, err)
	}
	return c.requests
}

// counting is an engine that notes the requests of its machines.
type counting struct {
	host.Native
	apart    time.Duration // the hosts' clock is ahead by
	requests []time.Duration
}

func (c *counting) New(cfg core.Config) (core.Stepper, error) {
	machine, err := c.Native.New(cfg)
	if err != nil {
		return nil, err
	}
	return &counted{machine, c}, nil
}

type counted struct {
	core.Stepper
	by *counting
}

func (c *counted) Step(now core.Instant, ev core.Event) ([]core.Action, error) {
	actions, err := c.Stepper.Step(now, ev)
	for i := range actions {
		if k := actions[i].Kind; core.ActionGet <= k && k <= core.ActionPutResult {
			c.by.requests = append(c.by.requests, time.Duration(now.Mono)-c.by.apart)
		}
	}
	return actions, err
}

// bootTime is the clock that hosts keep leases by.
func bootTime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic("stress: CLOCK_BOOTTIME: " + err.Error())
	}
	return time.Duration(ts.Nano())
}
