package explore

import (
	"encoding/binary"
	"slices"
	"strconv"
	"strings"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/tests/explore/check"
	"github.com/mopslock/mopslock/tests/world"
)

// process is a client with what its host would know of it, and what the checkers remember.
type process struct {
	world.Process
	actor   string
	canon   canon
	asked   [perProcess]core.RequestID // under way; 0 is none. Its place is a flight's group
	calls   [perProcess]bool           // which of these read a call
	dropped []uint8                    // places whose requests the latest Step has abandoned
	said    check.Transcript
	lasting uint64 // the claim that nothing in this world may end, or 0
}

// perProcess is how many requests a client has under way at most.
const perProcess = 8

// newProcess takes a client that was told nothing yet.
func newProcess(actor string, client core.Machine, seed [16]byte) *process {
	return &process{Process: world.Process{Client: client}, actor: actor, canon: canon{origin: hash(seed[:])[0]}}
}

// Group implements grouped.
func (p *process) Group(id core.RequestID) uint8 { return uint8(slices.Index(p.asked[:], id)) }

// Dropped implements grouped.
func (p *process) Dropped() []uint8 { return p.dropped }

// Step implements Program.
func (p *process) Step(now core.Instant, ev core.Event) ([]core.Action, error) {
	p.dropped = nil
	call := false
	if at := slices.Index(p.asked[:], ev.Request); ev.Kind == core.EventAnswer && at >= 0 {
		call, p.asked[at] = p.calls[at], 0
	}
	if ev.Kind == core.EventChanged && len(ev.Key) == 0 {
		if len(p.Watched) == 0 {
			return nil, nil // nobody wants to know
		}
		ev.Key = []byte(p.Watched[0])
	}
	if ev.Kind == core.EventPermit {
		ev.Label = labelOf(p.actor, ev.Claim)
	}
	before := p.Known()
	p.canon.receive(&ev)
	p.said.Heard(&ev)
	actions, err := p.Process.Step(now, ev)
	if err != nil {
		return nil, err
	}
	actions = slices.DeleteFunc(actions, func(a core.Action) bool { return a.Claim == opener && !a.Kind.IsRequest() })
	if slices.ContainsFunc(p.Process.Claims, func(c world.Claim) bool { return c.Kind == core.EventPermit }) {
		p.canon.learn(p.Client)
	}
	p.canon.send(actions)
	for i := range p.Process.Claims {
		p.canon.identifyText(&p.Process.Claims[i].Tenure)
	}
	for i := range actions {
		p.sent(&actions[i])
	}
	v := p.said.Watch(p.Client, actions)
	if v == nil && p.asked == [perProcess]core.RequestID{} && p.Wake == 0 {
		v = p.said.Forgotten()
	}
	for i := range actions {
		if a := &actions[i]; a.Kind == core.ActionRenewed && v == nil {
			v = check.Renewed(now.Mono, before.Relied(a), a.At)
		}
		if s := before.StandsOn(actions[i].Claim); s != nil && v == nil {
			v = check.Tells(actions[:i+1], s.Number, s.Until <= now.Mono)
		}
	}
	if c := p.BelievesCalled(ev.Body); call && c != nil && v == nil {
		v = &check.Violation{Checker: check.CallEndsBelief, Text: p.actor + " was called, and believes in " + c.Name + " as long as its session lasts"}
	}
	// What is abandoned in the Step that asked for it has not been sent.
	actions = slices.DeleteFunc(actions, func(a core.Action) bool { return a.Kind.IsRequest() && !slices.Contains(p.asked[:], a.Request) })
	if v != nil {
		return actions, v
	}
	if p.lasting != 0 && p.said.Ended(p.lasting) {
		return actions, &check.Violation{Checker: check.EventuallyHeld, Text: p.actor + " loses a lease, and nothing happened to it"}
	}
	return actions, nil
}

// sent gives a request a place, and takes that of an abandoned one.
func (p *process) sent(a *core.Action) {
	switch {
	case a.Kind == core.ActionAbandon:
		if at := slices.Index(p.asked[:], a.Request); at >= 0 {
			p.asked[at] = 0
			p.dropped = append(p.dropped, uint8(at))
		}
	case a.Kind.IsRequest():
		at := slices.Index(p.asked[:], 0)
		if at < 0 {
			panic("explore: a client has more requests under way than a process has places")
		}
		p.asked[at], p.calls[at] = a.Request, strings.Contains(a.Key, "/call/")
		if a.Kind == core.ActionCreateResult || a.Kind == core.ActionPutResult {
			a.Body = []byte("by " + p.actor)
		}
	}
}

// labelOf tells whose permit stands in a record, and which.
func labelOf(actor string, number uint64) []byte {
	return strconv.AppendUint([]byte(actor+"."), number, 10)
}

// Claims implements Program.
func (p *process) Claims() (all []check.Claim) {
	for i := range p.Process.Claims {
		c := &p.Process.Claims[i]
		if until := p.Until(c); until != 0 {
			all = append(all, check.Claim{Actor: p.actor, Name: c.Name, Tenure: c.Tenure, Epoch: c.Epoch, Token: c.Token, Until: until})
		}
	}
	return all
}

// Permits implements permitted. What was told is relied on while the session is that
// on which it was told; what was not, if it is granted on the session that there is.
func (p *process) Permits() (all []check.Permit) {
	for i := range p.Process.Claims {
		c := &p.Process.Claims[i]
		if c.Kind != core.EventPermit || c.Ended || c.Given || len(p.Sessions) == 0 {
			continue
		}
		s := &p.Sessions[0]
		if c.State == world.Held {
			s = p.Session(c.On)
		}
		if s == nil {
			continue
		}
		all = append(all, check.Permit{
			Actor: p.actor, Name: c.Name, Number: c.Number, Session: s.ID,
			Weight: c.Weight, Most: c.Most, Until: s.Until, Told: c.State == world.Held,
		})
	}
	return all
}

// Idle implements Program.
func (p *process) Idle() bool { return p.Client.Idle() }

// String is waiting if a claim waits, and otherwise the state of the newest.
func (p *process) String() string {
	for i := range p.Process.Claims {
		if c := &p.Process.Claims[i]; c.State == world.Waiting && !c.Ended && !c.Given {
			return c.State
		}
	}
	return p.State()
}

// AppendState implements Program.
func (p *process) AppendState(dst []byte) []byte { return p.appendNormal(dst, nil) }

func (p *process) appendNormal(dst []byte, due dueAt) []byte {
	dst = p.canon.appendState(dst, p.Client, p.asked[:], due)
	for _, id := range p.asked {
		switch {
		case id == 0:
			dst = append(dst, 0)
		case due == nil:
			dst = binary.BigEndian.AppendUint64(append(dst, 2), uint64(id))
		default:
			dst = append(dst, 1) // where it stands in the client is in its state
		}
	}
	return p.said.AppendState(p.Process.AppendState(dst))
}

// Copy implements Program.
func (p *process) Copy() Program {
	twin := *p
	twin.Process = p.Process.Clone()
	twin.said = p.said.Copy()
	return &twin
}
