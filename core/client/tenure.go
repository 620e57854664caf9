package client

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
	"github.com/mopslock/mopslock/core/internal/lastwriter"
	"github.com/mopslock/mopslock/core/internal/outbox"
	"github.com/mopslock/mopslock/core/internal/register"
)

// tidyPatience is how long a client that closes, or leaves a lease to another process, waits
// for the removal of superseded versions. Without the wait a process that lives for a moment,
// as in scripts, would remove none, and a name that is used in no other way would grow
// forever. A release does not wait: its machine goes on with the removal behind it.
const tidyPatience = core.Second / 2

// leaseRole is the role of a claim that acquires a lease, or releases one that was printed.
type leaseRole struct{ base.Shared }

// begin implements role.
func (leaseRole) begin(c *Client, cl *claim) {
	b := cl.pending
	cfg := c.config(b.machine, b.query.Protocol, &b.terms)
	first := core.Event{Kind: core.EventRelease}
	if b.kind == core.EventAcquire {
		first = core.Event{Kind: core.EventAcquire, Wait: b.wait}
		b.remember(&cfg)
	}
	c.make(cl, cfg, first)
}

// remember adds what this process, or an earlier one, knows of the name.
func (b *pending) remember(cfg *core.Config) {
	if b.query.Protocol == core.ProtocolStrict {
		cfg.LockFilePresent = b.query.LockFile
		cfg.LastEpoch, cfg.LastAt = b.last.epoch, b.last.at
		cfg.SeenFingerprint, cfg.SeenSince = b.printed, b.since
	}
}

// hear implements role.
func (leaseRole) hear(c *Client, cl *claim, a *core.Action) { c.tenure(cl, a) }

// stepped implements role.
func (leaseRole) stepped(c *Client, cl *claim) {
	if cl.delay != nil && !cl.isTidying() {
		c.alarms.Arm(&cl.delay.Alarm, cl.delay, c.now.Mono)
	}
}

// command implements role.
func (leaseRole) command(c *Client, cl *claim, o order) {
	kind := o.kind
	if kind == core.EventEnded {
		return
	}
	if cl.state.isStopping() {
		c.hurry(cl)
		return
	}
	if !cl.state.isHeld() && kind != core.EventRelease {
		kind = core.EventCancel
	} else if kind == core.EventCancel {
		kind = core.EventRelease
	}
	cl.state.stop()
	if kind == core.EventCancel {
		c.tell(cl, kind, 0)
		return
	}
	switch {
	case kind == core.EventLeave && cl.isTidying():
		c.later(cl, delayLeave, c.now.Mono+int64(tidyPatience))
	case kind == core.EventLeave:
		c.leaveTenure(cl)
	default:
		if u := c.unpark(cl); u != nil {
			c.step(u, core.Event{Kind: core.EventRelease, Brief: o.brief})
		}
	}
}

// hurry ends what a lease that was released or left still waits for, since the caller does not want to
// wait for it: one that leaves waits for no removal any more, and looks for a late renewal of ours are few.
func (c *Client) hurry(cl *claim) {
	if d := cl.delay; d != nil {
		c.alarms.Arm(&d.Alarm, d, c.now.Mono)
		return
	}
	if u := c.unpark(cl); u != nil {
		c.step(u, core.Event{Kind: core.EventRelease, Brief: true})
	}
}

// leaveTenure ends a claim whose lease goes on.
func (c *Client) leaveTenure(cl *claim) {
	c.over(cl)
	a := c.outbox.Emit(core.ActionLeft)
	a.Claim = cl.number
	c.remove(cl)
}

// stop implements role.
func (leaseRole) stop() core.EventKind { return core.EventRelease }

// isTidying reports whether the request under way is of a removal.
func (cl *claim) isTidying() bool {
	return cl.unit != nil && cl.state.isHeld() && cl.unit.machine.IsTidying()
}

// joinRole is the role of a claim that keeps a lease alive that another process acquired.
type joinRole struct{ base.Shared }

// begin implements role.
func (joinRole) begin(c *Client, cl *claim) {
	b := cl.pending
	c.make(cl, c.config(b.machine, b.query.Protocol, &b.terms), core.Event{Kind: core.EventAccompany})
}

// hear implements role.
func (joinRole) hear(c *Client, cl *claim, a *core.Action) { c.tenure(cl, a) }

// stepped implements role.
func (joinRole) stepped(*Client, *claim) {}

// command implements role.
func (joinRole) command(c *Client, cl *claim, o order) {
	if o.kind != core.EventEnded && !cl.state.isStopping() {
		cl.state.stop()
		c.tell(cl, core.EventLeave, 0)
	}
}

// stop implements role.
func (joinRole) stop() core.EventKind { return core.EventLeave }

// renewRole is the role of a claim that renews a printed lease once: held is told when the renewal
// stands, and then the machine leaves.
type renewRole struct {
	joinRole
	held core.Action // under lastwriter, whose joining is no write
}

// hear implements role.
func (r *renewRole) hear(c *Client, cl *claim, a *core.Action) {
	switch {
	case a.Kind == core.ActionHeld && cl.protocol == core.ProtocolLastWriter:
		r.held = *a
		return
	case a.Kind == core.ActionHeld && cl.state.isHeld(), a.Kind == core.ActionRenewed && cl.state.isHeld(), a.Kind == core.ActionAdopted:
		return
	case a.Kind == core.ActionRenewed:
		r.held.At = a.At
		c.tenure(cl, &r.held)
	case a.Kind == core.ActionContactLost: // a companion would go on trying
		if cl.state.isHeld() || cl.state == claimEnded {
			return
		}
		c.over(cl)
		to := c.outbox.Emit(core.ActionLost)
		to.Claim, to.Reason = cl.number, core.ReasonUnreachable
	default:
		c.tenure(cl, a)
		if a.Kind != core.ActionHeld {
			return
		}
	}
	cl.state.stop()
	c.post(job{claim: cl, kind: core.EventLeave})
}

// tenure takes a notice of a lease's or a companion's machine.
func (c *Client) tenure(cl *claim, a *core.Action) {
	switch a.Kind {
	case core.ActionWaiting:
		cl.state.waits()
		c.watch(cl, c.keyToWatch(cl, a.Observed))
		cl.waitsFor(c.now.Mono, a.Observed)
		c.saw(cl, a.Observed)
	case core.ActionHeld:
		c.nowHeld(cl, a)
		return
	case core.ActionAdopted:
		cl.epoch = a.Epoch
		c.watchAbove(cl)
	case core.ActionDeadline, core.ActionRenewed:
		if cl.cappedAt != 0 && a.Kind == core.ActionDeadline {
			return // it was told before the machine heard of the call
		}
		cl.at = a.At
	case core.ActionReleased:
		c.releasedBy(cl, a)
		c.ended(cl, a)
		c.wakeNextWaiter(cl.name, c.now.Mono)
		return
	case core.ActionRefused:
		c.saw(cl, a.Observed)
		c.ended(cl, a)
		return
	case core.ActionLost, core.ActionLeft, core.ActionCannotMaintain:
		c.ended(cl, a)
		return
	}
	c.say(cl, a)
}

// ended tells how a claim has ended, once.
func (c *Client) ended(cl *claim, a *core.Action) {
	if cl.state == claimEnded {
		return
	}
	to := c.outbox.Carry(a)
	to.Claim, to.Protocol = cl.number, cl.protocol
	if a.Kind == core.ActionRefused && a.Reason == core.ReasonUnreachable && a.Class == core.ClassNone {
		to.Class = core.ClassUnreachable // it was silent
	}
	c.over(cl)
}

// nowHeld takes that a lease or a companion's is held.
func (c *Client) nowHeld(cl *claim, a *core.Action) {
	c.noteHeld(cl, a)
	c.watchAbove(cl)
}

// noteHeld tells that a claim is held, and until when.
func (c *Client) noteHeld(cl *claim, a *core.Action) {
	cl.state.hold()
	cl.missed = false
	cl.belief = belief{at: a.At, epoch: a.Epoch, cappedAt: c.livesOn(cl.cappedAt)}
	if s := cl.session; s != nil && a.Session == "" {
		c.detachClaim(cl)
	} else if s != nil && a.Session == s.id {
		cl.on = s.number
	}
	to := c.outbox.Carry(a)
	to.Claim, to.Protocol, to.On = cl.number, cl.protocol, cl.on
	if cl.acquires() {
		to.Origin, to.Took = cl.handover.whence(c, cl.protocol, a.Token)
		cl.handover = nil
	}
	c.forget(cl.name)
}

// acquires reports whether the claim takes a name, and does not join who has it.
func (cl *claim) acquires() bool {
	switch as := cl.as.(type) {
	case leaseRole:
		return true
	case *workRole:
		return !as.remote
	}
	return false
}

// watchAbove watches what a break of a strict lease that is held makes. Of one on a
// session the session is called, and its call is watched.
func (c *Client) watchAbove(cl *claim) {
	if cl.protocol != core.ProtocolStrict || cl.on != 0 {
		c.unwatch(cl)
		return
	}
	c.watch(cl, c.versionKey(cl, cl.epoch+1))
}

// keyToWatch is what changes when the name is released: its record, or the version after
// the one that was seen.
func (c *Client) keyToWatch(cl *claim, s *core.Observed) string {
	if cl.protocol != core.ProtocolStrict {
		return cl.name.text + "/" + core.LockFile
	}
	return c.versionKey(cl, s.Epoch+1)
}

// versionKey is not made for a host that cannot watch it.
func (c *Client) versionKey(cl *claim, n core.Epoch) string {
	if !c.cfg.Watches {
		return ""
	}
	return register.VersionKey(register.RegisterPrefix(cl.name.text), n)
}

// handover keeps what a waiter has seen of the holder that it waits for. It tells a
// hand-over from a take-over once the waiter holds the name. nil has seen nothing.
type handover struct {
	epoch  core.Epoch // the newest that was seen, under strict
	given  bool       // the newest was released or broken
	looked int64      // Mono: when the last look was asked for that showed it not free
	freed  int64      // Mono: when this client released it; 0 if another did
	// Under lastwriter: what the latest look showed, and whether the waiter has put since
	// then. After a put it reads its own record.
	record core.Observation
	wrote  bool
}

// waitsFor begins to follow a holder, and begins again when the holder is another.
func (cl *claim) waitsFor(now int64, s *core.Observed) {
	if s != nil {
		given := s.State == core.ObservedReleased || s.State == core.ObservedBroken
		cl.handover = &handover{epoch: s.Epoch, given: given, looked: now}
	}
}

// follow takes the answer to a waiter's request, after the machine has judged it.
func (c *Client) follow(cl *claim, f *outbox.Flight, ev *core.Event) {
	h := cl.handover
	if h == nil || ev.Outcome == core.OutcomeUnknown {
		return
	}
	switch {
	case f.Verb == core.ActionPut:
		h.wrote = true
	case f.Verb == core.ActionGet && cl.protocol == core.ProtocolLastWriter && !h.wrote:
		h.record = lastwriter.Inspect(c.now, ev.Body, ev.Outcome == core.OutcomeNo, ev.Stamp).State
	}
	if cl.unit != nil && cl.unit.machine.IsWaiting() {
		h.looked, h.wrote = f.Asked, false
	}
}

// whence says from whom a name has come that is held now, and how long it was nobody's.
func (h *handover) whence(c *Client, protocol core.Protocol, token core.Epoch) (from core.Origin, took core.Duration) {
	switch {
	case h == nil:
		return core.OriginFree, 0
	case h.freed != 0:
		return core.OriginHere, core.Duration(c.now.Mono - h.freed)
	case h.fromDead(protocol, token):
		return core.OriginDead, 0
	}
	return core.OriginElsewhere, core.Duration(c.now.Mono - h.looked)
}

// fromDead reports whether nobody had given back what was taken.
func (h *handover) fromDead(protocol core.Protocol, token core.Epoch) bool {
	if protocol == core.ProtocolStrict { // a release is a version of its own, but not that of an old client
		return !h.given && h.epoch != 0 && token == h.epoch+1
	}
	return h.record == core.ObservedHeld || h.record == core.ObservedStale || h.record == core.ObservedCorrupt
}
