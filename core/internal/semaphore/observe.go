package semaphore

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
	"github.com/mopslock/mopslock/core/internal/register"
)

// An observation finds the newest version and its value; and, where there is no room,
// whether sessions whose permits stand in it are dead.
//
//	taker   list ── get v(n) ── get beat of A: dead ── create v(n+1) without A's
//	            (or exists v(n+1): no)    ▲ judged as of the start of the observation

// observe begins an observation, by what is cheapest: while the newest version is known,
// only whether there is a newer one. Where the value changes between any two polls, or a
// create of ours may still land, a list.
func (s *Semaphore) observe() {
	s.Become(core.SemaphoreObserving)
	s.forced = 0
	s.sessions.NewObservation()
	if s.known && s.IsConfirmedLately() && !s.moved && s.Open == 0 && s.Cur.N != 0 {
		s.StartPoll(s.ReadLimit())
		return
	}
	s.known = false
	s.StartObservation(s.ReadLimit())
}

func (s *Semaphore) answer(ev *core.Event, f base.Flight) {
	if !s.Tidying() {
		s.note(*ev, f)
	}
	switch {
	case s.Tidying():
		s.Tidied(ev)
		s.goOnTidying()
	case s.Doing == register.ForCreate:
		s.committed(ev, f)
	case !s.hasWork(): // no caller wants to know any more
	case ev.Outcome == core.OutcomeUnknown:
		s.Class = ev.Class
		s.observationFailed()
	default:
		s.Learn(ev)
		s.Observation.Latest = f.Sent
		s.observed(ev, f)
	}
}

// note takes what an answer says of the store. A list that leaves out what is known to be
// there is no answer; nor is it one when exists then finds that.
func (s *Semaphore) note(ev core.Event, f base.Flight) {
	if s.below == s.Observation.N { // no older version, which is read for its value
		s.NoteDenial(&ev)
	}
	if s.LeavesOut(&ev) || s.Denies() || s.Doing == register.ForSelf && ev.Outcome == core.OutcomeYes {
		ev.Outcome, ev.Class = core.OutcomeUnknown, core.ClassOther
	}
	if !s.IsDenied() {
		s.Reach.Note(&ev, f, s.Now.Mono)
	}
}

// observationFailed: each caller goes on for as long as it has patience with the store.
func (s *Semaphore) observationFailed() {
	s.Failing, s.known = true, false
	for i := range s.Asks {
		a := &s.Asks[i]
		if reason := s.Reach.Ends(base.Reads, s.Now.Mono, a.lastTry); reason != core.ReasonNone {
			s.refuse(a, reason)
		}
	}
	s.Later(s.sessionUntil())
}

// sessionUntil is the deadline that requests are to be answered before.
func (s *Semaphore) sessionUntil() int64 {
	if s.InForce() {
		return s.Session.Until
	}
	return base.Unset
}

// observed takes an answer to a read, and goes on with the observation.
func (s *Semaphore) observed(ev *core.Event, f base.Flight) {
	switch s.Doing {
	case register.ForList:
		s.sawList(ev)
	case register.ForNext:
		switch {
		case !s.IsNewestConfirmed(f.Sent):
			s.known = false
			s.StartObservation(s.ReadLimit())
		case ev.Outcome == core.OutcomeYes:
			s.known, s.moved = false, true // the next poll is a list: there may be more
			s.ObserveAbove(f.Sent, s.ReadLimit())
			s.below = s.Observation.N
		default:
			s.NewestConfirmedAt, s.moved = f.Sent, false
			s.decide()
		}
	case register.ForVersion:
		s.sawVersion(ev)
	case register.ForSelf:
		if ev.Outcome == core.OutcomeYes {
			s.Class = core.ClassOther
			s.observationFailed()
			return
		}
		s.Garbage = nil                   // the next versions get the keys of what was to be removed
		if n := s.Observation.N; n != 0 { // only what stood above it is gone
			s.readFrom(n)
			return
		}
		s.emptied()
	case register.ForSession:
		id := s.reading
		if seen := s.sessions.Find(id); seen != nil {
			s.SessionRead(seen, ev)
		}
		s.judgeNext()
	}
}

func (s *Semaphore) sawList(ev *core.Event) {
	obs := &s.Observation
	s.Listed(ev)
	s.moved = false
	switch {
	case !obs.Listed:
		s.AskList(s.ReadLimit())
	case obs.N < s.Cur.N: // the prefix was emptied, or it is no list of this name
		s.ask1(register.ForSelf, core.ActionExists, register.VersionKey(s.Prefix, s.Cur.N))
	case obs.N == 0:
		s.emptied()
	case obs.N == s.Cur.N && s.ValueOf == s.Cur.N:
		s.valueKnown()
	default:
		s.readFrom(obs.N)
	}
}

// emptied: there is no version, or none any more.
func (s *Semaphore) emptied() {
	s.Cur, *s.Value, s.mine = register.Current{}, register.Value{}, false
	s.valueKnown()
}

// readFrom reads a version for the value that it carries.
func (s *Semaphore) readFrom(n core.Epoch) {
	s.below = n
	s.ask1(register.ForVersion, core.ActionGet, register.VersionKey(s.Prefix, n))
}

// sawVersion takes in the newest version, or one below it that is read for its value.
func (s *Semaphore) sawVersion(ev *core.Event) {
	obs := &s.Observation
	if s.Denies() {
		s.Class = core.ClassOther
		s.observationFailed()
		return
	}
	if ev.Outcome == core.OutcomeNo && s.below == obs.N { // collected since
		s.StartObservation(s.ReadLimit())
		return
	}
	s.mine = false
	result := register.ReadCorrupt
	if s.below == obs.N {
		s.ReadVersion(ev.Body, obs.N, max(obs.Stamp, ev.Stamp))
		result = s.Cur.Result
	} else if ev.Outcome == core.OutcomeYes {
		result = s.takeValue(ev.Body, s.below)
	}
	switch {
	case result == register.ReadGood:
		if s.below != obs.N {
			s.warn()
		}
		s.valueKnown()
	case result == register.ReadNewer || result == register.ReadOther:
		s.unfit(result)
	case !s.isOldEnough():
		s.unreadable()
	case s.below > 1 && s.below+core.KeepVersions > obs.N:
		s.readFrom(s.below - 1)
	default:
		s.warn()
		*s.Value = register.Value{}
		s.valueKnown()
	}
}

// takeValue reads the value of a version that is not the newest.
func (s *Semaphore) takeValue(body []byte, n core.Epoch) register.ReadResult {
	var v register.Version
	result := register.ParseVersion(body, n, &v)
	switch {
	case v.Lease:
		result = register.ReadOther
	case result == register.ReadGood:
		s.Value.Take(&v)
	}
	return result
}

// warn says that a version that is no record is gone past.
func (s *Semaphore) warn() {
	if s.warnedOf == s.Cur.N {
		return
	}
	s.warnedOf = s.Cur.N
	a := s.Emit(core.ActionWarned)
	a.Reason, a.Key = core.ReasonCorruptTaken, register.VersionKey(s.Prefix, s.Cur.N)
}

// unfit: a newer mopslock's, or a lease. No caller gets a permit here, and what is to be
// given back cannot be: it ends with the session, and no caller waits for that. What is
// held stays held under a newer one, which knows our permits; a lease does not.
func (s *Semaphore) unfit(result register.ReadResult) {
	reason := core.ReasonNewer
	if result == register.ReadOther {
		reason = core.ReasonKind
	}
	s.refuseAll(reason, func(*ask) bool { return true })
	for i := range s.Asks {
		if a := &s.Asks[i]; a.Phase == AskLeaving || a.Phase == AskHeld && result == register.ReadOther {
			a.end(core.ActionLost, core.ReasonTaken)
		}
	}
	s.Open, s.openOn = 0, ""
}

// isOldEnough reports that the newest version, which cannot be read, has stood for so
// long that a process that was let in by it alone would be given up, as with a corrupt
// lease. Then the value is that of the newest version below that can be read; without
// any, no permit is held.
func (s *Semaphore) isOldEnough() bool {
	hold := int64(max(s.Cfg.TTL.Duration(), core.CorruptMin))
	if s.Unchanged.Fingerprint != uint64(s.Cur.N) {
		s.Unchanged = base.Unchanged{Fingerprint: uint64(s.Cur.N), Since: s.Now.Mono}
	}
	return s.HasStood(hold)
}

// unreadable: the newest version is no record, so there is no telling which permits are held.
func (s *Semaphore) unreadable() {
	for i := range s.Asks {
		if a := &s.Asks[i]; a.Phase == AskWanted && !a.isLimit {
			if a.Blocked = true; !a.told && !a.lastTry {
				a.told, a.news = true, core.ActionWaiting
			}
		}
	}
	s.refuseAll(core.ReasonFull, func(a *ask) bool { return a.lastTry })
	s.Later(base.Unset)
}

// valueKnown: the value is what the newest version says.
func (s *Semaphore) valueKnown() {
	s.known, s.ValueOf, s.Failing = true, s.Cur.N, false
	s.decide()
}

// decide goes on when an observation knows the newest value: what became of ours, then a
// commit if one is worth it; if there is no room, it goes on to ask which sessions are dead.
//
// The session may be another than that of the observation before: what stands on the one
// that we had then is to be judged as well.
func (s *Semaphore) decide() {
	s.sessions = s.sessions.Cover(s.Value, s.Session.ID)
	s.settle()
	if !s.commit() {
		s.judgeNext()
	}
}

// judgeNext asks about the next session that can be dead, while a caller waits for
// room; then the observation is over.
func (s *Semaphore) judgeNext() {
	if s.wantsRoom() {
		if due := s.DueSession(s.sessions, core.BeatsPerObservation); due != nil {
			due.Asked, s.reading = true, due.ID
			s.ask1(register.ForSession, core.ActionGet, register.SessionKey(due.ID))
			return
		}
	}
	if !s.commit() {
		s.rest()
	}
}

func (s *Semaphore) ask1(why register.Purpose, verb core.ActionKind, key string) {
	s.Register.Ask(why, verb, key, s.ReadLimit())
}

// wantsRoom reports whether a caller waits for others to give back.
func (s *Semaphore) wantsRoom() bool {
	for i := range s.Asks {
		if a := &s.Asks[i]; a.Phase == AskWanted && a.Blocked {
			return true
		}
	}
	return false
}
