package client

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/alarms"
	"github.com/mopslock/mopslock/core/internal/base"
	"github.com/mopslock/mopslock/core/internal/capability"
	"github.com/mopslock/mopslock/core/internal/octets"
	"github.com/mopslock/mopslock/core/internal/outbox"
)

// abilities is what the client has found out about its store.
type abilities struct {
	creates capability.Verdict
	seen    string     // of capability.Ignored: what was seen
	warned  bool       // that auto falls back on lastwriter
	reach   base.Reach // what has worked
	asking  *unit      // finds it out, for all claims that wait for it
	waiting []*claim
	own     string // key of the object that is created if the record is throttled, or ""
}

// resolve finds out by which protocol a name is kept, and asks for the claim's machine then.
// lastwriter is itself, without a request. Auto is lastwriter if the name has a lock.json,
// since an old client would not see a strict lease, as soon as no strict tenure lives there;
// otherwise strict if the store honours create-if-absent; otherwise lastwriter.
func (c *Client) resolve(cl *claim) {
	b := cl.pending
	if !b.resolves() {
		c.ask(cl)
		return
	}
	if b.kind == core.EventInvoke && !b.memo {
		b.memo = true
		c.askExists(cl, cl.name.text+"/lock/"+core.LockFile)
		return
	}
	b.last = c.takeLast(cl.name)
	cl.looked = b.last.looked
	if cl.looked != 0 && c.now.Mono-cl.looked < int64(core.NewestWindow) && b.protocol != core.ProtocolLastWriter {
		c.resolved(cl, core.ProtocolStrict)
		return
	}
	cl.looked = 0
	switch {
	case b.protocol == core.ProtocolLastWriter:
		c.ask(cl)
	case b.machine == core.MachineSemaphore, // which no old client keeps
		c.store.creates == capability.Ignored: // a lock.json would change nothing
		c.resolveStore(cl)
	default:
		b.record = true
		c.askExists(cl, cl.name.text+"/"+core.LockFile)
	}
}

// askExists asks for a claim whether there is an object with a key.
func (c *Client) askExists(cl *claim, key string) {
	q := &capability.ExistsQuery{Patience: capability.Patience{Wait: cl.pending.left(c), Reach: c.store.reach}, Key: key}
	cl.unit = &unit{machine: q, owner: (*existsQuery)(cl), claim: cl.number}
	c.post(job{unit: cl.unit, kind: core.EventBegin})
}

// left is what is left of the wait.
func (b *pending) left(c *Client) core.Duration {
	if b.wait <= 0 {
		return b.wait
	}
	return max(0, b.wait-core.Duration(c.now.Mono-b.at))
}

// resolves reports whether how the name is kept is to be found out: of a companion and of
// whatever else comes to a lease that exists, the lease says it.
func (b *pending) resolves() bool {
	switch b.kind {
	case core.EventAcquire, core.EventInvoke, core.EventPermit, core.EventLimit:
		return true
	}
	return false
}

// existsQuery is a claim whose name is asked for a lock.json.
type existsQuery claim

// hear implements owner.
func (q *existsQuery) hear(c *Client, u *unit, a *core.Action) {
	cl := (*claim)(q)
	b := cl.pending
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
		c.resolve(cl)
		return
	}
	b.record = false
	if b.lockFile = a.Count != 0; b.lockFile && b.protocol == 0 {
		c.yield(cl)
		return
	}
	if !b.lockFile {
		cl.looked = max(1, b.at) // a clock that tests bring begins at 0
	}
	c.resolveStore(cl)
}

// yielding is a claim of auto whose name has a lock.json. An old client leaves one behind
// on a name that strict holds. So the claim waits, as strict does, until no
// strict tenure lives there; then lastwriter claims the name.
//
//	A  strict: v1 . . . . . . . . . . . . . . . . . . . . . released
//	old        lock.json, released
//	B                     auto: lock.json, v1 lives: waits . . . . . . lastwriter
type yielding claim

// yield looks for a strict tenure where there can be one.
func (c *Client) yield(cl *claim) {
	if !c.yields() {
		c.fallBack(cl)
		return
	}
	t := &cl.pending.terms
	cfg := c.config(core.MachineLease, core.ProtocolStrict, &core.Config{Name: t.Name, Expiry: t.Expiry, StampSpread: t.StampSpread})
	cfg.SeenFingerprint, cfg.SeenSince = cl.pending.printed, cl.pending.since
	machine, err := c.newMachine(cfg)
	if err != nil {
		c.refuseTerms(cl, err)
		return
	}
	machine.Yield()
	cl.state.become(claimYielding)
	cl.protocol = core.ProtocolStrict
	cl.unit = &unit{machine: machine, owner: (*yielding)(cl), claim: cl.number}
	c.step(cl.unit, core.Event{Kind: core.EventAcquire, Wait: cl.pending.left(c)})
}

// fallBack goes on by lastwriter, and says why.
func (c *Client) fallBack(cl *claim) {
	w := c.outbox.Emit(core.ActionWarned)
	w.Claim, w.Reason = cl.number, core.ReasonLockFile
	c.resolved(cl, core.ProtocolLastWriter)
}

// hear implements owner.
func (y *yielding) hear(c *Client, u *unit, a *core.Action) {
	cl := (*claim)(y)
	switch {
	case a.Kind != core.ActionRefused:
		c.tenure(cl, a)
	case a.Reason == core.ReasonLockFile:
		c.drop(u)
		cl.unit = nil
		c.unwatch(cl)
		cl.state.become(claimResolving)
		c.fallBack(cl)
	default:
		c.tenure(cl, a)
		c.remove(cl)
	}
}

// stepped implements owner.
func (y *yielding) stepped(c *Client, _ *unit) { (*claim)(y).recheck(c) }

// keeps implements owner.
func (y *yielding) keeps() bool { return false }

// resultAsked goes on where the store may be read and not written. A result that is there
// needs no lease; otherwise the refusal stands.
func (c *Client) resultAsked(cl *claim, a *core.Action) {
	b := cl.pending
	switch {
	case a.Kind == core.ActionSeen && a.Count != 0:
		c.resolved(cl, core.ProtocolStrict)
	case a.Kind == core.ActionSeen && b.terms.MemoFailures && !b.tried:
		b.tried = true
		c.askExists(cl, core.FailureKey(cl.name.text))
	default:
		c.refuse(cl, core.ReasonUnusable, b.refusal)
	}
}

// stepped implements owner.
func (q *existsQuery) stepped(*Client, *unit) {}

// keeps implements owner.
func (q *existsQuery) keeps() bool { return false }

// resolveStore goes on when the store is known, and asks it if it is not. All claims that
// wait for that share the one answer.
func (c *Client) resolveStore(cl *claim) {
	s, b := &c.store, cl.pending
	switch {
	case s.creates == capability.Honoured:
		c.resolved(cl, core.ProtocolStrict)
	case s.creates == capability.Ignored && (b.protocol == core.ProtocolStrict || b.machine == core.MachineSemaphore):
		c.refuseStrict(cl)
	case s.creates == capability.Ignored:
		if !s.warned {
			s.warned = true
			a := c.outbox.Emit(core.ActionWarned)
			a.Reason, a.Body = core.ReasonNoCreate, c.outbox.Keep([]byte(s.seen))
		}
		c.resolved(cl, core.ProtocolLastWriter)
	default:
		c.awaitStore(cl)
	}
}

// canStrict reports whether the store has all requests that strict needs.
func (c *Client) canStrict() bool { return !c.cfg.NoCreate && !c.cfg.NoList }

// refuseStrict ends a claim that the store cannot keep by strict.
func (c *Client) refuseStrict(cl *claim) {
	c.refused(cl, core.ReasonNoCreate, core.ClassNone).Body = c.outbox.Keep([]byte(c.store.seen))
	c.remove(cl)
}

func (c *Client) awaitStore(cl *claim) {
	s := &c.store
	s.waiting = append(s.waiting, cl)
	if wait := cl.pending.wait; wait > 0 {
		c.later(cl, delayWait, cl.pending.at+int64(wait))
	}
	if s.asking == nil {
		p := &capability.Prober{
			Patience: capability.Patience{Wait: capability.Silence, Reach: s.reach}, RNG: base.NewRNG(c.seed()), Own: s.own, Mutant: c.Mutant,
		}
		s.asking = &unit{machine: p, owner: s, Sender: outbox.Sender{Mask: fourLanes}}
		c.step(s.asking, core.Event{Kind: core.EventBegin})
	}
}

// hear implements owner: the prober has ended.
func (s *abilities) hear(c *Client, u *unit, a *core.Action) {
	p := u.machine.(*capability.Prober)
	s.own = p.Own
	c.drop(u)
	s.asking = nil
	waiting := s.waiting
	s.waiting = nil
	if a.Kind == core.ActionTried {
		s.creates, s.seen = p.Creates, p.Seen
		told := c.outbox.Emit(core.ActionTried)
		told.Body = c.outbox.Keep(a.Body)
		if p.Creates == capability.Ignored {
			told.Reason = core.ReasonNoCreate
		}
		c.sweepTried(capability.BetweenWrites)
	}
	for _, cl := range waiting {
		if cl.state == claimEnded {
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
	case !cl.state.isPending():
	case reason == core.ReasonNone || reason == core.ReasonLimit && cl.pending.left(c) != 0:
		if cl.protocol == core.ProtocolLastWriter { // of work, which asks for another reason
			c.ask(cl)
			return
		}
		c.resolveStore(cl) // after a refusal by its own limit the store has answered before: a waiter carries on
	default:
		if w, ok := cl.as.(*workRole); ok {
			w.notTried(c, cl, reason, class)
			return
		}
		c.refuse(cl, reason, class)
	}
}

// stepped implements owner.
func (s *abilities) stepped(_ *Client, u *unit) { s.own = u.machine.(*capability.Prober).Own }

// keeps implements owner.
func (s *abilities) keeps() bool { return false }

// sweepTried removes the object that was created instead of the record, if there may be one.
func (c *Client) sweepTried(after core.Duration) {
	if key := c.store.own; key != "" {
		c.store.own = ""
		c.cleanUp(key, after)
	}
}

// resolved notes the protocol and makes the machine.
func (c *Client) resolved(cl *claim, protocol core.Protocol) {
	b := cl.pending
	b.protocol, cl.protocol = protocol, protocol
	b.wait = b.left(c)
	b.at = c.now.Mono
	c.ask(cl)
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
func (c *Client) later(cl *claim, kind delayKind, at int64) {
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
		c.awaitStore(cl)
	case delayRead:
		cl.as.(*inspectRole).read(c, cl)
	case delayLeave:
		c.leaveTenure(cl)
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

func (c *Client) endDelay(cl *claim) {
	if cl.delay != nil {
		c.alarms.Disarm(&cl.delay.Alarm)
		cl.delay = nil
	}
}

const maxSlots = 1 << 16

// checkConfig lists what is wrong with a client's own Config.
func checkConfig(cfg *core.Config) error {
	text := ""
	require := func(ok bool, rule string) {
		switch {
		case ok:
		case text == "":
			text = rule
		default:
			text += "; " + rule
		}
	}
	own := core.Config{
		Machine: core.MachineClient, StampUnit: cfg.StampUnit, StampSpread: cfg.StampSpread, Boot: cfg.Boot,
		OwnStore: cfg.OwnStore, NoCreate: cfg.NoCreate, NoList: cfg.NoList, Samples: cfg.Samples,
		Watches: cfg.Watches, Remembers: cfg.Remembers, InFlight: cfg.InFlight, Transfers: cfg.Transfers,
		Host: cfg.Host, PID: cfg.PID, TID: cfg.TID, Seed: cfg.Seed,
	}
	require(*cfg == own, "a client has no protocol, name or terms: each command has its own")
	require(cfg.Seed != [16]byte{}, "seed: must be 16 fresh random bytes for each machine")
	require(octets.IsText(cfg.Host, core.MaxText), "host: at most 256 bytes of UTF-8")
	require(octets.IsText(cfg.PID, core.MaxText), "pid: at most 256 bytes of UTF-8")
	require(core.IsID(cfg.Boot), "boot: printable ASCII without quotes, slashes and backslashes")
	require(cfg.StampUnit >= 0, "stamp unit: not negative")
	require(cfg.StampSpread >= core.OneClock, "stamp spread: not negative")
	require(cfg.InFlight <= maxSlots && cfg.Transfers <= maxSlots, "in_flight, transfers: at most 65536")
	require(cfg.InFlight != 1, "in_flight: at least 2, of which one is for what keeps a claim")
	if text != "" {
		return &core.Error{Code: core.ErrorConfig, Text: text}
	}
	return nil
}

// config is the Config of a machine under a protocol, without a seed.
func (c *Client) config(kind core.MachineKind, protocol core.Protocol, t *core.Config) core.Config {
	cfg := *t
	cfg.Machine, cfg.Protocol = kind, protocol
	cfg.StampUnit, cfg.Host, cfg.PID, cfg.TID = c.cfg.StampUnit, c.cfg.Host, c.cfg.PID, c.cfg.TID
	cfg.TTL = t.TTL.Under(protocol)
	if protocol != core.ProtocolStrict {
		cfg.StampSpread, cfg.Label, cfg.Boot = 0, "", ""
		return cfg
	}
	cfg.AcquireMargin, cfg.FleetExpire, cfg.Renewal = 0, 0, 0
	cfg.Boot, cfg.OwnStore = c.cfg.Boot, c.cfg.OwnStore
	if cfg.StampSpread == 0 {
		cfg.StampSpread = c.cfg.StampSpread
	}
	// A store whose stamps are of a clock that can be set gives no sample: one step of
	// that clock by a TTL would kill every lease on it.
	if cfg.Expiry == 0 {
		cfg.Expiry = core.ExpiryCalibrated
	}
	if cfg.Expiry == core.ExpiryCalibrated && !c.cfg.Samples {
		cfg.Expiry = core.ExpiryObserved
	}
	return cfg.WithDefaults() // so that claims of one TTL share a session whether or not they name the margin
}

// check is what a command asks for, or what is wrong with it.
func (c *Client) check(now core.Instant, ev *core.Event) (*pending, error) {
	t := ev.Terms
	b := &pending{kind: ev.Kind, terms: *t, protocol: t.Protocol, wait: ev.Wait, at: now.Mono}
	own := core.Config{
		Protocol: t.Protocol, Name: t.Name, TTL: t.TTL, Margin: t.Margin, AcquireMargin: t.AcquireMargin, FleetExpire: t.FleetExpire,
		Renewal: t.Renewal, Expiry: t.Expiry, Holder: t.Holder, Role: t.Role, StampSpread: t.StampSpread, OnSession: t.OnSession,
		Epoch: t.Epoch, Owner: t.Owner, Why: t.Why, Now: t.Now, Label: t.Label, MemoFailures: t.MemoFailures, WithoutLease: t.WithoutLease,
	}
	if *t != own {
		return nil, &core.Error{Code: core.ErrorConfig, Text: ev.Kind.String() + ": terms have what only the client's own Config may have"}
	}
	if err := c.parseCommand(b, ev); err != nil {
		return nil, err
	}
	b.printed, b.since = c.recall(now, ev.Body)
	return b, b.validate(c)
}

// parseCommand says which machine a command asks for, and in which role.
func (c *Client) parseCommand(b *pending, ev *core.Event) error {
	switch ev.Kind {
	case core.EventAcquire:
		b.machine, b.as = core.MachineLease, leaseRole{}
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
		return c.parsePermit(b, ev)
	case core.EventInvoke, core.EventRemote:
		return c.parseWork(b, ev)
	default:
		return c.parseInspect(b, ev)
	}
	return nil
}

// fillJoinTerms fills in the terms of a claim on a lease that exists, which has its own session:
// a strict one has an epoch.
func (b *pending) fillJoinTerms() {
	b.terms.OnSession = false
	switch {
	case b.protocol != 0:
	case b.terms.Epoch != 0:
		b.protocol = core.ProtocolStrict
	default:
		b.protocol = core.ProtocolLastWriter
	}
}

// validate refuses terms that no protocol asked for accepts, before any request. Terms that
// only one of two accept are judged when the protocol is known.
func (b *pending) validate(c *Client) (err error) {
	for _, protocol := range [...]core.Protocol{core.ProtocolLastWriter, core.ProtocolStrict} {
		if b.protocol != 0 && b.protocol != protocol {
			continue
		}
		cfg := c.config(b.machine, protocol, &b.terms)
		cfg.Seed[0] = 1 // each machine gets its own
		cfg = cfg.WithDefaults()
		if err = cfg.Validate(); err == nil {
			return nil
		}
	}
	if b.protocol > core.ProtocolStrict {
		return &core.Error{Code: core.ErrorConfig, Text: "protocol: must be strict, lastwriter, or none for auto"}
	}
	return err
}
