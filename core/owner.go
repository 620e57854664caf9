package core

// owner is one process that keeps a tenure alive under strict: its beats, what it
// may believe, and the versions that others of the tenure make.
type owner struct {
	register
	seq     uint64
	putSent int64  // Mono: sent of this renewal's beat, once it was answered; unset before
	asked   int64  // Mono: sent of this renewal's exists
	selfAt  int64  // Mono of the latest proof that our own version is still there
	beatKey string // of the epoch that we stand on
	selfKey string // of its version
	standOn string // the session that keeps the lease, or ""
	own     int64  // Mono until which our own version is good beside the session
	quiet   int64  // Mono before which no hint is heeded
}

func newOwner(cfg Config) (owner, error) {
	r, err := newRegister(cfg)
	if err != nil {
		return owner{}, err
	}
	return owner{register: r, putSent: unset, quiet: -MaxClockRange}, nil
}

// span is how long after it was sent a good renewal may be relied on.
func (o *owner) span() int64 { return int64(o.cur.ttl - o.cur.margin) }

// deadlineFrom is the deadline that something sent at a Mono gives.
func (o *owner) deadlineFrom(sent int64) int64 {
	if o.cur.ttl == 0 {
		return Never
	}
	return sent + o.span()
}

// stand moves to the epoch of cur.
func (o *owner) stand() {
	o.beatKey = beatKey(o.prefix, o.cur.n, o.owner)
	o.selfKey = versionKey(o.prefix, o.cur.n)
	o.putSent = unset
}

// believe begins to rely on a version of ours that was sent at a Mono.
func (o *owner) believe(sent int64) {
	o.failing, o.retries, o.class = false, 0, ClassNone
	o.selfAt = o.now.Mono
	o.sight = nil // what was seen on the way is over, and a lease held costs little
	o.look = look{}
	if o.bug(BugDeadlineFromAnswer) {
		sent = o.now.Mono
	}
	o.standOn = ""
	if o.cfg.OnSession {
		o.standOn = o.cur.session
	}
	if o.standOn != "" {
		o.own = o.deadlineFrom(sent)
		o.restOnSession()
		return
	}
	o.stand()
	o.schedule(sent)
}

// restOnSession leaves everything to the session's beat.
func (o *owner) restOnSession() { o.timers[timerDeadline], o.timers[timerNext] = unset, unset }

// schedule sets the timers of a lease whose last good renewal was sent at a Mono.
func (o *owner) schedule(sent int64) {
	if o.cur.ttl == 0 {
		o.timers[timerDeadline], o.timers[timerNext] = unset, o.in(EndlessPoll)
		return
	}
	o.timers[timerDeadline] = sent + o.span()
	o.timers[timerNext] = sent + int64(o.interval())
}

// interval is the time from one renewal to the next.
func (o *owner) interval() Duration {
	third := o.cur.ttl / 3
	return o.rng.between(third/6*5, third)
}

// isPast reports whether the deadline in force has come: nobody here believes
// from then on.
func (o *owner) isPast() bool {
	if o.standOn == "" {
		return o.due(timerDeadline)
	}
	return o.session.id != o.standOn || o.now.Mono >= o.session.until || o.due(timerDeadline)
}

// whyPast is the reason of a loss by the clock.
func (o *owner) whyPast() Reason {
	switch {
	case o.standOn != "" && o.session.id != o.standOn && o.session.end != ReasonNone:
		return o.session.end
	case o.failing || o.flight.id != 0 && !o.tidying() && o.doing != forHint:
		return ReasonUnreachable
	}
	return ReasonExpired
}

// renew goes on with the renewal at hand: the beat first, then is there anything
// newer. Only both make it good, the second sent after the first was answered.
func (o *owner) renew() {
	limit := o.requestLimit(o.timers[timerDeadline])
	switch {
	case o.bug(BugExistsBesidePut) && o.asked == 0: // so that both can be under way at once
		o.askNewer(limit)
	case o.putSent == unset && o.cur.ttl != 0:
		o.seq++
		o.body = appendBeat(o.body[:0], &o.machine, o.owner, o.seq)
		o.write(forBeating, ActionPut, o.beatKey, limit)
	default:
		o.askNewer(limit)
	}
}

func (o *owner) askLock(limit Duration) {
	o.ask(forLock, ActionGet, o.cfg.Name+"/"+LockFile, limit)
}

// askNewer asks whether there is a version above ours: by exists, or where the
// last proof is too old for that, by a list.
func (o *owner) askNewer(limit Duration) {
	if o.basis == unset || o.now.Mono-o.basis > int64(BasisWindow) && !o.bug(BugPollAsBasis) {
		o.askNewest("", limit)
		return
	}
	o.ask(forNext, ActionExists, o.keyAbove(), limit)
}

// heedHint asks whether there is a version above ours, if a hint is due.
func (o *owner) heedHint() {
	if o.standOn == "" && o.heedsHint(&o.quiet) {
		o.ask(forHint, ActionExists, o.keyAbove(), o.requestLimit(o.timers[timerDeadline]))
	}
}

// askAbove reads the version above ours.
func (o *owner) askAbove() {
	o.ask(forVersion, ActionGet, o.keyAbove(), o.requestLimit(o.timers[timerDeadline]))
}

// course is what an answer means for an owner who believes.
type course uint8

const (
	goOn    course = iota
	renewed        // the renewal is good
	adopted        // another owner made the version above ours, and it is ours now
	lost           // see why
)

// renewalAnswer takes the answer to a renewal's request onwards. The Reason is
// of lost.
func (o *owner) renewalAnswer(ev *Event, f flight) (course, Reason) {
	o.learn(ev)
	if o.doing == forHint {
		switch {
		case ev.Outcome == OutcomeYes:
			o.askAbove()
		case o.bug(BugHintRenews):
			o.schedule(f.sent)
			o.emit(ActionRenewed).At = o.timers[timerDeadline]
		}
		return goOn, ReasonNone
	}
	if ev.Outcome == OutcomeUnknown && !(o.doing == forNext && o.bug(BugUnknownIsNo)) {
		o.class, o.failing = ev.Class, true
		o.later(o.timers[timerDeadline])
		return goOn, ReasonNone
	}
	switch o.doing {
	case forBeating:
		o.putSent = f.sent
		if o.bug(BugPutAloneRenews) {
			o.schedule(f.sent)
			o.emit(ActionRenewed).At = o.timers[timerDeadline]
		}
		if o.bug(BugExistsBesidePut) {
			o.asked = 0
			return o.good()
		}
		o.renew()
	case forNext:
		switch {
		case ev.Outcome == OutcomeYes:
			o.askAbove()
		case !o.proven(f.sent):
			o.basis = unset
			o.renew()
		default:
			o.basis = f.sent
			return o.noneNewer(f.sent)
		}
	case forConfirm:
		return o.confirmed(ev)
	case forVersion:
		return o.above(ev)
	case forLock:
		return o.lockRead(ev)
	case forSelf:
		if ev.Outcome == OutcomeNo {
			a := o.emit(ActionWarned)
			a.Reason, a.Key = ReasonEmptied, o.key
			return lost, ReasonTaken
		}
		o.selfAt = o.now.Mono
		return o.good()
	}
	return goOn, ReasonNone
}

// confirmed takes a list that was asked because exists proves nothing any more.
func (o *owner) confirmed(ev *Event) (course, Reason) {
	switch n, found := o.newest(ev); {
	case !found:
		o.askNewest(o.after, o.requestLimit(o.timers[timerDeadline]))
		return goOn, ReasonNone
	case n == o.cur.n:
		o.basis, o.selfAt = o.paged, o.now.Mono
		return o.noneNewer(o.paged)
	case n > o.cur.n:
		o.basis = o.paged
		o.ask(forVersion, ActionGet, versionKey(o.prefix, n), o.requestLimit(o.timers[timerDeadline]))
		return goOn, ReasonNone
	}
	a := o.emit(ActionWarned)
	a.Reason, a.Key = ReasonEmptied, versionKey(o.prefix, o.cur.n)
	return lost, ReasonTaken
}

// above takes the body of the newest version above ours.
func (o *owner) above(ev *Event) (course, Reason) {
	if ev.Outcome == OutcomeNo { // collected since: only a list can tell what is there
		o.basis = unset
		o.renew()
		return goOn, ReasonNone
	}
	tenure, session := o.cur.tenure, o.cur.session
	n, _, _ := parseRegisterKey(o.prefix, []byte(o.key))
	was := o.cur
	o.readVersion(ev.Body, n, ev.Stamp)
	switch reason := o.lossBy(tenure); {
	case reason != ReasonNone:
		return lost, reason
	case o.cur.session != session: // no join does that
		o.cur.session = was.session
	}
	o.sight = nil
	o.emit(ActionAdopted).Epoch = n
	if o.standOn == "" {
		o.stand() // the beat just put was under a superseded epoch, and never counts
		o.renew()
	}
	return adopted, ReasonNone
}

// noneNewer: the beat is there and nothing is above us. Sent is of the question.
func (o *owner) noneNewer(sent int64) (course, Reason) {
	o.asked = sent
	if o.bug(BugExistsBesidePut) {
		o.renew()
		return goOn, ReasonNone
	}
	if o.cfg.Beside {
		o.askLock(o.requestLimit(o.timers[timerDeadline]))
		return goOn, ReasonNone
	}
	return o.checkSelf()
}

func (o *owner) lockRead(ev *Event) (course, Reason) {
	o.look = look{}
	if o.lockSeen(ev); o.look.lockHeld {
		a := o.emit(ActionWarned)
		a.Reason, a.Sight = ReasonMixed, o.sight
		return lost, ReasonTaken
	}
	o.sight = nil
	return o.checkSelf()
}

// checkSelf asks now and then whether our own version is still there: where
// somebody has emptied the prefix, nothing newer would be seen for ever.
func (o *owner) checkSelf() (course, Reason) {
	age := o.now.Mono - o.selfAt // 0: a list has just shown it
	if o.cur.ttl == 0 && age > 0 || age >= int64(LeastKeep/4) {
		o.ask(forSelf, ActionExists, o.selfKey, o.requestLimit(o.timers[timerDeadline]))
		return goOn, ReasonNone
	}
	return o.good()
}

// good: the renewal counts from its beat.
func (o *owner) good() (course, Reason) {
	sent := min(o.putSent, o.asked)
	if o.bug(BugExistsBesidePut) {
		sent = o.putSent
	}
	if o.bug(BugDeadlineFromAnswer) {
		sent = o.now.Mono
	}
	o.putSent = unset
	o.failing, o.retries, o.class = false, 0, ClassNone
	o.schedule(sent)
	if o.cur.ttl != 0 {
		o.emit(ActionRenewed).At = o.timers[timerDeadline]
	}
	return renewed, ReasonNone
}
