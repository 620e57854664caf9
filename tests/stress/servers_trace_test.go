//go:build linux

package stress

import (
	"errors"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
	"github.com/mopslock/mopslock/host/trace"
)

// recording is what the machines of a trace asked for and were told, by
// CLOCK_MONOTONIC: what was asked where nobody listened can be counted there alone.
type recording struct {
	host.Native
	apart time.Duration // the hosts' clock is ahead by

	requests []time.Duration
	deadline time.Duration // the last that was told
	waits    bool          // somebody was told whom he waits for
	whole    bool
}

// readTrace reads a trace, which may still be written, or not be there yet.
func readTrace(t *testing.T, file string) *recording {
	t.Helper()
	r := &recording{apart: bootTime() - monotonic()}
	f, err := os.Open(file)
	if err != nil {
		return r
	}
	defer f.Close()
	report, err := trace.Replay(f, r)
	if _, begun := errors.AsType[*trace.FormatError](err); err != nil && !begun || report.Difference != nil {
		t.Errorf("%s: %+v, %v", file, report, err)
	}
	r.whole = err == nil && !report.EndsEarly
	return r
}

// New implements host.Engine.
func (r *recording) New(cfg core.Config) (core.Stepper, error) {
	machine, err := r.Native.New(cfg)
	if err != nil {
		return nil, err
	}
	return &recorded{machine, r}, nil
}

type recorded struct {
	core.Stepper
	in *recording
}

// Step implements core.Stepper.
func (r *recorded) Step(now core.Instant, ev core.Event) ([]core.Action, error) {
	actions, err := r.Stepper.Step(now, ev)
	for i := range actions {
		switch a := &actions[i]; a.Kind {
		case core.ActionHeld, core.ActionRenewed, core.ActionDeadline:
			if a.At != core.Never {
				r.in.deadline = max(r.in.deadline, time.Duration(a.At)-r.in.apart)
			}
		case core.ActionWaiting:
			r.in.waits = true
		default:
			if core.ActionGet <= a.Kind && a.Kind <= core.ActionPutResult {
				r.in.requests = append(r.in.requests, time.Duration(now.Mono)-r.in.apart)
			}
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
