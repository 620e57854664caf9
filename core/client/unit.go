package client

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/alarms"
	"github.com/mopslock/mopslock/core/internal/base"
	"github.com/mopslock/mopslock/core/internal/outbox"
)

// unit is one machine of the client's, and what it waits for.
type unit struct {
	alarms.Alarm
	outbox.Sender
	watching
	machine base.Reporting
	owner   owner
	claim   uint64 // for which its requests are; 0: for the client itself
	gone    bool   // nothing is told to it any more
}

// owner hears what a unit's machine says.
type owner interface {
	core.Part
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
		j.claim.noSession(c, j.class)
	case j.claim != nil && j.kind == core.EventClose:
		j.claim.stop(c)
	case j.claim != nil:
		j.claim.tell(c, j.kind, j.epoch)
	case !j.unit.gone:
		j.unit.step(c, core.Event{Kind: j.kind, Epoch: j.epoch})
	}
}

// send takes a request of a unit's machine.
func (u *unit) send(c *Client, a *core.Action) {
	lane := outbox.Usual
	switch {
	case a.Kind == core.ActionCreateResult || a.Kind == core.ActionPutResult:
		lane = outbox.Transfer
	case u.owner.keeps():
		lane = outbox.Beat
	}
	c.outbox.Send(u, lane, u.claim, a, c.now.Mono)
}

// answer takes the store's answer to a request.
func (c *Client) answer(ev *core.Event) {
	f := c.outbox.Answer(ev, c.now.Mono)
	if ev.Outcome != core.OutcomeUnknown {
		c.store.reach.Note(ev, base.Flight{Verb: f.Verb}, c.now.Mono)
	}
	c.answered(&f, ev)
}

// tooLate takes a request that has waited too long to be sent, if there is one.
func (c *Client) tooLate(f *outbox.Flight) {
	if f != nil {
		c.answered(f, &core.Event{Kind: core.EventAnswer, Outcome: core.OutcomeUnknown, Class: core.ClassUnreachable})
	}
}

// answered hands an answer to who wants it.
func (c *Client) answered(f *outbox.Flight, ev *core.Event) {
	switch u := f.Owner.(type) {
	case *cleanup:
		c.tidying--
	case *unit:
		ev.Request, ev.RetryAfter = f.OwnersID, 0
		if ev.Class == core.ClassUnsupported && u != c.store.asking {
			ev.Class = core.ClassOther
		}
		u.feed(c, ev)
		if cl := claimOf(u.owner); cl != nil {
			cl.follow(c, f, ev)
		}
	}
}

// ring does what an alarm was set for.
func (c *Client) ring(a *alarms.Alarm) {
	if q, ok := a.Rings.(*outbox.Queued); ok {
		c.tooLate(c.outbox.Ring(q))
		return
	}
	a.Rings.(alarmHandler).onAlarm(c)
}

// alarmHandler does what an alarm was set for.
type alarmHandler interface{ onAlarm(c *Client) }

// onAlarm implements alarmHandler.
func (u *unit) onAlarm(c *Client) {
	u.feed(c, &core.Event{Kind: core.EventWoke})
}

// step tells a machine what happened, and carries out what it answers.
func (u *unit) step(c *Client, ev core.Event) { u.feed(c, &ev) }

// feed is step with an event that is the client's to change. The event stays off the heap,
// so no interface but the machine's sees it.
func (u *unit) feed(c *Client, ev *core.Event) {
	if cl := claimOf(u.owner); cl != nil && cl.protocol == core.ProtocolStrict {
		c.inform(cl.session, ev)
	} else if of, ok := u.owner.(*semaphore); ok {
		if ev.Kind == core.EventChanged {
			of.hint()
		}
		c.inform(of.session, ev)
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
			u.send(c, a)
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
	c.alarms.Arm(&u.Alarm, u, wake)
	u.owner.stepped(c, u)
}

// watch asks for changes of one key, or with "" of none.
func (u *unit) watch(c *Client, key string) {
	switch {
	case key == "":
		c.watches.set(&c.outbox, u)
	case c.cfg.Watches:
		c.watches.set(&c.outbox, u, key)
	}
}

// drop forgets a unit. Nobody wants the answers to its requests any more.
func (u *unit) drop(c *Client) {
	u.gone = true
	u.watch(c, "")
	c.alarms.Disarm(&u.Alarm)
	c.outbox.Abandon(u)
}

// machine makes one, with a seed of its own.
func (c *Client) machine(cfg core.Config) (base.Reporting, error) {
	return c.newMachine(cfg, c.seed(), c.cfg.Seed)
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
