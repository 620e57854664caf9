// Package strict has the machines of the strict protocol, which needs a store that
// creates an object only if it is absent. Lease claims a name, Companion keeps a lease
// alive that another process holds, and Session is one heartbeat for all that a process
// holds. Revocation, Inspection and StoreClockSample do one thing and end. How a name is read and
// judged stands in package register. The rules are those of core/PROTOCOL.md with an S.
package strict

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
	"github.com/mopslock/mopslock/core/internal/register"
)

// Lease is the machine of one claim under strict: acquire, hold, release.
// Like a Lease it is made for one tenure and ends in Released, Refused or Lost.
type Lease struct {
	renewer
	base.Lease

	// Acquiring.
	holderID core.HolderID
	Wants    bool       // the name is free, and the session is waited for
	sampling bool       // a caller that tries once waits for a sample of the store's clock
	Again    bool       // the caller tries again later, and has time for a sample until then
	lateWins int        // versions of ours that were won too late
	waitedAt core.Epoch // the version that was waited for last
	moved    bool       // it was another one than the time before
	metAt    core.Epoch // the version that the create of a caller that tries once has met, or 0
	Attempt  *Attempt
	calledAt core.Epoch // the newest version of which a call said that it breaks the name

	// Held.
	Checking bool // a call says that the name was broken, and the chain is read

	// Releasing.
	Closing core.Epoch // the version at which a create of unknown fate is shut out, or 0
}

// NewLease makes a lease machine in state Idle. With cfg.Holder set it can
// only release that tenure.
func NewLease(cfg core.Config) (*Lease, error) {
	cfg.Machine, cfg.Protocol = core.MachineLease, core.ProtocolStrict
	// Beside an old client's lock.json the lease may have to be yielded without a
	// word, and nothing of ours may stay behind a session that lives on.
	cfg.OnSession = cfg.OnSession && !cfg.LockFilePresent
	r, err := newRenewer(cfg)
	if err != nil {
		return nil, err
	}
	l := &Lease{renewer: r, Lease: base.NewLease(&cfg, LeaseEdges[:]), holderID: r.Cfg.Holder}
	if l.holderID == "" {
		l.holderID = base.SeedUUID(cfg.Seed)
		l.ParticipantID = string(l.holderID)
	}
	return l, nil
}

// Idle implements Machine. What stands on a session waits for that.
func (l *Lease) Idle() bool { return l.renewer.Idle() && l.State != core.LeaseHeld }

// IsChecking reports whether a call has said that the name was broken, and it is not known yet
// whether that is so.
func (l *Lease) IsChecking() bool { return l.Checking && l.State == core.LeaseHeld }

// IsWaiting implements base.Reporting.
func (l *Lease) IsWaiting() bool { return l.State == core.LeaseWaiting }

// UsesChange implements base.Reporting.
func (l *Lease) UsesChange() bool { return l.State == core.LeaseWaiting || l.State == core.LeaseHeld }

// IsTidying implements base.Reporting.
func (l *Lease) IsTidying() bool { return l.Tidying() && l.Flight.ID != 0 }

// Holder is the tenure's id.
func (l *Lease) Holder() core.HolderID { return l.holderID }

// Step implements Machine.
func (l *Lease) Step(now core.Instant, ev core.Event) ([]core.Action, error) {
	if err := l.Start(l, now, &ev); err != nil {
		return nil, err
	}
	l.ApplyHostState(&ev)
	if l.isOver(ev.Kind) {
		l.lose(l.whyPast())
	}
	switch ev.Kind {
	case core.EventAcquire:
		l.acquire(ev.Wait)
	case core.EventRelease:
		l.release()
	case core.EventCancel:
		l.cancel()
	case core.EventAnswer:
		if f, ok := l.Land(&ev); ok {
			l.answer(&ev, f)
		}
	case core.EventChanged:
		switch {
		case l.State == core.LeaseWaiting:
			l.reconsider()
		case l.State == core.LeaseHeld && l.standOn == "": // otherwise its session is told, and calls it
			l.Hint(l.quiet)
		}
	case core.EventCalled:
		l.called(ev.Epoch)
	case core.EventWoke:
		l.woke()
	}
	if l.State == core.LeaseWaiting && (l.Wants && l.InForce() || l.sampling && l.LastTry && l.ToldAt > l.Observation.Start) {
		l.reconsider()
	}
	if l.State == core.LeaseHeld {
		l.askIfHinted()
	}
	actions := l.Finish()
	if l.isAtRest() { // nothing more to do for a long time
		l.forget()
	}
	return actions, nil
}

// believes reports whether the clock can take something away.
func (l *Lease) believes() bool {
	return l.State == core.LeaseHeld || l.State == core.LeaseReleasing && l.Ending == base.EndReleased && l.Cfg.Holder == ""
}

// Accepts is the contract's table for commands. A call always has a meaning.
func (l *Lease) Accepts(kind core.EventKind) bool {
	return kind == core.EventCalled || l.Lease.Accepts(kind)
}

// become moves along an edge of the table.
func (l *Lease) become(to core.LeaseState) {
	l.Move(&l.Machine, to)
	l.Wants = false
}

func (l *Lease) answer(ev *core.Event, f base.Flight) {
	l.NoteDenial(ev)
	if l.State == core.LeaseVerifying && l.LeavesOut(ev) || l.State == core.LeaseObserving && l.Denies() { // it is there
		ev.Outcome, ev.Class = core.OutcomeUnknown, core.ClassOther
	}
	if !l.IsDenied() {
		l.Reached(&l.Machine, ev, f)
	}
	if l.Tidying() {
		l.Tidied(ev)
		l.goOnTidying()
		return
	}
	switch l.State {
	case core.LeaseObserving:
		l.observed(l.ObservationAnswer(ev, f, l.ReadLimit()))
	case core.LeaseWaiting:
		l.pollAnswer(ev, f)
	case core.LeaseClaiming:
		l.createAnswer(ev)
	case core.LeaseVerifying:
		l.verified(ev)
	case core.LeaseDoubtful:
		l.readBack(ev)
	case core.LeaseHeld:
		l.heldAnswer(ev, f)
	case core.LeaseReleasing:
		l.releaseAnswer(ev, f)
	}
}

// woke handles every timer that is due, in the order of the timer table.
func (l *Lease) woke() {
	if l.Due(base.TimerReach) {
		l.unreached()
	}
	if l.Due(base.TimerLimit) && l.OutOfPatience(&l.Machine) {
		l.refuse(l.WaitEnded(&l.Machine))
	}
	if l.Due(base.TimerNext) || l.sampling && l.LastTry && l.State == core.LeaseWaiting { // the host has no sample
		l.Timers[base.TimerNext] = base.Unset
		l.next()
	}
}

// next does what the state was waiting to do.
func (l *Lease) next() {
	switch l.State {
	case core.LeaseObserving:
		l.StartObservation(l.ReadLimit())
	case core.LeaseWaiting:
		l.poll()
	case core.LeaseVerifying:
		l.confirmWin()
	case core.LeaseDoubtful:
		l.askBack()
	case core.LeaseHeld:
		l.Abandon() // of what is tidied up: a renewal goes before
		if l.Checking {
			l.askAbove()
			return
		}
		l.renew()
	case core.LeaseReleasing:
		l.goOnReleasing()
	case core.LeaseReleased:
		l.Abandon()
		l.Garbage = nil
	}
}

// acquire begins the one acquire of this machine.
func (l *Lease) acquire(wait core.Duration) {
	l.Await(&l.Machine, wait)
	l.become(core.LeaseObserving)
	last := l.Cfg.LastAt
	if l.Cfg.LastEpoch != 0 && !l.Cfg.LockFilePresent && (!l.Cfg.OnSession || l.InForce()) &&
		last <= l.Now.Mono && l.Now.Mono-last < int64(core.NewestWindow) {
		// Our process released it itself, alone, and a moment ago: another that comes
		// between makes the create fail.
		l.Cur, l.NewestConfirmedAt = register.Current{N: l.Cfg.LastEpoch}, last
		l.startAttempt()
		l.Attempt.guess, l.Attempt.below = true, max(l.Cfg.LastEpoch, 2)-1
		return
	}
	l.StartObservation(l.ReadLimit())
}

// observed goes on when an observation has come to something.
func (l *Lease) observed(v register.Verdict) {
	switch v {
	case register.Undecided:
		return
	case register.Unanswered:
		if reason := l.Unanswered(&l.Machine); reason != core.ReasonNone {
			l.refuse(reason)
		}
		return
	case register.Unfit:
		l.refuse(unfit(&l.Cur))
		return
	case register.Free:
		l.Retries = 0
		if l.Cur.Result == register.ReadCorrupt {
			a := l.Emit(core.ActionWarned)
			a.Reason, a.Key = core.ReasonCorruptTaken, register.VersionKey(l.Prefix, l.Cur.N)
		}
		if l.Cfg.OnSession && !l.InForce() {
			l.awaitSession()
			return
		}
		l.startAttempt()
	case register.Held:
		l.Retries = 0
		l.heldByAnother()
	}
}

// awaitSession: the name is free, and there is nothing to stand on yet. A lease
// on a session may be asked for only while that is in force.
func (l *Lease) awaitSession() {
	if l.LastTry && l.Timers[base.TimerLimit] == base.Unset && l.Polls > 3 {
		l.refuse(core.ReasonUnreachable)
		return
	}
	l.become(core.LeaseWaiting)
	l.Wants = true
	l.Timers[base.TimerNext] = l.AfterBackoff(&l.Polls)
}

// heldByAnother waits, or gives up.
func (l *Lease) heldByAnother() {
	if l.LastTry {
		if l.Again {
			l.askForSample()
		}
		if !l.Again && l.wantsSample() && !l.sampling && l.Timers[base.TimerLimit] == base.Unset {
			// A caller that tries once has no later observation, for which this one's answers
			// would serve. It may ask for the store's clock, and observe once more.
			l.become(core.LeaseWaiting)
			l.sampling = true
			l.Timers[base.TimerNext] = l.In(core.SampleLimit)
			l.Emit(core.ActionSampleStoreClock)
			return
		}
		l.refuse(core.ReasonHeld)
		return
	}
	l.become(core.LeaseWaiting)
	s := l.Observed
	told := base.Mix(uint64(s.Epoch), base.Fingerprint(s.Holder))
	if told != l.Told {
		l.Told = told // and the polls go on as they are: a crowd would otherwise poll as at first
		l.Emit(core.ActionWaiting).Observed = s
	}
	l.moved = l.waitedAt != 0 && l.waitedAt != l.Cur.N
	l.waitedAt = l.Cur.N
	l.schedulePoll()
	l.askForSample()
}

// schedulePoll sets the next poll, or wakes earlier: at the first instant at
// which what was seen can be dead.
func (l *Lease) schedulePoll() {
	at := l.AfterBackoff(&l.Polls)
	l.TakeSample()
	if !l.Observation.LockHeld {
		l.Observed.RecheckAt = 0
		if dead := l.DeadAt(); dead != base.Unset {
			l.Observed.RecheckAt = dead
			at = min(at, dead)
		}
	}
	l.Timers[base.TimerNext] = at
}

// askForSample asks the host for the store's clock where that would free the
// name sooner than seeing it unchanged for a ttl.
func (l *Lease) askForSample() {
	if l.wantsSample() {
		l.Emit(core.ActionSampleStoreClock)
	}
}

// wantsSample reports whether the store's clock, which no recent sample tells,
// could show the name to be free.
func (l *Lease) wantsSample() bool {
	recent := l.ToldAt != 0 && l.Now.Mono-l.ToldAt < int64(core.SampleEach)
	endless := l.Cur.State == core.VersionHeld && l.Cur.TTL == 0
	return l.Cfg.Expiry == core.ExpiryCalibrated && !recent && !endless && !l.Cur.SameBoot && !l.Observation.LockHeld
}

// poll asks what is cheapest: while what is there cannot be dead, only whether
// anything newer is there. When it can be, it observes. Where the name changes hands
// between any two polls, exists would only be one request more.
func (l *Lease) poll() {
	switch {
	case l.moved || l.Wants || l.LastTry || l.Observation.LockHeld || l.Cur.N == 0 || !l.IsConfirmedLately():
		l.reconsider()
	case l.canBeDead():
		if l.Cur.SameBoot && l.Cur.N != l.Cur.Origin || l.Cur.State != core.VersionHeld || register.HasMoreOwners(l.Cur.Owners) {
			l.reconsider()
			return
		}
		l.become(core.LeaseObserving)
		l.StartPoll(l.ReadLimit())
	default:
		l.Ask(register.ForNext, core.ActionExists, l.KeyAbove(), l.ReadLimit())
	}
}

// canBeDead reports whether the instant has come that the last observation gave.
func (l *Lease) canBeDead() bool {
	return l.Observed != nil && l.Observed.RecheckAt != 0 && l.Now.Mono >= l.Observed.RecheckAt
}

// pollAnswer takes the answer to a poll.
func (l *Lease) pollAnswer(ev *core.Event, f base.Flight) {
	switch {
	case ev.Outcome == core.OutcomeUnknown:
		l.Class = ev.Class
		l.Later(base.Unset)
	case !l.IsNewestConfirmed(f.Sent):
		l.reconsider()
	case ev.Outcome == core.OutcomeYes:
		l.become(core.LeaseObserving)
		l.ObserveAbove(f.Sent, l.ReadLimit())
	default:
		l.NewestConfirmedAt, l.Retries = f.Sent, 0
		l.schedulePoll()
	}
}

// reconsider goes from Waiting back to a whole observation.
func (l *Lease) reconsider() {
	l.become(core.LeaseObserving)
	l.StartObservation(l.ReadLimit())
}

// unreached: the store has not answered for too long. What may yet land of an attempt is
// shut out when the caller has been told.
func (l *Lease) unreached() {
	reason := l.Unreached(&l.Machine)
	switch l.State {
	case core.LeaseObserving, core.LeaseWaiting:
		l.refuse(reason)
	case core.LeaseClaiming, core.LeaseDoubtful:
		l.turnAway(reason)
	case core.LeaseVerifying:
		l.releaseRefused(reason)
	case core.LeaseReleasing:
		l.tellRefused(reason)
	}
}

// turnAway refuses an attempt of unknown fate, and then shuts it out.
func (l *Lease) turnAway(reason core.Reason) {
	l.tellRefused(reason)
	l.giveUp(base.EndRefused)
}

// releaseRefused refuses an attempt that was won, and then releases it.
func (l *Lease) releaseRefused(reason core.Reason) {
	l.tellRefused(reason)
	l.startReleasing(base.EndRefused, 0)
}

// tellRefused tells the caller that it gets nothing: it does not wait for what is tidied up.
func (l *Lease) tellRefused(reason core.Reason) {
	l.Refused(reason, l.Observed)
	l.Ending = base.EndRefused
	l.Timers[base.TimerReach], l.Timers[base.TimerLimit] = base.Unset, base.Unset
}

// refuse ends the acquire. Nothing of ours is in the store.
func (l *Lease) refuse(reason core.Reason) {
	l.become(core.LeaseRefused)
	l.Refused(reason, l.Observed)
}

// lose ends belief. Nothing of ours is written after it.
func (l *Lease) lose(reason core.Reason) {
	l.become(core.LeaseLost)
	l.Lost(reason, l.Observed)
}
