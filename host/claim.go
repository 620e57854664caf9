package host

import (
	"context"
	"errors"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/internal/loop"
	"github.com/mopslock/mopslock/host/internal/telemetry"
)

// claim is a lease, a companion or a permit, from the command that asks for it to its end.
type claim struct {
	loop.Numbered
	tenure

	state     claimState    // the loop's own
	asking    *asking       // nil once it is held or has ended
	ended     chan struct{} // closed when its end was told; nil until somebody waits for that
	onContact func(bool)
}

// asking is what a claim needs until it is held: not one of ten thousand that are.
type asking struct {
	settled   chan struct{} // closed when it is held, or will not be
	seen      *Status       // whom it waits for; nil: nobody was seen
	own       *tenure       // a lease on the same name, under which its caller waits
	refusal   error         // why it was cancelled, if not by its caller
	onWaiting func(Status)
}

// claimState is how far a claim has come.
type claimState uint8

const (
	claimAsked claimState = iota
	claimHeld
	claimSilent // held by a companion that has lost contact
	claimEnded
)

// newClaim is a claim that was not begun yet.
func (h *Host) newClaim(ctx context.Context, kind telemetry.Kind, terms *core.Terms) *claim {
	c := &claim{asking: &asking{settled: make(chan struct{})}}
	c.host, c.of, c.kind, c.name, c.ctx = h, c, kind, terms.Name, ctx
	c.protocol, c.ttl = terms.Protocol, terms.TTL
	if kind == telemetry.Lease {
		c.asking.own = h.ownOf(ctx, c.name)
	}
	return c
}

// ask begins a claim, and waits until it is held, or will not be, or ctx ends.
func (c *claim) ask(ctx context.Context, command core.Event) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	settled := c.asking.settled // of which the claim lets go
	question := c.host.telemetry.Ask(c.kind)
	err := c.host.begin(c, command, &loop.Caller{Ctx: ctx, Done: settled})
	if err == nil {
		err = c.await(ctx, settled)
	}
	if c.host.telemetry.Counts() {
		var protocol core.Protocol
		c.host.loop.Do(func() { protocol = c.protocol }) // of one that was given up it may change still
		question.Answer(protocol, outcomeOf(ctx, err))
	}
	return err
}

func (c *claim) await(ctx context.Context, settled <-chan struct{}) error {
	select {
	case <-settled:
	case <-ctx.Done():
		return c.abandon(ctx)
	}
	err := c.failure()
	if errors.Is(err, ErrReleased) || errors.Is(err, &Error{Kind: NotAcquired, Reason: core.ReasonCancelled}) {
		return ErrClosed // nobody else could end it so before the caller had it
	}
	return err
}

// abandon gives the claim up. If it is held this very moment it is given back.
func (c *claim) abandon(ctx context.Context) error {
	over := &Error{Name: c.name, of: c.subject()}
	c.host.loop.Do(func() {
		if c.asking != nil {
			over.Seen = c.asking.seen
		}
	})
	c.host.loop.Command(c, core.Event{Kind: core.EventCancel}, nil)
	return &waitError{over, context.Cause(ctx)}
}

// finish gives it back, and waits for the end: nil if that is a good one.
func (c *claim) finish(ctx context.Context, command core.EventKind) error {
	c.invalidate()
	ended := c.whenEnded()
	if whole, ok := c.of.(interface{ Cancel() }); ok { // a lease of work is not its own to end
		whole.Cancel()
	} else {
		c.host.loop.Command(c, core.Event{Kind: command}, &loop.Caller{Ctx: ctx, Done: ended})
	}
	select {
	case <-ended:
	case <-ctx.Done():
		select {
		case <-ended: // before ctx, perhaps
		default:
			return context.Cause(ctx)
		}
	}
	if err := c.failure(); !errors.Is(err, ErrReleased) {
		return err
	}
	return nil
}

// whenEnded is closed when the end was told.
func (c *claim) whenEnded() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended == nil {
		c.ended = make(chan struct{})
		if c.over {
			close(c.ended)
		}
	}
	return c.ended
}

// Hear implements loop.Claim.
func (c *claim) Hear(a *core.Action) (last bool) {
	switch a.Kind {
	case core.ActionWaiting:
		c.waits(a)
	case core.ActionHeld:
		c.held(a)
	case core.ActionRenewed:
		c.host.recordRenewed(&c.tenure)
		c.believe(a)
	case core.ActionDeadline:
		c.believe(a)
	case core.ActionAdopted:
		c.epoch.Store(uint64(a.Epoch))
	case core.ActionWarned:
		c.host.warn(c.name, a, c.Cause())
	case core.ActionContactLost:
		c.silence()
	case core.ActionReleased:
		c.conclude(&Error{Kind: Ended, Name: c.name, Reason: core.ReasonReleased, of: c.subject()})
	case core.ActionLeft:
		c.conclude(&Error{Kind: Ended, Name: c.name, of: c.subject()})
	case core.ActionRefused:
		c.refused(a)
	case core.ActionLost:
		c.lost(a.Reason, c.failed(Lost, a))
	case core.ActionCannotMaintain:
		c.conclude(c.failed(NothingToJoin, a))
	}
	return c.state == claimEnded
}

// waits takes whom the claim waits for, at first and at each change.
func (c *claim) waits(a *core.Action) {
	ask := c.asking
	if a.Observed == nil || ask == nil {
		return
	}
	seen := c.host.waitedFor(c.name, a.Observed)
	ask.seen = &seen
	if ask.own != nil && ask.own.context().Err() == nil {
		ask.refusal = &Error{Kind: NotAcquired, Name: c.name, Reason: core.ReasonHeld, Seen: &seen, of: ofOwn}
		c.host.loop.Later(func() { c.host.loop.Command(c, core.Event{Kind: core.EventCancel}, nil) })
		return
	}
	if tell := ask.onWaiting; tell != nil {
		c.host.loop.Later(func() { tell(seen) })
	}
}

// held takes that it is held, or joined once more.
func (c *claim) held(a *core.Action) {
	again := c.state != claimAsked
	if again {
		c.host.recordRenewed(&c.tenure)
	}
	c.hold(a)
	silent := c.state == claimSilent
	c.state = claimHeld
	switch {
	case !again:
		c.host.recordHeld(&c.tenure, a)
		c.settle()
	case silent:
		c.tellContact(true)
	}
}

// settle wakes the caller that asks.
func (c *claim) settle() {
	if c.asking != nil {
		c.host.loop.Signal(c.asking.settled)
		c.asking = nil
	}
}

// silence takes that a companion has lost contact. It goes on.
func (c *claim) silence() {
	c.state = claimSilent
	c.host.record(func(r *telemetry.Recorder) { r.ContactLost(c.name) })
	c.tellContact(false)
}

func (c *claim) tellContact(contact bool) {
	if tell := c.onContact; tell != nil {
		c.host.loop.Later(func() { tell(contact) })
	}
}

// refused takes that nothing was acquired.
func (c *claim) refused(a *core.Action) {
	if a.Protocol != 0 {
		c.protocol = a.Protocol
	}
	if a.Reason == core.ReasonCancelled && c.asking != nil && c.asking.refusal != nil {
		c.conclude(c.asking.refusal)
		return
	}
	c.conclude(c.failed(NotAcquired, a))
}

// lost takes that it was lost. A companion that comes too late has lost nothing.
func (c *claim) lost(why core.Reason, err error) {
	if c.state == claimAsked {
		c.host.record(func(r *telemetry.Recorder) { r.NotOurs(c.name, why, err) })
	} else {
		c.host.recordLost(&c.tenure, why, err)
	}
	c.conclude(err)
}

// failed is what a notice says of how it ended.
func (c *claim) failed(kind Kind, a *core.Action) error {
	return c.host.failure(&Error{Kind: kind, Name: c.name, Err: c.Cause(), of: c.subject()}, a, c.protocol)
}

// conclude says how the claim has ended.
func (c *claim) conclude(err error) {
	if c.state == claimEnded {
		return
	}
	if c.state != claimAsked {
		c.host.recordGone(&c.tenure, err)
	}
	c.state = claimEnded
	c.mu.Lock()
	c.end(err)
	ended := c.ended // what is made from now on is closed from the beginning
	c.mu.Unlock()
	c.settle()
	if ended != nil {
		c.host.loop.Signal(ended)
	}
}

// Answered implements loop.Claim.
func (c *claim) Answered(r *loop.Request, ev *core.Event, _ error) {
	if ev.Outcome == core.OutcomeUnknown && r.Purpose == core.PurposeRenewal {
		c.host.recordRenewalFailed(c.holding())
	}
}

// Closing implements loop.Claim.
func (c *claim) Closing() { c.invalidate() }

// Left implements loop.Claim.
func (c *claim) Left() {
	if c.state == claimHeld && c.kind == telemetry.Lease {
		c.host.record(func(r *telemetry.Recorder) { r.LeftToExpire(c.holding()) })
	}
	c.conclude(ErrClosed)
}

// Stranded implements loop.Claim. What is held stays good until its deadline, and is lost then: the
// holder fences itself, as it would without a store. What was about to end ends at once.
func (c *claim) Stranded(now int64, command core.EventKind, cause error) (until int64) {
	until = c.until()
	held, late := c.state == claimHeld || c.state == claimSilent, now >= until
	a := core.Action{Kind: core.ActionRefused, Reason: core.ReasonUnusable}
	switch {
	case held && command == 0 && !c.guards():
		if !late {
			return until
		}
		if c.state == claimHeld {
			c.silence()
		}
		return core.Never // it would try forever, and this one cannot
	case held && command == 0 && !late && !c.isOver() && c.failure() == nil:
		return until
	case held && !c.guards():
		a = core.Action{Kind: core.ActionLeft}
	case held: // unreleased, it expires
		a = core.Action{Kind: core.ActionLost, Reason: core.ReasonUnreachable}
	case command != 0:
		a.Reason = core.ReasonCancelled
	case !c.guards():
		a = core.Action{Kind: core.ActionCannotMaintain, Reason: core.ReasonUnreadable}
	}
	c.strand(&a, cause)
	return 0
}

// strand tells what the client would have said, with the engine's error.
func (c *claim) strand(a *core.Action, cause error) {
	c.Fail(&EngineError{cause})
	c.Hear(a)
}

// about is its name, for people.
func (c *claim) about() string { return c.name }
