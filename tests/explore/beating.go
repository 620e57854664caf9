package explore

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/tests/explore/check"
)

// beating is the session of a process, and what its host has to do for it and for the
// machines that stand on it: it tells those of the session with every event, and gathers
// what all of them ask for. The session is machine 0; a request's id carries which.
type beating struct {
	session  core.Machine
	guard    check.Guard                                    // of the session
	beat     canon                                          // of the session
	next     func(n int) (core.Machine, core.Config, error) // makes the session after the n-th
	lost     int                                            // sessions that were lost
	sid      string                                         // "" while none is in force
	until    int64                                          // Mono until which it is
	end      core.Reason
	wakes    []int64       // of each machine
	requests []core.Action // of the Step in progress
	notices  []core.Action
	sample   core.Event // the newest sample of the store's clock that was told
}

// perProcess is how many machines a process has at most.
const perProcess = 4

// Group implements grouped.
func (b *beating) Group(id core.RequestID) uint8 { return uint8(id % perProcess) }

// renew makes the next session.
func (b *beating) renew() error {
	session, cfg, err := b.next(b.lost)
	b.session, b.guard, b.beat = session, check.Guard{Own: own(cfg)}, newCanon(cfg)
	return err
}

// turn makes a Step: answers and wakes are for one machine each, and others does the rest.
func (b *beating) turn(now core.Instant, ev core.Event, one func(int, core.Instant, core.Event) error,
	others func(core.Instant, core.Event) error,
) (out []core.Action, err error) {
	b.requests, b.notices = nil, nil
	b.sample.StoreStamp, b.sample.StoreAt = ev.StoreStamp, ev.StoreAt
	switch ev.Kind {
	case core.EventAnswer:
		which := int(ev.Request % perProcess)
		ev.Request /= perProcess
		err = one(which, now, ev)
	case core.EventWoke:
		for which, at := range b.wakes {
			if at <= now.Mono && err == nil {
				err = one(which, now, ev)
			}
		}
	default:
		err = others(now, ev)
	}
	if err != nil {
		return nil, err
	}
	out = slices.Concat(b.notices, b.requests)
	if wake := slices.Min(b.wakes); wake != noWake {
		out = append(out, core.Action{Kind: core.ActionWake, At: wake})
	}
	return out, nil
}

// step steps the session, and has each of its notices heard.
func (b *beating) step(now core.Instant, ev core.Event, heard func(core.Instant, *core.Action) error) error {
	ev.StoreStamp, ev.StoreAt = b.sample.StoreStamp, b.sample.StoreAt
	b.beat.receive(&ev)
	actions, err := b.session.Step(now, ev)
	if err != nil {
		return err
	}
	actions = slices.Clone(actions)
	b.beat.send(actions)
	if v := b.guard.Watch(b.session, actions); v != nil {
		return v
	}
	b.gather(0, actions)
	for i := range actions {
		if err := heard(now, &actions[i]); err != nil {
			return err
		}
	}
	return nil
}

// told is an event as a machine is told it that stands on the session.
func (b *beating) told(ev core.Event) core.Event {
	ev.StoreStamp, ev.StoreAt = b.sample.StoreStamp, b.sample.StoreAt
	ev.Session, ev.SessionUntil, ev.SessionEnd = []byte(b.sid), b.until, b.end
	return ev
}

// gather keeps what a machine asks for. What the session says is for its host alone.
func (b *beating) gather(which int, actions []core.Action) {
	b.wakes[which] = noWake
	for i := range actions {
		a := &actions[i]
		switch {
		case a.Kind == core.ActionWake:
			b.wakes[which] = a.At
		case a.Kind.IsRequest():
			b.requests = append(b.requests, tagged(*a, core.RequestID(which)))
		case which > 0:
			b.notices = append(b.notices, *a)
		}
	}
}

// changed takes a notice of the session, and reports whether the machines that stand on it
// must hear of it at once: not of a renewal, which makes that they cost nothing.
func (b *beating) changed(a *core.Action) bool {
	switch a.Kind {
	case core.ActionHeld:
		b.sid, b.until = string(a.Holder), a.At
		return true
	case core.ActionRenewed:
		b.until = a.At
	case core.ActionLost, core.ActionLeft:
		b.sid, b.until, b.end = "", 0, a.Reason
		return true
	}
	return false
}

// appendState appends all of it but for the machine.
func (b *beating) appendState(dst []byte, due dueAt) []byte {
	dst = append(append(dst, b.sid...), 0, byte(b.end), byte(b.lost), byte(b.guard.End()))
	for _, at := range b.wakes {
		dst = due.append(dst, at)
	}
	return binary.BigEndian.AppendUint64(dst, uint64(b.until))
}

// copied is an independent copy.
func (b beating) copied() beating {
	if b.session != nil {
		b.session = b.session.Clone()
	}
	b.wakes = slices.Clone(b.wakes)
	return b
}

// tagged is an action whose request says of which machine it is.
func tagged(a core.Action, which core.RequestID) core.Action {
	if a.Kind.IsRequest() {
		a.Request = a.Request*perProcess + which
		a.Body = bytes.Clone(a.Body)
	}
	return a
}
