package explore

import (
	"slices"
	"strconv"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/tests/explore/check"
)

// sharer is a process that takes part in a semaphore: a session machine and a
// semaphore machine on it, and what a host has to do between them. It tells the
// semaphore of the session with every event, wakes it when there is another session
// or none any more, and begins the next one while anything is asked for.
type sharer struct {
	beating
	actor     string
	name      string // of the semaphore
	semaphore core.Machine
	desk      check.Desk
	canon     canon
	opened    bool // a session is there, whatever its state
	asks      []asked
	state     string // what was said last, when nothing is asked for
}

// asked is a permit that was asked for and has not ended, as its caller knows it.
type asked struct {
	number, weight, most uint64
	told                 bool
	session              string // that it was told on
	id                   string // as the store shows it
}

const (
	ofSession = iota
	ofSemaphore
)

// Step implements Program.
func (p *sharer) Step(now core.Instant, ev core.Event) ([]core.Action, error) {
	return p.turn(now, ev, p.one, p.call)
}

// call does what a caller asks.
func (p *sharer) call(now core.Instant, ev core.Event) error {
	switch ev.Kind {
	case core.EventBegin:
		return p.open(now)
	case core.EventAcquire:
		p.asks = append(slices.Clip(p.asks), asked{
			number: ev.Permit, weight: uint64(max(ev.Weight, 1)), most: uint64(ev.Capacity)*uint64(ev.Width) - uint64(ev.Spare),
		})
		ev.Label = p.label(ev.Permit)
		fallthrough
	case core.EventLimit:
		p.desk.Asked(ev.Permit)
		if !p.opened {
			if err := p.open(now); err != nil {
				return err
			}
		}
	case core.EventRelease, core.EventCancel, core.EventLeave: // nobody relies on it any more
		if ev.Permit != 0 && !slices.ContainsFunc(p.asks, func(a asked) bool { return a.number == ev.Permit }) {
			return nil // it has ended, and the caller was told
		}
		p.state = "released"
		p.asks = slices.DeleteFunc(slices.Clone(p.asks), func(a asked) bool { return ev.Permit == 0 || a.number == ev.Permit })
	}
	return p.one(ofSemaphore, now, ev)
}

// label tells whose permit stands in a record, and which.
func (p *sharer) label(number uint64) []byte {
	return strconv.AppendUint([]byte(p.actor+"."), number, 10)
}

// open begins a session.
func (p *sharer) open(now core.Instant) error {
	if err := p.renew(); err != nil {
		return err
	}
	p.opened = true
	return p.one(ofSession, now, core.Event{Kind: core.EventBegin})
}

// one steps one machine and does what its actions ask of the host.
func (p *sharer) one(which int, now core.Instant, ev core.Event) error {
	if which == ofSession {
		return p.step(now, ev, p.heardSession)
	}
	ev = p.told(ev)
	p.canon.receive(&ev)
	actions, err := p.semaphore.Step(now, ev)
	if err != nil {
		return err
	}
	actions = slices.Clone(actions)
	p.canon.learn(p.semaphore)
	p.canon.send(actions)
	p.gather(ofSemaphore, actions)
	for i := range actions {
		p.hear(&actions[i])
	}
	if v := p.desk.Watch(p.semaphore, p.name, actions); v != nil {
		return v
	}
	return nil
}

// hear does what a notice of the semaphore tells the caller.
func (p *sharer) hear(a *core.Action) {
	i := slices.IndexFunc(p.asks, func(k asked) bool { return k.number == a.Permit })
	if i < 0 {
		return // it was given back, or is a limit, or no notice
	}
	p.asks = slices.Clone(p.asks)
	switch a.Kind {
	case core.ActionHeld:
		p.asks[i].told, p.asks[i].session, p.asks[i].id = true, a.Session, string(a.Holder)
	case core.ActionRefused, core.ActionLost, core.ActionReleased:
		p.state = a.Kind.String()
		p.asks = slices.Delete(p.asks, i, i+1)
	}
}

// heardSession does what a session's notice asks for.
func (p *sharer) heardSession(now core.Instant, a *core.Action) error {
	if !p.changed(a) {
		return nil
	}
	p.opened = a.Kind == core.ActionHeld
	err := p.one(ofSemaphore, now, core.Event{Kind: core.EventWoke})
	if err != nil || a.Kind != core.ActionLost || p.semaphore.Idle() {
		return err
	}
	p.lost++
	return p.open(now)
}

// Permits implements permitted. What was told is relied on while the session is that
// on which it was told; what was not, if it is granted on the session that there is.
func (p *sharer) Permits() []check.Permit {
	permits := make([]check.Permit, 0, len(p.asks))
	for i := range p.asks {
		a := &p.asks[i]
		if p.sid == "" || a.told && a.session != p.sid {
			continue
		}
		permits = append(permits, check.Permit{
			Actor: p.actor, Name: p.name, Number: a.number, Session: p.sid,
			Weight: a.weight, Most: a.most, Until: p.until, Told: a.told,
		})
	}
	return permits
}

// Claims implements Program: what it was told that it holds.
func (p *sharer) Claims() []check.Claim {
	var claims []check.Claim
	for i := range p.asks {
		if a := &p.asks[i]; a.told && a.session == p.sid {
			claims = append(claims, check.Claim{Actor: p.actor, Name: p.name, Tenure: a.id, Until: p.until})
		}
	}
	return claims
}

// Idle implements Program.
func (p *sharer) Idle() bool { return p.semaphore.Idle() && (!p.opened || p.session.Idle()) }

// String says held if something is held and nothing wanted, waiting if something is
// wanted, and otherwise what was said last.
func (p *sharer) String() string {
	switch {
	case slices.ContainsFunc(p.asks, func(a asked) bool { return !a.told }):
		return "waiting"
	case len(p.asks) > 0:
		return "held"
	}
	return p.state
}

// AppendState implements Program.
func (p *sharer) AppendState(dst []byte) []byte { return p.appendNormal(dst, nil) }

func (p *sharer) appendNormal(dst []byte, due dueAt) []byte {
	if p.opened {
		dst = p.beat.appendState(append(dst, 1), p.session, due)
	}
	dst = p.appendState(p.canon.appendState(dst, p.semaphore, due), due)
	dst = append(append(dst, p.state...), 0)
	dst = p.desk.AppendState(append(dst, byte(len(p.asks))))
	for i := range p.asks {
		a := &p.asks[i]
		told := byte(0)
		if a.told {
			told = 1
		}
		dst = append(dst, byte(a.number), byte(a.weight), byte(a.most), told)
		dst = append(append(append(append(dst, a.session...), 0), a.id...), 0)
	}
	return dst
}

// Copy implements Program.
func (p *sharer) Copy() Program {
	twin := *p
	twin.beating = p.copied()
	twin.semaphore = p.semaphore.Clone()
	twin.desk = p.desk.Copy()
	return &twin
}
