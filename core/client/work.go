package client

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
	"github.com/mopslock/mopslock/core/internal/resolve"
)

// workRole is the role of a claim that wants the result of a piece of work, or does the work.
type workRole struct {
	base.Shared
	remote   bool
	memo     bool   // failures are kept too
	leaseKey string // what changes when the lease that is waited for does
	told     bool   // somebody in this client said that there is a result
	decided  bool   // found, absent or refused was told
}

// parseWork fills in a claim of a piece of work.
func (b *pending) parseWork(ev *core.Event) error {
	t := &b.terms
	w := &workRole{remote: ev.Kind == core.EventRemote, memo: t.MemoFailures}
	b.machine, b.as = core.MachineInvocation, w
	if err := core.CheckWork(t.Name); err != nil {
		return err
	}
	t.Role = core.RoleOwner
	if !w.remote {
		b.query.Use, b.query.Memoizes = resolve.Work, t.MemoFailures
		return nil
	}
	t.Role = core.RoleRemote
	b.query.Use, b.query.Leased = resolve.Remote, !t.WithoutLease
	if t.Holder == "" { // there is no lease, which any protocol keeps alike
		*t = core.Terms{Name: t.Name, Role: t.Role, WithoutLease: t.WithoutLease, MemoFailures: t.MemoFailures}
		b.query.Protocol = core.ProtocolLastWriter
	}
	b.fillJoinTerms()
	b.wait = t.TTL.Under(b.query.Protocol).Duration() // as a companion, it tries a store that does not answer for a TTL
	return nil
}

// begin implements role.
func (w *workRole) begin(c *Client, cl *claim) {
	b := cl.pending
	cfg := machineConfig(&c.cfg, b.machine, cl.protocol, &b.terms)
	cfg.Creates = cl.protocol == core.ProtocolStrict || c.cfg.OwnStore || c.store.creates == resolve.Honoured
	if !w.remote {
		b.remember(&cfg)
	}
	cl.make(c, cfg, core.Event{Kind: core.EventBegin, Wait: b.wait})
}

// hear implements role: the notices of the invocation, and those of the lease or the
// companion within.
func (w *workRole) hear(c *Client, cl *claim, a *core.Action) {
	switch a.Kind {
	case core.ActionFound, core.ActionAbsent, core.ActionRefused:
		if a.Kind == core.ActionFound {
			c.resultIsThere(cl)
		}
		cl.saw(c, a.Observed)
		w.conclude(c, cl, a)
	case core.ActionWaiting:
		w.leaseKey = ""
		if cl.protocol == core.ProtocolLastWriter || a.Observed != nil {
			w.leaseKey = cl.name.keyToWatch(c, cl.protocol, a.Observed)
		}
		cl.handover = cl.handover.follows(c.now.Mono, a.Observed)
		cl.saw(c, a.Observed)
		cl.say(c, a)
	case core.ActionHeld:
		cl.woken = false
		cl.noteHeld(c, a)
	case core.ActionReleased:
		cl.releasedBy(c, a)
		w.notHeld(c, cl)
		cl.say(c, a)
		cl.name.wakeNext(c, c.now.Mono)
	case core.ActionLost, core.ActionLeft, core.ActionCannotMaintain:
		w.notHeld(c, cl)
		if a.Kind != core.ActionLeft { // which is told when all is over
			cl.say(c, a)
		}
	case core.ActionDeadline, core.ActionRenewed:
		cl.tenure(c, a)
	case core.ActionAdopted:
		cl.epoch = a.Epoch
		cl.say(c, a)
	default:
		cl.say(c, a)
	}
}

// notHeld takes that the name is not held any more. The claim may take it again.
func (*workRole) notHeld(c *Client, cl *claim) {
	cl.state.holdsNot()
	cl.belief = belief{cappedAt: c.livesOn(cl.cappedAt)}
}

// say tells a notice of a claim.
func (cl *claim) say(c *Client, a *core.Action) {
	if cl.state == claimEnded {
		return
	}
	to := c.outbox.Carry(a)
	to.Claim = cl.number
	if a.Kind == core.ActionDeadline {
		to.On = cl.on
	}
}

// conclude tells the outcome, and hands on the news of a release that only this claim got.
// What is held is about to be given back.
func (w *workRole) conclude(c *Client, cl *claim, a *core.Action) {
	if cl.state != claimEnded && !w.decided {
		to := c.outbox.Carry(a)
		to.Claim, to.Protocol = cl.number, cl.protocol
		if a.Kind != core.ActionRefused {
			to.Protocol = 0
		}
	}
	w.decided = true
	cl.state.waitsNot()
	cl.passWakeOn(c)
}

// leave tells that nothing of a piece of work is left here.
func (c *Client) leave(cl *claim) {
	if _, ok := cl.as.(*workRole); ok {
		cl.over(c)
		c.outbox.Emit(core.ActionLeft).Claim = cl.number
	}
}

// resultIsThere tells all claims of this client that want the same result. They only read,
// so all are told at once, unlike waiters for a lease. One that was told tells no other.
func (c *Client) resultIsThere(from *claim) {
	if from.as.(*workRole).told {
		return
	}
	for _, cl := range from.name.claims {
		if w, ok := cl.as.(*workRole); ok && cl != from && !w.told {
			w.told = true
			c.post(job{claim: cl, kind: core.EventChanged})
		}
	}
}

// stepped implements role: what is waited for is watched, and asked of the session.
func (w *workRole) stepped(c *Client, cl *claim) {
	state := cl.unit.machine.WorkState()
	c.endTransfer(cl, state)
	switch state {
	case core.InvocationWaiting:
		cl.state.waits()
		cl.watch(c, w.keysToWatch(cl, w.leaseKey)...)
	case core.InvocationChecking: // of one who waits it is a look
	case core.InvocationAcquiring:
		if cl.session != nil {
			cl.session.open(c)
		}
	case core.InvocationAwaiting:
		cl.state.waitsNot()
		cl.watch(c, w.keysToWatch(cl, "")...)
	case core.InvocationSettling: // of one who awaits it is a look
		cl.state.waitsNot()
	case core.InvocationLaunched:
		cl.state.waitsNot()
		cl.missed = false
		if !cl.state.isHeld() {
			cl.watch(c)
			break
		}
		cl.watchAbove(c)
	default:
		cl.state.waitsNot()
		cl.watch(c)
	}
}

// ownLane is that of the invocation's own requests, transfers among them.
const ownLane = 1

// endTransfer has the host end a transfer that nobody wants any more. It is answered all
// the same, for which a machine that gives up waits: a put of a result could still land.
func (c *Client) endTransfer(cl *claim, state core.InvocationState) {
	switch {
	case state != core.InvocationDelivering:
		c.outbox.AbandonTransfer(cl.unit, ownLane)
	case cl.state.isStopping():
		c.outbox.EndTransfer(cl.unit, ownLane, c.now.Mono)
	}
}

// keysToWatch is what changes when somebody stores a result, or gives back the lease.
func (w *workRole) keysToWatch(cl *claim, lease string) []string {
	keys := []string{core.ResultKey(cl.name.text)}
	if w.memo {
		keys = append(keys, core.FailureKey(cl.name.text))
	}
	if lease != "" {
		keys = append(keys, lease)
	}
	return keys
}

// command implements role.
func (w *workRole) command(c *Client, cl *claim, o order) {
	if o.kind == core.EventEnded {
		if cl.unit.machine.WorkState() == core.InvocationLaunched {
			cl.unit.step(c, core.Event{Kind: core.EventEnded, Outcome: o.outcome, Result: o.result})
		}
		return
	}
	ev := core.Event{Kind: core.EventCancel}
	if o.kind == core.EventRelease || cl.state.isStopping() { // what is being given back is hurried
		ev = core.Event{Kind: core.EventRelease, Brief: o.brief || cl.state.isStopping()}
	}
	cl.state.stop()
	cl.unit.step(c, ev)
}

// stop implements role.
func (w *workRole) stop() core.EventKind { return core.EventRelease }
