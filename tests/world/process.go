package world

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"slices"

	"github.com/mopslock/mopslock/core"
)

// Process is a client and what its host knows: its claims, and until when each may be relied
// on. Its requests are the model's to perform.
type Process struct {
	Client   core.Machine
	Claims   []Claim // in order of their numbers; of those that have ended the newest claim alone
	Sessions []Session
	Watched  []string // keys
	Wake     int64    // Mono: when the client wants to be woken; 0 is never
	// Late: its driver answers what is abandoned, and says when a watch has begun.
	Late bool
}

// Claim is one as its caller knows it.
type Claim struct {
	Number uint64
	Kind   core.EventKind // of the command that began it
	Name   string
	Tenure string // of a permit, its id
	Epoch  core.Epoch
	Token  core.Epoch
	Weight uint64 // of a permit, with Most, how many may be held in its caller's view
	Most   uint64
	// State is waiting, held, launched, or how it ended.
	State string
	Ended bool
	Given bool   // its caller has given it back or up, and relies on it no more
	At    int64  // Mono: its own deadline
	On    uint64 // the session that it stands on, or 0
}

// Session is one that is in force.
type Session struct {
	Number uint64
	ID     string
	Until  int64
}

// The states of a claim that has not ended.
const (
	Idle     = "idle" // there is none
	Waiting  = "waiting"
	Held     = "held"
	Launched = "launched"
)

// Step gives the client an event, and steps it until it has no more to say. If it is not Late, an
// abandoned request is answered at once, and a watch has begun at once. The actions are the caller's.
func (p *Process) Step(now core.Instant, ev core.Event) (all []core.Action, err error) {
	p.command(&ev)
	for next := []core.Event(nil); ; {
		actions, err := p.Client.Step(now, ev)
		if err != nil {
			return nil, err
		}
		all = slices.Grow(all, len(actions))
		more := false
		var wake *core.Action
		for i := range actions {
			a := &actions[i]
			switch a.Kind {
			case core.ActionMore:
				more = true
				continue
			case core.ActionWake:
				wake = a
				continue
			case core.ActionAbandon:
				next = append(next, core.Event{Kind: core.EventAnswer, Request: a.Request, Outcome: core.OutcomeUnknown, Class: core.ClassUnreachable})
			case core.ActionWatch:
				p.Watched = append(p.Watched, a.Key)
				next = append(next, core.Event{Kind: core.EventChanged, Key: []byte(a.Key)})
			case core.ActionUnwatch:
				p.Watched = slices.DeleteFunc(p.Watched, func(key string) bool { return key == a.Key })
			default:
				p.hear(a)
			}
			kept := *a
			kept.Body = bytes.Clone(a.Body)
			all = append(all, kept)
		}
		switch {
		case more:
			ev = core.Event{Kind: core.EventWoke}
		case len(next) > 0 && !p.Late:
			ev, next = next[0], next[1:]
		default:
			p.Wake = 0
			if wake != nil {
				p.Wake = wake.At
				all = append(all, *wake)
			}
			return all, nil
		}
	}
}

// command notes what its caller does.
func (p *Process) command(ev *core.Event) {
	switch {
	case ev.Terms != nil:
		for i := len(p.Claims) - 1; i >= 0; i-- { // there may be ten thousand
			if p.Claims[i].Ended {
				p.Claims = slices.Delete(p.Claims, i, i+1)
			}
		}
		p.Claims = append(p.Claims, Claim{
			Number: ev.Claim, Kind: ev.Kind, Name: ev.Terms.Name, Tenure: string(ev.Terms.Holder), State: Waiting,
			Weight: uint64(max(ev.Weight, 1)), Most: uint64(ev.Capacity)*uint64(ev.Width) - uint64(ev.Spare),
		})
	case ev.Kind == core.EventRelease || ev.Kind == core.EventCancel || ev.Kind == core.EventLeave:
		p.change(ev.Claim, func(c *Claim) { c.Given = true })
	case ev.Kind == core.EventClose:
		for i := range p.Claims {
			p.change(p.Claims[i].Number, func(c *Claim) { c.Given = true })
		}
	}
}

func (p *Process) change(number uint64, how func(*Claim)) {
	if c := p.claim(number); c != nil {
		how(c)
	}
}

// claim is the one of a number, or nil if that has ended.
func (p *Process) claim(number uint64) *Claim {
	i, there := slices.BinarySearchFunc(p.Claims, number, func(c Claim, number uint64) int { return cmp.Compare(c.Number, number) })
	if !there || p.Claims[i].Ended {
		return nil
	}
	return &p.Claims[i]
}

// hear takes a notice.
func (p *Process) hear(a *core.Action) {
	if a.Claim == 0 {
		p.heardSession(a)
		return
	}
	p.change(a.Claim, func(c *Claim) {
		work := c.Kind == core.EventInvoke || c.Kind == core.EventRemote
		switch a.Kind {
		case core.ActionHeld:
			c.State, c.Epoch, c.Token, c.At, c.On = Held, a.Epoch, a.Token, a.At, a.On
			if a.Holder != "" {
				c.Tenure = string(a.Holder)
			}
		case core.ActionRenewed:
			c.At = a.At
		case core.ActionDeadline:
			c.At, c.On = a.At, a.On
		case core.ActionAdopted:
			c.Epoch = a.Epoch
		case core.ActionLaunch:
			c.State = Launched
		case core.ActionContactLost:
			c.At, c.On = 0, 0
		case core.ActionFound, core.ActionAbsent:
			c.State, c.Given = a.Kind.String(), true
		case core.ActionLost:
			c.At, c.On = 0, 0
			if !work {
				c.State, c.Ended = a.Kind.String(), true
			}
		case core.ActionRefused:
			c.State, c.Given, c.Ended = a.Kind.String(), true, !work
		case core.ActionReleased, core.ActionCannotMaintain, core.ActionLimited, core.ActionBroken:
			if !work {
				c.State, c.Ended = a.Kind.String(), true
			}
		case core.ActionSeen:
			c.Ended = c.Kind == core.EventLook
		case core.ActionLeft:
			c.Ended = true
			if !work {
				c.State = a.Kind.String()
			}
		}
	})
}

func (p *Process) heardSession(a *core.Action) {
	i := slices.IndexFunc(p.Sessions, func(s Session) bool { return s.Number == a.On })
	switch {
	case a.Kind == core.ActionHeld:
		p.Sessions = append(p.Sessions, Session{a.On, string(a.Holder), a.At})
	case a.Kind == core.ActionRenewed && i >= 0:
		p.Sessions[i].Until = a.At
	case (a.Kind == core.ActionLost || a.Kind == core.ActionLeft) && i >= 0:
		p.Sessions = slices.Delete(p.Sessions, i, i+1)
	}
}

// Until is the Mono before which a claim may be relied on, as its caller reads it; 0 is not held.
func (p *Process) Until(c *Claim) int64 {
	if c.Given || c.Ended {
		return 0
	}
	if s := p.Session(c.On); s != nil {
		return max(s.Until, c.At)
	}
	return c.At
}

// BelievesCalled is a claim that is relied on by its session although that has read, by this
// call, that somebody has broken the claim; nil is none.
func (p *Process) BelievesCalled(call []byte) *Claim {
	var of struct {
		Name  string
		Epoch core.Epoch
	}
	if json.Unmarshal(call, &of) != nil {
		return nil
	}
	for i := range p.Claims {
		if c := &p.Claims[i]; c.Name == of.Name && c.Epoch < of.Epoch && c.On != 0 && p.Until(c) != 0 {
			return c
		}
	}
	return nil
}

// Relied is the Mono until which what a renewal is of was relied on, or the new one if nobody
// relied on it.
func (p *Process) Relied(a *core.Action) int64 {
	if s := p.Session(a.On); a.Claim == 0 && s != nil {
		return s.Until
	}
	if c := p.claim(a.Claim); c != nil && c.State != Waiting && p.Until(c) != 0 {
		return p.Until(c)
	}
	return a.At
}

// Session is the one of a number that is in force, or nil.
func (p *Process) Session(number uint64) *Session {
	for i := range p.Sessions {
		if p.Sessions[i].Number == number {
			return &p.Sessions[i]
		}
	}
	return nil
}

// StandsOn is the session of a claim, if that is in force, or nil.
func (p *Process) StandsOn(claim uint64) *Session {
	if c := p.claim(claim); c != nil {
		return p.Session(c.On)
	}
	return nil
}

// State is that of the newest claim.
func (p *Process) State() string {
	if len(p.Claims) == 0 {
		return Idle
	}
	return p.Claims[len(p.Claims)-1].State
}

// Known is a copy of what the host knows, without the client, to look at after a Step.
func (p *Process) Known() Process {
	return Process{Claims: slices.Clone(p.Claims), Sessions: slices.Clone(p.Sessions), Watched: slices.Clone(p.Watched), Wake: p.Wake, Late: p.Late}
}

// Clone is an independent copy.
func (p *Process) Clone() Process {
	twin := p.Known()
	twin.Client = p.Client.Clone()
	return twin
}

// AppendState appends what the host knows as canonical bytes, without the client's own.
func (p *Process) AppendState(dst []byte) []byte {
	text := func(s string) { dst = append(append(dst, s...), 0) }
	number := func(n uint64) { dst = binary.BigEndian.AppendUint64(dst, n) }
	for i := range p.Claims {
		c := &p.Claims[i]
		flags := byte(1)
		if c.Ended {
			flags |= 2
		}
		if c.Given {
			flags |= 4
		}
		dst = append(dst, flags, byte(c.Number), byte(c.Kind), byte(c.On), byte(c.Weight), byte(c.Most))
		text(c.Name)
		text(c.Tenure)
		text(c.State)
		number(uint64(c.Epoch))
		number(uint64(c.Token))
		number(uint64(c.At))
		number(uint64(p.Until(c)))
	}
	dst = append(dst, 0)
	for i := range p.Sessions {
		dst = append(dst, 1, byte(p.Sessions[i].Number))
		text(p.Sessions[i].ID)
		number(uint64(p.Sessions[i].Until))
	}
	for _, key := range p.Watched {
		text(key)
	}
	return dst
}
