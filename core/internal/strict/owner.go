package strict

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
	"github.com/mopslock/mopslock/core/internal/register"
)

// owner is one process that keeps a tenure alive under strict: its beats, what it
// may believe, and the versions that others of the tenure make.
type owner struct {
	register.Register
	seq     uint64
	putSent int64  // Mono: sent of this renewal's beat, once it was answered; unset before
	asked   int64  // Mono: sent of this renewal's exists
	selfAt  int64  // Mono of the latest proof that our own version is still there
	beatKey string // of the epoch that we stand on
	selfKey string // of its version
	standOn string // the session that keeps the lease, or ""
	own     int64  // Mono until which our own version is good beside the session
	quiet   int64  // Mono before which no hint is followed
}

func newOwner(cfg core.Config) (owner, error) {
	r, err := register.New(cfg)
	if err != nil {
		return owner{}, err
	}
	return owner{Register: r, putSent: base.Unset, quiet: -core.MaxClockRange}, nil
}

// span is how long after it was sent a good renewal may be relied on.
func (o *owner) span() int64 { return int64(o.Cur.TTL - o.Cur.Margin) }

// deadlineFrom is the deadline that something sent at a Mono gives.
func (o *owner) deadlineFrom(sent int64) int64 {
	if o.Cur.TTL == 0 {
		return core.Never
	}
	return o.startOf(sent) + o.span()
}

// moveToCurrent moves to the epoch of cur.
func (o *owner) moveToCurrent() {
	o.beatKey = register.BeatKey(o.Prefix, o.Cur.N, o.Owner)
	o.selfKey = register.VersionKey(o.Prefix, o.Cur.N)
	o.putSent = base.Unset
}

// hold tells the caller that it holds the tenure, and begins to rely on a version of ours
// that was sent at a Mono.
func (o *owner) hold(holder core.HolderID, sent int64) *core.Action {
	o.believe(sent)
	a := o.Emit(core.ActionHeld)
	a.At, a.Wall, a.Holder = o.deadlineFrom(sent), o.Now.Wall, holder
	a.Epoch, a.Token = o.Cur.N, o.Cur.Origin
	return a
}

func (o *owner) believe(sent int64) {
	o.Failing, o.Retries, o.Class = false, 0, core.ClassNone
	o.selfAt = o.Now.Mono
	o.Observed = nil // what was seen on the way is over, and a lease held costs little
	o.Observation = register.Observation{}
	o.standOn = ""
	if o.Cfg.OnSession {
		o.standOn = o.Cur.Session
	}
	if o.standOn != "" {
		o.own = o.deadlineFrom(sent)
		o.restOnSession()
		return
	}
	o.moveToCurrent()
	o.schedule(sent)
}

// restOnSession leaves everything to the session's beat.
func (o *owner) restOnSession() {
	o.Timers[base.TimerDeadline], o.Timers[base.TimerNext] = base.Unset, base.Unset
}

// schedule sets the timers of a lease whose last good renewal was sent at a Mono.
func (o *owner) schedule(sent int64) {
	if o.Cur.TTL == 0 {
		o.Timers[base.TimerDeadline], o.Timers[base.TimerNext] = base.Unset, o.In(core.EndlessPoll)
		return
	}
	o.Timers[base.TimerDeadline] = o.deadlineFrom(sent)
	o.Timers[base.TimerNext] = o.startOf(sent) + int64(o.interval())
}

// interval is the time from one renewal to the next.
func (o *owner) interval() core.Duration {
	third := o.Cur.TTL / 3
	return o.RNG.Between(third/6*5, third)
}

// isPast reports whether the deadline in force has come: nobody here believes
// from then on.
func (o *owner) isPast() bool {
	if o.standOn == "" {
		return o.Due(base.TimerDeadline)
	}
	return o.Session.ID != o.standOn || o.Now.Mono >= o.Session.Until || o.Due(base.TimerDeadline)
}

// whyPast is the reason of a loss by the clock.
func (o *owner) whyPast() core.Reason {
	switch {
	case o.standOn != "" && o.Session.ID != o.standOn && o.Session.End != core.ReasonNone:
		return o.Session.End
	case o.Failing || o.Flight.ID != 0 && !o.Tidying() && o.Doing != register.ForHint:
		return core.ReasonUnreachable
	}
	return core.ReasonExpired
}

// beat puts our beat under the epoch of cur.
func (o *owner) beat() {
	o.seq++
	o.Body = register.AppendBeat(o.Body[:0], &o.Machine, o.Owner, o.seq)
	o.Write(register.ForBeating, core.ActionPut, o.beatKey, o.RequestLimit(o.Timers[base.TimerDeadline]))
}

func (o *owner) askLock(limit core.Duration) {
	o.Ask(register.ForLock, core.ActionGet, o.Cfg.Name+"/"+core.LockFile, limit)
}

// askNewer asks whether there is a version above ours: by exists, or where the
// last confirmation is too old for that, by a list.
func (o *owner) askNewer() {
	limit := o.RequestLimit(o.Timers[base.TimerDeadline])
	if !o.IsConfirmedLately() {
		o.AskNewest("", limit)
		return
	}
	o.Ask(register.ForNext, core.ActionExists, o.KeyAbove(), limit)
}

// askIfHinted asks whether there is a version above ours, if a hint is due.
func (o *owner) askIfHinted() {
	if o.standOn == "" && o.IsHintDue(&o.quiet) {
		o.askHint()
	}
}

// askAbove reads the version above ours.
func (o *owner) askAbove() {
	o.Ask(register.ForVersion, core.ActionGet, o.KeyAbove(), o.RequestLimit(o.Timers[base.TimerDeadline]))
}

// renewalAnswer takes the answer to a renewal's request onwards. Like all that it
// calls it returns why the tenure is lost, or none.
func (o *owner) renewalAnswer(ev *core.Event, f base.Flight) core.Reason {
	o.Learn(ev)
	if o.Doing == register.ForHint {
		if ev.Outcome == core.OutcomeYes {
			o.askAbove()
		}
		return core.ReasonNone
	}
	if ev.Outcome == core.OutcomeUnknown {
		o.Class, o.Failing = ev.Class, true
		o.Later(o.Timers[base.TimerDeadline])
		return core.ReasonNone
	}
	switch o.Doing {
	case register.ForBeating:
		return o.beaten(f.Sent)
	case register.ForNext:
		switch {
		case ev.Outcome == core.OutcomeYes:
			o.askAbove()
		case !o.IsNewestConfirmed(f.Sent):
			o.NewestConfirmedAt = base.Unset
			o.renew()
		default:
			o.NewestConfirmedAt = f.Sent
			return o.noneNewer(f.Sent)
		}
	case register.ForConfirm:
		return o.confirmed(ev)
	case register.ForVersion:
		return o.readAbove(ev)
	case register.ForLock:
		return o.lockRead(ev)
	case register.ForSelf:
		if ev.Outcome == core.OutcomeNo {
			a := o.Emit(core.ActionWarned)
			a.Reason, a.Key = core.ReasonEmptied, o.Key
			return core.ReasonTaken
		}
		o.selfAt = o.Now.Mono
		return o.renewalSucceeded()
	}
	return core.ReasonNone
}

// confirmed takes a list that was asked because exists proves nothing any more.
func (o *owner) confirmed(ev *core.Event) core.Reason {
	switch n, found := o.Newest(ev); {
	case !found:
		o.AskNewest(o.After, o.RequestLimit(o.Timers[base.TimerDeadline]))
		return core.ReasonNone
	case n == o.Cur.N:
		o.NewestConfirmedAt, o.selfAt = o.Paged, o.Now.Mono
		return o.noneNewer(o.Paged)
	case n > o.Cur.N:
		o.NewestConfirmedAt = o.Paged
		o.Ask(register.ForVersion, core.ActionGet, register.VersionKey(o.Prefix, n), o.RequestLimit(o.Timers[base.TimerDeadline]))
		return core.ReasonNone
	}
	a := o.Emit(core.ActionWarned)
	a.Reason, a.Key = core.ReasonEmptied, register.VersionKey(o.Prefix, o.Cur.N)
	return core.ReasonTaken
}

// readAbove takes the body of the newest version above ours.
func (o *owner) readAbove(ev *core.Event) core.Reason {
	if ev.Outcome == core.OutcomeNo { // collected since: only a list can tell what is there
		o.NewestConfirmedAt = base.Unset
		o.renew()
		return core.ReasonNone
	}
	tenure, session := o.Cur.Tenure, o.Cur.Session
	n, _, _ := register.ParseRegisterKey(o.Prefix, []byte(o.Key))
	was := o.Cur
	o.ReadVersion(ev.Body, n, ev.Stamp)
	switch reason := o.LossBy(tenure); {
	case reason != core.ReasonNone:
		return reason
	case o.Cur.Session != session: // no join does that
		o.Cur.Session = was.Session
	}
	o.Observed = nil
	o.Emit(core.ActionAdopted).Epoch = n
	if o.standOn == "" {
		o.moveToCurrent() // the beat just put was under a superseded epoch, and never counts
		o.renew()
	}
	return core.ReasonNone
}

// checkLock asks for a lock.json where there may be one.
func (o *owner) checkLock() core.Reason {
	if o.Cfg.LockFilePresent {
		o.askLock(o.RequestLimit(o.Timers[base.TimerDeadline]))
		return core.ReasonNone
	}
	return o.checkSelf()
}

func (o *owner) lockRead(ev *core.Event) core.Reason {
	o.Observation = register.Observation{}
	if o.LockSeen(ev); o.Observation.LockHeld {
		a := o.Emit(core.ActionWarned)
		a.Reason, a.Observed = core.ReasonMixed, o.Observed
		return core.ReasonTaken
	}
	o.Observed = nil
	return o.checkSelf()
}

// checkSelf asks now and then whether our own version is still there: where
// somebody has emptied the prefix, nothing newer would be seen for ever.
func (o *owner) checkSelf() core.Reason {
	age := o.Now.Mono - o.selfAt // 0: a list has just shown it
	if o.Cur.TTL == 0 && age > 0 || age >= int64(core.LeastKeep/4) {
		o.Ask(register.ForSelf, core.ActionExists, o.selfKey, o.RequestLimit(o.Timers[base.TimerDeadline]))
		return core.ReasonNone
	}
	return o.renewalSucceeded()
}

// renewalSucceeded: the renewal counts from its beat.
func (o *owner) renewalSucceeded() core.Reason {
	sent := min(o.putSent, o.asked)
	o.putSent = base.Unset
	o.Failing, o.Retries, o.Class = false, 0, core.ClassNone
	o.schedule(sent)
	if o.Cur.TTL != 0 {
		o.Emit(core.ActionRenewed).At = o.Timers[base.TimerDeadline]
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
