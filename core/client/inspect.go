package client

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
	"github.com/mopslock/mopslock/core/internal/lastwriter"
	"github.com/mopslock/mopslock/core/internal/outbox"
	"github.com/mopslock/mopslock/core/internal/register"
)

// watchPoll is how often a name is read that a person watches on a store that tells of
// nothing, or after a read that failed.
const watchPoll = core.Second

// inspectRole is the role of a claim that reads a name and takes no part: once, at every change, or to
// break what another holds.
type inspectRole struct {
	base.Shared
	kind    core.EventKind // look, watch or break
	terms   core.Terms
	wanted  core.Protocol  // 0 is however the name is kept
	strict  *core.Observed // what the versions say, while the record is read
	last    shown          // what a watch has shown; its state is 0 before the first
	failing bool           // a watch has told that it cannot read
	broken  bool           // the name is read for what has become of it
	epoch   core.Epoch     // of the break
}

// shown is what must change for a watch to show a name again.
type shown struct {
	state  core.Observation
	epoch  core.Epoch
	holder string
	remote bool // the last write was a companion's
}

// parseInspect fills in a claim that only reads, or breaks.
func (b *pending) parseInspect(ev *core.Event) error {
	t := &b.terms
	b.as = &inspectRole{kind: ev.Kind, terms: *t, wanted: b.query.Protocol}
	b.machine = core.MachineInspection
	b.query.Protocol = max(b.query.Protocol, core.ProtocolStrict) // one that does not exist is refused
	if ev.Kind != core.EventBreak {
		*t = core.Terms{Name: t.Name}
		return nil
	}
	if b.machine = core.MachineRevocation; t.Why == "" && b.as.(*inspectRole).wanted != core.ProtocolStrict {
		t.Why = "-" // lastwriter has no room for one; strict says later that it needs one
	}
	return nil
}

// begin implements role.
func (k *inspectRole) begin(c *Client, cl *claim) {
	cl.pending = nil
	cl.state.become(claimAsking)
	k.read(c, cl)
}

// read begins to read the name, or to break it if it is known how it is kept. Versions are
// found by a list: a store without one has none.
func (k *inspectRole) read(c *Client, cl *claim) {
	k.strict = nil
	switch {
	case k.wanted == core.ProtocolLastWriter, k.wanted == 0 && c.cfg.NoList:
		k.readRecord(c, cl)
	case k.wanted == core.ProtocolStrict && k.kind == core.EventBreak:
		k.breakVersion(c, cl)
	case c.cfg.NoList:
		cl.refuseStrict(c)
	default:
		k.run(c, cl, core.MachineInspection, core.Terms{Name: cl.name.text})
	}
}

// run begins a machine that does one thing.
func (k *inspectRole) run(c *Client, cl *claim, kind core.MachineKind, t core.Terms) {
	cl.protocol = core.ProtocolStrict
	cfg := machineConfig(&c.cfg, kind, cl.protocol, &t)
	m, err := c.machine(cfg)
	if err != nil {
		cl.refuseTerms(c, err)
		return
	}
	k.use(c, cl, m, core.EventBegin)
}

// use has a machine do its one thing. What only reads does not wait for a store that asks to
// be left alone, since somebody waits for it; a break writes, and waits.
func (k *inspectRole) use(c *Client, cl *claim, m base.Reporting, first core.EventKind) {
	cl.unit = &unit{machine: m, owner: cl, claim: cl.number, Sender: outbox.Sender{Direct: k.kind != core.EventBreak}}
	c.post(job{unit: cl.unit, kind: first})
}

func (k *inspectRole) readRecord(c *Client, cl *claim) {
	cl.protocol = core.ProtocolLastWriter
	k.use(c, cl, &lastwriter.Query{Key: cl.name.text + "/" + core.LockFile}, core.EventBegin)
}

func (k *inspectRole) breakVersion(c *Client, cl *claim) {
	if !canStrict(&c.cfg) {
		cl.refuseStrict(c)
		return
	}
	k.run(c, cl, core.MachineRevocation, k.terms)
}

// hear implements role.
func (k *inspectRole) hear(c *Client, cl *claim, a *core.Action) {
	u := cl.unit
	switch a.Kind {
	case core.ActionRefused, core.ActionSeen, core.ActionBroken, core.ActionReleased, core.ActionLost:
		u.drop(c)
		cl.unit = nil
	}
	switch {
	case k.broken:
		k.after(c, cl, a)
	case a.Kind == core.ActionBroken, a.Kind == core.ActionReleased: // in the name of its holder
		k.broke(c, cl, a.Epoch)
	case a.Kind == core.ActionLost: // since we looked
		to := *a
		to.Kind = core.ActionRefused
		if a.Reason == core.ReasonTaken {
			to.Reason = core.ReasonHeld
		}
		cl.conclude(c, &to)
	case a.Kind == core.ActionRefused && k.kind == core.EventWatch && a.Reason != core.ReasonCancelled &&
		(k.last.state != 0 || !a.Class.Permanent()):
		if !k.failing {
			to := c.outbox.Carry(a) // a read that failed; the next one may not
			to.Kind, to.Claim = core.ActionWarned, cl.number
		}
		k.failing = true
		k.again(c, cl, nil)
	case a.Kind == core.ActionRefused:
		cl.conclude(c, a)
	case a.Kind != core.ActionSeen:
	case cl.protocol == core.ProtocolStrict:
		k.seenVersions(c, cl, a)
	default:
		k.seenRecord(c, cl, a)
	}
}

// broke has who waits here take the name, and reads what has become of it.
func (k *inspectRole) broke(c *Client, cl *claim, epoch core.Epoch) {
	k.broken, k.epoch = true, epoch
	cl.name.wakeNext(c, 0)
	if cl.protocol == core.ProtocolLastWriter {
		k.readRecord(c, cl)
		return
	}
	k.run(c, cl, core.MachineInspection, core.Terms{Name: cl.name.text})
}

// after ends a break. If the name could not be read, it is broken all the same.
func (k *inspectRole) after(c *Client, cl *claim, a *core.Action) {
	switch a.Kind {
	case core.ActionSeen:
		k.show(c, cl, a)
	case core.ActionRefused:
	default:
		return
	}
	k.conclude(c, cl)
}

// conclude tells that a name is broken.
func (k *inspectRole) conclude(c *Client, cl *claim) {
	cl.conclude(c, &core.Action{Kind: core.ActionBroken, Epoch: k.epoch})
}

func (k *inspectRole) show(c *Client, cl *claim, a *core.Action) {
	to := c.outbox.Carry(a)
	to.Claim, to.Protocol = cl.number, cl.protocol
}

// seenVersions: if a strict lease is held, it is shown, and not an old client's record
// beside it.
func (k *inspectRole) seenVersions(c *Client, cl *claim, a *core.Action) {
	s := a.Observed
	if s.Capacity != 0 || s.State != core.ObservedVacant && s.State != core.ObservedReleased || k.wanted == core.ProtocolStrict {
		k.result(c, cl, s)
		return
	}
	seen := *s
	seen.Detach()
	k.strict = &seen
	k.readRecord(c, cl)
}

func (k *inspectRole) seenRecord(c *Client, cl *claim, a *core.Action) {
	s := a.Observed
	if v := k.strict; v != nil && (s.State == core.ObservedVacant || s.State == core.ObservedReleased && v.State == core.ObservedReleased) {
		cl.protocol = core.ProtocolStrict
		s = v
	}
	k.result(c, cl, s)
}

// result shows what was read, or goes on to break it.
func (k *inspectRole) result(c *Client, cl *claim, s *core.Observed) {
	a := core.Action{Kind: core.ActionSeen, Observed: s}
	switch k.kind {
	case core.EventLook:
		cl.conclude(c, &a)
	case core.EventBreak:
		k.breaks(c, cl, s)
	default:
		k.failing = false
		if now := (shown{s.State, s.Epoch, string(s.Holder), s.Remote}); now != k.last {
			k.last = now
			k.show(c, cl, &a)
			cl.watch(c, cl.name.text+"/"+core.LockFile, register.VersionKey(register.RegisterPrefix(cl.name.text), s.Epoch+1))
		}
		k.again(c, cl, s)
	}
}

// breaks goes on when it is known how the name is kept: a lock.json is released in the name
// of its holder.
func (k *inspectRole) breaks(c *Client, cl *claim, s *core.Observed) {
	a := core.Action{Kind: core.ActionRefused, Observed: s}
	switch {
	case cl.protocol == core.ProtocolStrict:
		k.breakVersion(c, cl)
		return
	case s.State == core.ObservedCorrupt: // it frees itself, by its age
		a.Reason, a.Class = core.ReasonUnusable, core.ClassOther
	case s.State != core.ObservedHeld && s.State != core.ObservedStale:
		a.Reason = core.ReasonVacant
	case k.terms.Holder != "" && string(s.Holder) != string(k.terms.Holder):
		a.Reason = core.ReasonHeld
	default:
		cfg := machineConfig(&c.cfg, core.MachineLease, core.ProtocolLastWriter, &core.Terms{
			Name: cl.name.text, Holder: core.HolderID(s.Holder), TTL: core.TTL(s.TTL), Role: core.RoleOwner,
		})
		m, err := c.machine(cfg)
		if err != nil {
			cl.refuseTerms(c, err)
			return
		}
		k.use(c, cl, m, core.EventRelease)
		return
	}
	cl.conclude(c, &a)
}

// conclude tells the one thing that a claim was for, and forgets the claim.
func (cl *claim) conclude(c *Client, a *core.Action) {
	cl.ended(c, a)
	cl.remove(c)
}

// again has a watch read once more: at a change, of which it may have been told while it read.
// If the host tells of no changes, or does not yet, or the read failed, that is after a while, which differs so that
// many do not read at one instant. If it does, time alone ends what is held: the name is read
// when that can be dead, or a TTL later.
func (k *inspectRole) again(c *Client, cl *claim, s *core.Observed) {
	at := c.now.Mono + int64(c.rng.Between(watchPoll-watchPoll/5, watchPoll+watchPoll/5))
	at = max(at, c.outbox.RestUntil())
	switch {
	case cl.missed:
		cl.missed, at = false, c.now.Mono
	case s == nil || !cl.isTold():
	case s.State == core.ObservedVacant || s.State == core.ObservedReleased || s.State == core.ObservedBroken && s.RecheckAt == 0:
		at = base.Unset
	case s.RecheckAt > c.now.Mono:
		at = max(at, s.RecheckAt)
	default:
		at = c.now.Mono + int64(max(core.Minute, s.TTL))
	}
	cl.later(c, delayRead, at)
}

// stepped implements role.
func (k *inspectRole) stepped(*Client, *claim) {}

// command implements role.
func (k *inspectRole) command(c *Client, cl *claim, o order) {
	switch {
	case o.kind == core.EventEnded:
	case k.broken: // it is too late
		k.conclude(c, cl)
	default:
		cl.refuse(c, core.ReasonCancelled, core.ClassNone)
	}
}

// stop implements role.
func (k *inspectRole) stop() core.EventKind { return core.EventCancel }
