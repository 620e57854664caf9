package client

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
	"github.com/mopslock/mopslock/core/internal/lastwriter"
	"github.com/mopslock/mopslock/core/internal/outbox"
	"github.com/mopslock/mopslock/core/internal/register"
	"github.com/mopslock/mopslock/core/internal/resolve"
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
	cfg := machineConfig(&c.cfg, b.machine, b.query.Protocol, &b.terms)
	first := core.Event{Kind: core.EventRelease}
	if b.query.Use == resolve.Lease {
		first = core.Event{Kind: core.EventAcquire, Wait: b.wait}
		b.remember(&cfg)
	}
	cl.make(c, cfg, first)
}

// remember adds what this process, or an earlier one, knows of the name.
func (b *pending) remember(cfg *core.Config) {
	if b.query.Protocol.HasRegister() {
		cfg.LockFilePresent = b.query.LockFile && b.query.Protocol == core.ProtocolStrict
		cfg.LastEpoch, cfg.LastAt = b.last.epoch, b.last.at
		cfg.SeenFingerprint, cfg.SeenSince = b.printed, b.since
	}
}

// hear implements role.
func (leaseRole) hear(c *Client, cl *claim, a *core.Action) { cl.tenure(c, a) }

// stepped implements role.
func (leaseRole) stepped(c *Client, cl *claim) {
	if cl.delay != nil && !cl.isTidying() {
		c.alarms.Arm(&cl.delay.Alarm, cl.delay, c.now.Mono)
	}
}

// command implements role.
func (r leaseRole) command(c *Client, cl *claim, o order) {
	kind := o.kind
	if kind == core.EventEnded {
		return
	}
	if cl.state.isStopping() {
		r.hurry(c, cl)
		return
	}
	if !cl.state.isHeld() && kind != core.EventRelease {
		kind = core.EventCancel
	} else if kind == core.EventCancel {
		kind = core.EventRelease
	}
	cl.state.stop()
	if kind == core.EventCancel {
		cl.tell(c, kind, 0)
		return
	}
	switch {
	case kind == core.EventLeave && cl.isTidying():
		cl.later(c, delayLeave, c.now.Mono+int64(tidyPatience))
	case kind == core.EventLeave:
		r.leave(c, cl)
	default:
		if u := cl.unpark(); u != nil {
			u.step(c, core.Event{Kind: core.EventRelease, Brief: o.brief})
		}
	}
}

// hurry ends what a lease that was released or left still waits for, since the caller does not want to
// wait for it: one that leaves waits for no removal any more, and looks for a late renewal of ours are few.
func (leaseRole) hurry(c *Client, cl *claim) {
	if d := cl.delay; d != nil {
		c.alarms.Arm(&d.Alarm, d, c.now.Mono)
		return
	}
	if u := cl.unpark(); u != nil {
		u.step(c, core.Event{Kind: core.EventRelease, Brief: true})
	}
}

// leave ends a claim whose lease goes on.
func (leaseRole) leave(c *Client, cl *claim) {
	cl.over(c)
	a := c.outbox.Emit(core.ActionLeft)
	a.Claim = cl.number
	cl.remove(c)
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
	cl.make(c, machineConfig(&c.cfg, b.machine, b.query.Protocol, &b.terms), core.Event{Kind: core.EventAccompany})
}

// hear implements role.
func (joinRole) hear(c *Client, cl *claim, a *core.Action) { cl.tenure(c, a) }

// stepped implements role.
func (joinRole) stepped(*Client, *claim) {}

// command implements role.
func (joinRole) command(c *Client, cl *claim, o order) {
	if o.kind != core.EventEnded && !cl.state.isStopping() {
		cl.state.stop()
		cl.tell(c, core.EventLeave, 0)
	}
}

// stop implements role.
func (joinRole) stop() core.EventKind { return core.EventLeave }

// renewRole is the role of a claim that renews a printed lease once: held is told when the renewal
// stands, and then the machine leaves.
type renewRole struct {
	joinRole
	held core.Action // of a lock.json, whose joining is no write
}

// hear implements role.
func (r *renewRole) hear(c *Client, cl *claim, a *core.Action) {
	switch {
	case a.Kind == core.ActionHeld && cl.protocol != core.ProtocolStrict:
		r.held = *a
		return
	case a.Kind == core.ActionHeld && cl.state.isHeld(), a.Kind == core.ActionRenewed && cl.state.isHeld(), a.Kind == core.ActionAdopted:
		return
	case a.Kind == core.ActionRenewed:
		r.held.At = a.At
		cl.tenure(c, &r.held)
	case a.Kind == core.ActionContactLost: // a companion would go on trying
		if cl.state.isHeld() || cl.state == claimEnded {
			return
		}
		cl.over(c)
		to := c.outbox.Emit(core.ActionLost)
		to.Claim, to.Reason = cl.number, core.ReasonUnreachable
	default:
		cl.tenure(c, a)
		if a.Kind != core.ActionHeld {
			return
		}
	}
	cl.state.stop()
	c.post(job{claim: cl, kind: core.EventLeave})
}

// tenure takes a notice of a lease's or a companion's machine.
func (cl *claim) tenure(c *Client, a *core.Action) {
	switch a.Kind {
	case core.ActionWaiting:
		cl.state.waits()
		cl.watch(c, cl.name.keyToWatch(c, cl.protocol, a.Observed))
		cl.handover = cl.handover.follows(c.now.Mono, a.Observed)
		cl.saw(c, a.Observed)
	case core.ActionHeld:
		cl.noteHeld(c, a)
		cl.watchAbove(c)
		return
	case core.ActionAdopted:
		cl.epoch = a.Epoch
		cl.watchAbove(c)
	case core.ActionDeadline, core.ActionRenewed:
		if cl.cappedAt != 0 && a.Kind == core.ActionDeadline {
			return // it was told before the machine heard of the call
		}
		cl.at = a.At
	case core.ActionReleased:
		cl.releasedBy(c, a)
		cl.ended(c, a)
		cl.name.wakeNext(c, c.now.Mono)
		return
	case core.ActionRefused:
		cl.saw(c, a.Observed)
		cl.ended(c, a)
		return
	case core.ActionLost, core.ActionLeft, core.ActionCannotMaintain:
		cl.ended(c, a)
		return
	}
	cl.say(c, a)
}

// ended tells how a claim has ended, once.
func (cl *claim) ended(c *Client, a *core.Action) {
	if cl.state == claimEnded {
		return
	}
	to := c.outbox.Carry(a)
	to.Claim, to.Protocol = cl.number, cl.protocol
	if a.Kind == core.ActionRefused && a.Reason == core.ReasonUnreachable && a.Class == core.ClassNone {
		to.Class = core.ClassUnreachable // it was silent
	}
	cl.over(c)
}

// noteHeld tells that a claim is held, and until when.
func (cl *claim) noteHeld(c *Client, a *core.Action) {
	cl.state.hold()
	cl.missed = false
	cl.belief = belief{at: a.At, epoch: a.Epoch, cappedAt: c.livesOn(cl.cappedAt)}
	if s := cl.session; s != nil && a.Session == "" {
		cl.detach(c)
	} else if s != nil && a.Session == s.id {
		cl.on = s.number
	}
	to := c.outbox.Carry(a)
	to.Claim, to.Protocol, to.On = cl.number, cl.protocol, cl.on
	if cl.acquires() {
		to.Origin, to.Took = cl.handover.whence(c.now.Mono, cl.protocol, a.Token)
		cl.handover = nil
	}
	cl.name.forget(c)
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
func (cl *claim) watchAbove(c *Client) {
	if !cl.protocol.HasRegister() || cl.on != 0 {
		cl.watch(c)
		return
	}
	cl.watch(c, cl.name.versionKey(c, cl.epoch+1))
}

// keyToWatch is what changes when the name is released: the version after the one that was seen, or
// lock.json, if that is what is in the way.
func (n *nameState) keyToWatch(c *Client, protocol core.Protocol, s *core.Observed) string {
	if !protocol.HasRegister() || protocol == core.ProtocolBridge && s.Epoch == 0 {
		return n.text + "/" + core.LockFile
	}
	return n.versionKey(c, s.Epoch+1)
}

// versionKey is not made for a host that cannot watch it.
func (n *nameState) versionKey(c *Client, epoch core.Epoch) string {
	if !c.cfg.Watches {
		return ""
	}
	return register.VersionKey(register.RegisterPrefix(n.text), epoch)
}

// follow takes the answer to a waiter's request, after the machine has judged it.
func (cl *claim) follow(c *Client, f *outbox.Flight, ev *core.Event) {
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
