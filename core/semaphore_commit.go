package core

// settle reads off the newest value what became of ours: nothing else tells. A
// permit is held when its id stands there, whichever of our creates has put it
// there, and is given back when it does not.
//
//	us       create v(n+1) with A . . . . . . . . (unknown)   list: n+4, A is in it
//	others              v(n+2) v(n+3) v(n+4)   what is at n+1 may be collected by now
func (s *Semaphore) settle() {
	elsewhere := s.bug(BugSettleAtVersion) && s.open != 0 && s.cur.n != s.open
	if s.cur.n >= s.open || s.bug(BugForgetUnknownCreate) { // it has landed, or somebody else's stands in its place
		s.open, s.openOn = 0, ""
	}
	closed := s.open == 0
	for i := range s.asks {
		a := &s.asks[i]
		in := !a.isLimit && s.value.find(a.id) >= 0 && !elsewhere
		switch {
		case a.phase == askDone:
		case a.isLimit:
			if s.value.limit == a.limit {
				a.end(ActionLimited, ReasonNone)
			}
		case a.phase == askWanted && in && a.isSent():
			a.phase, a.news = askHeld, ActionHeld
		case a.phase == askWanted && a.isSent() && closed:
			a.session = ""
			if a.races++; a.lastTry && a.races >= LostPuts {
				s.refuse(a, ReasonRaced)
			}
		case a.phase == askHeld && !in: // our session lives, so nobody had the right
			a.end(ActionLost, ReasonTaken)
		case a.phase == askLeaving && !in && closed:
			a.end(ActionReleased, ReasonNone)
		}
	}
}

// plan is the value that should stand next, and whether it is worth a version.
//
// What is ours and nobody asks for any more goes, whoever's sessions are dead lose
// theirs, and whoever fits comes in, in the order in which they came. Who does not
// fit is passed over: his view, or his weight, is not the others'. But one who has
// waited for a TTL while there was room for less than his weight is not passed over
// any more.
func (s *Semaphore) plan() (next value, worth bool) {
	next = copyOf(s.value)
	next.remove(func(p *permit) bool {
		if p.session != s.session.id {
			return s.roster.isDead(p.session)
		}
		a := s.byID(p.id)
		gone := a == nil || a.phase == askLeaving
		worth = worth || gone
		return gone
	})
	held, full, starved := next.held(), false, false
	for i := range s.asks {
		a := &s.asks[i]
		a.enters = false
		switch {
		case a.phase != askWanted:
		case a.isLimit:
			next.limit, worth = a.limit, true
		case next.find(a.id) >= 0: // it is in already, and will be settled
		default:
			most := a.most(next.limit)
			a.blocked = starved || held+a.weight > most && !s.bug(BugOverallocate)
			a.weighed = true
			if a.blocked {
				starved = starved || a.weight <= most && held+1 <= most && s.now.Mono-a.since >= int64(s.cfg.TTL)
				continue
			}
			if !s.inForce() {
				continue
			}
			if full || !s.enter(&next, a) {
				full = true
				s.refuse(a, ReasonCrowded)
				continue
			}
			held, worth = held+a.weight, true
		}
	}
	if next.capacity == 0 { // a limit came before any permit
		next.capacity, next.width = 1, 1
	}
	return next, worth
}

// most is how much may be held with this permit, by its own view.
func (a *ask) most(limit uint64) uint64 {
	most := a.capacity * a.width
	if limit != 0 {
		most = min(most, limit)
	}
	return most - min(most, a.spare)
}

// enter puts a permit into the value, if a record has room for it.
func (s *Semaphore) enter(next *value, a *ask) bool {
	with := copyOf(next)
	p := permit{
		id: a.id, session: s.session.id, weight: a.weight, label: a.label,
		host: escapedText(s.cfg.Host, maxPeople), pid: escapedText(s.cfg.PID, maxPeople),
	}
	with.add(p)
	var ok bool
	if s.body, ok = with.fits(s.body); !ok {
		with.terse()
		if s.body, ok = with.fits(s.body); !ok {
			return false
		}
	}
	with.capacity, with.width = uint32(a.capacity), uint32(a.width)
	*next = with
	a.enters = true
	return true
}

// maxPeople is how much of a host's name and a pid stands in a permit.
const maxPeople = 64

// commit makes the next version if there is anything to change, or if a create of
// ours may still land in its place: then that is shut out, with the value as it is.
func (s *Semaphore) commit() bool {
	if s.refused { // the store does not take it, and nothing of it can land
		s.refused, s.open, s.openOn = false, 0, ""
		s.refuseAll(ReasonUnusable, func(*ask) bool { return true })
		s.settle()
		if s.hasWork() {
			s.become(SemaphoreDoubtful)
			s.later(s.sessionUntil())
			return true
		}
	}
	next, worth := s.plan()
	if !worth && s.open == 0 {
		return false
	}
	if s.now.Mono-s.basis > int64(BasisWindow) {
		s.known = false
		s.observe()
		return true
	}
	if s.isTidyOverdue() {
		s.become(SemaphoreObserving)
		s.forced = true
		s.tidyNow()
		return true
	}
	s.garbage = nil // what it had begun to collect is for the next round
	s.become(SemaphoreCommitting)
	s.next, s.rested = &next, s.basis
	if s.cur.n+1 != s.open || !s.bug(BugSameNonceRetry) {
		s.nonce = newNonce(&s.rng)
	}
	session := ""
	if s.inForce() {
		session = s.session.id
	}
	for i := range s.asks {
		if a := &s.asks[i]; a.enters {
			if a.session == "" {
				a.sent = s.now.Mono
			}
			a.session = session
		}
	}
	n := s.cur.n + 1
	v := ownVersion{
		n: n, origin: n, state: VersionValue, tenure: HolderID(s.owner), owner: s.owner, nonce: s.nonce,
		ttl: s.cfg.TTL, margin: s.cfg.Margin, session: session,
	}
	s.body = appendValue(s.body[:0], &s.machine, &v, s.next)
	s.createBody(&v, s.requestLimit(s.sessionUntil()))
	return true
}

// committed takes the answer to a create.
func (s *Semaphore) committed(ev *Event, f flight) {
	next := s.next
	s.next = nil
	switch {
	case ev.Outcome == OutcomeYes && s.now.Mono-s.rested <= int64(BasisWindow),
		ev.Outcome == OutcomeYes && s.bug(BugGCWithoutBasis), ev.Outcome == OutcomeUnknown && s.bug(BugUnknownIsYes):
		s.made(&ownVersion{
			n: s.cur.n + 1, origin: s.cur.n + 1, state: VersionValue, tenure: HolderID(s.owner), nonce: s.nonce,
			ttl: s.cfg.TTL, margin: s.cfg.Margin,
		}, f.sent)
		*s.value = *next
		s.known, s.mine, s.valueOf, s.moved = true, true, s.cur.n, false
		s.failing, s.races = false, 0
		if s.tidiedAt == 0 { // who comes now and then collects as seldom as who stays
			s.tidiedAt = max(s.cur.n, 3) - 2
			s.triedAt = s.tidiedAt
		}
		s.roster = s.roster.cover(s.value, s.session.id)
		s.settle()
		s.rest()
	case ev.Outcome == OutcomeUnknown && !s.bug(BugUnknownIsNo):
		s.class, s.failing = ev.Class, true
		s.refused = ev.Class.Permanent() && s.open == 0
		s.doubted(ev.Class.Permanent() && s.open != 0)
		s.open, s.openOn = s.cur.n+1, s.session.id
		s.known = false
		s.become(SemaphoreDoubtful)
		s.later(s.sessionUntil())
	default:
		// "Exists" is said of one's own success, too, where somebody on the way sent the
		// request twice; and what was won long after it was the next one may lie below
		// the newest. The newest value tells.
		s.known, s.mine, s.basis = false, false, unset
		if s.races++; s.races == 1 {
			s.observe()
			return
		}
		// In a crowd they take turns sooner when they do not all come back at once.
		const steps = 8
		s.become(SemaphoreObserving)
		s.timers[timerNext] = s.in(s.backoff(RetryFloor, min(s.races, steps)))
	}
}

// doubted ends asks whose creates are in doubt: all, where the store does not take
// them any more, else those that have no more time than one request. What may have
// landed is taken out, or shut out.
func (s *Semaphore) doubted(all bool) {
	s.refuseAll(ReasonUnusable, func(*ask) bool { return all })
	s.refuseAll(ReasonLimit, func(a *ask) bool {
		return a.lastTry && a.isSent() && s.now.Mono-a.sent >= int64(RequestLimit)
	})
}

// hasWork reports whether there is anything to do but to hold.
func (s *Semaphore) hasWork() bool {
	for i := range s.asks {
		if p := s.asks[i].phase; p == askWanted || p == askLeaving {
			return true
		}
	}
	return s.open != 0
}

// isNew reports whether there is work that no look has weighed.
func (s *Semaphore) isNew() bool {
	for i := range s.asks {
		a := &s.asks[i]
		if a.phase == askLeaving || a.phase == askWanted && (!a.weighed || !a.blocked && s.inForce()) {
			return true
		}
	}
	return s.open != 0
}

// proceed begins what has to be done, unless something is under way.
func (s *Semaphore) proceed() {
	switch {
	case s.busy() || s.state == SemaphoreClosed:
	case !s.hasWork():
		s.polls, s.sampling, s.refused = 0, false, false
		if s.become(SemaphoreIdle); s.garbage == nil {
			s.tidy()
		}
	case s.state != SemaphoreIdle && s.state != SemaphoreWaiting: // a retry is due later
	case s.sampling && !s.wantsSample():
		s.sampling = false
		s.observe()
	case s.isNew():
		if s.canGuess() && s.commit() {
			return
		}
		s.observe()
	}
}

// canGuess reports whether the value that we know is so likely to be the newest that
// a create costs less than to ask. Whoever has come between makes it fail.
func (s *Semaphore) canGuess() bool {
	likely := int64(PollCap)
	if s.mine {
		likely = int64(BasisWindow)
	}
	return s.known && s.open == 0 && s.basis != unset && s.now.Mono-s.basis <= likely
}

// rest: all that can be done now is done.
func (s *Semaphore) rest() {
	if s.moved && s.isTrying() { // there may be room in a version above the one that a poll found
		s.observe()
		return
	}
	owed := s.giveUpTrying()
	s.retries = 0
	waits, at := false, unset
	for i := range s.asks {
		a := &s.asks[i]
		switch {
		case a.phase != askWanted || a.isLimit:
			continue
		case a.lastTry && a.blocked: // for a sample
			at = min(at, s.sampleBy)
		case a.lastTry: // for a session, as is who has more time, and hears when it comes
			at = min(at, a.since+int64(FirstAnswerLimit))
		}
		waits = true
		if a.blocked && !a.told {
			a.told, a.news = true, ActionWaiting
		}
	}
	if owed {
		s.observe()
		return
	}
	if !waits {
		s.become(SemaphoreIdle)
		return
	}
	s.become(SemaphoreWaiting)
	// What was learned of the store's clock since serves the next look.
	s.sample, s.fresh = better(s.sample, s.fresh), clockSample{}
	if s.wantsRoom() {
		if s.isPatient() {
			at = min(at, s.in(s.backoff(PollFirst, s.polls)))
			s.polls++
		}
		at = min(at, max(s.nextDeath(s.roster), s.in(RetryFloor)))
		if s.wantsSample() {
			s.emit(ActionCalibrate)
		}
	}
	s.timers[timerNext] = at
}

// isTrying reports whether somebody who tries once found no room.
func (s *Semaphore) isTrying() bool {
	for i := range s.asks {
		if a := &s.asks[i]; a.phase == askWanted && a.blocked && a.lastTry {
			return true
		}
	}
	return false
}

// isPatient reports whether somebody has time to wait for room.
func (s *Semaphore) isPatient() bool {
	for i := range s.asks {
		if a := &s.asks[i]; a.phase == askWanted && a.blocked && !a.lastTry {
			return true
		}
	}
	return false
}

// giveUpTrying ends those who try once and found no room. Who has no later look may
// ask for the store's clock, and look once more. Who came while a look was under way
// was not shown what was given back before he came: he is owed a look of his own.
func (s *Semaphore) giveUpTrying() (owed bool) {
	for i := range s.asks {
		a := &s.asks[i]
		switch {
		case a.phase != askWanted || a.isLimit || !a.lastTry:
		case !a.weighed || !a.blocked && s.inForce(): // the next commit weighs it
		case !a.blocked:
			if s.now.Mono-a.since >= int64(FirstAnswerLimit) { // there is no session to stand on
				s.refuse(a, ReasonUnreachable)
			}
		case a.since > s.look.start:
			owed = true
		case s.wantsSample() && (!a.sampled || s.now.Mono < s.sampleBy):
			if !a.sampled {
				a.sampled, s.sampling, s.sampleBy = true, true, s.in(SampleLimit)
			}
		default:
			s.refuse(a, ReasonFull)
		}
	}
	return owed
}

// wantsSample reports whether the store's clock, which no recent sample tells, could
// show a session to be dead.
func (s *Semaphore) wantsSample() bool {
	if s.cfg.Expiry != ExpiryCalibrated || s.toldAt != 0 && s.now.Mono-s.toldAt < int64(CalibrateEach) {
		return false
	}
	for i := range s.roster {
		if seen := &s.roster[i]; !seen.dead && !seen.sign.sameBoot {
			return true
		}
	}
	return false
}

// Superseded versions are collected by who made the newest, when there is nothing
// else to do; and where there always is, once in so many versions all the same: a few
// at a time then, for callers wait meanwhile.
const (
	tidyOverdue = 8 * collectEach
	tidyBite    = collectEach + collectEach/2 // more than come in until the next one
)

func (s *Semaphore) tidy() {
	if s.mine && s.known && !s.closing && s.cur.n/collectEach != s.triedAt/collectEach {
		s.tidyNow()
	}
}

func (s *Semaphore) isTidyOverdue() bool {
	return s.mine && s.cur.n >= s.tidiedAt+tidyOverdue
}

func (s *Semaphore) tidyNow() {
	s.triedAt = s.cur.n
	if s.startTidying(); s.forced && s.garbage != nil {
		s.garbage.left = tidyBite
	}
}

// tidyEnded goes on with what has waited; and soon with what is left of the garbage.
func (s *Semaphore) tidyEnded(g *garbage) {
	s.tidiedAt = s.cur.n
	if g.left == 0 && s.cur.n > tidyOverdue {
		s.tidiedAt = s.cur.n - tidyOverdue + collectEach
	}
	if s.forced {
		s.observe()
	}
}

// show gives a notice what people want to see, once a Step.
func (s *Semaphore) show(n *Action) {
	for i := range s.out {
		if s.out[i].Sight != nil {
			return
		}
	}
	if s.sight == nil {
		s.sight = new(Sighting)
	}
	w := recordWriter(s.sight.Permits[:0])
	writePermits(&w, s.value.permits)
	*s.sight = Sighting{
		State: ObservedVacant, Epoch: s.cur.n, Capacity: max(s.value.capacity, 1), Width: max(s.value.width, 1),
		Held: s.value.held(), Limit: s.value.limit, Permits: shownPermits(w, MaxShown),
	}
	switch {
	case s.cur.result == readCorrupt && !s.known: // and what was read before is not what holds
		s.sight.State, s.sight.Held, s.sight.Permits = ObservedCorrupt, 0, s.sight.Permits[:0]
	case s.sight.Held > 0:
		s.sight.State = ObservedHeld
	}
	n.Sight = s.sight
}
