package strict

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
	"github.com/mopslock/mopslock/core/internal/register"
)

// startAttempt makes the version that follows what was found free: a new tenure.
func (l *Lease) startAttempt() {
	n := l.Cur.N + 1
	ttl, margin := l.Cfg.TTL.Duration(), l.Cfg.Margin
	if l.Cfg.TTL == core.TTLEndless {
		margin = 0
	}
	session := ""
	if l.Cfg.OnSession {
		session = l.Session.ID
	}
	l.Attempt = &Attempt{since: l.Now.Mono, doubt: l.Now.Mono, newestConfirmedAt: l.NewestConfirmedAt, below: max(l.Cur.Origin, 1), V: register.OwnVersion{
		N: n, Origin: n, State: core.VersionHeld, Tenure: l.holderID, Owner: l.ParticipantID,
		Owners: register.WithOwner("", l.ParticipantID), TTL: ttl, Margin: margin, Session: session, Label: l.Cfg.Label,
	}}
	l.become(core.LeaseClaiming)
	l.sendCreate()
}

// sendCreate sends a create, the first of the attempt or one more.
func (l *Lease) sendCreate() {
	l.Attempt.send(&l.Register, l.RequestLimit(l.attemptBy()))
}

// attemptBy is when a create that was sent now would be worth nothing any more.
func (l *Lease) attemptBy() int64 {
	if l.Attempt.V.TTL == 0 {
		return base.Unset
	}
	return l.Attempt.since + int64(l.Attempt.V.TTL-l.Attempt.V.Margin)
}

// giveUpAt is when a claim in doubt is given up: no caller waits for a TTL of days to
// be told that a store is silent.
func (l *Lease) giveUpAt() int64 {
	return min(l.attemptBy(), l.Attempt.doubt+int64(core.DoubtLimit))
}

// createAnswer takes the answer to a create.
func (l *Lease) createAnswer(ev *core.Event) {
	switch ev.Outcome {
	case core.OutcomeYes:
		l.won(l.Attempt.latest())
		return
	case core.OutcomeUnknown:
		l.Class = ev.Class
	}
	// The store also says "exists" of our own success, where a proxy on the way sent the
	// request twice. The version there is to be read in any case: it shows who won.
	l.become(core.LeaseDoubtful)
	l.askBack()
}

// askBack reads the version that a create of ours may have made.
func (l *Lease) askBack() {
	l.Attempt.askBack(&l.Register, l.RequestLimit(l.attemptBy()))
}

// readBack tells whether the version there is ours, and by which request.
func (l *Lease) readBack(ev *core.Event) {
	a := l.Attempt
	switch ev.Outcome {
	case core.OutcomeUnknown:
		l.Class = ev.Class
		if reason := l.Ends(&l.Machine, base.Reads); reason != core.ReasonNone {
			l.turnAway(reason)
			return
		}
		switch isOver := l.Now.Mono >= l.giveUpAt(); {
		case isOver && l.LastTry: // what can be read meanwhile must not begin its patience anew
			l.turnAway(l.Reach.Reason(base.Reads))
		case isOver:
			l.giveUp(base.EndRaced)
		default:
			l.Later(l.giveUpAt())
		}
	case core.OutcomeNo:
		l.notThere()
	default:
		l.Learn(ev)
		l.Retries = 0
		l.ReadVersion(ev.Body, a.V.N, ev.Stamp)
		if landed := a.landed(ev.Body); landed != nil {
			l.won(landed)
			return
		}
		l.lostRace(true)
	}
}

// notThere: the version is not made yet, and a create of ours may still land.
// Another one is sent, which wins or shows who did.
func (l *Lease) notThere() {
	reason := l.Ends(&l.Machine, base.Writes)
	switch {
	case reason != core.ReasonNone && l.Attempt.N == 1 && l.Reach.Class().Permanent(): // the create was refused, not lost
		l.refuse(reason)
	case reason != core.ReasonNone:
		l.turnAway(reason)
	case l.Attempt.N == core.MaxCreates || l.Now.Mono >= l.giveUpAt():
		l.giveUp(base.EndRaced)
	case l.Cfg.OnSession && (!l.InForce() || l.Session.ID != l.Attempt.V.Session):
		l.giveUp(base.EndRaced)
	default:
		l.become(core.LeaseClaiming)
		l.sendCreate()
	}
}

// won: one of our creates made the version. It holds if it is young enough; if
// not, no process holds it, and the next claim stands on it.
func (l *Lease) won(by *createRequest) {
	a := l.Attempt
	l.ClearWrites(&l.Machine)
	l.SetCurrent(&a.V, by.sent)
	switch {
	case !l.IsWinNewest(a.V.N, a.newestConfirmedAt): // also one that is too late: what is claimed above it must be the newest
		l.become(core.LeaseVerifying)
		a.doubt = l.Now.Mono
		l.confirmWin()
	case l.isSpoilt(by.sent):
	default:
		l.hold(by.sent)
	}
}

// isSpoilt ends an attempt that was won and may not be held: its session has called it
// off, it is too old, or its session has died.
func (l *Lease) isSpoilt(sent int64) bool {
	c := &l.Cur
	onDead := c.Session != "" && (c.Session != l.Session.ID || !l.InForce())
	switch {
	case l.calledAt > c.N && c.Session != "":
		l.becomeDoubtful()
		l.NewestConfirmedAt = base.Unset
		l.lostRace(false)
	case l.isLate(sent) || onDead:
		l.wonLate()
	default:
		return false
	}
	return true
}

// wonLate: the version is ours and we do not hold it. No companion joined it, since
// none was told of it.
func (l *Lease) wonLate() {
	const rounds = 3
	l.lateWins++
	if l.lateWins >= rounds || l.LastTry || l.Cfg.OnSession && !l.InForce() {
		l.startReleasing(base.EndRaced, 0)
		return
	}
	l.becomeDoubtful()
	l.startAttempt()
}

func (l *Lease) becomeDoubtful() {
	if l.State != core.LeaseDoubtful {
		l.become(core.LeaseDoubtful)
	}
}

// confirmWin lists: what stood above the version that we won may have been collected, or
// not been shown.
func (l *Lease) confirmWin() { l.AskNewest("", l.RequestLimit(l.attemptBy())) }

func (l *Lease) verified(ev *core.Event) {
	sent := l.Cur.Boottime
	n, found := l.Newest(ev)
	switch {
	case ev.Outcome == core.OutcomeUnknown:
		l.Class = ev.Class
		if reason := l.Ends(&l.Machine, base.Reads); reason != core.ReasonNone {
			l.releaseRefused(reason)
			return
		}
		if l.Now.Mono >= l.giveUpAt() {
			l.startReleasing(base.EndRaced, 0)
			return
		}
		l.Later(l.giveUpAt())
	case !found:
		l.AskNewest(l.After, l.RequestLimit(l.attemptBy()))
	case n != l.Cur.N:
		l.lostRace(true)
	case l.isSpoilt(sent):
	default:
		l.NewestConfirmedAt = l.Paged
		l.hold(sent)
	}
}

// lostRace ends an attempt that failed: beaten if another's version was read. What
// was read back is the winner's version, so there is nothing to look for: the confirmation
// holds for it as well, since it was made after that.
func (l *Lease) lostRace(beaten bool) {
	if beaten {
		l.ClearWrites(&l.Machine)
	}
	if l.Attempt != nil && l.Attempt.guess && l.State == core.LeaseDoubtful {
		l.reconsider()
		return
	}
	if l.LastTry && beaten && l.looksAgain() {
		return
	}
	if l.LastTry && beaten {
		l.refuse(core.ReasonRaced)
		return
	}
	if l.LastTry && !l.Reach.IsFailing() { // otherwise it tries again for as long as it has patience
		l.refuse(core.ReasonLimit)
		return
	}
	l.become(core.LeaseWaiting)
	if c := &l.Cur; c.N == l.Attempt.V.N && c.State == core.VersionHeld && c.Tenure != l.holderID && l.NewestConfirmedAt != base.Unset {
		l.Observation = register.Observation{Listed: true, More: true, N: c.N, Lowest: c.N, Stamp: c.Stamp, Start: l.Now.Mono}
		l.schedulePoll()
		if l.Observed.RecheckAt == 0 && c.TTL != 0 { // only if it stands unchanged can it be free: begin
			l.Observed.RecheckAt = l.Now.Mono
		}
	} else {
		l.NewestConfirmedAt = base.Unset
	}
	l.Attempt, l.Body = nil, nil // it may wait for long, and thousands beside it
	l.moved = true               // in a crowd there are more above it by the next poll
	l.Timers[base.TimerNext] = l.AfterBackoff(&l.Races)
}

// looksAgain has a caller that tries once look at the name once more: the version that our create
// met may be older than the list that left it out, and ended. A store whose lists leave it out again
// cannot be used.
func (l *Lease) looksAgain() bool {
	met := l.Attempt.V.N
	if l.State != core.LeaseDoubtful || l.metAt != 0 && l.metAt != met {
		return false
	}
	if l.metAt == 0 {
		l.metAt = met
		l.reconsider()
		return true
	}
	l.Reach.Note(&core.Event{Outcome: core.OutcomeUnknown, Class: core.ClassOther}, base.Flight{Verb: core.ActionList}, l.Now.Mono)
	l.refuse(core.ReasonUnusable)
	return true
}

// hold begins the tenure as a caller sees it.
func (l *Lease) hold(sent int64) {
	l.become(core.LeaseHeld)
	l.Timers = base.NewTimers()
	tidies := l.Cur.N/register.CollectEach != l.Attempt.below/register.CollectEach   // the first tenure of each so many versions
	l.Attempt = nil                                                                  // a lease held costs little
	l.Polls, l.Races, l.lateWins, l.Told, l.waitedAt, l.moved = 0, 0, 0, 0, 0, false // and never waits again
	a := l.renewer.hold(l.holderID, sent)
	a.Session = l.standOn // as hold has just set it
	if tidies {
		l.StartTidying()
		l.GoOnTidying()
	}
}

// heldAnswer takes the answer to a renewal, or to what a call made us ask.
func (l *Lease) heldAnswer(ev *core.Event, f base.Flight) {
	if l.Checking {
		l.callAnswer(ev)
		return
	}
	if reason := l.renewalAnswer(ev, f); reason != core.ReasonNone {
		l.lose(reason)
	}
}

// called: our session has read that another process broke the name. Until we know what
// is above us the session's renewals do us no good: the deadline stays where it
// is, since the process that broke it waits no longer than a ttl from the call.
//
// An attempt of unknown fate may be the one that was broken. The session tells of it
// once, so it is remembered until the attempt is settled:
//
//	us       create v(n) . . . . . . . . . . (unknown)  read back: ours
//	breaker                   v(n+1) broken, call
//	session                                   called    <- believed no more
func (l *Lease) called(epoch core.Epoch) {
	l.calledAt = max(l.calledAt, epoch)
	if l.State != core.LeaseHeld || l.standOn == "" || epoch <= l.Cur.N {
		return
	}
	l.Timers[base.TimerDeadline] = max(l.Session.Until, l.own)
	l.Checking = true
	l.Emit(core.ActionDeadline).At = l.Timers[base.TimerDeadline]
	l.askAbove()
}

// callAnswer reads the chain up to the break that the call was about.
func (l *Lease) callAnswer(ev *core.Event) {
	switch {
	case ev.Outcome == core.OutcomeUnknown:
		l.Class, l.Failing = ev.Class, true
		l.Later(l.Timers[base.TimerDeadline])
	case l.Doing == register.ForNext && ev.Outcome == core.OutcomeNo: // a call for what never came: the session goes on
		l.Checking, l.Failing, l.Retries = false, false, 0
		l.restOnSession()
		l.Emit(core.ActionRenewed).At = max(l.Session.Until, l.own)
	case l.Doing == register.ForNext:
		l.askAbove()
	case ev.Outcome == core.OutcomeNo: // the chain is not what the call says: ours no longer
		l.lose(core.ReasonTaken)
	default:
		if reason := l.readAbove(ev); reason != core.ReasonNone {
			l.lose(reason)
			return
		}
		// Another owner of the tenure made it; the break, if there is one, is above.
		l.Ask(register.ForNext, core.ActionExists, l.KeyAbove(), l.RequestLimit(l.Timers[base.TimerDeadline]))
	}
}

// Attempt is one version that we try to make, by one create or several.
type Attempt struct {
	V                 register.OwnVersion
	Requests          [core.MaxCreates]createRequest
	N                 int        // how many of them were sent
	since             int64      // Mono: sent of the first
	doubt             int64      // Mono since when its fate is in doubt
	newestConfirmedAt int64      // of the version below it
	guess             bool       // that is only remembered
	below             core.Epoch // origin of the tenure before, or as good a guess
}

// createRequest is one create of an attempt: its nonce, and when it was sent.
type createRequest struct {
	Nonce register.Nonce
	sent  int64
}

// send sends one more create, with a nonce of its own: the deadline counts from
// the very request that landed, so they must be told apart.
//
//	us     create(n) nonce 1 . . . . . . . . . . . . . . . . . landed, stamped
//	             (unknown)     create(n) nonce 2 . . exists: read back: nonce 1
func (a *Attempt) send(r *register.Register, limit core.Duration) {
	a.renewNonce(r)
	a.sendAs(r, limit)
}

// sendAs sends a create with the nonce that the version has.
func (a *Attempt) sendAs(r *register.Register, limit core.Duration) {
	a.Requests[a.N] = createRequest{a.V.Nonce, r.Now.Mono}
	a.N++
	r.Create(&a.V, limit)
}

// latest is the create that was sent last.
func (a *Attempt) latest() *createRequest { return &a.Requests[a.N-1] }

// askBack reads the version that a create of ours may have made.
func (a *Attempt) askBack(r *register.Register, limit core.Duration) {
	r.Ask(register.ForReadBack, core.ActionGet, register.VersionKey(r.Prefix, a.V.N), limit)
}

// landed is the create that made the version with this body, or nil: it is another's.
func (a *Attempt) landed(body []byte) *createRequest {
	var v register.Version
	if register.ParseVersion(body, a.V.N, &v) == register.ReadGood {
		for i := a.N - 1; i >= 0; i-- { // the latest of those with one nonce, which a mutation gives them
			if a.Requests[i].Nonce.Is(v.Nonce) {
				return &a.Requests[i]
			}
		}
	}
	return nil
}
