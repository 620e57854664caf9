package strict

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
	"github.com/mopslock/mopslock/core/internal/register"
)

// Inspection is the machine of one observation that takes no part: it reads, and says
// what there is, a lease or a semaphore.
type Inspection struct {
	register.Register
	task
	sessions register.SessionTable // of a semaphore's holders
	reading  string                // the session whose beat is read
}

// NewInspection makes an inspection in state Idle.
func NewInspection(cfg core.Config) (*Inspection, error) {
	cfg.Machine, cfg.Protocol = core.MachineInspection, core.ProtocolStrict
	r, err := register.New(cfg)
	if err != nil {
		return nil, err
	}
	r.ReadOnly = true
	return &Inspection{Register: r, task: newTask()}, nil
}

// Step implements Machine.
func (i *Inspection) Step(now core.Instant, ev core.Event) ([]core.Action, error) {
	if err := i.Start(i, now, &ev); err != nil {
		return nil, err
	}
	i.ApplyHostState(&ev)
	switch ev.Kind {
	case core.EventBegin:
		i.Move(&i.Machine, core.TaskWorking)
		i.StartObservation(core.RequestLimit)
	case core.EventCancel:
		i.end(core.ReasonCancelled)
	case core.EventAnswer:
		if f, ok := i.Land(&ev); ok && i.State == core.TaskWorking {
			i.answer(&ev, f)
		}
	}
	return i.Finish(), nil
}

// end refuses, unless it has ended.
func (i *Inspection) end(reason core.Reason) {
	if i.hasEnded() {
		return
	}
	i.Move(&i.Machine, core.TaskRefused)
	i.Refused(reason, nil)
}

func (i *Inspection) answer(ev *core.Event, f base.Flight) {
	i.Reach.Note(ev, f, i.Now.Mono)
	if i.reading != "" {
		i.sessionAnswer(ev)
		return
	}
	switch i.ObservationAnswer(ev, f, core.RequestLimit) {
	case register.Undecided:
		return
	case register.Unanswered:
		reason := core.ReasonUnreachable
		if i.Class.Permanent() {
			reason = core.ReasonUnusable
		}
		i.end(reason)
		return
	case register.Unfit:
		i.end(unfit(&i.Cur))
		return
	}
	if i.Cur.State == core.VersionValue {
		i.sessions = i.sessions.Cover(i.Value, "")
		i.nextSession()
		return
	}
	if i.Observed == nil {
		i.Observed = &core.Observed{State: core.ObservedVacant}
	}
	s := i.Observed
	if s.State == core.ObservedHeld && s.Left < 0 { // good enough for people
		s.State = core.ObservedStale
	}
	i.Move(&i.Machine, core.TaskDone)
	i.Emit(core.ActionSeen).Observed = s
}

// observedSessions is how many of a semaphore's holders' sessions are read.
const observedSessions = 4 * core.BeatsPerObservation

// nextSession reads the sessions of a semaphore's holders, and then says what there is.
func (i *Inspection) nextSession() {
	if due := i.DueSession(i.sessions, observedSessions); due != nil {
		due.Asked, i.reading = true, due.ID
		i.Ask(register.ForSession, core.ActionGet, register.SessionKey(due.ID), core.RequestLimit)
		return
	}
	s, v := i.Observed, i.Value
	s.State, s.TTL = core.ObservedVacant, 0
	if len(v.Permits) > 0 {
		s.State = core.ObservedHeld
	}
	s.Capacity, s.Width, s.Held, s.Limit = v.Capacity, v.Width, v.Held(), v.Limit
	s.Dead = i.sessions.AppendDead(s.Dead[:0])
	i.Move(&i.Machine, core.TaskDone)
	i.Emit(core.ActionSeen).Observed = s
}

// sessionAnswer takes in a beat. One that cannot be read now is not known to be dead.
func (i *Inspection) sessionAnswer(ev *core.Event) {
	seen := i.sessions.Find(i.reading)
	i.reading = ""
	if ev.Outcome != core.OutcomeUnknown {
		i.SessionRead(seen, ev)
		i.ShowDead(seen)
	}
	i.nextSession()
}
