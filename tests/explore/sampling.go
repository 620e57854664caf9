package explore

import (
	"encoding/binary"
	"slices"

	"github.com/mopslock/mopslock/core"
)

// sampling is a machine whose host takes a sample of the store's clock when
// the machine asks for one: by a machine of the core, at most one in a
// process and minute. Its requests are sent, applied and answered like all
// others, so that the sample is of some instant between the asking and now.
type sampling struct {
	*hosted
	begin   func() (*hosted, error)
	task    *hosted // takes the sample under way, or nil
	askedAt int64   // Mono of the latest one, or 0
	sample  core.Event
	wake    int64 // of the machine
}

func newSampling(h *hosted, begin func() (*hosted, error)) *sampling {
	return &sampling{hosted: h, begin: begin, wake: noWake}
}

// Group implements grouped.
func (s *sampling) Group(id core.RequestID) uint8 { return uint8(id % perProcess) }

// Step implements Program.
func (s *sampling) Step(now core.Instant, ev core.Event) ([]core.Action, error) {
	which := core.RequestID(0)
	if ev.Kind == core.EventAnswer {
		which = ev.Request % perProcess
		ev.Request /= perProcess
	}
	var out []core.Action
	var err error
	if which == 1 {
		out, err = s.stepSample(now, ev)
	} else {
		out, err = s.own(now, ev)
	}
	if s.wake != noWake {
		out = append(out, core.Action{Kind: core.ActionWake, At: s.wake})
	}
	return out, err
}

// own steps the machine, with the newest sample, and takes one if it asks for it.
func (s *sampling) own(now core.Instant, ev core.Event) ([]core.Action, error) {
	ev.StoreStamp, ev.StoreAt = s.sample.StoreStamp, s.sample.StoreAt
	actions, err := s.hosted.Step(now, ev)
	if err != nil {
		return actions, err
	}
	var out []core.Action
	s.wake = noWake
	asked := false
	for i := range actions {
		a := actions[i]
		if asked = asked || a.Kind == core.ActionSampleStoreClock; a.Kind == core.ActionWake {
			s.wake = a.At
			continue
		}
		out = append(out, tagged(a, 0))
	}
	if !asked || s.task != nil || s.askedAt != 0 && now.Mono-s.askedAt < int64(core.SampleEach) {
		return out, nil
	}
	s.askedAt = now.Mono
	if s.task, err = s.begin(); err != nil {
		return nil, err
	}
	more, err := s.stepSample(now, core.Event{Kind: core.EventBegin})
	return append(out, more...), err
}

// stepSample steps the machine that takes the sample.
func (s *sampling) stepSample(now core.Instant, ev core.Event) ([]core.Action, error) {
	if s.task == nil {
		return nil, nil
	}
	actions, err := s.task.Step(now, ev)
	if err != nil {
		return actions, err
	}
	out := slices.Clone(actions)
	for i := range out {
		out[i] = tagged(out[i], 1)
		if out[i].Kind == core.ActionStoreClockSampled {
			s.sample.StoreStamp, s.sample.StoreAt = out[i].Wall, out[i].At
		}
	}
	if s.task.Idle() {
		s.task = nil
	}
	return out, nil
}

// Idle implements Program.
func (s *sampling) Idle() bool { return s.hosted.Idle() && (s.task == nil || s.task.Idle()) }

// AppendState implements Program.
func (s *sampling) AppendState(dst []byte) []byte { return s.appendNormal(dst, nil) }

func (s *sampling) appendNormal(dst []byte, due dueAt) []byte {
	dst = due.append(s.hosted.appendNormal(dst, due), s.wake)
	for _, v := range []int64{s.askedAt, s.sample.StoreStamp, s.sample.StoreAt} {
		dst = binary.BigEndian.AppendUint64(dst, uint64(v))
	}
	if s.task == nil {
		return append(dst, 0)
	}
	return s.task.appendNormal(append(dst, 1), due)
}

// Copy implements Program.
func (s *sampling) Copy() Program {
	twin := *s
	twin.hosted = s.hosted.Copy().(*hosted)
	if s.task != nil {
		twin.task = s.task.Copy().(*hosted)
	}
	return &twin
}
