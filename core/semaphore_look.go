package core

// A look finds the newest version and its value; and, where there is no room, whether
// sessions whose permits stand in it are dead.
//
//	taker   list ── get v(n) ── get beat of A: dead ── create v(n+1) without A's
//	            (or exists v(n+1): no)    ▲ judged as of the start of the look

// observe begins a look, by what is cheapest: while the newest version is known, only
// whether there is a newer one. Where the value changes between any two polls, or a
// create of ours may still land, a list.
func (s *Semaphore) observe() {
	s.become(SemaphoreObserving)
	s.garbage, s.forced = nil, false
	s.roster.newLook()
	recent := s.basis != unset && s.now.Mono-s.basis <= int64(BasisWindow)
	if s.known && recent && !s.moved && s.open == 0 && s.cur.n != 0 {
		s.startPoll(s.lookLimit())
		return
	}
	s.known = false
	s.startLook(s.lookLimit())
}

// lookLimit bounds a read; see StrictLease.observeLimit.
func (s *Semaphore) lookLimit() Duration {
	if reach := s.timers[timerReach]; reach != unset {
		return max(RequestFloor, s.until(reach))
	}
	return RequestLimit
}

func (s *Semaphore) answer(ev *Event, f flight) {
	if ev.Outcome != OutcomeUnknown {
		s.answered = true
		s.timers[timerReach] = unset
	}
	switch {
	case s.tidying():
		g := s.garbage
		if s.tidied(ev); s.garbage == nil {
			s.tidyEnded(g)
		}
	case s.doing == forCreate:
		s.committed(ev, f)
	case !s.hasWork(): // nobody wants to know any more
	case ev.Outcome == OutcomeUnknown:
		s.class = ev.Class
		s.lookFailed()
	default:
		s.learn(ev)
		s.look.latest = f.sent
		s.looked(ev, f)
	}
}

// lookFailed: who tries once gives up; who waits, or gives back, goes on.
func (s *Semaphore) lookFailed() {
	s.failing, s.known = true, false
	reason := ReasonLimit
	if !s.answered {
		reason = ReasonUnreachable
	}
	permanent := s.class.Permanent()
	s.refuseAll(ReasonUnusable, func(*ask) bool { return permanent })
	s.refuseAll(reason, func(a *ask) bool { return a.lastTry })
	s.later(s.sessionUntil())
}

// sessionUntil is the deadline that requests are to be answered before.
func (s *Semaphore) sessionUntil() int64 {
	if s.inForce() {
		return s.session.until
	}
	return unset
}

// looked takes an answer to a look's read, and goes on with the look.
func (s *Semaphore) looked(ev *Event, f flight) {
	switch s.doing {
	case forList:
		s.sawList(ev)
	case forNext:
		switch {
		case !s.proven(f.sent):
			s.known = false
			s.startLook(s.lookLimit())
		case ev.Outcome == OutcomeYes:
			s.known, s.moved = false, true // the next poll is a list: there may be more
			s.follow(f.sent, s.lookLimit())
			s.below = s.look.n
		default:
			s.basis, s.moved = f.sent, false
			s.decide()
		}
	case forVersion:
		s.sawVersion(ev)
	case forSession:
		id := s.reading
		if seen := s.roster.find(id); seen != nil {
			s.sessionRead(seen, ev)
		}
		s.judgeNext()
	}
}

func (s *Semaphore) sawList(ev *Event) {
	k := &s.look
	s.listed(ev)
	s.moved = false
	switch {
	case !k.listed:
		s.askList(s.lookLimit())
	case k.n == 0:
		s.cur, *s.value, s.mine = current{}, value{}, false
		s.valueKnown()
	case k.n == s.cur.n && s.valueOf == s.cur.n:
		s.valueKnown()
	default:
		s.readFrom(k.n)
	}
}

// readFrom reads a version for the value that it carries.
func (s *Semaphore) readFrom(n Epoch) {
	s.below = n
	s.ask1(forVersion, ActionGet, versionKey(s.prefix, n))
}

// sawVersion takes in the newest version, or one below it that is read for its value.
func (s *Semaphore) sawVersion(ev *Event) {
	k := &s.look
	if ev.Outcome == OutcomeNo && s.below == k.n { // collected since, or the prefix is being emptied
		s.startLook(s.lookLimit())
		return
	}
	s.mine = false
	result := readCorrupt
	if s.below == k.n {
		s.readVersion(ev.Body, k.n, max(k.stamp, ev.Stamp))
		result = s.cur.result
	} else if ev.Outcome == OutcomeYes {
		result = s.takeValue(ev.Body, s.below)
	}
	switch {
	case result == readGood:
		if s.below != k.n {
			s.warn()
		}
		s.valueKnown()
	case result == readNewer || result == readOther:
		s.unfit(result)
	case !s.isOldEnough():
		s.unreadable()
	case s.below > 1 && s.below+KeepVersions > k.n:
		s.readFrom(s.below - 1)
	default:
		s.warn()
		*s.value = value{}
		s.valueKnown()
	}
}

// takeValue reads the value of a version that is not the newest.
func (s *Semaphore) takeValue(body []byte, n Epoch) readResult {
	var v version
	result := parseVersion(body, n, &v)
	switch {
	case v.lease:
		result = readOther
	case result == readGood:
		s.value.take(&v)
	}
	return result
}

// warn says that a version that is no record is gone past.
func (s *Semaphore) warn() {
	if s.warnedOf == s.cur.n {
		return
	}
	s.warnedOf = s.cur.n
	a := s.emit(ActionWarned)
	a.Reason, a.Key = ReasonCorruptTaken, versionKey(s.prefix, s.cur.n)
}

// unfit: a newer mopslock's, or a lease. Nobody gets a permit here, and what is to be
// given back cannot be: it ends with the session, and nobody waits for that. What is
// held stays held under a newer one, which knows our permits; a lease does not.
func (s *Semaphore) unfit(result readResult) {
	reason := ReasonNewer
	if result == readOther {
		reason = ReasonKind
	}
	s.refuseAll(reason, func(*ask) bool { return true })
	for i := range s.asks {
		if a := &s.asks[i]; a.phase == askLeaving || a.phase == askHeld && result == readOther {
			a.end(ActionLost, ReasonTaken)
		}
	}
	s.open, s.openOn = 0, ""
}

// isOldEnough reports that the newest version, which cannot be read, has stood for so
// long that who knows only by it that he was let in would be given up, as with a corrupt
// lease. Then the value is that of the newest version below that can be read; without
// any, nobody holds.
func (s *Semaphore) isOldEnough() bool {
	hold := int64(max(s.cfg.TTL, CorruptMin))
	if s.watch.print != uint64(s.cur.n) {
		s.watch = watch{uint64(s.cur.n), s.now.Mono}
	}
	return s.look.start-s.watch.since >= hold ||
		s.calibrated() && s.cur.stamp != 0 && s.lowerBound(s.sample, s.look.start) >= s.cur.stamp+hold+s.slop()
}

// unreadable: the newest version is no record, so there is no telling who holds.
func (s *Semaphore) unreadable() {
	for i := range s.asks {
		if a := &s.asks[i]; a.phase == askWanted && !a.isLimit {
			if a.blocked = true; !a.told && !a.lastTry {
				a.told, a.news = true, ActionWaiting
			}
		}
	}
	s.refuseAll(ReasonFull, func(a *ask) bool { return a.lastTry })
	s.later(unset)
}

// valueKnown: the value is what the newest version says.
func (s *Semaphore) valueKnown() {
	s.known, s.valueOf, s.failing = true, s.cur.n, false
	s.decide()
}

// decide goes on when a look knows the newest value: what became of ours, then a
// commit if one is worth it; if there is no room, the look goes on to who is dead.
//
// The session may be another than that of the look before: what stands on the one
// that we had then is to be judged, too.
func (s *Semaphore) decide() {
	s.roster = s.roster.cover(s.value, s.session.id)
	s.settle()
	if !s.commit() {
		s.judgeNext()
	}
}

// judgeNext asks about the next session that can be dead, while somebody waits for
// room; then the look is over.
func (s *Semaphore) judgeNext() {
	if s.wantsRoom() {
		if due := s.dueSession(s.roster, BeatsPerLook); due != nil {
			due.asked, s.reading = true, due.id
			s.ask1(forSession, ActionGet, sessionKey(due.id))
			return
		}
	}
	if !s.commit() {
		s.rest()
	}
}

func (s *Semaphore) ask1(why purpose, verb ActionKind, key string) {
	s.register.ask(why, verb, key, s.lookLimit())
}

// wantsRoom reports whether somebody waits for others to give back.
func (s *Semaphore) wantsRoom() bool {
	for i := range s.asks {
		if a := &s.asks[i]; a.phase == askWanted && a.blocked {
			return true
		}
	}
	return false
}
