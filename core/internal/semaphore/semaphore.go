// Package semaphore has the machine of a shared counting semaphore: all that one process
// asks for, holds and gives back of it, in one record that the processes take turns to
// write. Its permits hang on the process's session. The rules are N1 to N9 of
// core/PROTOCOL.md; how the record is read stands in package register.
package semaphore

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
	"github.com/mopslock/mopslock/core/internal/octets"
	"github.com/mopslock/mopslock/core/internal/register"
)

// Semaphore is the machine of all that one process does with one shared semaphore:
// the permits that it asks for, holds and gives back, and the limit that it sets.
// Requests that wait at the same time are committed in one version. Its permits hang on the
// process's session, and are lost with that.
type Semaphore struct {
	register.Register
	state core.SemaphoreState
	Asks  []ask // in order of arrival
	known bool  // cur was the newest version at newestConfirmedAt, and value is its
	mine  bool  // we made it

	// Observing.
	sessions register.SessionTable
	reading  string     // the session whose beat is read
	below    core.Epoch // the version that is read for its value
	ValueOf  core.Epoch // the version whose value we have
	warnedOf core.Epoch // the version that is no record
	moved    bool       // there was a newer version at the last poll
	polls    int
	sampling bool // a caller that tries once waits for a sample of the store's clock
	sampleBy int64

	// Committing.
	next        *register.Value // what the create in flight carries, or the last one that was sent
	nonce       register.Nonce
	confirmedAt int64      // Mono: newestConfirmedAt when it was sent
	races       int        // that were lost in a row
	Open        core.Epoch // a create of ours can still land here; 0 is nowhere
	openOn      string     // the session that it names
	refused     bool       // the only create that was sent was refused for good

	Closing  bool
	forced   int        // requests of a collection that go before what is asked for
	forcedAt core.Epoch // the newest version when some went last
	triedAt  core.Epoch // the newest version when it was begun last
	TidiedAt core.Epoch // and when it was done last
}

// ask is one thing that the host wants: a permit, or a limit.
type ask struct {
	Number  uint64 // the host's
	ID      string `state:"id"` // the permit's
	Phase   AskPhase
	isLimit bool
	limit   uint64

	capacity, width, weight, spare uint64
	label                          string

	session string // on which it is asked for or held, "" is none yet
	since   int64  // Mono: when it was asked for
	until   int64  // Mono: the caller's patience, or unset
	sent    int64  // Mono: when the first create that carries it was sent
	lastTry bool   // a failed attempt is the end
	weighed bool   // an observation has held it against a value
	Blocked bool   // and there was no room for it
	enters  bool   // the value that is planned has it
	told    bool   // that it waits
	sampled bool   // it has waited for a sample of the store's clock
	races   int

	news  core.ActionKind // a notice that is due, or 0
	why   core.Reason
	quiet bool // no caller is to be told when it is out
}

// AskPhase is where an ask stands.
type AskPhase uint8

const (
	AskWanted  AskPhase = iota // not in the value, as far as we know
	AskHeld                    // in it
	AskLeaving                 // to be taken out
	askDone                    // to be forgotten once it was told
)

// New makes a semaphore in state Idle.
func New(cfg core.Config) (*Semaphore, error) {
	cfg.Machine, cfg.Protocol, cfg.OnSession = core.MachineSemaphore, core.ProtocolStrict, true
	r, err := register.New(cfg)
	if err != nil {
		return nil, err
	}
	r.Value = &register.Value{}
	return &Semaphore{Register: r, state: core.SemaphoreIdle}, nil
}

// String implements Machine.
func (s *Semaphore) String() string { return s.state.String() }

// State is where the machine stands.
func (s *Semaphore) State() core.SemaphoreState { return s.state }

// IsWaiting implements base.Reporting.
func (s *Semaphore) IsWaiting() bool { return s.state == core.SemaphoreWaiting }

// IsTidying implements base.Reporting: nothing else is asked while there is no work.
func (s *Semaphore) IsTidying() bool { return s.state == core.SemaphoreIdle && s.Flight.ID != 0 }

// WatchKey implements base.Reporting. The version after the newest that is known is made when
// somebody gives back.
func (s *Semaphore) WatchKey() (key string, looks bool) {
	switch s.state {
	case core.SemaphoreWaiting:
		return register.VersionKey(register.RegisterPrefix(s.Cfg.Name), s.Cur.N+1), false
	case core.SemaphoreIdle, core.SemaphoreClosed:
		return "", false
	}
	return "", true
}

// Idle implements Machine. What stands on a session waits for that.
func (s *Semaphore) Idle() bool { return s.Register.Idle() && len(s.Asks) == 0 }

// Step implements Machine.
func (s *Semaphore) Step(now core.Instant, ev core.Event) ([]core.Action, error) {
	if err := s.Admit(now, &ev); err != nil {
		return nil, err
	}
	if err := s.admitAsk(&ev); err != nil {
		return nil, err
	}
	s.Begin(now)
	s.ApplyHostState(&ev)
	s.applySession()
	switch ev.Kind {
	case core.EventAcquire, core.EventLimit:
		s.take(&ev)
	case core.EventRelease:
		s.eachOf(ev.Permit, s.giveBack)
	case core.EventCancel:
		s.eachOf(ev.Permit, s.cancel)
	case core.EventLeave:
		s.leave()
	case core.EventAnswer:
		if f, ok := s.Land(&ev); ok {
			s.answer(&ev, f)
		}
	case core.EventChanged:
		if s.state == core.SemaphoreWaiting && !s.busy() {
			s.observe()
		}
	case core.EventWoke:
		s.woke()
	}
	s.proceed()
	s.flush()
	return s.Finish(), nil
}

// admitAsk refuses what breaks the contract, before anything is changed.
func (s *Semaphore) admitAsk(ev *core.Event) error {
	var text string
	switch ev.Kind {
	case core.EventAnswer, core.EventWoke, core.EventChanged, core.EventCalled, core.EventLeave:
		return nil
	case core.EventRelease, core.EventCancel:
		if ev.Permit == 0 || s.ask(ev.Permit) != nil {
			return nil
		}
		text = "there is no permit of this number"
	case core.EventAcquire, core.EventLimit:
		switch {
		case s.Closing || s.state == core.SemaphoreClosed:
			return base.ErrEvent(s.state.String(), ev.Kind)
		case ev.Permit == 0 || s.ask(ev.Permit) != nil:
			text = "each permit needs a number of its own"
		case len(ev.Label) > core.MaxLabel || !octets.IsPrintable(string(ev.Label)):
			text = "label: at most 128 printable bytes"
		case ev.Kind == core.EventAcquire:
			return core.CheckView(ev.Capacity, ev.Width)
		default:
			return nil
		}
	default:
		return base.ErrEvent(s.state.String(), ev.Kind)
	}
	return &core.Error{Code: core.ErrorEvent, Text: ev.Kind.String() + ": " + text}
}

// Become moves along an edge of the table.
func (s *Semaphore) Become(to core.SemaphoreState) {
	s.Timers[base.TimerNext] = base.Unset
	if s.state == to {
		return
	}
	base.CheckMove(SemaphoreEdges[:], s.state, to)
	s.state = to
	if to == core.SemaphoreClosed {
		s.Timers = base.NewTimers()
		s.Abandon()
	}
}

// busy reports that an answer is awaited that the next move depends on.
func (s *Semaphore) busy() bool { return s.Flight.ID != 0 && (s.forced > 0 || !s.Tidying()) }

// ask is the ask of this number, or nil.
func (s *Semaphore) ask(number uint64) *ask {
	for i := range s.Asks {
		if s.Asks[i].Number == number {
			return &s.Asks[i]
		}
	}
	return nil
}

// ByID is the ask of the permit with this id, or nil.
func (s *Semaphore) ByID(id string) *ask {
	for i := range s.Asks {
		if a := &s.Asks[i]; a.ID == id && !a.isLimit {
			return a
		}
	}
	return nil
}

// eachOf does something with one ask, or with all of them.
func (s *Semaphore) eachOf(number uint64, do func(*ask)) {
	for i := range s.Asks {
		if a := &s.Asks[i]; number == 0 || a.Number == number {
			do(a)
		}
	}
}

// freshID is the id of a permit that was never in a value.
func (s *Semaphore) freshID() string {
	var seed [16]byte
	octets.AppendBE64(octets.AppendBE64(seed[:0], s.RNG.Next()), s.RNG.Next())
	return string(base.SeedUUID(seed))
}

// take notes what the host asks for.
func (s *Semaphore) take(ev *core.Event) {
	a := ask{
		Number: ev.Permit, isLimit: ev.Kind == core.EventLimit, limit: min(ev.StoreLimit, core.MaxCapacity*core.MaxWidth),
		capacity: uint64(ev.Capacity), width: uint64(ev.Width), weight: uint64(max(ev.Weight, 1)), spare: uint64(ev.Spare),
		label: register.EscapedText(string(ev.Label), core.MaxLabel),
		since: s.Now.Mono, until: base.Unset, lastTry: ev.Kind == core.EventAcquire && ev.Wait == 0,
	}
	if ev.Wait > 0 {
		a.until = s.In(ev.Wait)
	}
	if !a.isLimit {
		a.ID = s.freshID()
	} else {
		s.eachOf(0, func(b *ask) { // the last one counts, and a caller that set another hears when that stands
			if b.isLimit {
				b.limit = a.limit
			}
		})
	}
	switch {
	case !a.isLimit && a.weight+a.spare > a.capacity*a.width:
		a.end(core.ActionRefused, core.ReasonTooHeavy)
	case len(s.Asks) >= core.MaxAsked:
		a.end(core.ActionRefused, core.ReasonCrowded)
	default:
		within := core.FirstAnswerLimit
		if ev.Wait > 0 {
			within = min(within, ev.Wait)
		}
		s.Reach.Expect(s.Now.Mono, within)
	}
	s.Asks = append(s.Asks, a)
}

// end is the last that the host hears of an ask.
func (a *ask) end(news core.ActionKind, why core.Reason) {
	a.Phase = askDone
	if !a.quiet { // otherwise it was told why before
		a.news, a.why = news, why
	}
}

// isSent reports that a create may still land, or has landed, that carries it.
func (a *ask) isSent() bool { return a.session != "" }

// giveBack ends a permit, or what was asked for.
func (s *Semaphore) giveBack(a *ask) {
	if a.Phase == AskHeld {
		a.Phase = AskLeaving
		if a.news == core.ActionHeld { // no caller was told yet that it is held
			a.news = 0
		}
		return
	}
	s.cancel(a)
}

// cancel ends an ask that was not given yet. The caller is told at once; what may
// stand in the store all the same is taken out before the machine is idle.
func (s *Semaphore) cancel(a *ask) {
	if a.Phase == AskHeld && a.news == core.ActionHeld { // the caller was not told yet
		a.Phase = AskWanted
	}
	s.refuse(a, core.ReasonCancelled)
}

func (s *Semaphore) refuse(a *ask, reason core.Reason) {
	if a.Phase != AskWanted {
		return
	}
	if !s.mayBeIn(a) {
		a.end(core.ActionRefused, reason)
		return
	}
	a.Phase, a.news, a.why, a.quiet = AskLeaving, core.ActionRefused, reason, true
}

// refuseAll ends the asks that were not given and meet a condition.
func (s *Semaphore) refuseAll(reason core.Reason, meets func(*ask) bool) {
	for i := range s.Asks {
		if a := &s.Asks[i]; meets(a) {
			s.refuse(a, reason)
		}
	}
}

// leave gives everything back, and then the machine ends.
func (s *Semaphore) leave() {
	if s.state == core.SemaphoreClosed {
		return
	}
	s.Closing = true
	s.eachOf(0, s.giveBack)
}

// applySession: a permit may be relied on while its session is in force, and not a
// moment longer. A request on one that is gone is made anew.
func (s *Semaphore) applySession() {
	reason := s.Session.End
	if reason == core.ReasonNone {
		reason = core.ReasonExpired
		if s.Failing {
			reason = core.ReasonUnreachable
		}
	}
	for i := range s.Asks {
		a := &s.Asks[i]
		if a.session == "" || a.Phase == askDone || s.isKept(a) {
			continue
		}
		a.session = ""
		if a.Phase == AskWanted || a.news == core.ActionHeld { // the caller was not told of it
			a.Phase, a.news = AskWanted, 0
			s.askAnew(a)
			continue
		}
		a.end(core.ActionLost, reason)
	}
	if s.openOn != s.Session.ID || !s.InForce() {
		s.Open, s.openOn = 0, "" // what may land hangs on a session that is dead
	}
}

// setPatience wakes us when the first caller's is over, with the others or with the store.
// Where no caller asks for anything the store need not answer either.
func (s *Semaphore) setPatience() {
	first, reach, asked := base.Unset, base.Unset, false
	for i := range s.Asks {
		if a := &s.Asks[i]; a.Phase == AskWanted {
			first, reach, asked = min(first, a.until), min(reach, s.Reach.By(a.lastTry)), true
		}
	}
	if s.Timers[base.TimerLimit], s.Timers[base.TimerReach] = first, reach; !asked {
		s.Reach.Rest()
	}
}

// turnAway refuses those whose patience with the store is over.
func (s *Semaphore) turnAway() {
	for i := range s.Asks {
		if a := &s.Asks[i]; s.Reach.By(a.lastTry) <= s.Now.Mono {
			s.refuse(a, s.Reach.Why(s.Now.Mono, a.lastTry))
		}
	}
}

// woke handles every timer that is due, in the order of the timer table.
func (s *Semaphore) woke() {
	if s.Due(base.TimerReach) {
		s.turnAway()
	}
	if s.Due(base.TimerLimit) {
		s.outOfPatience()
	}
	if s.Due(base.TimerExtra) { // there is more to tell
		s.Timers[base.TimerExtra] = base.Unset
	}
	if s.Due(base.TimerNext) && !s.busy() {
		s.Timers[base.TimerNext] = base.Unset
		if s.hasWork() {
			s.observe()
		}
	}
}

// outOfPatience ends waits. An attempt that is under way runs to its end, which is
// bounded; it is then the last.
func (s *Semaphore) outOfPatience() {
	for i := range s.Asks {
		a := &s.Asks[i]
		if a.Phase != AskWanted || a.until > s.Now.Mono {
			continue
		}
		a.until, a.lastTry = base.Unset, true
		if !a.isSent() {
			s.refuse(a, s.whyWaited(a))
		}
	}
}

// whyWaited is why an ask was not given.
func (s *Semaphore) whyWaited(a *ask) core.Reason {
	switch {
	case !s.Reach.HasServed(base.Reads):
		return s.Reach.Reason(base.Reads)
	case a.Blocked && !s.Reach.IsFailing():
		return core.ReasonFull
	}
	return core.ReasonLimit
}

// flush tells what is due, as far as one Step has room, and forgets what has ended.
func (s *Semaphore) flush() {
	const others = 3 // a request, one for a sample and the wake
	left := false
	for i := range s.Asks {
		a := &s.Asks[i]
		if a.news == 0 {
			continue
		}
		if len(s.Out) >= core.MaxActions-others {
			left = true
			break
		}
		s.tell(a)
	}
	s.setPatience()
	if s.Timers[base.TimerExtra] = base.Unset; left {
		s.Timers[base.TimerExtra] = s.Now.Mono
	}
	kept := s.Asks[:0]
	for i := range s.Asks {
		if a := &s.Asks[i]; a.Phase != askDone || a.news != 0 {
			kept = append(kept, *a)
		}
	}
	clear(s.Asks[len(kept):])
	if s.Asks = kept; len(kept) == 0 && s.Closing && s.Open == 0 && s.state != core.SemaphoreClosed &&
		(s.state == core.SemaphoreObserving || !s.busy()) {
		s.Become(core.SemaphoreClosed)
		s.Emit(core.ActionLeft)
	}
}

// tell emits the notice that is due.
func (s *Semaphore) tell(a *ask) {
	n := s.Emit(a.news)
	n.Permit, n.Reason = a.Number, a.why
	switch a.news {
	case core.ActionHeld:
		n.Holder, n.Session, n.At = core.HolderID(a.ID), a.session, s.Session.Until
		n.Epoch, n.Token, n.Total = s.Cur.N, s.Cur.N, s.Value.Held()
	case core.ActionReleased, core.ActionLimited:
		n.Epoch = s.Cur.N
	case core.ActionRefused:
		switch a.why {
		case core.ReasonUnreachable, core.ReasonUnusable, core.ReasonLimit:
			n.Class = s.Reach.Class()
		case core.ReasonFull, core.ReasonCrowded:
			s.show(n)
		}
	case core.ActionWaiting:
		s.show(n)
	}
	a.news, a.why = 0, core.ReasonNone
}
