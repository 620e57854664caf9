package strict

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
	"github.com/mopslock/mopslock/core/internal/register"
)

// renewer is one process that keeps a tenure alive under strict: its beats, what it
// may believe, and the versions that others of the tenure make.
type renewer struct {
	register.Register
	seq     uint64
	beats   bool   // our beat is there, under the epoch that we stand on
	putSent int64  // Mono: sent of this renewal's beat, once it was answered; unset before
	asked   int64  // Mono: sent of this renewal's exists
	selfAt  int64  // Mono of the latest proof that our own version is still there
	beatKey string // of the epoch that we stand on
	selfKey string // of its version
	lockKey string `state:"fixed: it follows from the name"` // of an old client's record; "" before it was asked for
	bridged bool   // lock.json is our own, and another machine keeps it
	standOn string // the session that keeps the lease, or ""
	own     int64  // Mono until which our own version is good beside the session
	quiet   int64  // Mono before which no hint is followed
}

func newRenewer(cfg core.Config) (renewer, error) {
	r, err := register.New(cfg)
	if err != nil {
		return renewer{}, err
	}
	return renewer{Register: r, putSent: base.Unset, quiet: -core.MaxClockRange}, nil
}

// Bridge says that lock.json is the tenure's own, and that another machine keeps it.
func (r *renewer) Bridge() { r.bridged = true }

// span is how long after it was sent a good renewal may be relied on.
func (r *renewer) span() int64 { return int64(r.Cur.TTL - r.Cur.Margin) }

// deadlineFrom is the deadline that something sent at a Mono gives.
func (r *renewer) deadlineFrom(sent int64) int64 {
	if r.Cur.TTL == 0 {
		return core.Never
	}
	return r.startOf(sent) + r.span()
}

// moveToCurrent moves to the epoch of cur.
func (r *renewer) moveToCurrent() {
	r.beatKey = register.BeatKey(r.Prefix, r.Cur.N, r.ParticipantID)
	r.selfKey = register.VersionKey(r.Prefix, r.Cur.N)
	r.putSent, r.beats = base.Unset, false
}

// hold tells the caller that it holds the tenure, and begins to rely on a version of ours
// that was sent at a Mono.
func (r *renewer) hold(holderID core.HolderID, sent int64) *core.Action {
	r.believe(sent)
	a := r.Emit(core.ActionHeld)
	a.At, a.Wall, a.Holder = r.deadlineFrom(sent), r.Now.Wall, holderID
	a.Epoch, a.Token = r.Cur.N, r.Cur.Origin
	return a
}

func (r *renewer) believe(sent int64) {
	r.Failing, r.Retries, r.Class, r.Reach = false, 0, core.ClassNone, base.Reach{}
	r.selfAt = r.Now.Mono
	r.Observed = nil // what was seen on the way is over, and a lease held costs little
	r.Observation = register.Observation{}
	r.standOn = ""
	if r.Cfg.OnSession {
		r.standOn = r.Cur.Session
	}
	if r.standOn != "" {
		r.own = r.deadlineFrom(sent)
		r.restOnSession()
		return
	}
	r.moveToCurrent()
	r.schedule(sent)
}

// restOnSession leaves everything to the session's beat.
func (r *renewer) restOnSession() {
	r.Timers[base.TimerDeadline], r.Timers[base.TimerNext] = base.Unset, base.Unset
}

// schedule sets the timers of a lease whose last good renewal was sent at a Mono.
func (r *renewer) schedule(sent int64) {
	if r.Cur.TTL == 0 {
		r.Timers[base.TimerDeadline], r.Timers[base.TimerNext] = base.Unset, r.In(core.EndlessPoll)
		return
	}
	r.Timers[base.TimerDeadline] = r.deadlineFrom(sent)
	r.Timers[base.TimerNext] = r.startOf(sent) + int64(r.interval())
}

// interval is the time from one renewal to the next.
func (r *renewer) interval() core.Duration {
	third := r.Cur.TTL / 3
	return r.RNG.Between(third/6*5, third)
}

// isPast reports whether the deadline in force has come: this process does not
// believe from then on.
func (r *renewer) isPast() bool {
	if r.standOn == "" {
		return r.Due(base.TimerDeadline)
	}
	return r.Session.ID != r.standOn || r.Now.Mono >= r.Session.Until || r.Due(base.TimerDeadline)
}

// whyPast is the reason of a loss by the clock.
func (r *renewer) whyPast() core.Reason {
	switch {
	case r.standOn != "" && r.Session.ID != r.standOn && r.Session.End != core.ReasonNone:
		return r.Session.End
	case r.Failing || r.Flight.ID != 0 && !r.Tidying() && r.Doing != register.ForHint:
		return core.ReasonUnreachable
	}
	return core.ReasonExpired
}

// beat puts our beat under the epoch of cur.
func (r *renewer) beat() {
	r.seq++
	r.Body = register.AppendBeat(r.Body[:0], &r.Machine, r.ParticipantID, r.seq)
	a := r.Write(register.ForBeating, core.ActionPut, r.beatKey, r.RequestLimit(r.Timers[base.TimerDeadline]))
	if r.beats {
		r.Overwrite(a)
	}
}

func (r *renewer) askLock(limit core.Duration) {
	if r.lockKey == "" {
		r.lockKey = r.Cfg.Name + "/" + core.LockFile
	}
	r.Ask(register.ForLock, core.ActionGet, r.lockKey, limit)
}

// askNewer asks whether there is a version above ours: by exists, or where the
// last confirmation is too old for that, by a list.
func (r *renewer) askNewer() {
	limit := r.RequestLimit(r.Timers[base.TimerDeadline])
	if !r.IsConfirmedLately() {
		r.AskNewest("", limit)
		return
	}
	r.Ask(register.ForNext, core.ActionExists, r.KeyAbove(), limit)
}

// askIfHinted asks whether there is a version above ours, if a hint is due.
func (r *renewer) askIfHinted() {
	if r.standOn == "" && r.IsHintDue(&r.quiet) {
		r.askHint()
	}
}

// askAbove reads the version above ours.
func (r *renewer) askAbove() {
	r.Ask(register.ForVersion, core.ActionGet, r.KeyAbove(), r.RequestLimit(r.Timers[base.TimerDeadline]))
}

// renewalAnswer takes the answer to a renewal's request onwards. Like all that it
// calls it returns why the tenure is lost, or none.
func (r *renewer) renewalAnswer(ev *core.Event, f base.Flight) core.Reason {
	r.Learn(ev)
	if r.Doing == register.ForHint {
		if ev.Outcome == core.OutcomeYes {
			r.askAbove()
		}
		return core.ReasonNone
	}
	if ev.Outcome == core.OutcomeUnknown {
		r.Class, r.Failing = ev.Class, true
		r.Later(r.Timers[base.TimerDeadline])
		return core.ReasonNone
	}
	switch r.Doing {
	case register.ForBeating:
		if r.beats = ev.Outcome == core.OutcomeYes; !r.beats {
			r.AskNewest("", r.RequestLimit(r.Timers[base.TimerDeadline])) // our own version may be gone, too
			return core.ReasonNone
		}
		return r.beaten(f.Sent)
	case register.ForNext:
		switch {
		case ev.Outcome == core.OutcomeYes:
			r.askAbove()
		case !r.IsNewestConfirmed(f.Sent):
			r.NewestConfirmedAt = base.Unset
			r.renew()
		default:
			r.NewestConfirmedAt = f.Sent
			return r.noneNewer(f.Sent)
		}
	case register.ForConfirm:
		return r.confirmed(ev)
	case register.ForVersion:
		return r.readAbove(ev)
	case register.ForLock:
		return r.lockRead(ev)
	case register.ForSelf:
		switch {
		case ev.Outcome == core.OutcomeNo:
			a := r.Emit(core.ActionWarned)
			a.Reason, a.Key = core.ReasonEmptied, r.Key
			return core.ReasonTaken
		case !r.IsConfirmedLately(): // so what did not show it was no list of this name
			r.Class, r.Failing = core.ClassOther, true
			r.Later(r.Timers[base.TimerDeadline])
			return core.ReasonNone
		}
		r.selfAt = r.Now.Mono
		return r.renewalSucceeded()
	}
	return core.ReasonNone
}

// confirmed takes a list that was asked because exists proves nothing any more, or because
// our beat had nowhere to go.
func (r *renewer) confirmed(ev *core.Event) core.Reason {
	switch n, found := r.Newest(ev); {
	case !found:
		r.AskNewest(r.After, r.RequestLimit(r.Timers[base.TimerDeadline]))
	case n == r.Cur.N:
		r.NewestConfirmedAt = r.Paged
		if r.putSent == base.Unset && r.Cur.TTL != 0 {
			r.renew() // somebody has put the directory back
			return core.ReasonNone
		}
		return r.noneNewer(r.Paged)
	case n > r.Cur.N:
		r.NewestConfirmedAt = r.Paged
		r.Ask(register.ForVersion, core.ActionGet, register.VersionKey(r.Prefix, n), r.RequestLimit(r.Timers[base.TimerDeadline]))
	default:
		r.NewestConfirmedAt = base.Unset
		r.askSelf()
	}
	return core.ReasonNone
}

// readAbove takes the body of the newest version above ours.
func (r *renewer) readAbove(ev *core.Event) core.Reason {
	if ev.Outcome == core.OutcomeNo { // collected since: only a list can tell what is there
		r.NewestConfirmedAt = base.Unset
		r.renew()
		return core.ReasonNone
	}
	tenure, session := r.Cur.Tenure, r.Cur.Session
	n, _, _ := register.ParseRegisterKey(r.Prefix, []byte(r.Key))
	was := r.Cur
	r.ReadVersion(ev.Body, n, ev.Stamp)
	switch reason := r.LossBy(tenure); {
	case reason != core.ReasonNone:
		return reason
	case r.Cur.Session != session: // no join does that
		r.Cur.Session = was.Session
	}
	r.Observed = nil
	r.Emit(core.ActionAdopted).Epoch = n
	if r.standOn == "" {
		r.moveToCurrent() // the beat just put was under a superseded epoch, and never counts
		r.renew()
	}
	return core.ReasonNone
}

// checkLock asks for a lock.json, if that is due.
func (r *renewer) checkLock() core.Reason {
	if r.isLockDue() {
		r.askLock(r.RequestLimit(r.Timers[base.TimerDeadline]))
		return core.ReasonNone
	}
	return r.checkSelf()
}

func (r *renewer) lockRead(ev *core.Event) core.Reason {
	r.Observation = register.Observation{}
	if r.LockSeen(ev); r.Observation.LockHeld {
		a := r.Emit(core.ActionWarned)
		a.Reason, a.Observed = core.ReasonMixed, r.Observed
		return core.ReasonTaken
	}
	r.Observed = nil
	return r.checkSelf()
}

// checkSelf asks, each second time, whether our own version is still there: where the
// prefix was emptied, nothing newer would ever be seen.
func (r *renewer) checkSelf() core.Reason {
	if r.isSelfDue() {
		r.askSelf()
		return core.ReasonNone
	}
	return r.renewalSucceeded()
}

func (r *renewer) askSelf() {
	r.Ask(register.ForSelf, core.ActionExists, r.selfKey, r.RequestLimit(r.Timers[base.TimerDeadline]))
}

// renewalSucceeded: the renewal counts from its beat.
func (r *renewer) renewalSucceeded() core.Reason {
	sent := min(r.putSent, r.asked)
	r.putSent = base.Unset
	r.Failing, r.Retries, r.Class = false, 0, core.ClassNone
	r.schedule(sent)
	if r.Cur.TTL != 0 {
		r.Emit(core.ActionRenewed).At = r.Timers[base.TimerDeadline]
	}
	return core.ReasonNone
}

// unfit is why a version is not for us to judge.
func unfit(c *register.Current) core.Reason {
	if c.Result == register.ReadOther {
		return core.ReasonKind
	}
	return core.ReasonNewer
}
