package explore

import (
	"encoding/binary"
	"slices"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/machines"
	"github.com/mopslock/mopslock/tests/explore/check"
)

// Program is what takes part as an actor: a machine of the core, a process
// of several, or an ancestor. It speaks as a machine does. The error of a Step
// may be a *check.Violation.
type Program interface {
	core.Stepper
	// AppendState appends the whole dynamic state as canonical bytes.
	AppendState(dst []byte) []byte
	// Copy is an independent copy.
	Copy() Program
	// Claims is what is relied on now. It is not changed by later Steps.
	Claims() []check.Claim
}

// claimant follows the notices of one lease.
type claimant struct {
	actor, name string
	tenure      string // where held does not say
	session     string // on which the claim stands
	// frozen: the session was told that the lease is broken, so that what it renews
	// from then on says nothing of this lease until that has found out.
	frozen bool
	claims []check.Claim
}

func (c *claimant) Claims() []check.Claim { return c.claims }

// follow takes the actions of one Step. It does not change the claims that were
// there: callers may keep them.
func (c *claimant) follow(actions []core.Action) {
	for i := range actions {
		a := &actions[i]
		switch a.Kind {
		case core.ActionHeld:
			tenure := string(a.Holder)
			if tenure == "" {
				tenure = c.tenure
			}
			c.session, c.frozen = a.Session, false
			c.claims = []check.Claim{{
				Actor: c.actor, Name: c.name, Tenure: tenure, Epoch: a.Epoch, Token: a.Token, Until: a.At,
			}}
		case core.ActionRenewed, core.ActionDeadline:
			c.frozen = a.Kind == core.ActionDeadline && c.session != ""
			c.change(func(claim *check.Claim) { claim.Until = a.At })
		case core.ActionAdopted:
			c.change(func(claim *check.Claim) { claim.Epoch = a.Epoch })
		case core.ActionLost, core.ActionReleased, core.ActionContactLost, core.ActionLeft, core.ActionRefused,
			core.ActionCannotMaintain:
			c.claims = nil
		}
	}
}

func (c *claimant) change(how func(*check.Claim)) {
	if len(c.claims) == 0 {
		return
	}
	c.claims = slices.Clone(c.claims)
	how(&c.claims[0])
}

func (c *claimant) appendState(dst []byte) []byte {
	frozen := byte(0)
	if c.frozen {
		frozen = 1
	}
	dst = append(dst, byte(len(c.claims)), frozen)
	for i := range c.claims {
		claim := &c.claims[i]
		dst = binary.BigEndian.AppendUint64(dst, uint64(claim.Until))
		dst = binary.AppendUvarint(dst, uint64(claim.Epoch))
		dst = binary.AppendUvarint(dst, uint64(claim.Token))
		dst = append(append(dst, claim.Tenure...), 0)
	}
	return dst
}

// asking is what programs that are no machines of the core have in common: a state with
// a name, and requests of which an answer to the latest counts.
type asking struct {
	state  string
	issued core.RequestID
}

func (a *asking) ask(state string, verb core.ActionKind, key, body string) []core.Action {
	a.state = state
	a.issued++
	return []core.Action{{Kind: verb, Request: a.issued, Key: key, Body: []byte(body)}}
}

// end is the last that is said.
func (a *asking) end(state string, notices ...core.Action) []core.Action {
	a.state = state
	return notices
}

// String implements Program.
func (a *asking) String() string { return a.state }

// hosted is one machine of the core with what its host would know of it.
type hosted struct {
	claimant
	machine core.Machine
	canon   canon
	guard   check.Guard
	// lasting: nothing happens in this world that may end the lease.
	lasting bool
}

// host makes a machine's program. The Config is the scenario's, and so is an
// error in it.
func host(actor string, cfg core.Config) (*hosted, error) {
	m, err := machines.New(cfg)
	if err != nil {
		return nil, err
	}
	return hostMachine(actor, cfg, m), nil
}

func hostMachine(actor string, cfg core.Config, m core.Machine) *hosted {
	return &hosted{claimant: claimant{actor: actor, name: cfg.Name}, machine: m, canon: newCanon(cfg)}
}

// Step implements Program.
func (h *hosted) Step(now core.Instant, ev core.Event) ([]core.Action, error) {
	h.canon.receive(&ev)
	actions, err := h.machine.Step(now, ev)
	if err != nil {
		return nil, err
	}
	h.canon.send(actions)
	h.follow(actions)
	if s := h.machine.String(); s == core.LeaseReleasing.String() || s == core.CompanionLeaving.String() {
		h.claims = nil // the caller has stopped relying on it
	}
	if v := h.guard.Watch(h.machine, actions); v != nil {
		return actions, v
	}
	if h.lasting && h.guard.Ended() {
		return actions, &check.Violation{Checker: check.EventuallyHeld, Text: h.actor + " loses " + h.name + ", and nothing happened to it"}
	}
	return actions, nil
}

// Idle implements Program.
func (h *hosted) Idle() bool { return h.machine.Idle() }

// String implements Program.
func (h *hosted) String() string { return h.machine.String() }

// AppendState implements Program.
func (h *hosted) AppendState(dst []byte) []byte { return h.appendNormal(dst, nil) }

func (h *hosted) appendNormal(dst []byte, due dueAt) []byte {
	dst = h.canon.appendState(dst, h.machine, due)
	return append(h.appendState(dst), byte(h.guard.End()))
}

// Copy implements Program.
func (h *hosted) Copy() Program {
	twin := *h
	twin.machine = h.machine.Clone()
	return &twin
}
