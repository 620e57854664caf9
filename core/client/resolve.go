package client

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/alarms"
	"github.com/mopslock/mopslock/core/internal/base"
	"github.com/mopslock/mopslock/core/internal/outbox"
	"github.com/mopslock/mopslock/core/internal/resolve"
)

// pending is what a command asked for, with all that is known before the machine is made.
type pending struct {
	as      role
	machine core.MachineKind
	query   resolve.Query
	terms   core.Terms
	wait    core.Duration
	at      int64 // Mono of the command
	printed uint64
	since   int64 // with printed: an observation to go on with
	last    released
}

// check is what a command asks for, or what is wrong with it.
func (c *Client) check(now core.Instant, ev *core.Event) (*pending, error) {
	t := ev.Terms
	b := &pending{terms: *t, query: resolve.Query{Protocol: t.Protocol}, wait: ev.Wait, at: now.Mono}
	err := b.parse(ev)
	if err == nil || b.machine == core.MachineSemaphore { // of a permit all faults are told
		err = join(err, b.validate(c))
	}
	b.printed, b.since = recall(&c.cfg, now, ev.Body)
	return b, err
}

// join is one error of two.
func join(one, other error) error {
	a, ok := one.(*core.Error)     //nolint:errorlint // ours are not wrapped
	b, also := other.(*core.Error) //nolint:errorlint // ours are not wrapped
	switch {
	case !ok:
		return other
	case !also:
		return one
	}
	return &core.Error{Code: core.ErrorConfig, Text: a.Text + "; " + b.Text}
}

// parse says which machine a command asks for, and in which role.
func (b *pending) parse(ev *core.Event) error {
	switch ev.Kind {
	case core.EventAcquire:
		b.machine, b.as, b.query.Use = core.MachineLease, leaseRole{}, resolve.Lease
	case core.EventRelease:
		b.machine, b.as = core.MachineLease, leaseRole{}
		b.fillJoinTerms()
		if b.terms.Holder == "" {
			return &core.Error{Code: core.ErrorConfig, Text: "holder: a release needs the tenure that it releases"}
		}
	case core.EventAccompany:
		b.machine, b.as = core.MachineCompanion, joinRole{}
		b.fillJoinTerms()
	case core.EventResume:
		b.machine, b.as = core.MachineCompanion, &renewRole{}
		b.fillJoinTerms()
	case core.EventPermit, core.EventLimit:
		return b.parsePermit(ev)
	case core.EventInvoke, core.EventRemote:
		return b.parseWork(ev)
	default:
		return b.parseInspect(ev)
	}
	return nil
}

// fillJoinTerms fills in the terms of a claim on a lease that exists, which has its own session:
// a strict one has an epoch.
func (b *pending) fillJoinTerms() {
	b.terms.OnSession = false
	switch {
	case b.query.Protocol != 0:
	case b.terms.Epoch != 0:
		b.query.Protocol = core.ProtocolStrict
	default:
		b.query.Protocol = core.ProtocolLastWriter
	}
}

// validate refuses terms that no protocol asked for accepts, before any request. Terms that
// only one of two accept are judged when the protocol is known.
func (b *pending) validate(c *Client) (err error) {
	for _, protocol := range [...]core.Protocol{core.ProtocolLastWriter, core.ProtocolStrict, core.ProtocolBridge} {
		if b.query.Protocol != 0 && b.query.Protocol != protocol {
			continue
		}
		cfg := machineConfig(&c.cfg, b.machine, protocol, &b.terms)
		cfg.Seed[0] = 1 // each machine gets its own
		cfg = cfg.WithDefaults()
		if err = cfg.Validate(); err == nil {
			return nil
		}
	}
	if b.query.Protocol > core.ProtocolBridge {
		return &core.Error{Code: core.ErrorConfig, Text: "protocol: must be strict, lastwriter, bridge, or none for auto"}
	}
	return err
}

// resolve goes on to find out how a claim's name is kept, and makes the claim's machine then.
func (b *pending) resolve(c *Client, cl *claim) {
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
			c.store.warnNoCreate(c)
			continue
		case resolve.AskMemo:
			b.ask(c, cl, cl.name.text+"/lock/"+core.LockFile)
		case resolve.AskRecord:
			b.ask(c, cl, cl.name.text+"/"+core.LockFile)
		case resolve.AskResult:
			b.ask(c, cl, core.ResultKey(cl.name.text))
		case resolve.AskFailure:
			b.ask(c, cl, core.FailureKey(cl.name.text))
		case resolve.TryStore:
			c.store.await(c, cl)
		case resolve.Refuse:
			b.refuse(c, cl)
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

// warnNoCreate says, once, that auto is lastwriter on this store.
func (s *abilities) warnNoCreate(c *Client) {
	if !s.warned {
		s.warned = true
		a := c.outbox.Emit(core.ActionWarned)
		a.Reason, a.Body = core.ReasonNoCreate, c.outbox.Keep([]byte(s.seen))
	}
}

// refuse ends a claim that can be kept by no protocol, or not by the one that was asked for.
func (b *pending) refuse(c *Client, cl *claim) {
	switch q := &b.query; q.Reason {
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

// ask asks for a claim whether there is an object with a key.
func (b *pending) ask(c *Client, cl *claim, key string) {
	q := &resolve.ExistsQuery{Patience: resolve.Patience{Wait: b.left(c), Reach: c.store.reach}, Key: key}
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
func (b *pending) answered(c *Client, cl *claim, a *core.Action) {
	cl.unit.drop(c)
	cl.unit = nil
	if a.Kind == core.ActionRefused {
		b.query.Unanswered(a.Reason, a.Class)
	} else {
		b.query.Saw(a.Count != 0)
	}
	b.resolve(c, cl)
}

// refuseStrict ends a claim that the store cannot keep by strict.
func (cl *claim) refuseStrict(c *Client) {
	cl.refused(c, core.ReasonNoCreate, core.ClassNone).Body = c.outbox.Keep([]byte(c.store.seen))
	cl.remove(c)
}

// await has a claim wait until it is known what the store can do, for its wait at the most.
func (s *abilities) await(c *Client, cl *claim) {
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
		s.sweep(c, resolve.BetweenWrites)
	}
	for _, cl := range waiting {
		if cl.state == claimEnded {
			continue
		}
		cl.delay.end(c)
		cl.delay = nil
		c.post(job{claim: cl, kind: core.EventBegin, class: a.Class, reason: why})
	}
}

// storeTried goes on with a claim that has waited for the prober, which was refused for a
// reason, or with none has found it out.
func (cl *claim) storeTried(c *Client, reason core.Reason, class core.Class) {
	if !cl.state.isPending() {
		return
	}
	b := cl.pending
	left := b.left(c)
	if reason != core.ReasonNone && b.query.NotTried(reason, class, left == 0) == resolve.TryLater {
		cl.later(c, delayTry, c.now.Mono+int64(min(core.PollCap, left)))
		return
	}
	b.resolve(c, cl)
}

// stepped implements owner.
func (s *abilities) stepped(_ *Client, u *unit) { s.own = u.machine.Leftover() }

// sweep removes the object that was created instead of the record, if there may be one.
func (s *abilities) sweep(c *Client, after core.Duration) {
	if key := s.own; key != "" {
		s.own = ""
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
		c.store.outOfPatience(c, cl)
	case delayTry:
		cl.pending.resolve(c, cl)
	case delayRead:
		cl.as.(*inspectRole).read(c, cl)
	case delayLeave:
		leaseRole{}.leave(c, cl)
	}
}

// outOfPatience goes on with a claim whose wait is over before the store was tried.
func (s *abilities) outOfPatience(c *Client, cl *claim) {
	reason := core.ReasonLimit
	if !s.reach.HasServed(base.Reads) {
		reason = core.ReasonUnreachable // not once
	}
	s.waiting = without(s.waiting, cl)
	cl.storeTried(c, reason, core.ClassUnreachable)
}

// end takes the alarm of a delay away, if there is one.
func (d *delay) end(c *Client) {
	if d != nil {
		c.alarms.Disarm(&d.Alarm)
	}
}
