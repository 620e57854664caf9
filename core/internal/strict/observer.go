package strict

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
	"github.com/mopslock/mopslock/core/internal/register"
)

// Observer is the machine of one observation that takes no part: it reads, and says
// what there is, a lease or a semaphore.
type Observer struct {
	register.Register
	task
	sessions register.SessionTable // of a semaphore's holders
	reading  string                // the session whose beat is read
}

// NewObserver makes an observer in state Idle.
func NewObserver(cfg core.Config) (*Observer, error) {
	cfg.Machine, cfg.Protocol = core.MachineObserver, core.ProtocolStrict
	r, err := register.New(cfg)
	if err != nil {
		return nil, err
	}
	r.ReadOnly = true
	return &Observer{Register: r, task: newTask()}, nil
}

// Step implements Machine.
func (o *Observer) Step(now core.Instant, ev core.Event) ([]core.Action, error) {
	if err := o.Start(o, now, &ev); err != nil {
		return nil, err
	}
	o.ApplyHostState(&ev)
	switch ev.Kind {
	case core.EventBegin:
		o.Move(&o.Machine, core.TaskWorking)
		o.StartObservation(core.RequestLimit)
	case core.EventCancel:
		o.end(core.ReasonCancelled)
	case core.EventAnswer:
		if f, ok := o.Land(&ev); ok && o.State == core.TaskWorking {
			o.answer(&ev, f)
		}
	}
	return o.Finish(), nil
}

// end refuses, unless it has ended.
func (o *Observer) end(reason core.Reason) {
	if o.hasEnded() {
		return
	}
	o.Move(&o.Machine, core.TaskRefused)
	o.Refused(reason, nil)
}

func (o *Observer) answer(ev *core.Event, f base.Flight) {
	if o.reading != "" {
		o.sessionAnswer(ev)
		return
	}
	switch o.ObservationAnswer(ev, f, core.RequestLimit) {
	case register.Undecided:
		return
	case register.Unanswered:
		reason := core.ReasonUnreachable
		if o.Class.Permanent() {
			reason = core.ReasonUnusable
		}
		o.end(reason)
		return
	case register.Unfit:
		o.end(unfit(&o.Cur))
		return
	}
	if o.Cur.State == core.VersionValue {
		o.sessions = o.sessions.Cover(o.Value, "")
		o.nextSession()
		return
	}
	if o.Observed == nil {
		o.Observed = &core.Observed{State: core.ObservedVacant}
	}
	s := o.Observed
	if s.State == core.ObservedHeld && s.Left < 0 { // good enough for people
		s.State = core.ObservedStale
	}
	o.Move(&o.Machine, core.TaskDone)
	o.Emit(core.ActionSeen).Observed = s
}

// observedSessions is how many of a semaphore's holders' sessions are read.
const observedSessions = 4 * core.BeatsPerObservation

// nextSession reads the sessions of a semaphore's holders, and then says what there is.
func (o *Observer) nextSession() {
	if due := o.DueSession(o.sessions, observedSessions); due != nil {
		due.Asked, o.reading = true, due.ID
		o.Ask(register.ForSession, core.ActionGet, register.SessionKey(due.ID), core.RequestLimit)
		return
	}
	s, v := o.Observed, o.Value
	s.State, s.TTL = core.ObservedVacant, 0
	if len(v.Permits) > 0 {
		s.State = core.ObservedHeld
	}
	s.Capacity, s.Width, s.Held, s.Limit = v.Capacity, v.Width, v.Held(), v.Limit
	s.Dead = o.sessions.AppendDead(s.Dead[:0])
	o.Move(&o.Machine, core.TaskDone)
	o.Emit(core.ActionSeen).Observed = s
}

// sessionAnswer takes in a beat. One that cannot be read now is not known to be dead.
func (o *Observer) sessionAnswer(ev *core.Event) {
	seen := o.sessions.Find(o.reading)
	o.reading = ""
	if ev.Outcome != core.OutcomeUnknown {
		o.SessionRead(seen, ev)
		// To a machine that takes no part our wall clock may tell. It decides nothing.
		beat := &seen.Beat
		seen.Dead = seen.Dead || !beat.SameBoot && beat.Stamp != 0 &&
			o.Now.Wall > beat.Stamp+o.SessionTTL(seen)+o.Slop()
	}
	o.nextSession()
}

// AppendState implements Machine.
func (o *Observer) AppendState(dst []byte) []byte {
	s := o.Head(dst, core.MachineObserver)
	o.Register.Snapshot(&s)
	o.sessions.Snapshot(&s)
	s.Text(o.reading)
	return s
}

// Clone implements Machine.
func (o *Observer) Clone() core.Machine {
	twin := *o
	twin.Detach()
	twin.sessions = append(register.SessionTable(nil), o.sessions...)
	return &twin
}
