package core

// StrictCompanion is the machine of a second owner under strict: it joins a
// tenure by making its next version, keeps it alive by beats of its own, and
// never releases it. Losing contact does not stop it; only what it reads can.
type StrictCompanion struct {
	owner
	state  CompanionState
	tenure HolderID

	rejoin bool  // it was joined before: nothing but Lost or leave ends it now
	joinBy int64 // Mono: unreadable so long, it cannot maintain
	claim  claim
	leaves int // attempts to say that it left
}

// NewStrictCompanion makes a companion in state Idle; cfg.Holder is the tenure,
// cfg.Epoch one that it had.
func NewStrictCompanion(cfg Config) (*StrictCompanion, error) {
	cfg.Machine, cfg.Protocol = MachineCompanion, ProtocolStrict
	o, err := newOwner(cfg)
	if err != nil {
		return nil, err
	}
	return &StrictCompanion{owner: o, state: CompanionIdle, tenure: cfg.Holder}, nil
}

// String implements Machine.
func (c *StrictCompanion) String() string { return c.state.String() }

// State is where the machine stands.
func (c *StrictCompanion) State() CompanionState { return c.state }

// Step implements Machine.
func (c *StrictCompanion) Step(now Instant, ev Event) ([]Action, error) {
	if err := c.admit(now, &ev); err != nil {
		return nil, err
	}
	if !c.accepts(ev.Kind) {
		return nil, errEvent(c.state.String(), ev.Kind)
	}
	c.begin(now)
	c.hear(&ev)
	if ev.Kind != EventLeave && c.state == CompanionJoined && c.isPast() {
		c.pastDeadline()
	}
	switch ev.Kind {
	case EventAccompany:
		c.joinBy = c.in(c.patience())
		c.become(CompanionJoining)
		c.seek()
	case EventLeave:
		c.leave()
	case EventAnswer:
		if f, ok := c.land(&ev); ok {
			c.answer(&ev, f)
		}
	case EventChanged:
		if c.state == CompanionJoined {
			c.hint(c.quiet)
		}
	case EventWoke:
		if c.due(timerNext) {
			c.timers[timerNext] = unset
			c.next()
		}
	}
	if c.state == CompanionJoined {
		c.heedHint()
	}
	return c.finish(), nil
}

// patience is how long a first joining may take.
func (c *StrictCompanion) patience() Duration {
	if c.cfg.TTL == None {
		return DefaultStrictTTL
	}
	return c.cfg.TTL
}

func (c *StrictCompanion) accepts(kind EventKind) bool {
	switch kind {
	case EventAnswer, EventChanged, EventWoke, EventCalled:
		return true
	case EventAccompany:
		return c.state == CompanionIdle
	case EventLeave:
		return c.state != CompanionIdle
	}
	return false
}

// become moves along an edge of the table.
func (c *StrictCompanion) become(to CompanionState) {
	checkMove(strictCompanionEdges[:], c.state, to)
	c.state = to
	c.timers[timerNext], c.timers[timerLook] = unset, unset
	switch {
	case to >= CompanionLeft:
		c.timers = newTimers()
		c.abandon()
	case to == CompanionLeaving:
		c.timers[timerDeadline] = unset
	}
}

func (c *StrictCompanion) answer(ev *Event, f flight) {
	switch c.state {
	case CompanionJoining:
		c.joining(ev)
	case CompanionReviving:
		c.created(ev)
	case CompanionDoubtful:
		c.readBack(ev)
	case CompanionJoined:
		c.joinedAnswer(ev, f)
	case CompanionLeaving:
		c.leaving(ev)
	}
}

// next does what the state was waiting to do.
func (c *StrictCompanion) next() {
	switch c.state {
	case CompanionJoining:
		c.seek()
	case CompanionDoubtful:
		c.askBack()
	case CompanionJoined:
		c.renew()
	case CompanionLeaving:
		c.sayLeft()
	}
}

// joinLimit bounds a request of joining.
func (c *StrictCompanion) joinLimit() Duration { return min(RequestLimit, c.patience()/3) }

// seek lists to find the newest version. No clock and no judgement of who is
// alive is involved in joining: the create is, which only one can win.
//
//	zombie     put b (late) ................... landed: the tenure looks alive
//	taker      look: dead   create v(n+1) . . . . . . . . . . . . won
//	companion                                   believes the beat: two tenures
func (c *StrictCompanion) seek() {
	c.askNewest("", c.joinLimit())
}

func (c *StrictCompanion) joining(ev *Event) {
	switch {
	case ev.Outcome == OutcomeUnknown:
		c.class = ev.Class
		c.unreadable()
	case c.doing == forConfirm:
		c.learn(ev)
		n, found := c.newest(ev)
		if !found {
			c.askNewest(c.after, c.joinLimit())
			return
		}
		if n == 0 {
			c.cannotMaintain(ReasonAbsent)
			return
		}
		c.basis = c.paged
		c.ask(forVersion, ActionGet, versionKey(c.prefix, n), c.joinLimit())
	case ev.Outcome == OutcomeNo: // collected since
		c.class = ClassNone
		c.unreadable()
	default:
		c.learn(ev)
		c.found(ev)
	}
}

// found goes by the newest version alone.
func (c *StrictCompanion) found(ev *Event) {
	n, _, _ := parseRegisterKey(c.prefix, []byte(c.key))
	c.readVersion(ev.Body, n, ev.Stamp)
	switch reason := c.lossBy(c.tenure); {
	case c.cur.result == readNewer:
		c.cannotMaintain(ReasonNewer)
	case c.cur.result == readOther:
		c.cannotMaintain(ReasonKind)
	case c.cur.result == readCorrupt:
		c.class = ClassNone
		c.unreadable()
	case reason != ReasonNone:
		c.lose(reason)
	case c.bug(BugJoinByBeat):
		c.hold(c.now.Mono)
	default:
		c.join()
	}
}

// join makes the next version, with all that a join copies.
func (c *StrictCompanion) join() {
	v := c.successor(VersionHeld)
	v.owners = withOwner(c.cur.owners, c.owner.owner)
	if c.bug(BugJoinDropsSession) {
		v.session = ""
	}
	c.claim = claim{v: v, since: c.now.Mono}
	c.become(CompanionReviving)
	c.sendJoin()
}

func (c *StrictCompanion) sendJoin() {
	k := &c.claim
	if k.n == 0 || !c.bug(BugSameNonceRetry) {
		k.v.nonce = newNonce(&c.rng)
	}
	k.tried[k.n] = attempt{k.v.nonce, c.now.Mono}
	k.n++
	c.create(&k.v, c.joinLimit())
}

func (c *StrictCompanion) created(ev *Event) {
	if ev.Outcome == OutcomeYes || ev.Outcome == OutcomeUnknown && c.bug(BugUnknownIsYes) {
		c.won(&c.claim.tried[c.claim.n-1])
		return
	}
	if ev.Outcome == OutcomeUnknown {
		c.class = ev.Class
	}
	c.become(CompanionDoubtful)
	c.askBack()
}

func (c *StrictCompanion) askBack() {
	c.ask(forReadBack, ActionGet, versionKey(c.prefix, c.claim.v.n), c.joinLimit())
}

// readBack tells whether the version there is ours, and by which request.
func (c *StrictCompanion) readBack(ev *Event) {
	k := &c.claim
	switch ev.Outcome {
	case OutcomeUnknown:
		c.class = ev.Class
		c.rejoinOr(func() { c.later(c.rejoinBy()) })
	case OutcomeNo:
		c.rejoinOr(func() {
			if k.n == MaxAttempts {
				c.again()
				return
			}
			c.become(CompanionReviving)
			c.sendJoin()
		})
	default:
		c.learn(ev)
		var v version
		if parseVersion(ev.Body, k.v.n, &v) == readGood {
			for i := k.n - 1; i >= 0; i-- {
				if k.tried[i].nonce.is(v.nonce) {
					c.won(&k.tried[i])
					return
				}
			}
		}
		c.again() // somebody else made it: an owner of ours, or who has taken or ended it
	}
}

// rejoinOr goes on, unless a first joining has taken too long.
func (c *StrictCompanion) rejoinOr(goOn func()) {
	if !c.rejoin && (c.now.Mono >= c.joinBy || c.class.Permanent()) {
		c.cannotMaintain(ReasonUnreadable)
		return
	}
	goOn()
}

// again joins anew, from the list on.
func (c *StrictCompanion) again() {
	c.become(CompanionJoining)
	c.seek()
}

// won: our version is there. One that was won too late gives nothing to rely on,
// and joining again costs one more. So does one that may have been collected
// below: only a list shows whether it is the newest.
func (c *StrictCompanion) won(a *attempt) {
	c.class, c.retries = ClassNone, 0
	stale := c.now.Mono-c.basis > int64(BasisWindow) && !c.bug(BugGCWithoutBasis)
	c.made(&c.claim.v, a.sent)
	if stale || c.cur.ttl != 0 && c.now.Mono >= c.deadlineFrom(a.sent) {
		c.become(CompanionJoining)
		c.rejoinOr(func() { c.later(c.rejoinBy()) })
		return
	}
	c.hold(a.sent)
}

// hold begins to rely on the tenure.
func (c *StrictCompanion) hold(sent int64) {
	c.become(CompanionJoined)
	c.rejoin = true
	c.believe(sent)
	a := c.emit(ActionHeld)
	a.At, a.Wall, a.Holder = c.deadlineFrom(sent), c.now.Wall, c.tenure
	a.Epoch, a.Token = c.cur.n, c.cur.origin
	if c.bug(BugDeadlineFromAnswer) {
		a.At = c.deadlineFrom(c.now.Mono)
	}
}

func (c *StrictCompanion) joinedAnswer(ev *Event, f flight) {
	if course, reason := c.renewalAnswer(ev, f); course == lost {
		c.lose(reason)
	}
}

// pastDeadline stops believing, says so once, and joins again.
func (c *StrictCompanion) pastDeadline() {
	c.timers[timerDeadline] = unset
	c.abandon()
	c.retries = 0
	c.become(CompanionJoining)
	c.emit(ActionContactLost)
	c.seek()
}

// unreadable is retried for a TTL, and for ever by one that was joined before.
func (c *StrictCompanion) unreadable() {
	c.rejoinOr(func() { c.later(c.rejoinBy()) })
}

// rejoinBy is until when joining is tried.
func (c *StrictCompanion) rejoinBy() int64 {
	if c.rejoin {
		return unset
	}
	return c.joinBy
}

// cannotMaintain ends a first joining. Later it is only bad news.
func (c *StrictCompanion) cannotMaintain(reason Reason) {
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

// lose ends it. Nothing of ours is written after it.
func (c *StrictCompanion) lose(reason Reason) {
	c.become(CompanionLost)
	a := c.emit(ActionLost)
	a.Reason = reason
	if c.sight != nil && c.sight.State != 0 {
		a.Sight = c.sight
	}
}

// leave ends it at its own wish. The others are told, so that their release frees
// the name at once; an owner who comes back (RoleOwner) has not left.
func (c *StrictCompanion) leave() {
	switch {
	case c.state >= CompanionLeaving:
	case c.state != CompanionJoined || c.cfg.Role == RoleOwner || withoutOwner(c.cur.owners, c.owner.owner) == "":
		c.left()
	default:
		c.abandon()
		c.become(CompanionLeaving)
		c.sayLeft()
	}
}

// sayLeft makes the next version without us. It is a courtesy with few attempts:
// what it cannot say costs the next one a TTL of waiting.
func (c *StrictCompanion) sayLeft() {
	const courtesy = 3
	if c.leaves >= courtesy {
		c.left()
		return
	}
	v := c.successor(VersionHeld)
	v.owners = withoutOwner(c.cur.owners, c.owner.owner)
	c.create(&v, c.joinLimit())
}

func (c *StrictCompanion) leaving(ev *Event) {
	switch {
	case ev.Outcome == OutcomeUnknown:
		c.class = ev.Class
		c.leaves++
		c.later(unset)
	case c.doing == forCreate && ev.Outcome == OutcomeNo: // somebody was faster, or ours has landed
		c.ask(forReadBack, ActionGet, c.key, c.joinLimit())
	case c.doing == forReadBack && ev.Outcome == OutcomeYes:
		n, _, _ := parseRegisterKey(c.prefix, []byte(c.key))
		c.readVersion(ev.Body, n, ev.Stamp)
		there := withoutOwner(c.cur.owners, c.owner.owner) != c.cur.owners
		if c.lossBy(c.tenure) == ReasonNone && there {
			c.sayLeft()
			return
		}
		c.left()
	default:
		c.left()
	}
}

func (c *StrictCompanion) left() {
	c.become(CompanionLeft)
	c.emit(ActionLeft)
}
