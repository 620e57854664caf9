package client

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
)

// unit is one machine of the client's, and what it waits for.
type unit struct {
	alarm
	machine core.Machine
	owner   owner
	claim   uint64            // for which its requests are; 0: for the client itself
	lanes   core.RequestID    // which requests of the machine may be in flight together
	flights [4]core.RequestID // the client's ids, by lane; 0 is none
	direct  bool              // its requests do not wait for a store that asks to be left alone
	gone    bool              // nothing is told to it any more
}

// owner hears what a unit's machine says.
type owner interface {
	// hear takes a notice; requests and the wake were taken before.
	hear(c *Client, u *unit, a *core.Action)
	// stepped follows the machine's state, after all actions of one of its steps.
	stepped(c *Client, u *unit)
	// keeps reports whether a claim ends if the machine's requests are late.
	keeps() bool
}

// The lanes of a machine, as a mask of the request's id: a lease has one request in
// flight that matters; an invocation one of its own, with an odd id, and one of the lease
// within; a race has four.
const (
	oneLane   core.RequestID = 0
	twoLanes  core.RequestID = 1
	fourLanes core.RequestID = 3
)

// job is work that waits for its turn: an event for a unit, or for a claim.
type job struct {
	unit  *unit
	claim *claim
	kind  core.EventKind
	epoch core.Epoch
	// reason and class, of begin to a claim, are the prober's, which the claim has waited for;
	// class, of cancel to one, is why there can be no session.
	reason core.Reason
	class  core.Class
}

// post adds work. What is to be told to a unit is told in the order of the calls.
func (c *Client) post(j job) { c.todo = append(c.todo, j) }

func (c *Client) do(j job) {
	switch {
	case j.claim != nil && j.kind == core.EventBegin:
		c.storeTried(j.claim, j.reason, j.class)
	case j.claim != nil && j.kind == core.EventCancel:
		c.noSession(j.claim, j.class)
	case j.claim != nil && j.kind == core.EventClose:
		c.stopClaim(j.claim)
	case j.claim != nil:
		c.tell(j.claim, j.kind, j.epoch)
	case !j.unit.gone:
		c.step(j.unit, core.Event{Kind: j.kind, Epoch: j.epoch})
	}
}

// ringer does what an alarm was set for.
type ringer interface{ ring(c *Client) }

// ring implements ringer.
func (u *unit) ring(c *Client) {
	c.feed(u, &core.Event{Kind: core.EventWoke})
}

// step tells a machine what happened, and carries out what it answers.
func (c *Client) step(u *unit, ev core.Event) { c.feed(u, &ev) }

// feed is step with an event that is the client's to change. The event stays off the heap,
// so no interface but the machine's sees it.
func (c *Client) feed(u *unit, ev *core.Event) {
	switch on := u.owner.(type) {
	case *claim:
		if on.protocol == core.ProtocolStrict {
			c.inform(on.session, ev)
		}
	case *semaphore:
		if ev.Kind == core.EventChanged {
			on.hint()
		}
		c.inform(on.session, ev)
	}
	if u.gone {
		return
	}
	actions, err := u.machine.Step(c.now, *ev)
	if err != nil {
		panic("mopslock: core: client: " + err.Error()) // the client broke the contract
	}
	wake := base.Unset
	for i := range actions {
		switch a := &actions[i]; {
		case a.Kind.IsRequest():
			c.send(u, a)
		case a.Kind == core.ActionWake:
			wake = a.At
		case a.Kind == core.ActionSampleStoreClock:
			c.sample(u)
		default:
			u.owner.hear(c, u, a)
		}
	}
	if u.gone { // one of its notices has ended it
		return
	}
	c.alarms.arm(&u.alarm, u, wake)
	u.owner.stepped(c, u)
}

// drop forgets a unit. Nobody wants the answers to its requests any more.
func (c *Client) drop(u *unit) {
	u.gone = true
	c.alarms.disarm(&u.alarm)
	for lane := range u.flights {
		c.abandon(u, lane)
	}
}

// seed is fresh for every machine.
func (c *Client) seed() (seed [16]byte) {
	for i := 0; i < len(seed); i += 8 {
		n := c.rng.Next()
		for k := range 8 {
			seed[i+k] = byte(n >> (8 * k))
		}
	}
	if seed == [16]byte{} {
		seed[0] = 1
	}
	return seed
}
