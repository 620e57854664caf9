package client

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
)

// settle finds out by which protocol a name is kept, and asks for the claim's machine then.
// lastwriter is itself, without a request. Auto is lastwriter if the name has a lock.json,
// since an old client would not see a strict lease; otherwise strict if the store honours
// create-if-absent; otherwise lastwriter.
func (c *Client) settle(cl *claim) {
	b := cl.asked
	if !b.settles() {
		c.ask(cl)
		return
	}
	if b.kind == core.EventInvoke && !b.memo {
		b.memo = true
		c.question(cl, cl.place.name+"/lock/"+core.LockFile)
		return
	}
	b.last = cl.place.takeLast()
	cl.looked = b.last.looked
	if cl.looked != 0 && c.now.Mono-cl.looked < int64(core.NewestWindow) && b.protocol != core.ProtocolLastWriter {
		c.settled(cl, core.ProtocolStrict)
		return
	}
	cl.looked = 0
	switch {
	case b.protocol == core.ProtocolLastWriter:
		c.ask(cl)
	case b.machine == core.MachineSemaphore: // which no old client keeps
		c.settleStore(cl)
	default:
		b.record = true
		c.question(cl, cl.place.name+"/"+core.LockFile)
	}
}

// question asks for a claim whether there is an object with a key.
func (c *Client) question(cl *claim, key string) {
	q := &question{patience: patience{wait: cl.asked.left(c), answered: c.store.reached}, key: key}
	cl.unit = &unit{machine: q, owner: (*asking)(cl), claim: cl.number}
	c.post(job{unit: cl.unit, kind: core.EventBegin})
}

// left is what is left of the wait.
func (b *begun) left(c *Client) core.Duration {
	if b.wait <= 0 {
		return b.wait
	}
	return max(0, b.wait-core.Duration(c.now.Mono-b.at))
}

// settles reports whether how the name is kept is to be found out: of a companion and of
// whatever else comes to a lease that exists, the lease says it.
func (b *begun) settles() bool {
	switch b.kind {
	case core.EventAcquire, core.EventInvoke, core.EventPermit, core.EventLimit:
		return true
	}
	return false
}

// asking is a claim whose name is asked for a lock.json.
type asking claim

// hear implements owner.
func (q *asking) hear(c *Client, u *unit, a *core.Action) {
	cl := (*claim)(q)
	b := cl.asked
	c.drop(u)
	cl.unit = nil
	if b.refusal != 0 && !b.record { // is there a result in a store that refuses to be written?
		c.resultAsked(cl, a)
		return
	}
	if a.Kind == core.ActionRefused {
		class := a.Class
		if class == core.ClassNone {
			class = core.ClassUnreachable
		}
		c.refuse(cl, a.Reason, class)
		return
	}
	if !b.record {
		if a.Count != 0 {
			c.refuse(cl, core.ReasonKind, core.ClassNone) // a mops memo, within which the result would lie
			return
		}
		c.settle(cl)
		return
	}
	b.record = false
	if b.lockFile = a.Count != 0; b.lockFile && b.protocol == 0 {
		w := c.emit(core.ActionWarned)
		w.Claim, w.Reason = cl.number, core.ReasonLockFile
		c.settled(cl, core.ProtocolLastWriter)
		return
	}
	if !b.lockFile {
		cl.looked = max(1, b.at) // a clock that tests bring begins at 0
	}
	c.settleStore(cl)
}

// resultAsked goes on where the store may be read and not written. A result that is there
// needs no lease; otherwise the refusal stands.
func (c *Client) resultAsked(cl *claim, a *core.Action) {
	b := cl.asked
	switch {
	case a.Kind == core.ActionSeen && a.Count != 0:
		c.settled(cl, core.ProtocolStrict)
	case a.Kind == core.ActionSeen && b.terms.MemoFailures && !b.tried:
		b.tried = true
		c.question(cl, core.FailureKey(cl.place.name))
	default:
		c.refuse(cl, core.ReasonUnusable, b.refusal)
	}
}

// stepped implements owner.
func (q *asking) stepped(*Client, *unit) {}

// keeps implements owner.
func (q *asking) keeps() bool { return false }

// settleStore goes on when the store is known, and asks it if it is not. All claims that
// wait for that share the one answer.
func (c *Client) settleStore(cl *claim) {
	s, b := &c.store, cl.asked
	switch {
	case s.creates == createHonoured:
		c.settled(cl, core.ProtocolStrict)
	case s.creates == createIgnored && (b.protocol == core.ProtocolStrict || b.machine == core.MachineSemaphore):
		c.refused(cl, core.ReasonNoCreate, core.ClassNone).Body = c.keep([]byte(s.seen))
		c.remove(cl)
	case s.creates == createIgnored:
		if !s.warned {
			s.warned = true
			a := c.emit(core.ActionWarned)
			a.Reason, a.Body = core.ReasonNoCreate, c.keep([]byte(s.seen))
		}
		c.settled(cl, core.ProtocolLastWriter)
	default:
		c.awaitStore(cl)
	}
}

func (c *Client) awaitStore(cl *claim) {
	s := &c.store
	s.waiting = append(s.waiting, cl)
	if wait := cl.asked.wait; wait > 0 {
		cl.delay = &delay{claim: cl}
		c.arm(&cl.delay.alarm, cl.delay, cl.asked.at+int64(wait))
	}
	if s.asking == nil {
		p := &prober{patience: patience{wait: probePatience, answered: s.reached}, rng: base.NewRNG(c.seed()), own: s.own}
		s.asking = &unit{machine: p, owner: s, lanes: fourLanes}
		c.step(s.asking, core.Event{Kind: core.EventBegin})
	}
}

// hear implements owner: the prober has ended.
func (s *abilities) hear(c *Client, u *unit, a *core.Action) {
	p := u.machine.(*prober)
	s.own = p.own
	c.drop(u)
	s.asking = nil
	waiting := s.waiting
	s.waiting = nil
	if a.Kind == core.ActionTried {
		s.creates, s.seen = p.creates, p.seen
		told := c.emit(core.ActionTried)
		told.Body = c.keep(a.Body)
		if p.creates == createIgnored {
			told.Reason = core.ReasonNoCreate
		}
		c.sweepTried(betweenWrites)
	}
	for _, cl := range waiting {
		if cl.over {
			continue
		}
		c.endDelay(cl)
		c.post(job{claim: cl, kind: core.EventBegin, class: a.Class, reason: a.Reason})
	}
}

// storeTried goes on with a claim that has waited for the prober, which was refused for a
// reason, or with none has found it out.
func (c *Client) storeTried(cl *claim, reason core.Reason, class core.Class) {
	switch {
	case cl.over || cl.asked == nil:
	case reason == core.ReasonNone || reason == core.ReasonLimit && cl.asked.left(c) != 0:
		if cl.protocol == core.ProtocolLastWriter { // of work, which asks for another reason
			c.ask(cl)
			return
		}
		c.settleStore(cl) // after a refusal by its own limit the store has answered before: a waiter carries on
	default:
		if w, ok := cl.as.(*aWork); ok {
			w.notTried(c, cl, reason, class)
			return
		}
		c.refuse(cl, reason, class)
	}
}

// stepped implements owner.
func (s *abilities) stepped(_ *Client, u *unit) { s.own = u.machine.(*prober).own }

// keeps implements owner.
func (s *abilities) keeps() bool { return false }

// sweepTried removes the object that was created instead of the record, if there may be one.
func (c *Client) sweepTried(after core.Duration) {
	if key := c.store.own; key != "" {
		c.store.own = ""
		c.errand(key, after)
	}
}

// settled notes the protocol and makes the machine.
func (c *Client) settled(cl *claim, protocol core.Protocol) {
	b := cl.asked
	b.protocol, cl.protocol = protocol, protocol
	b.wait = b.left(c)
	b.at = c.now.Mono
	c.ask(cl)
}

// delay is an instant at which a claim goes on: its wait is over before the store was
// tried, or a release has waited long enough for tidying.
type delay struct {
	alarm
	claim  *claim
	leaves bool // it is left, and not released
	brief  bool
	again  bool // the store is asked once more
	look   bool // a watch reads once more
}

// ring implements ringer.
func (d *delay) ring(c *Client) {
	cl := d.claim
	cl.delay = nil
	if d.look {
		cl.as.(*aLook).read(c, cl)
		return
	}
	if cl.asked == nil {
		c.finishTenure(cl, d)
		return
	}
	if d.again {
		c.awaitStore(cl)
		return
	}
	reason := core.ReasonLimit
	if !c.store.reached {
		reason = core.ReasonUnreachable // not once
	}
	c.store.waiting = without(c.store.waiting, cl)
	c.storeTried(cl, reason, core.ClassUnreachable)
}

func (c *Client) endDelay(cl *claim) {
	if cl.delay != nil {
		c.disarm(&cl.delay.alarm)
		cl.delay = nil
	}
}
