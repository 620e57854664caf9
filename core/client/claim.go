package client

import (
	"cmp"
	"slices"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
)

// claim is one thing that the host has asked for, from its command until nothing of it is
// left to be done. There may be ten thousand of them, so what only some need is made on demand.
type claim struct {
	base.Shared
	number  uint64 // rises with each that comes
	as      role
	name    *nameState
	unit    *unit       // of its own machine; nil while it is resolved or parked, or if it shares one
	parked  base.Parked `state:"constant: it is never stepped"` // a lease without a machine
	session *session    // on which it stands, or wants to
	pending *pending    // while it is pending
	watching
	handover *handover // of a waiter
	delay    *delay    // of one that waits for something before it goes on

	protocol core.Protocol
	looked   int64 // Mono: no old client had a record then; 0 is nothing
	calls    int   // that were not told to its machine yet
	belief

	state  claimState
	woken  bool // it was the one to be told of a release
	missed bool // a change was told while a look was under way
}

// belief is what a claim is held by, and until when it may be relied on. A piece of work may hold
// its name several times: each tenure has a belief of its own, and none while it is not held.
type belief struct {
	epoch    core.Epoch
	at       int64 // Mono: its own deadline
	on       uint64
	cappedAt int64 // Mono: after a call it is believed no longer than this; 0 is no cap
}

// role is what a claim does with its machine. It has no state of its own unless the claim
// is the only one that has it.
type role interface {
	core.Part
	// begin makes the machine, once it is known how the name is kept.
	begin(c *Client, cl *claim)
	// hear takes a notice of the machine.
	hear(c *Client, cl *claim, a *core.Action)
	// stepped follows the machine's state after a step.
	stepped(c *Client, cl *claim)
	// command takes release, cancel, leave and ended.
	command(c *Client, cl *claim, o order)
	// stop is the command that ends it when the client closes.
	stop() core.EventKind
}

// order is a command about a claim that exists. Outcome and result are of ended.
type order struct {
	kind    core.EventKind
	brief   bool
	outcome core.Outcome
	result  bool
}

// begin makes a claim and resolves how its name is kept.
func (c *Client) begin(b *pending, number uint64) {
	cl := &claim{number: number, as: b.as, pending: b}
	c.last = number
	c.claims = append(c.claims, cl)
	c.addClaim(cl, b.terms.Name)
	if b.printed != 0 {
		c.note(cl.name, func(r *remembered) { r.kept = b.printed }) // the host has it
	}
	if c.closing {
		cl.refuse(c, core.ReasonCancelled, core.ClassNone)
		return
	}
	cl.protocol = b.query.Protocol
	if _, looks := b.as.(*inspectRole); cl.protocol.HasRegister() && !looks && !canStrict(&c.cfg) {
		cl.refuseStrict(c)
		return
	}
	b.resolve(c, cl)
}

// claim is the one of a number, or nil, and its place in their order.
func (c *Client) claim(number uint64) (cl *claim, at int) {
	at, there := slices.BinarySearchFunc(c.claims, number, func(cl *claim, number uint64) int { return cmp.Compare(cl.number, number) })
	if !there {
		return nil, at
	}
	return c.claims[at], at
}

// make makes a claim's own machine and takes its first event.
func (cl *claim) make(c *Client, cfg core.Config, first core.Event) {
	machine, err := c.machine(cfg)
	if err != nil {
		// Terms that only the other protocol accepts: nobody could tell before.
		cl.refuseTerms(c, err)
		return
	}
	cl.pending = nil
	cl.state.become(claimAsking)
	cl.unit = &unit{machine: machine, owner: cl, claim: cl.number}
	switch {
	case cfg.Machine == core.MachineInvocation:
		cl.unit.Mask = fourLanes
	case cfg.Protocol == core.ProtocolBridge:
		cl.unit.Mask = twoLanes
	}
	if cfg.OnSession {
		cl.session = c.sessionFor(cfg.TTL, cfg.Margin)
		cl.session.attach(c)
		if cl.wants() {
			cl.session.open(c)
		}
	}
	cl.unit.step(c, first)
}

// hear implements owner.
func (cl *claim) hear(c *Client, _ *unit, a *core.Action) {
	switch {
	case cl.state == claimResolving:
		cl.pending.answered(c, cl, a)
	case a.Kind == core.ActionWarned:
		cl.say(c, a)
	default:
		cl.as.hear(c, cl, a)
	}
}

// stepped implements owner.
func (cl *claim) stepped(c *Client, u *unit) {
	if cl.state.isPending() {
		cl.recheck(c)
		return
	}
	cl.uncapBelief(c, u)
	cl.as.stepped(c, cl)
	switch {
	case u.gone:
	case u.machine.Idle():
		cl.remove(c)
	case cl.recheck(c):
	default:
		cl.park(c)
	}
}

// usesChange reports whether its machine would use changed at this moment.
func (cl *claim) usesChange() bool {
	switch {
	case cl.unit == nil:
		return cl.delay != nil && cl.delay.kind == delayRead
	case cl.state.isPending():
		return cl.unit.machine.IsWaiting()
	}
	return cl.unit.machine.UsesChange()
}

// recheck tells the machine of a change that was told while a look was under way.
func (cl *claim) recheck(c *Client) bool {
	if !cl.missed || !cl.usesChange() {
		return false
	}
	cl.missed = false
	c.post(job{claim: cl, kind: core.EventChanged})
	return true
}

// purpose is what a request of a unit's machine is for, as people are told.
func (u *unit) purpose(a *core.Action) core.Purpose {
	reads := base.DirectionOf(a.Kind) == base.Reads
	switch of := u.owner.(type) {
	case *storeClock, *abilities:
		return core.PurposeProbe
	case *session:
		switch of.state {
		case sessionInForce:
			return core.PurposeRenewal
		case sessionLeaving:
			return core.PurposeCleanup
		}
	case *semaphore:
		switch {
		case of.isTidying():
			return core.PurposeCleanup
		case reads && of.looksAgain():
			return core.PurposePoll
		}
	case *claim:
		return of.purpose(u, a.Request, reads)
	}
	return 0
}

// purpose is what a request of its machine is for. An invocation's own requests keep nothing.
func (cl *claim) purpose(u *unit, id core.RequestID, reads bool) core.Purpose {
	work := u.machine.WorkState()
	own := work != 0 && id&u.Mask == ownLane
	watch, _ := cl.as.(*inspectRole)
	switch {
	case !own && u.machine.IsTidying():
		return core.PurposeCleanup
	case cl.state == claimHeld && !own && work != core.InvocationReleasing:
		return core.PurposeRenewal
	case reads && (cl.state.isWaiting() || own && work == core.InvocationSettling || watch != nil && watch.last.state != 0):
		return core.PurposePoll
	}
	return 0
}

// park drops the machine of a lease that waits for its session alone.
func (cl *claim) park(c *Client) {
	if cl.session == nil || cl.delay != nil {
		return
	}
	if cl.parked = cl.unit.machine.Park(); cl.parked != nil {
		cl.unit.drop(c)
		cl.unit = nil
	}
}

// unpark is the unit of a claim, made again if the claim is parked; nil if it has none.
func (cl *claim) unpark() *unit {
	if cl.parked != nil {
		cl.unit = &unit{machine: cl.parked.Unpark(), owner: cl, claim: cl.number}
		cl.parked = nil
	}
	return cl.unit
}

// tell takes an event to a claim's machine, if it has one.
func (cl *claim) tell(c *Client, kind core.EventKind, epoch core.Epoch) {
	if kind == core.EventCalled {
		cl.calls--
	}
	if kind == core.EventChanged && !cl.usesChange() {
		cl.missed = cl.parked == nil
		return
	}
	if d := cl.delay; d != nil && d.kind == delayRead {
		c.alarms.Arm(&d.Alarm, d, c.now.Mono)
		return
	}
	if u := cl.unpark(); u != nil && !u.gone {
		u.step(c, core.Event{Kind: kind, Epoch: epoch})
	}
}

// command takes a command about a claim that exists.
func (cl *claim) command(c *Client, o order) {
	if cl.state.isPending() { // it is being resolved, and nothing of it is in the store
		if o.kind != core.EventEnded {
			cl.refuse(c, core.ReasonCancelled, core.ClassNone)
		}
		return
	}
	cl.as.command(c, cl, o)
}

// refuse ends a claim of which nothing is in the store.
func (cl *claim) refuse(c *Client, reason core.Reason, class core.Class) {
	cl.refused(c, reason, class)
	cl.remove(c)
}

func (cl *claim) refuseTerms(c *Client, err error) {
	text := err.Error()
	if e, ok := err.(*core.Error); ok { //nolint:errorlint // ours are not wrapped
		text = e.Text
	}
	cl.refused(c, core.ReasonTerms, core.ClassNone).Body = c.outbox.Keep([]byte(text))
	cl.remove(c)
}

func (cl *claim) refused(c *Client, reason core.Reason, class core.Class) *core.Action {
	cl.over(c)
	a := c.outbox.Emit(core.ActionRefused)
	a.Claim, a.Reason, a.Class, a.Protocol = cl.number, reason, class, cl.protocol
	return a
}

// over notes that the end of a claim is told. If it was the one to be told of a release and
// has got nothing by it, the next one is told.
func (cl *claim) over(c *Client) {
	held := cl.state.isHeld()
	cl.state.become(claimEnded)
	cl.watch(c)
	if !held {
		cl.passWakeOn(c)
	}
	cl.woken = false
}

// remove forgets a claim: its machine waits for nothing any more.
func (cl *claim) remove(c *Client) {
	c.leave(cl)
	if cl.unit != nil {
		cl.unit.drop(c)
	}
	cl.delay.end(c)
	cl.detach(c)
	cl.watch(c)
	cl.name.claims = without(cl.name.claims, cl)
	c.forgetIfUnused(cl.name)
	_, at := c.claim(cl.number)
	c.claims = cut(c.claims, at)
}

// relied is until when it may be relied on: its own deadline or the session's, whichever
// is later.
func (cl *claim) relied() int64 {
	if cl.on != 0 && cl.session != nil && cl.session.number == cl.on {
		return max(cl.at, cl.session.until)
	}
	return cl.at
}

// capBelief keeps the deadline where it is at this moment: the session was told that the claim
// was broken, and later renewals of the session say nothing of that.
func (cl *claim) capBelief(c *Client) {
	if !cl.state.isHeld() || cl.on == 0 || cl.cappedAt != 0 || !c.capsBelief() {
		return
	}
	cl.cappedAt = cl.relied()
	a := c.outbox.Emit(core.ActionDeadline)
	a.Claim, a.At = cl.number, cl.cappedAt
}

// uncapBelief ends that when the machine has found out whether it is so.
func (cl *claim) uncapBelief(c *Client, u *unit) {
	if cl.cappedAt == 0 || cl.state == claimEnded || cl.calls > 0 || c.isChecking(u.machine, u.IsArmed() && u.At <= cl.cappedAt) {
		return
	}
	cl.cappedAt = 0
	a := c.outbox.Emit(core.ActionDeadline)
	a.Claim, a.At, a.On = cl.number, cl.at, cl.on
}

// nameState is one name: the claims on it in the order in which they came.
type nameState struct {
	base.Shared
	text       string
	claims     []*claim
	semaphores []*semaphore
}

// addClaim puts a claim behind all others on its name.
func (c *Client) addClaim(cl *claim, name string) {
	n := c.names[name]
	if n == nil {
		n = &nameState{text: name}
		c.names[name] = n
	}
	n.claims = append(n.claims, cl)
	cl.name = n
}

// forgetIfUnused forgets a name on which there is nothing.
func (c *Client) forgetIfUnused(n *nameState) {
	if len(n.claims) == 0 && len(n.semaphores) == 0 {
		delete(c.names, n.text)
	}
}

// note changes what is remembered of a name.
func (c *Client) note(n *nameState, change func(*remembered)) {
	if old := c.memory.note(n.text, change); old != nil && old.kept != 0 {
		c.outbox.Emit(core.ActionForget).Key = old.name
	}
}

// wakeNext tells the longest waiter that a name was released. One is enough, and a crowd
// would only lose races; if that one ends without the name, the next one is told.
// freed is when this client released it, a Mono, or 0.
func (n *nameState) wakeNext(c *Client, freed int64) {
	for _, cl := range n.claims {
		if cl.state.isWaiting() && c.wakesWaiters() {
			cl.woken = true
			if cl.handover != nil {
				cl.handover.freed = freed
			}
			c.post(job{claim: cl, kind: core.EventChanged})
			return
		}
	}
}

// passWakeOn tells the next waiter of a release that brought a claim nothing.
func (cl *claim) passWakeOn(c *Client) {
	if !cl.woken {
		return
	}
	cl.woken = false
	freed := int64(0)
	if cl.handover != nil {
		freed = cl.handover.freed
	}
	cl.name.wakeNext(c, freed)
}

// releasedBy remembers a release that frees the name at once.
func (cl *claim) releasedBy(c *Client, a *core.Action) {
	if a.At != 0 && a.Epoch != 0 && cl.looked != 0 {
		c.note(cl.name, func(r *remembered) { r.released = released{a.Epoch, a.At, cl.looked} })
	}
}

// saw has the host remember what a waiter or a refused claim saw, if it is news.
func (cl *claim) saw(c *Client, s *core.Observed) {
	if s == nil || s.Fingerprint == 0 || cl.protocol != core.ProtocolStrict || !remembers(&c.cfg) || c.memory.kept(cl.name.text) == s.Fingerprint {
		return
	}
	c.note(cl.name, func(r *remembered) { r.kept = s.Fingerprint })
	a := c.outbox.Emit(core.ActionRemember)
	a.Key, a.Body = cl.name.text, c.outbox.Keep(appendSeen(nil, &c.cfg, c.now, s.Fingerprint, s.Since))
}

// forget: the name is held by us, or not to be judged by what was seen any more.
func (n *nameState) forget(c *Client) {
	if c.memory.kept(n.text) != 0 {
		c.outbox.Emit(core.ActionForget).Key = n.text
	}
	c.note(n, func(r *remembered) { r.kept = 0 })
}

// watch asks for changes of these keys and no others.
func (cl *claim) watch(c *Client, keys ...string) {
	if c.cfg.Watches {
		c.watches.set(&c.outbox, cl, keys...)
	}
}

// changed tells who watches a key. The first word of the host is that it watches: who waits
// looks once more then, since what changed before was not told; who holds does not.
func (c *Client) changed(key string) {
	by, first := c.watches.changed(key)
	for _, w := range by {
		switch w := w.(type) {
		case *claim:
			if !first || !w.state.isHeld() {
				c.post(job{claim: w, kind: core.EventChanged})
			}
		case *unit:
			if _, calls := w.owner.(*session); !first || !calls {
				c.post(job{unit: w, kind: core.EventChanged})
			}
		}
	}
}
