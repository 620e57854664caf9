// Package invocation has the machine of one call of a piece of work, which must not be
// done twice: it looks for the result, takes a lease or joins one, has the host launch
// the work, and ends with the result or without one. It drives the lease machines of
// either protocol and adds nothing to their rules. Its own are those of core/PROTOCOL.md
// with an I.
package invocation

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
	"github.com/mopslock/mopslock/core/internal/bridge"
	"github.com/mopslock/mopslock/core/internal/lastwriter"
	"github.com/mopslock/mopslock/core/internal/strict"
)

// Invocation is the machine of one call of a piece of work: never the same work
// twice. It is made of the lease machines of either protocol: a caller that wants
// the result drives one Lease after the other, a remote drives a Companion. It looks
// for the result before each attempt and again once the lease is its own, has
// the host launch the work, keeps the lease meanwhile, and ends with the result
// or without one. doc.go has its states and edges.
type Invocation struct {
	base.Machine
	state core.InvocationState

	// Inner is the lease or the companion, or nil; innerWake is when it wants to be
	// woken. before is how many requests earlier ones have issued.
	Inner     part
	InnerWake int64 `state:"due"`
	before    uint64
	bodies    []byte `state:"scratch: of the requests of this Step"`
	said      spoken
	event     core.Event `state:"scratch: of this Step"` // as the inner machine is told of it: its session goes with everything that we make of it

	// On the way to the lease.
	doing        purpose
	stale        bool // told of a change while an attempt was under way
	lastTry      bool // patience is over, or was none
	polls        int
	told         uint64
	turned       core.Reason    // why an attempt was refused that still cleans up, or none
	warned       bool           // that TTLs differ
	unstored     bool           // it was told that the store does not take a result
	unchanged    base.Unchanged // of another's lease, and of its end, carried from one attempt to the next
	endUnchanged base.Unchanged
	known        bridge.Known  // the same of a bridge
	observed     core.Observed `state:"exact: it is only told to people"`

	// From the launch on.
	Holder  core.HolderID
	lost    core.Reason          // why the lease is not ours any more
	quits   bool                 // cancelled while a put that nothing can shut out was under way
	failed  bool                 // the work failed
	refusal core.Reason          // of what is refused once the lease is given back
	after   core.InvocationState // where giving the lease back leads
	tryBy   int64                // Mono: a result that the store does not take is given up then
	beats   beats
}

// purpose says what the invocation's own request in flight is for.
type purpose uint8

const (
	forResult    purpose = iota // is there a result
	forFailure                  // is there the record of a failure
	forDelivery                 // the result itself
	forTenure                   // lock.json, or the newest version's key
	forOwners                   // that version
	forCompanion                // a companion's beat
)

// spoken is what the inner machine said in this Step that ends something.
type spoken struct {
	held    bool
	adopted bool
	outOf   bool            // contact was lost
	ended   core.ActionKind // refused, lost, released, left or cannot_maintain
	why     core.Reason
	class   core.Class
}

// New makes an invocation in state Idle, on the side that cfg.Role says.
func New(cfg core.Config) (*Invocation, error) {
	cfg.Machine = core.MachineInvocation
	m, err := base.New(cfg)
	if err != nil {
		return nil, err
	}
	seen := base.Unchanged{Fingerprint: cfg.SeenFingerprint, Since: cfg.SeenSince}
	return &Invocation{Machine: m, state: core.InvocationIdle, InnerWake: base.Unset, tryBy: base.Unset, unchanged: seen, endUnchanged: seen}, nil
}

// String implements Machine.
func (v *Invocation) String() string { return v.state.String() }

// WorkState implements base.Reporting.
func (v *Invocation) WorkState() core.InvocationState { return v.state }

// IsWaiting implements base.Reporting.
func (v *Invocation) IsWaiting() bool { return v.state == core.InvocationWaiting }

// UsesChange implements base.Reporting.
func (v *Invocation) UsesChange() bool {
	switch v.state {
	case core.InvocationWaiting, core.InvocationAwaiting, core.InvocationLaunched:
		return true
	}
	return false
}

// IsChecking reports whether its lease finds out if it was broken.
func (v *Invocation) IsChecking() bool {
	l, ok := v.Inner.(*strict.Lease)
	return ok && l.IsChecking()
}

// IsTidying implements base.Reporting.
func (v *Invocation) IsTidying() bool {
	l, ok := v.Inner.(*strict.Lease)
	return ok && l.IsTidying()
}

// Idle implements Machine. While the work runs it waits for the host to tell of its end.
func (v *Invocation) Idle() bool {
	working := v.state > core.InvocationIdle && v.state < core.InvocationDone
	return !working && v.Machine.Idle() && (v.Inner == nil || v.Inner.Idle())
}

// Step implements Machine.
func (v *Invocation) Step(now core.Instant, ev core.Event) ([]core.Action, error) {
	own, err := v.route(now, &ev)
	if err != nil {
		return nil, err
	}
	if !v.accepts(ev.Kind) {
		return nil, base.ErrEvent(v.state.String(), ev.Kind)
	}
	if ev.Kind == core.EventEnded && ev.Outcome != core.OutcomeYes && ev.Outcome != core.OutcomeNo {
		return nil, &core.Error{Code: core.ErrorEvent, Text: "ended: the outcome must be yes or no"}
	}
	before := v.Now
	v.bodies = v.bodies[:0]
	v.Begin(now)
	if v.Inner != nil {
		// Its clock goes first: what it does not believe any more is not to be built on.
		if err := v.tell(v.event.Kind, false); err != nil {
			v.Now = before
			return nil, err
		}
		v.heard()
	}
	switch ev.Kind {
	case core.EventBegin:
		v.start(&ev)
	case core.EventEnded:
		v.workEnded(&ev)
	case core.EventCancel, core.EventRelease:
		v.cancel(&ev)
	case core.EventAnswer:
		if own {
			if f, ok := v.Land(&ev); ok {
				v.answer(&ev, f)
			}
		}
	case core.EventChanged:
		v.changed()
	case core.EventWoke:
		v.woke()
	}
	if v.Inner != nil && v.innerIsOver() && v.Inner.Idle() {
		v.forget()
	}
	v.setReach()
	return v.finish(), nil
}

// finish ends a Step with one wake for both.
func (v *Invocation) finish() []core.Action {
	if at := min(v.Timers.Earliest(), v.InnerWake); at != base.Unset {
		v.Emit(core.ActionWake).At = at
	}
	return v.Out
}

// accepts is the contract's table for commands.
func (v *Invocation) accepts(kind core.EventKind) bool {
	switch kind {
	case core.EventAnswer, core.EventChanged, core.EventWoke, core.EventCalled:
		return true
	case core.EventBegin:
		return v.state == core.InvocationIdle
	case core.EventEnded:
		return v.state == core.InvocationLaunched
	case core.EventCancel, core.EventRelease:
		return v.state != core.InvocationIdle
	}
	return false
}

// become moves along an edge of the table.
func (v *Invocation) become(to core.InvocationState) {
	base.CheckMove(InvocationEdges[:], v.state, to)
	v.state = to
	v.Timers[base.TimerNext] = base.Unset
	v.Abandon()
	if to >= core.InvocationReleasing {
		v.Timers = base.NewTimers()
	}
}

// route admits an event, says whether it answers a request of our own, and notes
// what the inner machine is to be told. Requests of our own have odd numbers, the
// inner machines' even ones, so that neither needs a table. A bridge has two of its own
// under way: of every four numbers ours are the first.
func (v *Invocation) route(now core.Instant, ev *core.Event) (own bool, err error) {
	v.event = *ev
	if ev.Kind != core.EventCalled || v.Cfg.Protocol != core.ProtocolStrict {
		v.event.Kind = core.EventWoke
	}
	switch {
	case ev.Kind != core.EventAnswer:
		return false, v.Admit(now, ev)
	case ev.Request%4 == 1:
		ev.Request = ev.Request/4 + 1
		return true, v.Admit(now, ev)
	}
	at := uint64(ev.Request / 2)
	if ev.Request&1 == 1 || at == 0 || at > v.before && (v.Inner == nil || at-v.before > uint64(v.Inner.Base().Issued)) {
		return false, &core.Error{Code: core.ErrorRequest, Text: "answer to a request that was never issued"}
	}
	if at > v.before {
		v.event.Kind, v.event.Request = core.EventAnswer, core.RequestID(at-v.before)
	}
	ev.Kind = core.EventWoke // what it answers is the inner machine's to say
	err = v.Admit(now, ev)
	ev.Kind = core.EventAnswer
	return false, err
}

// tell steps the inner machine and passes on what it says, but for what only we
// are told: that it was refused. An error leaves everything as it was.
func (v *Invocation) tell(kind core.EventKind, brief bool) error {
	v.event.Kind, v.event.Brief, v.event.Wait = kind, brief, 0
	actions, err := v.Inner.Step(v.Now, v.event)
	if err != nil {
		return err
	}
	v.InnerWake, v.said = base.Unset, spoken{}
	v.Reach.Inherit(&v.Inner.Base().Reach)
	for i := range actions {
		a := &actions[i]
		switch a.Kind {
		case core.ActionWake:
			v.InnerWake = a.At
			continue
		case core.ActionHeld:
			v.said.held = true
			v.Reach.Serve()
			v.Holder, v.lost = a.Holder, core.ReasonNone
		case core.ActionContactLost:
			v.said.outOf, v.lost = true, core.ReasonUnreachable
		case core.ActionAdopted:
			v.said.adopted = true
		case core.ActionRefused:
			v.said.ended, v.said.why, v.said.class = a.Kind, a.Reason, a.Class
			v.see(a.Observed)
			continue
		case core.ActionLost, core.ActionReleased, core.ActionLeft, core.ActionCannotMaintain:
			v.said.ended, v.said.why, v.said.class = a.Kind, a.Reason, a.Class
		}
		v.pass(a)
	}
	return nil
}

// pass makes an action of the inner machine ours. Its body is copied: it is told
// twice in some Steps, and may write the next one over it.
func (v *Invocation) pass(a *core.Action) {
	to := v.Emit(a.Kind)
	*to = *a
	if a.Request == 0 {
		return
	}
	to.Request = core.RequestID(2 * (v.before + uint64(a.Request)))
	if len(a.Body) > 0 {
		from := len(v.bodies)
		v.bodies = append(v.bodies, a.Body...)
		to.Body = v.bodies[from:len(v.bodies):len(v.bodies)]
	}
}

// ask sends a request of our own.
func (v *Invocation) ask(why purpose, verb core.ActionKind, key string, limit core.Duration) *core.Action {
	v.doing, v.Key = why, key
	a := v.Send(verb, limit)
	a.Request = 4*a.Request - 3
	return a
}

// drive makes an inner machine and gives it its first event.
func (v *Invocation) drive(kind core.MachineKind, first core.EventKind) {
	if v.Inner != nil {
		v.forget()
	}
	cfg := v.Cfg
	cfg.Machine = kind
	cfg.Seed = v.RNG.Seed()
	v.Inner, v.InnerWake = newPart(cfg), base.Unset
	v.Inner.Base().Mutant = v.Mutant // nothing in a product
	v.Inner.Base().Reach.Inherit(&v.Reach)
	switch l := v.Inner.(type) {
	case *lastwriter.Lease:
		l.Unchanged, l.Told, l.Warned = v.unchanged, v.unchanged.Fingerprint, v.warned
		l.Races = v.polls // it has waited, so its attempt is contended
	case *strict.Lease:
		l.Unchanged, l.EndUnchanged, l.Again = v.unchanged, v.endUnchanged, !v.lastTry
	case *bridge.Lease:
		l.Known = v.known
	}
	v.Cfg.LastEpoch = 0 // true once
	v.order(first, false)
}

// newPart makes a lease or a companion of the protocol.
func newPart(cfg core.Config) (made part) {
	var err error
	switch leases := cfg.Machine == core.MachineLease; {
	case leases && cfg.Protocol == core.ProtocolStrict:
		made, err = strict.NewLease(cfg)
	case leases && cfg.Protocol == core.ProtocolBridge:
		made, err = bridge.NewLease(cfg)
	case leases:
		made, err = lastwriter.NewLease(cfg)
	case cfg.Protocol == core.ProtocolStrict:
		made, err = strict.NewCompanion(cfg)
	case cfg.Protocol == core.ProtocolBridge:
		made, err = bridge.NewCompanion(cfg)
	default:
		made, err = lastwriter.NewCompanion(cfg)
	}
	must(err) // what we were made with was validated by the same rules
	return made
}

// order is tell of what the inner machine takes in the state that it is in.
func (v *Invocation) order(kind core.EventKind, brief bool) { must(v.tell(kind, brief)) }

// must is for what cannot fail.
func must(err error) {
	if err != nil {
		panic("mopslock: core: " + err.Error())
	}
}

// forget drops an inner machine that is over.
func (v *Invocation) forget() {
	v.before += uint64(v.Inner.Base().Issued)
	v.Inner, v.InnerWake = nil, base.Unset
}

// innerIsOver reports that the inner machine will do nothing more.
func (v *Invocation) innerIsOver() bool {
	switch m := v.Inner.(type) {
	case nil:
		return true
	case *lastwriter.Lease:
		return m.State >= core.LeaseReleased
	case *strict.Lease:
		return m.State >= core.LeaseReleased
	case *bridge.Lease:
		return m.State >= core.LeaseReleased
	case *bridge.Companion:
		return m.State >= core.CompanionLeft
	case *lastwriter.Companion:
		return m.State >= core.CompanionLeft
	case *strict.Companion:
		return m.State >= core.CompanionLeft
	}
	return false
}

// see keeps what a refused attempt saw, and since when it stood unchanged: the
// next one goes on from there.
func (v *Invocation) see(s *core.Observed) {
	if s != nil {
		v.observed = *s
		v.observed.Detach()
	}
	switch l := v.Inner.(type) {
	case *lastwriter.Lease:
		v.unchanged, v.warned = l.Unchanged, l.Warned
	case *strict.Lease:
		v.unchanged, v.endUnchanged = l.Unchanged, l.EndUnchanged
	case *bridge.Lease:
		v.known = l.Known
	}
}

// part is a machine that another one is made of.
type part interface {
	core.Machine
	Base() *base.Machine
}
