package core

// Semaphore is the machine of all that one process does with one shared semaphore:
// the permits that it asks for, holds and gives back, and the limit that it sets.
// What waits at the same time is committed in one version. Its permits hang on the
// process's session, and are lost with that.
type Semaphore struct {
	register
	state SemaphoreState
	asks  []ask // in order of arrival
	known bool  // cur was the newest version at basis, and value is its
	mine  bool  // we made it

	// Looking.
	roster   roster
	reading  string // the session whose beat is read
	below    Epoch  // the version that is read for its value
	valueOf  Epoch  // the version whose value we have
	warnedOf Epoch  // the version that is no record
	moved    bool   // there was a newer version at the last poll
	polls    int
	answered bool // the store has said yes or no to something
	sampling bool // who tries once waits for a sample of the store's clock
	sampleBy int64

	// Committing.
	next    *value // what the create in flight carries, or the last one that was sent
	nonce   nonce
	rested  int64  // Mono: the basis that it rests on
	races   int    // that were lost in a row
	open    Epoch  // a create of ours can still land here; 0 is nowhere
	openOn  string // the session that it names
	refused bool   // the only create that was sent was refused for good

	closing  bool
	forced   bool  // what is being tidied up goes before what is asked for
	triedAt  Epoch // the newest version when it was begun last
	tidiedAt Epoch // and when it was done last
}

// ask is one thing that the host wants: a permit, or a limit.
type ask struct {
	number  uint64 // the host's
	id      string // the permit's
	phase   askPhase
	isLimit bool
	limit   uint64

	capacity, width, weight, spare uint64
	label                          string

	session string // on which it is asked for or held, "" is none yet
	since   int64  // Mono: when it was asked for
	until   int64  // Mono: the caller's patience, or unset
	sent    int64  // Mono: when the first create that carries it was sent
	lastTry bool   // a failed attempt is the end
	weighed bool   // a look has held it against a value
	blocked bool   // and there was no room for it
	enters  bool   // the value that is planned has it
	told    bool   // that it waits
	sampled bool   // it has waited for a sample of the store's clock
	races   int

	news  ActionKind // a notice that is due, or 0
	why   Reason
	quiet bool // nobody is to be told when it is out
}

// askPhase is where an ask stands.
type askPhase uint8

const (
	askWanted  askPhase = iota // not in the value, as far as we know
	askHeld                    // in it
	askLeaving                 // to be taken out
	askDone                    // to be forgotten once it was told
)

// NewSemaphore makes a semaphore in state Idle.
func NewSemaphore(cfg Config) (*Semaphore, error) {
	cfg.Machine, cfg.Protocol, cfg.OnSession = MachineSemaphore, ProtocolStrict, true
	r, err := newRegister(cfg)
	if err != nil {
		return nil, err
	}
	r.value = &value{}
	return &Semaphore{register: r, state: SemaphoreIdle}, nil
}

// String implements Machine.
func (s *Semaphore) String() string { return s.state.String() }

// State is where the machine stands.
func (s *Semaphore) State() SemaphoreState { return s.state }

// Idle implements Machine. What stands on a session waits for that.
func (s *Semaphore) Idle() bool { return s.register.Idle() && len(s.asks) == 0 }

// Step implements Machine.
func (s *Semaphore) Step(now Instant, ev Event) ([]Action, error) {
	if err := s.admit(now, &ev); err != nil {
		return nil, err
	}
	if err := s.admitAsk(&ev); err != nil {
		return nil, err
	}
	s.begin(now)
	s.hear(&ev)
	s.heedSession()
	switch ev.Kind {
	case EventAcquire, EventLimit:
		s.take(&ev)
	case EventRelease:
		s.eachOf(ev.Permit, s.giveBack)
	case EventCancel:
		s.eachOf(ev.Permit, s.cancel)
	case EventLeave:
		s.leave()
	case EventAnswer:
		if f, ok := s.land(&ev); ok {
			s.answer(&ev, f)
		}
	case EventChanged:
		if s.state == SemaphoreWaiting && !s.busy() {
			s.observe()
		}
	case EventWoke:
		s.woke()
	}
	s.proceed()
	s.flush()
	return s.finish(), nil
}

// admitAsk refuses what breaks the contract, before anything is changed.
func (s *Semaphore) admitAsk(ev *Event) error {
	var text string
	switch ev.Kind {
	case EventAnswer, EventWoke, EventChanged, EventCalled, EventLeave:
		return nil
	case EventRelease, EventCancel:
		if ev.Permit == 0 || s.ask(ev.Permit) != nil {
			return nil
		}
		text = "there is no permit of this number"
	case EventAcquire, EventLimit:
		switch {
		case s.closing || s.state == SemaphoreClosed:
			return errEvent(s.state.String(), ev.Kind)
		case ev.Permit == 0 || s.ask(ev.Permit) != nil:
			text = "each permit needs a number of its own"
		case len(ev.Label) > MaxLabel || !isPrintable(string(ev.Label)):
			text = "label: at most 128 printable bytes"
		case ev.Kind == EventAcquire:
			return CheckView(ev.Capacity, ev.Width)
		default:
			return nil
		}
	default:
		return errEvent(s.state.String(), ev.Kind)
	}
	return &Error{ErrorEvent, ev.Kind.String() + ": " + text}
}

// become moves along an edge of the table.
func (s *Semaphore) become(to SemaphoreState) {
	s.timers[timerNext] = unset
	if s.state == to {
		return
	}
	checkMove(semaphoreEdges[:], s.state, to)
	s.state = to
	if to == SemaphoreClosed {
		s.timers = newTimers()
		s.abandon()
	}
}

// busy reports that an answer is awaited that the next move depends on.
func (s *Semaphore) busy() bool { return s.flight.id != 0 && (s.forced || !s.tidying()) }

// ask is the ask of this number, or nil.
func (s *Semaphore) ask(number uint64) *ask {
	for i := range s.asks {
		if s.asks[i].number == number {
			return &s.asks[i]
		}
	}
	return nil
}

// byID is the ask of the permit with this id, or nil.
func (s *Semaphore) byID(id string) *ask {
	for i := range s.asks {
		if a := &s.asks[i]; a.id == id && !a.isLimit {
			return a
		}
	}
	return nil
}

// eachOf does something with one ask, or with all of them.
func (s *Semaphore) eachOf(number uint64, do func(*ask)) {
	for i := range s.asks {
		if a := &s.asks[i]; number == 0 || a.number == number {
			do(a)
		}
	}
}

// freshID is the id of a permit that was never in a value.
func (s *Semaphore) freshID() string {
	var seed [16]byte
	appendBE64(appendBE64(seed[:0], s.rng.next()), s.rng.next())
	return string(seedUUID(seed))
}

// take notes what the host asks for.
func (s *Semaphore) take(ev *Event) {
	a := ask{
		number: ev.Permit, isLimit: ev.Kind == EventLimit, limit: min(ev.StoreLimit, MaxCapacity*MaxWidth),
		capacity: uint64(ev.Capacity), width: uint64(ev.Width), weight: uint64(max(ev.Weight, 1)), spare: uint64(ev.Spare),
		label: escapedText(string(ev.Label), MaxLabel),
		since: s.now.Mono, until: unset, lastTry: ev.Kind == EventAcquire && ev.Wait == 0,
	}
	if ev.Wait > 0 {
		a.until = s.in(ev.Wait)
	}
	if !a.isLimit {
		a.id = s.freshID()
	} else {
		s.eachOf(0, func(b *ask) { // the last one counts, and who set another hears when that stands
			if b.isLimit {
				b.limit = a.limit
			}
		})
	}
	switch {
	case !a.isLimit && a.weight+a.spare > a.capacity*a.width:
		a.end(ActionRefused, ReasonTooHeavy)
	case len(s.asks) >= MaxAsked:
		a.end(ActionRefused, ReasonCrowded)
	case !s.answered && s.timers[timerReach] == unset:
		reach := FirstAnswerLimit
		if ev.Wait > 0 {
			reach = min(reach, ev.Wait)
		}
		s.timers[timerReach] = s.in(reach)
	}
	s.asks = append(s.asks, a)
}

// end is the last that the host hears of an ask.
func (a *ask) end(news ActionKind, why Reason) {
	a.phase = askDone
	if !a.quiet { // else it was told why before
		a.news, a.why = news, why
	}
}

// isSent reports that a create may still land, or has landed, that carries it.
func (a *ask) isSent() bool { return a.session != "" }

// giveBack ends a permit, or what was asked for.
func (s *Semaphore) giveBack(a *ask) {
	if a.phase == askHeld {
		a.phase = askLeaving
		if a.news == ActionHeld { // nobody was told yet that it is held
			a.news = 0
		}
		return
	}
	s.cancel(a)
}

// cancel ends an ask that was not given yet. Who asked is told at once; what may
// stand in the store all the same is taken out before the machine is idle.
func (s *Semaphore) cancel(a *ask) {
	if a.phase == askHeld && a.news == ActionHeld { // nobody was told yet
		a.phase = askWanted
	}
	s.refuse(a, ReasonCancelled)
}

func (s *Semaphore) refuse(a *ask, reason Reason) {
	if a.phase != askWanted {
		return
	}
	if !a.isSent() || s.bug(BugReleaseLeft) {
		a.end(ActionRefused, reason)
		return
	}
	a.phase, a.news, a.why, a.quiet = askLeaving, ActionRefused, reason, true
}

// refuseAll ends the asks that were not given and meet a condition.
func (s *Semaphore) refuseAll(reason Reason, meets func(*ask) bool) {
	for i := range s.asks {
		if a := &s.asks[i]; meets(a) {
			s.refuse(a, reason)
		}
	}
}

// leave gives everything back, and then the machine ends.
func (s *Semaphore) leave() {
	if s.state == SemaphoreClosed {
		return
	}
	s.closing = true
	s.eachOf(0, s.giveBack)
}

// heedSession: a permit may be relied on while its session is in force, and not a
// moment longer. What was asked for on one that is gone is asked for anew.
func (s *Semaphore) heedSession() {
	reason := s.session.end
	if reason == ReasonNone {
		reason = ReasonExpired
		if s.failing {
			reason = ReasonUnreachable
		}
	}
	for i := range s.asks {
		a := &s.asks[i]
		if a.session == "" || a.phase == askDone || a.session == s.session.id && s.inForce() || s.bug(BugPermitOutlivesSession) {
			continue
		}
		a.session = ""
		if a.phase == askWanted || a.news == ActionHeld { // nobody was told of it
			a.phase, a.news = askWanted, 0
			if !s.bug(BugIDReused) {
				a.id, a.weighed = s.freshID(), false
			}
			continue
		}
		a.end(ActionLost, reason)
	}
	if s.openOn != s.session.id || !s.inForce() {
		s.open, s.openOn = 0, "" // what may land hangs on a session that is dead
	}
}

// setPatience wakes us when the first caller's is over. Where nobody asks for
// anything the store need not answer either.
func (s *Semaphore) setPatience() {
	first, asked := unset, false
	for i := range s.asks {
		if a := &s.asks[i]; a.phase == askWanted {
			first, asked = min(first, a.until), true
		}
	}
	if s.timers[timerLimit] = first; !asked {
		s.timers[timerReach] = unset
	}
}

// woke handles every timer that is due, in the order of the timer table.
func (s *Semaphore) woke() {
	if s.due(timerReach) {
		s.timers[timerReach] = unset
		s.refuseAll(ReasonUnreachable, func(*ask) bool { return true })
	}
	if s.due(timerLimit) {
		s.outOfPatience()
	}
	if s.due(timerLook) { // there is more to tell
		s.timers[timerLook] = unset
	}
	if s.due(timerNext) && !s.busy() {
		s.timers[timerNext] = unset
		if s.hasWork() {
			s.observe()
		}
	}
}

// outOfPatience ends waits. An attempt that is under way runs to its end, which is
// bounded; it is then the last.
func (s *Semaphore) outOfPatience() {
	for i := range s.asks {
		a := &s.asks[i]
		if a.phase != askWanted || a.until > s.now.Mono {
			continue
		}
		a.until, a.lastTry = unset, true
		if !a.isSent() {
			s.refuse(a, s.whyWaited(a))
		}
	}
}

// whyWaited is why an ask was not given.
func (s *Semaphore) whyWaited(a *ask) Reason {
	switch {
	case !s.answered:
		return ReasonUnreachable
	case a.blocked && !s.failing:
		return ReasonFull
	}
	return ReasonLimit
}

// flush tells what is due, as far as one Step has room, and forgets what has ended.
func (s *Semaphore) flush() {
	const others = 3 // a request, a calibrate and the wake
	left := false
	for i := range s.asks {
		a := &s.asks[i]
		if a.news == 0 {
			continue
		}
		if len(s.out) >= MaxActions-others {
			left = true
			break
		}
		s.tell(a)
	}
	s.setPatience()
	if s.timers[timerLook] = unset; left {
		s.timers[timerLook] = s.now.Mono
	}
	kept := s.asks[:0]
	for i := range s.asks {
		if a := &s.asks[i]; a.phase != askDone || a.news != 0 {
			kept = append(kept, *a)
		}
	}
	clear(s.asks[len(kept):])
	if s.asks = kept; len(kept) == 0 && s.closing && s.open == 0 && s.state != SemaphoreClosed &&
		(s.state == SemaphoreObserving || !s.busy()) {
		s.become(SemaphoreClosed)
		s.emit(ActionLeft)
	}
}

// tell emits the notice that is due.
func (s *Semaphore) tell(a *ask) {
	n := s.emit(a.news)
	n.Permit, n.Reason = a.number, a.why
	switch a.news {
	case ActionHeld:
		n.Holder, n.Session, n.At = HolderID(a.id), a.session, s.session.until
		n.Epoch, n.Token, n.Total = s.cur.n, s.cur.n, s.value.held()
	case ActionReleased, ActionLimited:
		n.Epoch = s.cur.n
	case ActionRefused:
		switch a.why {
		case ReasonUnreachable, ReasonUnusable, ReasonLimit:
			n.Class = s.class
		case ReasonFull, ReasonCrowded:
			s.show(n)
		}
	case ActionWaiting:
		s.show(n)
	}
	a.news, a.why = 0, ReasonNone
}
