package semaphore

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
	"github.com/mopslock/mopslock/core/internal/jsontext"
	"github.com/mopslock/mopslock/core/internal/register"
)

// settle reads off the newest value what became of ours: nothing else tells. A
// permit is held when its id stands there, whichever of our creates has put it
// there, and is given back when it does not.
//
//	us       create v(n+1) with A . . . . . . . . (unknown)   list: n+4, A is in it
//	others              v(n+2) v(n+3) v(n+4)   what is at n+1 may be collected by now
func (s *Semaphore) settle() {
	closed := s.landsNoMore()
	for i := range s.Asks {
		a := &s.Asks[i]
		in := s.isIn(a)
		switch {
		case a.Phase == askDone:
		case a.isLimit:
			if s.Value.Limit == a.limit {
				a.end(core.ActionLimited, core.ReasonNone)
			}
		case a.Phase == AskWanted && in && a.isSent():
			a.Phase, a.news = AskHeld, core.ActionHeld
		case a.Phase == AskWanted && a.isSent() && closed:
			a.session = ""
			if base.CountUp(&a.races); a.lastTry && a.races >= core.LostPuts {
				s.refuse(a, core.ReasonRaced)
			}
		case a.Phase == AskHeld && !in: // our session lives, so no process had the right
			a.end(core.ActionLost, core.ReasonTaken)
		case a.Phase == AskLeaving && !in && closed:
			a.end(core.ActionReleased, core.ReasonNone)
		}
	}
	if closed && s.Open != 0 {
		s.Open, s.openOn = 0, ""
		s.Reach.ClearWrites()
	}
}

// plan is the value that should stand next, and whether it is worth a version.
//
// Permits of ours that no caller asks for any more go, and so do those of dead sessions.
// Requests that fit come in, in the order in which they came. One that does not fit is
// passed over: its view, or its weight, is not the others'. But one that has waited for a
// TTL while there was room for less than its weight is not passed over any more.
func (s *Semaphore) plan() (next register.Value, worth bool) {
	next = register.CopyOf(s.Value)
	next.Remove(func(p *register.PermitEntry) bool {
		if p.Session != s.Session.ID {
			return s.sessions.IsDead(p.Session)
		}
		a := s.ByID(p.ID)
		gone := a == nil || a.Phase == AskLeaving
		worth = worth || gone
		return gone
	})
	held, full, starved := next.Held(), false, false
	for i := range s.Asks {
		a := &s.Asks[i]
		a.enters = false
		switch {
		case a.Phase != AskWanted:
		case a.isLimit:
			next.Limit, worth = a.limit, true
		case next.Find(a.ID) >= 0: // it is in already, and will be settled
		default:
			most := a.most(next.Limit)
			a.Blocked = starved || !s.fits(a, held, most)
			a.weighed = true
			if a.Blocked {
				starved = starved || a.weight <= most && held+1 <= most && s.Now.Mono-a.since >= int64(s.Cfg.TTL)
				continue
			}
			if !s.InForce() {
				continue
			}
			if full || !s.enter(&next, a) {
				full = true
				s.refuse(a, core.ReasonCrowded)
				continue
			}
			held, worth = held+a.weight, true
		}
	}
	if next.Capacity == 0 { // a limit came before any permit
		next.Capacity, next.Width = 1, 1
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
func (s *Semaphore) enter(next *register.Value, a *ask) bool {
	with := register.CopyOf(next)
	p := register.PermitEntry{
		ID: a.ID, Session: s.Session.ID, Weight: a.weight, Label: a.label,
		Host: register.EscapedText(s.Cfg.Host, maxPeople), PID: register.EscapedText(s.Cfg.PID, maxPeople),
	}
	with.Add(p)
	var ok bool
	if s.Body, ok = with.Fits(s.Body); !ok {
		with.Terse()
		if s.Body, ok = with.Fits(s.Body); !ok {
			return false
		}
	}
	with.Capacity, with.Width = uint32(a.capacity), uint32(a.width)
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
		s.refused, s.Open, s.openOn = false, 0, ""
		s.refuseAll(core.ReasonUnusable, func(*ask) bool { return true })
		s.settle()
	}
	next, worth := s.plan()
	if !worth && s.Open == 0 {
		return false
	}
	if s.Now.Mono-s.NewestConfirmedAt > int64(core.NewestWindow) {
		s.known = false
		s.observe()
		return true
	}
	if s.isTidyOverdue() {
		s.Become(core.SemaphoreObserving)
		s.forced, s.forcedAt = TidyBite+1, s.Cur.N
		s.tidyNow()
		return true
	}
	s.Become(core.SemaphoreCommitting)
	s.next, s.confirmedAt = &next, s.NewestConfirmedAt
	s.nonce = register.NewNonce(&s.RNG)
	session := ""
	if s.InForce() {
		session = s.Session.ID
	}
	for i := range s.Asks {
		if a := &s.Asks[i]; a.enters {
			if a.session == "" {
				a.sent = s.Now.Mono
			}
			a.session = session
		}
	}
	n := s.Cur.N + 1
	v := register.OwnVersion{
		N: n, Origin: n, State: core.VersionValue, Tenure: core.HolderID(s.ParticipantID), Owner: s.ParticipantID, Nonce: s.nonce,
		TTL: s.Cfg.TTL.Duration(), Margin: s.Cfg.Margin, Session: session,
	}
	s.Body = register.AppendValue(s.Body[:0], &s.Machine, &v, s.next)
	s.CreateBody(&v, s.RequestLimit(s.sessionUntil()))
	return true
}

// committed takes the answer to a create.
func (s *Semaphore) committed(ev *core.Event, f base.Flight) {
	next, n := s.next, s.Cur.N+1
	s.next = nil
	made := func() {
		s.SetCurrent(&register.OwnVersion{
			N: n, Origin: n, State: core.VersionValue, Tenure: core.HolderID(s.ParticipantID), Nonce: s.nonce,
			TTL: s.Cfg.TTL.Duration(), Margin: s.Cfg.Margin,
		}, f.Sent)
		*s.Value = *next
		s.known, s.mine, s.ValueOf, s.moved = true, true, n, false
	}
	switch {
	case ev.Outcome == core.OutcomeYes && s.IsWinNewest(n, s.confirmedAt):
		made()
		s.Failing, s.races = false, 0
		if s.TidiedAt == 0 { // a process that comes now and then collects as seldom as one that stays
			s.TidiedAt = max(s.Cur.N, 3) - 2
			s.triedAt = s.TidiedAt
		}
		s.sessions = s.sessions.Cover(s.Value, s.Session.ID)
		s.settle()
		s.rest()
	case ev.Outcome == core.OutcomeYes && n == 1: // a list has to show it
		made()
		s.known, s.Open, s.openOn = false, n, s.Session.ID
		s.observe()
	case ev.Outcome == core.OutcomeUnknown:
		s.Class, s.Failing = ev.Class, true
		hopeless := ev.Class.Permanent() && !s.Reach.HasServed(base.Writes)
		s.refused = hopeless && s.Open == 0
		s.refuseAll(core.ReasonUnusable, func(*ask) bool { return hopeless && s.Open != 0 })
		s.Open, s.openOn = s.Cur.N+1, s.Session.ID
		s.known = false
		s.Become(core.SemaphoreDoubtful)
		s.Later(s.sessionUntil())
	default:
		// "Exists" is also said of one's own success, where a proxy on the way sent the
		// request twice; and what was won long after it was the next one may lie below
		// the newest. The newest value tells.
		s.known, s.mine, s.NewestConfirmedAt = false, false, base.Unset
		if base.CountUp(&s.races); s.races == 1 {
			s.observe()
			return
		}
		// In a crowd they take turns sooner when they do not all come back at once.
		const steps = 8
		s.Become(core.SemaphoreObserving)
		s.Timers[base.TimerNext] = s.In(s.Backoff(core.RetryFloor, min(s.races, steps)))
	}
}

// hasWork reports whether there is anything to do but to hold.
func (s *Semaphore) hasWork() bool {
	for i := range s.Asks {
		if p := s.Asks[i].Phase; p == AskWanted || p == AskLeaving {
			return true
		}
	}
	return s.Open != 0
}

// isNew reports whether there is work that no observation has weighed.
func (s *Semaphore) isNew() bool {
	for i := range s.Asks {
		a := &s.Asks[i]
		if a.Phase == AskLeaving || a.Phase == AskWanted && (!a.weighed || !a.Blocked && s.InForce()) {
			return true
		}
	}
	return s.Open != 0
}

// proceed begins what has to be done, unless something is under way.
func (s *Semaphore) proceed() {
	switch {
	case s.busy() || s.state == core.SemaphoreClosed:
	case !s.hasWork():
		s.polls, s.sampling, s.refused = 0, false, false
		if s.Become(core.SemaphoreIdle); s.Flight.ID == 0 {
			s.tidy()
		}
	case s.state != core.SemaphoreIdle && s.state != core.SemaphoreWaiting: // a retry is due later
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
// a create costs less than to ask. A process that has come between makes it fail.
func (s *Semaphore) canGuess() bool {
	likely := int64(core.PollCap)
	if s.mine {
		likely = int64(core.NewestWindow)
	}
	return s.known && s.Open == 0 && s.NewestConfirmedAt != base.Unset && s.Now.Mono-s.NewestConfirmedAt <= likely
}

// rest: all that can be done now is done.
func (s *Semaphore) rest() {
	if s.moved && s.isTrying() { // there may be room in a version above the one that a poll found
		s.observe()
		return
	}
	owed := s.giveUpTrying()
	s.Retries = 0
	waits, at := false, base.Unset
	for i := range s.Asks {
		a := &s.Asks[i]
		switch {
		case a.Phase != AskWanted || a.isLimit:
			continue
		case a.lastTry && a.Blocked: // for a sample
			at = min(at, s.sampleBy)
		case a.lastTry: // for a session, as does one with more time, which hears when it comes
			at = min(at, a.since+int64(core.FirstAnswerLimit))
		}
		waits = true
		if a.Blocked && !a.told {
			a.told, a.news = true, core.ActionWaiting
		}
	}
	if owed {
		s.observe()
		return
	}
	if !waits {
		s.Become(core.SemaphoreIdle)
		return
	}
	s.Become(core.SemaphoreWaiting)
	s.TakeSample()
	if s.wantsRoom() {
		if s.isPatient() {
			at = min(at, s.In(s.Backoff(core.PollFirst, s.polls)))
			base.CountUp(&s.polls)
		}
		at = min(at, max(s.NextDeath(s.sessions), s.In(core.RetryFloor)))
		if s.wantsSample() {
			s.Emit(core.ActionSampleStoreClock)
		}
	}
	s.Timers[base.TimerNext] = at
}

// isTrying reports whether a caller that tries once found no room.
func (s *Semaphore) isTrying() bool {
	for i := range s.Asks {
		if a := &s.Asks[i]; a.Phase == AskWanted && a.Blocked && a.lastTry {
			return true
		}
	}
	return false
}

// isPatient reports whether a caller has time to wait for room.
func (s *Semaphore) isPatient() bool {
	for i := range s.Asks {
		if a := &s.Asks[i]; a.Phase == AskWanted && a.Blocked && !a.lastTry {
			return true
		}
	}
	return false
}

// giveUpTrying ends those that try once and found no room. One that has no later
// observation may ask for the store's clock, and observe once more. One that came while
// an observation was under way was not shown what was given back before it came: it is
// owed an observation of its own.
func (s *Semaphore) giveUpTrying() (owed bool) {
	for i := range s.Asks {
		a := &s.Asks[i]
		switch {
		case a.Phase != AskWanted || a.isLimit || !a.lastTry:
		case !a.weighed || !a.Blocked && s.InForce(): // the next commit weighs it
		case !a.Blocked:
			if s.Now.Mono-a.since >= int64(core.FirstAnswerLimit) { // there is no session to stand on
				s.refuse(a, core.ReasonUnreachable)
			}
		case a.since > s.Observation.Start:
			owed = true
		case s.wantsSample() && (!a.sampled || s.Now.Mono < s.sampleBy):
			if !a.sampled {
				a.sampled, s.sampling, s.sampleBy = true, true, s.In(core.SampleLimit)
			}
		default:
			s.refuse(a, core.ReasonFull)
		}
	}
	return owed
}

// wantsSample reports whether the store's clock, which no recent sample tells, could
// show a session to be dead.
func (s *Semaphore) wantsSample() bool {
	if s.Cfg.Expiry != core.ExpiryCalibrated || s.ToldAt != 0 && s.Now.Mono-s.ToldAt < int64(core.SampleEach) {
		return false
	}
	for i := range s.sessions {
		if seen := &s.sessions[i]; !seen.Dead && !seen.Beat.SameBoot {
			return true
		}
	}
	return false
}

// The process that made the newest version collects superseded ones when there is nothing
// to do; and where there always is, once in so many versions all the same: a few requests
// from one commit to the next then, for callers wait meanwhile.
const (
	TidyOverdue = 8 * register.CollectEach
	TidyBite    = 8
)

// tidy begins a collection, or goes on with one that gave way to a commit.
func (s *Semaphore) tidy() {
	due := s.mine && s.known && s.Cur.N/register.CollectEach != s.triedAt/register.CollectEach
	if !s.Closing && (due || s.Garbage != nil) {
		s.tidyNow()
	}
}

func (s *Semaphore) isTidyOverdue() bool {
	return s.mine && s.Cur.N >= s.TidiedAt+TidyOverdue && s.forcedAt != s.Cur.N
}

func (s *Semaphore) tidyNow() {
	if s.Garbage == nil {
		s.triedAt = s.Cur.N
		s.StartTidying()
	}
	s.goOnTidying()
}

// goOnTidying asks for the next thing of a collection. When it is over, or callers have
// waited for enough of it, what they have asked for is next.
func (s *Semaphore) goOnTidying() {
	g, forced := s.Garbage, s.forced > 0
	if s.forced = max(0, s.forced-1); g != nil && forced && s.forced == 0 {
		s.observe()
		return
	}
	if s.GoOnTidying(); s.Garbage != nil {
		return
	}
	s.TidiedAt = s.Cur.N
	if g != nil && g.Left == 0 && s.Cur.N > TidyOverdue { // there is more: soon
		s.TidiedAt = s.Cur.N - TidyOverdue + register.CollectEach
	}
	if forced {
		s.observe()
	}
}

// show gives a notice what people want to see, once a Step.
func (s *Semaphore) show(n *core.Action) {
	for i := range s.Out {
		if s.Out[i].Observed != nil {
			return
		}
	}
	if s.Observed == nil {
		s.Observed = new(core.Observed)
	}
	w := jsontext.Writer(s.Observed.Permits[:0])
	register.WritePermits(&w, s.Value.Permits)
	*s.Observed = core.Observed{
		State: core.ObservedVacant, Epoch: s.Cur.N, Capacity: max(s.Value.Capacity, 1), Width: max(s.Value.Width, 1),
		Held: s.Value.Held(), Limit: s.Value.Limit, Permits: register.ShownPermits(w, core.MaxShown),
	}
	switch {
	case s.Cur.Result == register.ReadCorrupt && !s.known: // and what was read before is not what holds
		s.Observed.State, s.Observed.Held, s.Observed.Permits = core.ObservedCorrupt, 0, s.Observed.Permits[:0]
	case s.Observed.Held > 0:
		s.Observed.State = core.ObservedHeld
	}
	n.Observed = s.Observed
}
