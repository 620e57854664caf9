package core

// Companion is the machine of a second owner: it joins a tenure that somebody
// else acquired, keeps it alive, and never releases it. Losing contact does not
// stop it; only what it reads can (doc.go has its states and edges).
type Companion struct {
	tenure
	state CompanionState

	rejoin     bool  // it was joined before: nothing but Lost or leave ends it now
	joinBy     int64 // Mono: unreadable so long, it cannot maintain
	rivalSince int64 // Mono since when another's claim has been in progress, or unset
	readStart  int64 // of the read that found the tenure expired
}

// NewCompanion makes a companion in state Idle; cfg.Holder is the tenure.
func NewCompanion(cfg Config) (*Companion, error) {
	cfg.Machine = MachineCompanion
	k, err := newTenure(cfg)
	if err != nil {
		return nil, err
	}
	return &Companion{tenure: k, state: CompanionIdle, rivalSince: unset}, nil
}

// String implements Machine.
func (c *Companion) String() string { return c.state.String() }

// State is where the machine stands.
func (c *Companion) State() CompanionState { return c.state }

// Step implements Machine.
func (c *Companion) Step(now Instant, ev Event) ([]Action, error) {
	if err := c.admit(now, &ev); err != nil {
		return nil, err
	}
	if !c.accepts(ev.Kind) {
		return nil, errEvent(c.state.String(), ev.Kind)
	}
	c.begin(now)
	if ev.Kind != EventLeave && c.due(timerDeadline) {
		c.pastDeadline()
	}
	switch ev.Kind {
	case EventAccompany:
		c.joinBy = c.in(c.cfg.TTL)
		c.become(CompanionJoining)
		c.read(c.joinLimit())
	case EventLeave:
		c.leave()
	case EventAnswer:
		if f, ok := c.land(&ev); ok {
			c.answer(&ev, f)
		}
	case EventWoke:
		if c.due(timerNext) {
			c.timers[timerNext] = unset
			c.next()
		}
	}
	return c.finish(), nil
}

// accepts is the contract's table for commands.
func (c *Companion) accepts(kind EventKind) bool {
	switch kind {
	case EventAnswer, EventChanged, EventWoke:
		return true
	case EventAccompany:
		return c.state == CompanionIdle
	case EventLeave:
		return c.state != CompanionIdle
	}
	return false
}

// become moves along an edge of the table.
func (c *Companion) become(to CompanionState) {
	checkMove(companionEdges[:], c.state, to)
	c.state = to
	c.timers[timerNext] = unset
	switch {
	case to >= CompanionLeft:
		c.timers = newTimers()
		c.abandon()
	case to == CompanionLeaving:
		c.timers[timerDeadline] = unset
	}
}

func (c *Companion) answer(ev *Event, f flight) {
	switch c.state {
	case CompanionJoining:
		c.joining(ev, f)
	case CompanionReviving:
		c.revived(ev)
	case CompanionDoubtful:
		c.readBack(ev)
	case CompanionVerifying:
		c.verified(ev)
	case CompanionJoined:
		c.joinedAnswer(ev, f)
	case CompanionLeaving:
		c.left()
	}
}

// next does what the state was waiting to do.
func (c *Companion) next() {
	if c.state == CompanionJoined {
		c.renew()
		return
	}
	c.read(c.joinLimit())
}

// joinLimit bounds a read by the TTL that joining may take.
func (c *Companion) joinLimit() Duration {
	return min(RequestLimit, c.cfg.TTL/3)
}

// joining applies the rules of joining, in their order.
func (c *Companion) joining(ev *Event, f flight) {
	switch ev.Outcome {
	case OutcomeUnknown:
		c.class = ev.Class
		c.unreadable()
		return
	case OutcomeNo:
		c.cannotMaintain(ReasonAbsent)
		return
	}
	parseRecord(ev.Body, &c.seen)
	c.classify(f)
}

// classify is the second half of joining: what the record itself says.
func (c *Companion) classify(f flight) {
	r := &c.seen
	if r.state != recordEmpty {
		c.note(c.observe())
	}
	switch {
	case r.noExpiry:
		c.cannotMaintain(ReasonNoExpiry)
	case r.state == recordReleased:
		c.lose(ReasonReleased)
	case r.state != recordLive:
		c.class = ClassNone
		c.unreadable()
	case !r.writer.equal(string(c.holder)):
		c.another()
	case r.acquiredAt == 0:
		c.cannotMaintain(ReasonNeverAcquired)
	default:
		c.ours(f)
	}
}

// ours joins a tenure that is alive and revives one that is not. A record so
// old that nobody may rely on it any more counts as expired, fresh or not.
func (c *Companion) ours(f flight) {
	c.adopt()
	c.seeExpire(c.seen.expire)
	good := f.sent - max(0, c.now.Wall-c.seen.writtenAt)
	if !c.fresh() || c.now.Mono >= good+int64(c.span()) {
		c.revive(f)
		return
	}
	c.join(good)
}

// unreadable is retried for a TTL, and for ever by one that was joined before.
func (c *Companion) unreadable() {
	if c.state != CompanionJoining {
		c.become(CompanionJoining)
	}
	if !c.rejoin && (c.now.Mono >= c.joinBy || c.class.Permanent()) {
		c.cannotMaintain(ReasonUnreadable)
		return
	}
	c.later(c.rejoinBy())
}

// rejoinBy is until when joining is tried.
func (c *Companion) rejoinBy() int64 {
	if c.rejoin {
		return unset
	}
	return c.joinBy
}

// cannotMaintain ends a first joining. Later it is only bad news: the tenure
// may yet be written by its other owner.
func (c *Companion) cannotMaintain(reason Reason) {
	if c.rejoin {
		c.later(unset)
		return
	}
	c.become(CompanionRefused)
	a := c.emit(ActionCannotMaintain)
	a.Reason = reason
	if reason == ReasonUnreadable {
		a.Class = c.class
	}
}

// another: somebody else's record. A claim in progress may still be lost by its
// maker, or be an old one's last write, so it is read again for up to a TTL.
func (c *Companion) another() {
	c.seeExpire(c.seen.expire)
	if c.rivalSince == unset {
		c.rivalSince = c.now.Mono
	}
	over := c.now.Mono-c.rivalSince >= int64(c.cfg.TTL)
	if c.seen.acquiredAt != 0 || !c.fresh() || over {
		c.lose(ReasonTaken)
		return
	}
	again := max(c.cfg.AcquireMargin, JoinAgainMin)
	c.timers[timerNext] = min(c.in(again), max(c.rivalSince+int64(c.cfg.TTL), c.in(RetryFloor)))
}

// join believes: the record just read is ours and fresh. That read is the check
// of the first renewal too, so its put goes out at once. Until it is answered
// the deadline rests on what is left of the record as it was read.
func (c *Companion) join(good int64) {
	c.believe(good)
	c.write(c.requestLimit(c.timers[timerDeadline]))
	c.timers[timerNext] = unset // the renewal that it would begin is under way
}

// believe enters Joined with a sign of life of the given Mono.
func (c *Companion) believe(good int64) {
	c.become(CompanionJoined)
	c.rejoin, c.rivalSince = true, unset
	c.good, c.failing, c.retries = good, false, 0
	c.scheduleRenewal()
	a := c.emit(ActionHeld)
	a.At, a.Wall, a.Holder = c.timers[timerDeadline], c.acquired, c.holder
}

// adopt copies what the tenure's other owner wrote. A companion counts its own
// writes; an owner who comes back goes on counting.
func (c *Companion) adopt() {
	c.acquired = c.seen.acquiredAt
	if !c.remote && c.count == 0 {
		c.count, c.firstWritten = c.seen.count, c.seen.firstWrittenAt
	}
}

// revive claims our own expired tenure again, with acquire's wait: somebody may
// be claiming it this very moment.
func (c *Companion) revive(f flight) {
	c.readStart = f.sent
	c.become(CompanionReviving)
	c.write(c.claimLimit(c.joinLimit(), c.readStart))
}

func (c *Companion) revived(ev *Event) {
	if ev.Outcome == OutcomeYes {
		c.startVerifying()
		return
	}
	c.class, c.putSaid = ev.Class, ev.Class
	c.doubt()
	c.become(CompanionDoubtful)
	c.read(c.joinLimit())
}

func (c *Companion) startVerifying() {
	c.become(CompanionVerifying)
	took := Duration(c.now.Mono - c.readStart)
	c.timers[timerNext] = c.in(max(c.cfg.AcquireMargin, 2*took))
}

// readBack: only our very put, seen there, may go on to be verified. While
// nothing can be read it stays in doubt, for as long as the put could keep us
// alive: the rules of joining would take our unverified put for a living tenure.
func (c *Companion) readBack(ev *Event) {
	switch found := c.find(ev); {
	case found == foundPut:
		c.settle()
		c.startVerifying()
	case found == foundUnknown || found == foundUnreadable:
		if c.now.Mono < c.sent+int64(c.span()) {
			c.later(c.sent + int64(c.span()))
			return
		}
		c.unreadable()
	case found == foundOther:
		c.lose(ReasonTaken)
	case found == foundReleased:
		c.lose(ReasonReleased)
	default: // the store did not take our put: judged anew, but not for ever
		c.class = c.putSaid
		c.unreadable()
	}
}

// verified takes the read after the wait.
func (c *Companion) verified(ev *Event) {
	switch c.find(ev) {
	case foundPut, foundOurs:
		if !c.ownFresh() || c.now.Mono >= c.sent+int64(c.span()) {
			c.unreadable() // too slow to live: once more, from the start
			return
		}
		c.believe(c.sent)
		c.emit(ActionRenewed).At = c.timers[timerDeadline]
	case foundReleased:
		c.lose(ReasonReleased)
	case foundUnknown, foundUnreadable:
		c.unreadable()
	default:
		c.lose(ReasonTaken)
	}
}

func (c *Companion) joinedAnswer(ev *Event, f flight) {
	switch c.renewal(ev, f) {
	case lostTaken:
		c.lose(ReasonTaken)
	case lostReleased:
		c.lose(ReasonReleased)
	case overdue:
		c.pastDeadline()
	}
}

// pastDeadline stops believing, says so once, and joins again.
func (c *Companion) pastDeadline() {
	c.timers[timerDeadline] = unset
	c.abandon()
	c.become(CompanionJoining)
	c.retries = 0
	c.emit(ActionContactLost)
	c.read(c.joinLimit())
}

// lose ends it. Nothing of ours is written after it.
func (c *Companion) lose(reason Reason) {
	c.become(CompanionLost)
	a := c.emit(ActionLost)
	a.Reason = reason
	if c.sight.State != 0 {
		a.Sight = &c.sight
	}
}

// leave ends it at its own wish; it writes nothing. A put in flight is waited
// for, since it could otherwise land after the holder's release.
func (c *Companion) leave() {
	switch {
	case c.state >= CompanionLeaving:
	case c.flight.id != 0 && c.flight.verb == ActionPut:
		c.become(CompanionLeaving)
	default:
		c.left()
	}
}

func (c *Companion) left() {
	c.become(CompanionLeft)
	c.emit(ActionLeft)
}
