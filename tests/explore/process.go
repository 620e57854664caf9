package explore

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/tests/explore/check"
)

// process is a session machine and the leases that stand on it: one program
// that does what a host has to. It tells the leases of the session with every
// event, passes a call on at once, and steps them when the session is lost.
type process struct {
	session  core.Machine
	guard    check.Guard                                    // of the session
	canon    canon                                          // of the session
	next     func(n int) (core.Machine, core.Config, error) // makes the session after the n-th
	lost     int                                            // sessions that were lost
	leases   []*hosted
	wakes    []int64 // of the session, then of each lease
	sid      string  // "" while none is in force
	until    int64   // Mono until which it is
	end      core.Reason
	claims   []check.Claim
	requests []core.Action // of the Step in progress
	notices  []core.Action
	sample   core.Event // the newest sample of the store's clock that was told
}

// newProcess takes leases in state Idle, and what makes one session after the other.
func newProcess(next func(n int) (core.Machine, core.Config, error), leases ...*hosted) (*process, error) {
	session, cfg, err := next(0)
	if err != nil {
		return nil, err
	}
	p := &process{session: session, guard: check.Guard{Own: own(cfg)}, canon: newCanon(cfg), next: next, leases: leases, wakes: []int64{noWake}}
	for range leases {
		p.wakes = append(p.wakes, noWake)
	}
	return p, nil
}

// machines is the most that a process has; a request's id carries which.
const machines = 4

// Group implements grouped.
func (p *process) Group(id core.RequestID) uint8 { return uint8(id % machines) }

// Step implements Program. acquire begins the session, too; release is of all leases.
func (p *process) Step(now core.Instant, ev core.Event) ([]core.Action, error) {
	p.requests, p.notices = nil, nil
	p.sample.StoreStamp, p.sample.StoreAt = ev.StoreStamp, ev.StoreAt
	if err := p.dispatch(now, ev); err != nil {
		return nil, err
	}
	p.claim()
	out := slices.Concat(p.notices, p.requests)
	if wake := slices.Min(p.wakes); wake != noWake {
		out = append(out, core.Action{Kind: core.ActionWake, At: wake})
	}
	return out, nil
}

func (p *process) dispatch(now core.Instant, ev core.Event) error {
	switch ev.Kind {
	case core.EventAnswer:
		which := int(ev.Request % machines)
		ev.Request /= machines
		return p.one(which, now, ev)
	case core.EventAcquire:
		if err := p.one(0, now, core.Event{Kind: core.EventBegin}); err != nil {
			return err
		}
	case core.EventWoke:
		for which, at := range p.wakes {
			if at <= now.Mono {
				if err := p.one(which, now, ev); err != nil {
					return err
				}
			}
		}
		return nil
	}
	for i, l := range p.leases {
		if ev.Kind == core.EventRelease && l.String() != core.LeaseHeld.String() {
			continue
		}
		if err := p.one(1+i, now, ev); err != nil {
			return err
		}
	}
	return nil
}

// one steps one machine and does what its actions ask of the host.
func (p *process) one(which int, now core.Instant, ev core.Event) error {
	ev.StoreStamp, ev.StoreAt = p.sample.StoreStamp, p.sample.StoreAt
	step := p.beat
	if which > 0 {
		step = p.leases[which-1].Step
		ev.Session, ev.SessionUntil, ev.SessionEnd = []byte(p.sid), p.until, p.end
	}
	actions, err := step(now, ev)
	if err != nil {
		return err
	}
	actions = slices.Clone(actions)
	if which == 0 {
		if v := p.guard.Watch(p.session, actions); v != nil {
			return v
		}
	}
	p.wakes[which] = noWake
	for i := range actions {
		a := &actions[i]
		switch {
		case a.Kind == core.ActionWake:
			p.wakes[which] = a.At
		case isRequest(a.Kind):
			a.Request = a.Request*machines + core.RequestID(which)
			a.Body = bytes.Clone(a.Body)
			p.requests = append(p.requests, *a)
		case which > 0:
			p.notices = append(p.notices, *a)
		}
	}
	if which > 0 {
		return nil
	}
	for i := range actions {
		if err := p.heard(now, &actions[i]); err != nil {
			return err
		}
	}
	return nil
}

// beat steps the session.
func (p *process) beat(now core.Instant, ev core.Event) ([]core.Action, error) {
	p.canon.receive(&ev)
	actions, err := p.session.Step(now, ev)
	p.canon.send(actions)
	return actions, err
}

// heard does what a session's notice asks for.
func (p *process) heard(now core.Instant, a *core.Action) error {
	woke := core.Event{Kind: core.EventWoke}
	switch a.Kind {
	case core.ActionHeld:
		p.sid, p.until = string(a.Holder), a.At
	case core.ActionRenewed:
		p.until = a.At
		return nil
	case core.ActionLost, core.ActionLeft:
		p.sid, p.until, p.end = "", 0, a.Reason
	case core.ActionCalled:
		for i, l := range p.leases {
			if l.name != a.Key {
				continue
			}
			if err := p.one(1+i, now, core.Event{Kind: core.EventCalled, Epoch: a.Epoch}); err != nil {
				return err
			}
		}
		return nil
	default:
		return nil
	}
	for i, l := range p.leases {
		if l.String() == core.LeaseIdle.String() {
			continue
		}
		if err := p.one(1+i, now, woke); err != nil {
			return err
		}
	}
	if a.Kind == core.ActionLost {
		return p.again(now)
	}
	return nil
}

// again begins another session: what is still waited for needs one.
func (p *process) again(now core.Instant) error {
	if p.Idle() {
		return nil
	}
	p.lost++
	session, cfg, err := p.next(p.lost)
	if err != nil {
		return err
	}
	p.session, p.guard, p.canon = session, check.Guard{Own: own(cfg)}, newCanon(cfg)
	return p.one(0, now, core.Event{Kind: core.EventBegin})
}

// claim gathers what the leases claim: on a session it is in force as long as that is.
func (p *process) claim() {
	p.claims = nil
	for _, l := range p.leases {
		for _, c := range l.claims {
			if l.session != "" && l.session == p.sid && !l.frozen {
				c.Until = max(c.Until, p.until)
			}
			p.claims = append(p.claims, c)
		}
	}
}

// Claims implements Program.
func (p *process) Claims() []check.Claim { return p.claims }

// Idle implements Program.
func (p *process) Idle() bool {
	idle := p.session.Idle()
	for _, l := range p.leases {
		idle = idle && l.Idle()
	}
	return idle
}

// String is the first lease's state.
func (p *process) String() string { return p.leases[0].String() }

// AppendState implements Program.
func (p *process) AppendState(dst []byte) []byte { return p.appendNormal(dst, nil) }

func (p *process) appendNormal(dst []byte, due dueAt) []byte {
	dst = p.canon.appendState(dst, p.session, due)
	for i, l := range p.leases {
		dst = due.append(l.appendNormal(dst, due), p.wakes[1+i])
	}
	dst = append(append(dst, p.sid...), byte(p.end), byte(p.lost), byte(p.guard.End()))
	dst = binary.BigEndian.AppendUint64(dst, uint64(p.until))
	return due.append(dst, p.wakes[0])
}

// Copy implements Program.
func (p *process) Copy() Program {
	twin := *p
	twin.session = p.session.Clone()
	twin.wakes = slices.Clone(p.wakes)
	twin.leases = make([]*hosted, len(p.leases))
	for i, l := range p.leases {
		twin.leases[i] = l.Copy().(*hosted)
	}
	return &twin
}
