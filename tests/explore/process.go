package explore

import (
	"slices"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/tests/explore/check"
)

// process is a session machine and the leases that stand on it: one program
// that does what a host has to. It tells the leases of the session with every
// event, passes a call on at once, and steps them when the session is lost.
type process struct {
	beating
	leases []*hosted
	claims []check.Claim
}

// newProcess takes leases in state Idle, and what makes one session after the other.
func newProcess(next func(n int) (core.Machine, core.Config, error), leases ...*hosted) (*process, error) {
	p := &process{beating: beating{next: next, wakes: slices.Repeat([]int64{noWake}, 1+len(leases))}, leases: leases}
	return p, p.renew()
}

// Step implements Program. acquire also begins the session; release is of all leases.
func (p *process) Step(now core.Instant, ev core.Event) ([]core.Action, error) {
	out, err := p.turn(now, ev, p.one, p.all)
	p.claim()
	return out, err
}

func (p *process) all(now core.Instant, ev core.Event) error {
	if ev.Kind == core.EventAcquire {
		if err := p.one(0, now, core.Event{Kind: core.EventBegin}); err != nil {
			return err
		}
	}
	return p.each(now, ev, func(l *hosted) bool {
		return ev.Kind != core.EventRelease || l.String() == core.LeaseHeld.String()
	})
}

// each gives some of the leases an event.
func (p *process) each(now core.Instant, ev core.Event, which func(*hosted) bool) error {
	for i, l := range p.leases {
		if !which(l) {
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
	if which == 0 {
		return p.step(now, ev, p.heard)
	}
	actions, err := p.leases[which-1].Step(now, p.told(ev))
	if err == nil {
		p.gather(which, actions)
	}
	return err
}

// heard does what a session's notice asks for. What is still waited for when it is lost
// needs another one.
func (p *process) heard(now core.Instant, a *core.Action) error {
	if a.Kind == core.ActionCalled {
		called := core.Event{Kind: core.EventCalled, Epoch: a.Epoch}
		return p.each(now, called, func(l *hosted) bool { return l.name == a.Key })
	}
	if !p.changed(a) {
		return nil
	}
	err := p.each(now, core.Event{Kind: core.EventWoke}, func(l *hosted) bool { return l.String() != core.LeaseIdle.String() })
	if err != nil || a.Kind != core.ActionLost || p.Idle() {
		return err
	}
	p.lost++
	if err := p.renew(); err != nil {
		return err
	}
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
	return p.session.Idle() && !slices.ContainsFunc(p.leases, func(l *hosted) bool { return !l.Idle() })
}

// String is the first lease's state.
func (p *process) String() string { return p.leases[0].String() }

// AppendState implements Program.
func (p *process) AppendState(dst []byte) []byte { return p.appendNormal(dst, nil) }

func (p *process) appendNormal(dst []byte, due dueAt) []byte {
	dst = p.beat.appendState(dst, p.session, due)
	for _, l := range p.leases {
		dst = l.appendNormal(dst, due)
	}
	return p.appendState(dst, due)
}

// Copy implements Program.
func (p *process) Copy() Program {
	twin := *p
	twin.beating = p.copied()
	twin.leases = make([]*hosted, len(p.leases))
	for i, l := range p.leases {
		twin.leases[i] = l.Copy().(*hosted)
	}
	return &twin
}
