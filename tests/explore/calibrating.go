package explore

import (
	"encoding/binary"
	"slices"

	"github.com/mopslock/mopslock/core"
)

// calibrating is a machine whose host takes a sample of the store's clock when
// the machine asks for one: by a calibration of the core, at most one in a
// process and minute. Its requests are sent, applied and answered like all
// others, so that the sample is of some instant between the asking and now.
type calibrating struct {
	*hosted
	begin   func() (*hosted, error)
	task    *hosted // the calibration under way, or nil
	askedAt int64   // Mono of the latest one, or 0
	sample  core.Event
	wake    int64 // of the machine
}

func newCalibrating(h *hosted, begin func() (*hosted, error)) *calibrating {
	return &calibrating{hosted: h, begin: begin, wake: noWake}
}

// Group implements grouped.
func (c *calibrating) Group(id core.RequestID) uint8 { return uint8(id % perProcess) }

// Step implements Program.
func (c *calibrating) Step(now core.Instant, ev core.Event) ([]core.Action, error) {
	which := core.RequestID(0)
	if ev.Kind == core.EventAnswer {
		which = ev.Request % perProcess
		ev.Request /= perProcess
	}
	var out []core.Action
	var err error
	if which == 1 {
		out, err = c.calibration(now, ev)
	} else {
		out, err = c.own(now, ev)
	}
	if c.wake != noWake {
		out = append(out, core.Action{Kind: core.ActionWake, At: c.wake})
	}
	return out, err
}

// own steps the machine, with the newest sample, and calibrates if it asks for it.
func (c *calibrating) own(now core.Instant, ev core.Event) ([]core.Action, error) {
	ev.StoreStamp, ev.StoreAt = c.sample.StoreStamp, c.sample.StoreAt
	actions, err := c.hosted.Step(now, ev)
	if err != nil {
		return actions, err
	}
	var out []core.Action
	c.wake = noWake
	asked := false
	for i := range actions {
		a := actions[i]
		if asked = asked || a.Kind == core.ActionCalibrate; a.Kind == core.ActionWake {
			c.wake = a.At
			continue
		}
		out = append(out, tagged(a, 0))
	}
	if !asked || c.task != nil || c.askedAt != 0 && now.Mono-c.askedAt < int64(core.CalibrateEach) {
		return out, nil
	}
	c.askedAt = now.Mono
	if c.task, err = c.begin(); err != nil {
		return nil, err
	}
	more, err := c.calibration(now, core.Event{Kind: core.EventBegin})
	return append(out, more...), err
}

// calibration steps the calibration.
func (c *calibrating) calibration(now core.Instant, ev core.Event) ([]core.Action, error) {
	if c.task == nil {
		return nil, nil
	}
	actions, err := c.task.Step(now, ev)
	if err != nil {
		return actions, err
	}
	out := slices.Clone(actions)
	for i := range out {
		out[i] = tagged(out[i], 1)
		if out[i].Kind == core.ActionCalibrated {
			c.sample.StoreStamp, c.sample.StoreAt = out[i].Wall, out[i].At
		}
	}
	if c.task.Idle() {
		c.task = nil
	}
	return out, nil
}

// Idle implements Program.
func (c *calibrating) Idle() bool { return c.hosted.Idle() && (c.task == nil || c.task.Idle()) }

// AppendState implements Program.
func (c *calibrating) AppendState(dst []byte) []byte { return c.appendNormal(dst, nil) }

func (c *calibrating) appendNormal(dst []byte, due dueAt) []byte {
	dst = due.append(c.hosted.appendNormal(dst, due), c.wake)
	for _, v := range []int64{c.askedAt, c.sample.StoreStamp, c.sample.StoreAt} {
		dst = binary.BigEndian.AppendUint64(dst, uint64(v))
	}
	if c.task == nil {
		return append(dst, 0)
	}
	return c.task.appendNormal(append(dst, 1), due)
}

// Copy implements Program.
func (c *calibrating) Copy() Program {
	twin := *c
	twin.hosted = c.hosted.Copy().(*hosted)
	if c.task != nil {
		twin.task = c.task.Copy().(*hosted)
	}
	return &twin
}
