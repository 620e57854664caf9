package explore

import (
	"bytes"
	"encoding/binary"
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
	actor     string
	name      string // of the semaphore
	session   core.Machine
	guard     check.Guard // of the session
	beat      canon
	next      func(n int) (core.Machine, core.Config, error) // makes the session after the n-th
	lost      int                                            // sessions that were lost
	semaphore core.Machine
	desk      check.Desk
	canon     canon
	wakes     [2]int64 // of the session, of the semaphore
	sid       string   // "" while none is in force
	until     int64    // Mono until which it is
	end       core.Reason
	opened    bool // a session is there, whatever its state
	asks      []asked
	state     string // what was said last, when nothing is asked for
	requests  []core.Action
	notices   []core.Action
	sample    core.Event // the newest sample of the store's clock that was told
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

// Group implements grouped.
func (p *sharer) Group(id core.RequestID) uint8 { return uint8(id % machines) }

// Step implements Program.
func (p *sharer) Step(now core.Instant, ev core.Event) ([]core.Action, error) {
	p.requests, p.notices = nil, nil
	p.sample.StoreStamp, p.sample.StoreAt = ev.StoreStamp, ev.StoreAt
	if err := p.dispatch(now, ev); err != nil {
		return nil, err
	}
	out := slices.Concat(p.notices, p.requests)
	if wake := min(p.wakes[ofSession], p.wakes[ofSemaphore]); wake != noWake {
		out = append(out, core.Action{Kind: core.ActionWake, At: wake})
	}
	return out, nil
}

func (p *sharer) dispatch(now core.Instant, ev core.Event) error {
	switch ev.Kind {
	case core.EventAnswer:
		which := int(ev.Request % machines)
		ev.Request /= machines
		return p.one(which, now, ev)
	case core.EventWoke:
		for which, at := range p.wakes {
			if at <= now.Mono {
				if err := p.one(which, now, ev); err != nil {
					return err
				}
			}
		}
		return nil
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
	session, cfg, err := p.next(p.lost)
	if err != nil {
		return err
	}
	p.opened = true
	p.session, p.guard, p.beat = session, check.Guard{Own: own(cfg)}, newCanon(cfg)
	return p.one(ofSession, now, core.Event{Kind: core.EventBegin})
}

// one steps one machine and does what its actions ask of the host.
func (p *sharer) one(which int, now core.Instant, ev core.Event) error {
	ev.StoreStamp, ev.StoreAt = p.sample.StoreStamp, p.sample.StoreAt
	m, c := p.session, &p.beat
	if which == ofSemaphore {
		m, c = p.semaphore, &p.canon
		ev.Session, ev.SessionUntil, ev.SessionEnd = []byte(p.sid), p.until, p.end
	}
	c.receive(&ev)
	actions, err := m.Step(now, ev)
	if err != nil {
		return err
	}
	actions = slices.Clone(actions)
	c.learn(m)
	c.send(actions)
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
		case which == ofSemaphore:
			p.notices = append(p.notices, *a)
			p.hear(a)
		}
	}
	if which == ofSemaphore {
		if v := p.desk.Watch(m, p.name, actions); v != nil {
			return v
		}
		return nil
	}
	if v := p.guard.Watch(m, actions); v != nil {
		return v
	}
	for i := range actions {
		if err := p.heardSession(now, &actions[i]); err != nil {
			return err
		}
	}
	return nil
}

// hear does what a notice of the semaphore tells the caller.
func (p *sharer) hear(a *core.Action) {
	i := slices.IndexFunc(p.asks, func(k asked) bool { return k.number == a.Permit })
	if i < 0 {
		return // it was given back, or is a limit
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
	switch a.Kind {
	case core.ActionHeld:
		p.sid, p.until = string(a.Holder), a.At
	case core.ActionRenewed:
		p.until = a.At
		return nil
	case core.ActionLost, core.ActionLeft:
		p.sid, p.until, p.end, p.opened = "", 0, a.Reason, false
	default:
		return nil
	}
	if err := p.one(ofSemaphore, now, core.Event{Kind: core.EventWoke}); err != nil {
		return err
	}
	if a.Kind == core.ActionLost && !p.semaphore.Idle() {
		p.lost++
		return p.open(now)
	}
	return nil
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
// wanted, and else what was said last.
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
	if dst = append(dst, byte(p.lost), byte(p.end), byte(p.guard.End())); p.opened {
		dst = p.beat.appendState(append(dst, 1), p.session, due)
	}
	dst = p.canon.appendState(dst, p.semaphore, due)
	for _, at := range p.wakes {
		dst = due.append(dst, at)
	}
	dst = append(append(append(dst, p.sid...), 0), p.state...)
	dst = binary.BigEndian.AppendUint64(dst, uint64(p.until))
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
	if p.session != nil {
		twin.session = p.session.Clone()
	}
	twin.semaphore = p.semaphore.Clone()
	twin.desk = p.desk.Copy()
	return &twin
}
