package core

// Invocation is the machine of one call of a piece of work: never the same work
// twice. It is made of the lease machines of either protocol: who wants the
// result drives one Lease after the other, a remote drives a Companion. It looks
// for the result before each attempt and again once the lease is its own, has
// the host launch the work, keeps the lease meanwhile, and ends with the result
// or without one. doc.go has its states and edges.
type Invocation struct {
	machine
	state InvocationState

	// inner is the lease or the companion, or nil; innerWake is when it wants to be
	// woken. before is how many requests earlier ones have issued.
	inner     part
	innerWake int64
	before    uint64
	bodies    []byte // of the requests of this Step
	said      spoken
	event     Event // of this Step, as the inner machine is told of it: its session goes with everything that we make of it

	// On the way to the lease.
	doing   errand
	stale   bool // told of a change while an attempt was under way
	lastTry bool // patience is over, or was none
	polls   int
	retries int
	class   Class // of the last unknown answer
	told    uint64
	warned  bool  // that TTLs differ
	watch   watch // of another's lease, and of its end, carried from one attempt to the next
	ended   watch
	sight   Sighting

	// From the launch on.
	holder  HolderID
	lost    Reason          // why the lease is not ours any more
	quits   bool            // cancelled while a put that nothing can shut out was under way
	failed  bool            // the work failed
	refusal Reason          // of what is refused once the lease is given back
	after   InvocationState // where giving the lease back leads
	tryBy   int64           // Mono: a result that the store does not take is given up then
	signs   signs
}

// errand says what the invocation's own request in flight is for.
type errand uint8

const (
	forResult    errand = iota // is there a result
	forFailure                 // is there what a failure came to
	forDelivery                // the result itself
	forTenure                  // lock.json, or the newest version's key
	forOwners                  // that version
	forCompanion               // a companion's beat
)

// spoken is what the inner machine said in this Step that ends something.
type spoken struct {
	held    bool
	adopted bool
	outOf   bool       // contact was lost
	ended   ActionKind // refused, lost, released, left or cannot_maintain
	why     Reason
	class   Class
}

// NewInvocation makes an invocation in state Idle, on the side that cfg.Role says.
func NewInvocation(cfg Config) (*Invocation, error) {
	cfg.Machine = MachineInvocation
	m, err := newMachine(cfg)
	if err != nil {
		return nil, err
	}
	seen := watch{cfg.SeenPrint, cfg.SeenSince}
	return &Invocation{machine: m, state: InvocationIdle, innerWake: unset, tryBy: unset, watch: seen, ended: seen}, nil
}

// String implements Machine.
func (v *Invocation) String() string { return v.state.String() }

// State is where the machine stands.
func (v *Invocation) State() InvocationState { return v.state }

// Idle implements Machine. While the work runs it waits for the host to tell of its end.
func (v *Invocation) Idle() bool {
	working := v.state > InvocationIdle && v.state < InvocationDone
	return !working && v.machine.Idle() && (v.inner == nil || v.inner.Idle())
}

// Step implements Machine.
func (v *Invocation) Step(now Instant, ev Event) ([]Action, error) {
	own, err := v.route(now, &ev)
	if err != nil {
		return nil, err
	}
	if !v.accepts(ev.Kind) {
		return nil, errEvent(v.state.String(), ev.Kind)
	}
	if ev.Kind == EventEnded && ev.Outcome != OutcomeYes && ev.Outcome != OutcomeNo {
		return nil, &Error{Code: ErrorEvent, Text: "ended: the outcome must be yes or no"}
	}
	before := v.now
	v.bodies = v.bodies[:0]
	v.begin(now)
	if v.inner != nil {
		// Its clock goes first: what it does not believe any more is not to be built on.
		if err := v.tell(v.event.Kind, false); err != nil {
			v.now = before
			return nil, err
		}
		v.heard()
	}
	switch ev.Kind {
	case EventBegin:
		v.start(&ev)
	case EventEnded:
		v.workEnded(&ev)
	case EventCancel, EventRelease:
		v.cancel(&ev)
	case EventAnswer:
		if own {
			if f, ok := v.land(&ev); ok {
				v.answer(&ev, f)
			}
		}
	case EventChanged:
		v.changed()
	case EventWoke:
		v.woke()
	}
	if v.inner != nil && v.innerIsOver() && v.inner.Idle() {
		v.forget()
	}
	return v.finish(), nil
}

// finish ends a Step with one wake for both.
func (v *Invocation) finish() []Action {
	if at := min(v.timers.earliest(), v.innerWake); at != unset {
		v.emit(ActionWake).At = at
	}
	return v.out
}

// accepts is the contract's table for commands.
func (v *Invocation) accepts(kind EventKind) bool {
	switch kind {
	case EventAnswer, EventChanged, EventWoke, EventCalled:
		return true
	case EventBegin:
		return v.state == InvocationIdle
	case EventEnded:
		return v.state == InvocationLaunched
	case EventCancel, EventRelease:
		return v.state != InvocationIdle
	}
	return false
}

// become moves along an edge of the table.
func (v *Invocation) become(to InvocationState) {
	checkMove(invocationEdges[:], v.state, to)
	v.state = to
	v.timers[timerNext] = unset
	v.abandon()
	if to >= InvocationReleasing {
		v.timers = newTimers()
	}
}

// route admits an event, says whether it answers a request of our own, and notes
// what the inner machine is to be told. Requests of our own have odd numbers, the
// inner machines' even ones, so that neither needs a table.
func (v *Invocation) route(now Instant, ev *Event) (own bool, err error) {
	v.event = *ev
	if ev.Kind != EventCalled || v.cfg.Protocol != ProtocolStrict {
		v.event.Kind = EventWoke
	}
	switch {
	case ev.Kind != EventAnswer:
		return false, v.admit(now, ev)
	case ev.Request&1 == 1:
		ev.Request = ev.Request/2 + 1
		return true, v.admit(now, ev)
	}
	at := uint64(ev.Request / 2)
	if at == 0 || at > v.before && (v.inner == nil || at-v.before > uint64(v.inner.base().issued)) {
		return false, &Error{Code: ErrorRequest, Text: "answer to a request that was never issued"}
	}
	if at > v.before {
		v.event.Kind, v.event.Request = EventAnswer, RequestID(at-v.before)
	}
	ev.Kind = EventWoke // what it answers is the inner machine's to say
	err = v.admit(now, ev)
	ev.Kind = EventAnswer
	return false, err
}

// tell steps the inner machine and passes on what it says, but for what only we
// are told: that it was refused. An error leaves everything as it was.
func (v *Invocation) tell(kind EventKind, brief bool) error {
	v.event.Kind, v.event.Brief, v.event.Wait = kind, brief, 0
	actions, err := v.inner.Step(v.now, v.event)
	if err != nil {
		return err
	}
	v.innerWake, v.said = unset, spoken{}
	for i := range actions {
		a := &actions[i]
		switch a.Kind {
		case ActionWake:
			v.innerWake = a.At
			continue
		case ActionHeld:
			v.said.held = true
			v.holder, v.lost = a.Holder, ReasonNone
		case ActionContactLost:
			v.said.outOf, v.lost = true, ReasonUnreachable
		case ActionAdopted:
			v.said.adopted = true
		case ActionRefused:
			v.said.ended, v.said.why, v.said.class = a.Kind, a.Reason, a.Class
			v.see(a.Sight)
			continue
		case ActionLost, ActionReleased, ActionLeft, ActionCannotMaintain:
			v.said.ended, v.said.why, v.said.class = a.Kind, a.Reason, a.Class
		}
		v.pass(a)
	}
	return nil
}

// pass makes an action of the inner machine ours. Its body is copied: it is told
// twice in some Steps, and may write the next one over it.
func (v *Invocation) pass(a *Action) {
	to := v.emit(a.Kind)
	*to = *a
	if a.Request == 0 {
		return
	}
	to.Request = RequestID(2 * (v.before + uint64(a.Request)))
	if len(a.Body) > 0 {
		from := len(v.bodies)
		v.bodies = append(v.bodies, a.Body...)
		to.Body = v.bodies[from:len(v.bodies):len(v.bodies)]
	}
}

// ask sends a request of our own.
func (v *Invocation) ask(why errand, verb ActionKind, key string, limit Duration) *Action {
	v.doing, v.key = why, key
	a := v.send(verb, limit)
	a.Request = 2*a.Request - 1
	return a
}

// drive makes an inner machine and gives it its first event.
func (v *Invocation) drive(kind MachineKind, first EventKind) {
	if v.inner != nil {
		v.forget()
	}
	cfg := v.cfg
	cfg.Machine = kind
	cfg.Seed = v.freshSeed()
	if kind == MachineLease {
		cfg.Role = RoleOwner
	}
	v.inner, v.innerWake = newPart(cfg), unset
	v.inner.base().deliberate = v.deliberate
	switch l := v.inner.(type) {
	case *Lease:
		l.watch, l.told, l.warned = v.watch, v.watch.print, v.warned
		l.races = v.polls // it has waited, so its claim is contended
	case *StrictLease:
		l.watch, l.endWatch, l.again = v.watch, v.ended, !v.lastTry
	}
	v.cfg.LastEpoch = 0 // true once
	v.order(first, false)
}

// newPart makes a lease or a companion of the protocol.
func newPart(cfg Config) (made part) {
	var err error
	switch isStrict := cfg.Protocol == ProtocolStrict; {
	case cfg.Machine == MachineLease && isStrict:
		made, err = NewStrictLease(cfg)
	case cfg.Machine == MachineLease:
		made, err = NewLease(cfg)
	case isStrict:
		made, err = NewStrictCompanion(cfg)
	default:
		made, err = NewCompanion(cfg)
	}
	must(err) // what we were made with was validated by the same rules
	return made
}

// order is tell of what the inner machine takes in the state that it is in.
func (v *Invocation) order(kind EventKind, brief bool) { must(v.tell(kind, brief)) }

// must is for what cannot fail.
func must(err error) {
	if err != nil {
		panic("mopslock: core: " + err.Error())
	}
}

// freshSeed is another seed for each machine that we make: two of one seed would
// be one holder.
func (v *Invocation) freshSeed() (seed [16]byte) {
	for i := range seed {
		seed[i] = byte(v.rng.next())
	}
	seed[15] |= 1 // not zero
	return seed
}

// forget drops an inner machine that is over.
func (v *Invocation) forget() {
	v.before += uint64(v.inner.base().issued)
	v.inner, v.innerWake = nil, unset
}

// innerIsOver reports that the inner machine will do nothing more.
func (v *Invocation) innerIsOver() bool {
	switch m := v.inner.(type) {
	case nil:
		return true
	case *Lease:
		return m.State() >= LeaseReleased
	case *StrictLease:
		return m.State() >= LeaseReleased
	case *Companion:
		return m.State() >= CompanionLeft
	case *StrictCompanion:
		return m.State() >= CompanionLeft
	}
	return false
}

// see keeps what a refused attempt saw, and since when it stood unchanged: the
// next one goes on from there.
func (v *Invocation) see(s *Sighting) {
	if s != nil {
		v.sight = *s
		detachSighting(&v.sight)
	}
	switch l := v.inner.(type) {
	case *Lease:
		v.watch, v.warned = l.watch, l.warned
	case *StrictLease:
		v.watch, v.ended = l.watch, l.endWatch
	}
}

// part is a machine that another one is made of.
type part interface {
	Machine
	base() *machine
}
