package client

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/alarms"
	"github.com/mopslock/mopslock/core/internal/base"
	"github.com/mopslock/mopslock/core/internal/outbox"
	"github.com/mopslock/mopslock/core/internal/resolve"
)

// abilities is what the client has found out about its store.
type abilities struct {
	base.Shared
	creates resolve.Verdict
	seen    string     // of resolve.Ignored: what was seen
	warned  bool       // that auto falls back on lastwriter
	reach   base.Reach // what has worked
	asking  *unit      // finds it out, for all claims that wait for it
	waiting []*claim
	own     string // key of the object that is created if the record is throttled, or ""
}

// resolve goes on to find out how a claim's name is kept, and makes the claim's machine then.
func (c *Client) resolve(cl *claim) {
	b := cl.pending
	for {
		step := b.query.Next(c.store.creates)
		cl.protocol = b.query.Protocol
		switch step {
		case resolve.Recall:
			b.last = c.memory.takeRelease(cl.name.text)
			if b.query.Recalled(b.last.looked != 0 && c.now.Mono-b.last.looked < int64(core.NewestWindow)) {
				cl.looked = b.last.looked
			}
			continue
		case resolve.FallBack:
			c.warnNoCreate()
			continue
		case resolve.AskMemo:
			c.askExists(cl, cl.name.text+"/lock/"+core.LockFile)
		case resolve.AskRecord:
			c.askExists(cl, cl.name.text+"/"+core.LockFile)
		case resolve.AskResult:
			c.askExists(cl, core.ResultKey(cl.name.text))
		case resolve.AskFailure:
			c.askExists(cl, core.FailureKey(cl.name.text))
		case resolve.Yield:
			c.yield(cl)
		case resolve.TryStore:
			c.awaitStore(cl)
		case resolve.Refuse:
			c.refuseQuery(cl)
		default:
			if b.query.HasLooked() {
				cl.looked = max(1, b.at) // a clock that tests bring begins at 0
			}
			if b.query.Use != resolve.Remote { // which tries a store that does not answer for a TTL
				b.wait = b.left(c)
			}
			cl.as.begin(c, cl)
		}
		return
	}
}

// warnNoCreate says, once, that auto is lastwriter on this store.
func (c *Client) warnNoCreate() {
	if s := &c.store; !s.warned {
		s.warned = true
		a := c.outbox.Emit(core.ActionWarned)
		a.Reason, a.Body = core.ReasonNoCreate, c.outbox.Keep([]byte(s.seen))
	}
}

// refuseQuery ends a claim that can be kept by no protocol, or not by the one that was asked for.
func (c *Client) refuseQuery(cl *claim) {
	switch q := &cl.pending.query; q.Reason {
	case core.ReasonNoCreate:
		cl.refuseStrict(c)
	case core.ReasonUnreadable: // a remote, whose lease cannot be kept alive
		a := c.outbox.Emit(core.ActionCannotMaintain)
		a.Claim, a.Reason, a.Class, a.Protocol = cl.number, q.Reason, q.Class, cl.protocol
		cl.remove(c)
	default:
		cl.refuse(c, q.Reason, q.Class)
	}
}

// askExists asks for a claim whether there is an object with a key.
func (c *Client) askExists(cl *claim, key string) {
	q := &resolve.ExistsQuery{Patience: resolve.Patience{Wait: cl.pending.left(c), Reach: c.store.reach}, Key: key}
	cl.unit = &unit{machine: q, owner: cl, claim: cl.number}
	c.post(job{unit: cl.unit, kind: core.EventBegin})
}

// left is what is left of the wait.
func (b *pending) left(c *Client) core.Duration {
	if b.wait <= 0 {
		return b.wait
	}
	return max(0, b.wait-core.Duration(c.now.Mono-b.at))
}

// answered takes an answer about a claim's name.
func (cl *claim) answered(c *Client, a *core.Action) {
	cl.unit.drop(c)
	cl.unit = nil
	if a.Kind == core.ActionRefused {
		cl.pending.query.Unanswered(a.Reason, a.Class)
	} else {
		cl.pending.query.Saw(a.Count != 0)
	}
	c.resolve(cl)
}

// yield looks for a strict tenure where there can be one. The name has a lock.json, which an old
// client leaves behind on a name that strict holds. So a claim of auto waits, as strict does,
// until no strict tenure lives there; then lastwriter claims the name.
//
//	A  strict: v1 . . . . . . . . . . . . . . . . . . . . . released
//	old        lock.json, released
//	B                     auto: lock.json, v1 lives: waits . . . . . . lastwriter
func (c *Client) yield(cl *claim) {
	if !c.yields(c.canStrict()) {
		c.fallBack(cl)
		return
	}
	t := &cl.pending.terms
	cfg := c.config(core.MachineLease, core.ProtocolStrict, &core.Config{Name: t.Name, Expiry: t.Expiry, StampSpread: t.StampSpread})
	cfg.SeenFingerprint, cfg.SeenSince = cl.pending.printed, cl.pending.since
	machine, err := c.machine(cfg)
	if err != nil {
		cl.refuseTerms(c, err)
		return
	}
	machine.Yield()
	cl.state.become(claimYielding)
	cl.protocol = core.ProtocolStrict
	cl.unit = &unit{machine: machine, owner: cl, claim: cl.number}
	cl.unit.step(c, core.Event{Kind: core.EventAcquire, Wait: cl.pending.left(c)})
}

// fallBack goes on by lastwriter, and says why.
func (c *Client) fallBack(cl *claim) {
	w := c.outbox.Emit(core.ActionWarned)
	w.Claim, w.Reason = cl.number, core.ReasonLockFile
	cl.pending.query.Vacant()
	c.resolve(cl)
}

// yielded takes a notice of a claim that yields.
func (cl *claim) yielded(c *Client, a *core.Action) {
	switch {
	case a.Kind != core.ActionRefused:
		cl.tenure(c, a)
	case a.Reason == core.ReasonLockFile:
		cl.unit.drop(c)
		cl.unit = nil
		cl.watch(c)
		cl.state.become(claimResolving)
		c.fallBack(cl)
	default:
		cl.tenure(c, a)
		cl.remove(c)
	}
}

// canStrict reports whether the store has all requests that strict needs.
func (c *Client) canStrict() bool { return !c.cfg.NoCreate && !c.cfg.NoList }

// refuseStrict ends a claim that the store cannot keep by strict.
func (cl *claim) refuseStrict(c *Client) {
	cl.refused(c, core.ReasonNoCreate, core.ClassNone).Body = c.outbox.Keep([]byte(c.store.seen))
	cl.remove(c)
}

func (c *Client) awaitStore(cl *claim) {
	s := &c.store
	s.waiting = append(s.waiting, cl)
	if wait := cl.pending.wait; wait > 0 {
		cl.later(c, delayWait, cl.pending.at+int64(wait))
	}
	if s.asking == nil {
		p := &resolve.Prober{
			Patience: resolve.Patience{Wait: resolve.Silence, Reach: s.reach}, RNG: base.NewRNG(c.seed()), Own: s.own, Mutant: c.Mutant,
		}
		s.asking = &unit{machine: p, owner: s, Sender: outbox.Sender{Mask: fourLanes}}
		s.asking.step(c, core.Event{Kind: core.EventBegin})
	}
}

// hear implements owner: the prober has ended.
func (s *abilities) hear(c *Client, u *unit, a *core.Action) {
	s.own = u.machine.Leftover()
	u.drop(c)
	s.asking = nil
	waiting := s.waiting
	s.waiting = nil
	why := a.Reason
	if a.Kind == core.ActionTried {
		why = core.ReasonNone
		if s.creates = resolve.Honoured; a.Reason == core.ReasonNoCreate {
			s.creates, s.seen = resolve.Ignored, string(a.Body)
		}
		c.outbox.Carry(a)
		c.sweepTried(resolve.BetweenWrites)
	}
	for _, cl := range waiting {
		if cl.state == claimEnded {
			continue
		}
		cl.endDelay(c)
		c.post(job{claim: cl, kind: core.EventBegin, class: a.Class, reason: why})
	}
}

// storeTried goes on with a claim that has waited for the prober, which was refused for a
// reason, or with none has found it out.
func (c *Client) storeTried(cl *claim, reason core.Reason, class core.Class) {
	if !cl.state.isPending() {
		return
	}
	b := cl.pending
	left := b.left(c)
	if reason != core.ReasonNone && b.query.NotTried(reason, class, left == 0) == resolve.TryLater {
		cl.later(c, delayTry, c.now.Mono+int64(min(core.PollCap, left)))
		return
	}
	c.resolve(cl)
}

// stepped implements owner.
func (s *abilities) stepped(_ *Client, u *unit) { s.own = u.machine.Leftover() }

// keeps implements owner.
func (s *abilities) keeps() bool { return false }

// sweepTried removes the object that was created instead of the record, if there may be one.
func (c *Client) sweepTried(after core.Duration) {
	if key := c.store.own; key != "" {
		c.store.own = ""
		c.cleanUp(key, after)
	}
}

// delay is an instant at which a claim goes on.
type delay struct {
	alarms.Alarm
	claim *claim
	kind  delayKind
}

// delayKind says what happens at the instant.
type delayKind uint8

const (
	delayWait  delayKind = iota // the wait is over, and the store was not tried yet
	delayTry                    // the store is tried once more
	delayRead                   // a watch reads once more
	delayLeave                  // a lease that is left has waited long enough for a removal
)

// later has a claim go on at an instant.
func (cl *claim) later(c *Client, kind delayKind, at int64) {
	cl.delay = &delay{claim: cl, kind: kind}
	c.alarms.Arm(&cl.delay.Alarm, cl.delay, at)
}

// onAlarm implements alarmHandler.
func (d *delay) onAlarm(c *Client) {
	cl := d.claim
	cl.delay = nil
	switch d.kind {
	case delayWait:
		c.outOfPatience(cl)
	case delayTry:
		c.resolve(cl)
	case delayRead:
		cl.as.(*inspectRole).read(c, cl)
	case delayLeave:
		cl.leaveTenure(c)
	}
}

// outOfPatience goes on with a claim whose wait is over before the store was tried.
func (c *Client) outOfPatience(cl *claim) {
	reason := core.ReasonLimit
	if !c.store.reach.HasServed(base.Reads) {
		reason = core.ReasonUnreachable // not once
	}
	c.store.waiting = without(c.store.waiting, cl)
	c.storeTried(cl, reason, core.ClassUnreachable)
}

func (cl *claim) endDelay(c *Client) {
	if cl.delay != nil {
		c.alarms.Disarm(&cl.delay.Alarm)
		cl.delay = nil
	}
}
