package strict

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
	"github.com/mopslock/mopslock/core/internal/register"
)

// Companion is the machine of a second owner under strict: it joins a
// tenure by making its next version, keeps it alive by beats of its own, and
// never releases it. Losing contact does not stop it; only what it reads can.
type Companion struct {
	renewer
	base.Companion
	HolderID core.HolderID
	Attempt  Attempt
	leaves   int // how often it tried to say that it left
}

// NewCompanion makes a companion in state Idle; cfg.Holder is the tenure,
// cfg.Epoch one that it had.
func NewCompanion(cfg core.Config) (*Companion, error) {
	cfg.Machine, cfg.Protocol = core.MachineCompanion, core.ProtocolStrict
	r, err := newRenewer(cfg)
	if err != nil {
		return nil, err
	}
	return &Companion{renewer: r, Companion: base.NewCompanion(CompanionEdges[:]), HolderID: cfg.Holder}, nil
}

// UsesChange implements base.Reporting.
func (c *Companion) UsesChange() bool { return c.State == core.CompanionJoined }

// Step implements Machine.
func (c *Companion) Step(now core.Instant, ev core.Event) ([]core.Action, error) {
	if err := c.Start(c, now, &ev); err != nil {
		return nil, err
	}
	c.ApplyHostState(&ev)
	if ev.Kind != core.EventLeave && c.State == core.CompanionJoined && c.isPast() {
		c.pastDeadline()
	}
	switch ev.Kind {
	case core.EventAccompany:
		c.Accompany(&c.Machine)
		c.become(core.CompanionJoining)
		c.seek()
	case core.EventLeave:
		c.leave()
	case core.EventAnswer:
		if f, ok := c.Land(&ev); ok {
			c.answer(&ev, f)
		}
	case core.EventChanged:
		if c.State == core.CompanionJoined {
			c.Hint(c.quiet)
		}
	case core.EventWoke:
		if c.RanOut(base.TimerNext) {
			c.next()
		}
	}
	if c.State == core.CompanionJoined {
		c.askIfHinted()
	}
	return c.Finish(), nil
}

// Accepts is the contract's table for commands. A call always has a meaning.
func (c *Companion) Accepts(kind core.EventKind) bool {
	return kind == core.EventCalled || c.Companion.Accepts(kind)
}

// become moves along an edge of the table.
func (c *Companion) become(to core.CompanionState) { c.Become(&c.Machine, to) }

func (c *Companion) answer(ev *core.Event, f base.Flight) {
	c.Reached(&c.Machine, ev, f)
	switch c.State {
	case core.CompanionJoining:
		c.joining(ev)
	case core.CompanionReviving:
		c.created(ev)
	case core.CompanionDoubtful:
		c.readBack(ev)
	case core.CompanionJoined:
		c.joinedAnswer(ev, f)
	case core.CompanionLeaving:
		c.leaving(ev)
	}
}

// next does what the state was waiting to do.
func (c *Companion) next() {
	switch c.State {
	case core.CompanionJoining:
		c.seek()
	case core.CompanionDoubtful:
		c.askBack()
	case core.CompanionJoined:
		c.renew()
	case core.CompanionLeaving:
		c.sayLeft()
	}
}

// seek lists to find the newest version. No clock and no judgement of who is
// alive is involved in joining: the create is, which only one can win.
//
//	zombie     put b (late) ................... landed: the tenure looks alive
//	taker      observe: dead   create v(n+1) . . . . . . . . . . . won
//	companion                                   believes the beat: two tenures
func (c *Companion) seek() {
	c.AskNewest("", c.JoinLimit())
}

func (c *Companion) joining(ev *core.Event) {
	switch {
	case ev.Outcome == core.OutcomeUnknown:
		c.Class = ev.Class
		c.unreadable()
	case c.Doing == register.ForConfirm:
		c.Learn(ev)
		n, found := c.Newest(ev)
		if !found {
			c.AskNewest(c.After, c.JoinLimit())
			return
		}
		if n == 0 { // or it is no list of this name
			c.Ask(register.ForSelf, core.ActionExists, register.VersionKey(c.Prefix, c.Cfg.Epoch), c.JoinLimit())
			return
		}
		c.NewestConfirmedAt = c.Paged
		c.Ask(register.ForVersion, core.ActionGet, register.VersionKey(c.Prefix, n), c.JoinLimit())
	case c.Doing == register.ForSelf && ev.Outcome == core.OutcomeNo:
		c.CannotMaintain(&c.Machine, core.ReasonAbsent)
	case c.Doing == register.ForSelf:
		c.Class = core.ClassOther
		c.unreadable()
	case ev.Outcome == core.OutcomeNo: // collected since
		c.Class = core.ClassNone
		c.unreadable()
	default:
		c.Learn(ev)
		c.found(ev)
	}
}

// found goes by the newest version alone.
func (c *Companion) found(ev *core.Event) {
	n, _, _ := register.ParseRegisterKey(c.Prefix, []byte(c.Key))
	c.ReadVersion(ev.Body, n, ev.Stamp)
	switch reason := c.LossBy(c.HolderID); {
	case c.Cur.Result == register.ReadNewer:
		c.CannotMaintain(&c.Machine, core.ReasonNewer)
	case c.Cur.Result == register.ReadOther:
		c.CannotMaintain(&c.Machine, core.ReasonKind)
	case c.Cur.Result == register.ReadCorrupt:
		c.Class = core.ClassNone
		c.unreadable()
	case reason != core.ReasonNone:
		c.lose(reason)
	default:
		c.goOnJoining()
	}
}

// join makes the next version.
func (c *Companion) join(v register.OwnVersion) {
	v.Owners = register.WithOwner(c.Cur.Owners, c.ParticipantID)
	c.Attempt = Attempt{V: v, since: c.Now.Mono}
	c.become(core.CompanionReviving)
	c.sendJoin()
}

func (c *Companion) sendJoin() { c.Attempt.send(&c.Register, c.JoinLimit()) }

func (c *Companion) created(ev *core.Event) {
	if ev.Outcome == core.OutcomeYes {
		c.won(c.Attempt.latest())
		return
	}
	if ev.Outcome == core.OutcomeUnknown {
		c.Class = ev.Class
	}
	c.become(core.CompanionDoubtful)
	c.askBack()
}

func (c *Companion) askBack() { c.Attempt.askBack(&c.Register, c.JoinLimit()) }

// readBack tells whether the version there is ours, and by which request.
func (c *Companion) readBack(ev *core.Event) {
	switch ev.Outcome {
	case core.OutcomeUnknown:
		c.Class = ev.Class
		c.rejoinOr(func() { c.Later(c.JoinBy()) })
	case core.OutcomeNo:
		c.rejoinOr(func() {
			if c.Attempt.N == core.MaxCreates {
				c.again()
				return
			}
			c.become(core.CompanionReviving)
			c.sendJoin()
		})
	default:
		c.Learn(ev)
		if landed := c.Attempt.landed(ev.Body); landed != nil {
			c.won(landed)
			return
		}
		c.again() // another machine made it: an owner of ours, or one that has taken or ended it
	}
}

// rejoinOr goes on, unless a first joining has taken too long.
func (c *Companion) rejoinOr(goOn func()) {
	if c.IsTooLate(&c.Machine) {
		c.CannotMaintain(&c.Machine, core.ReasonUnreadable)
		return
	}
	goOn()
}

// again joins once more, from the list on.
func (c *Companion) again() {
	c.become(core.CompanionJoining)
	c.seek()
}

// won: our version is there. One that was won too late gives nothing to rely on,
// and joining again costs one more. So does one that may have been collected
// below: only a list shows whether it is the newest.
func (c *Companion) won(by *createRequest) {
	c.Class, c.Retries = core.ClassNone, 0
	stale := !c.IsWinNewest(c.Attempt.V.N, c.NewestConfirmedAt)
	c.SetCurrent(&c.Attempt.V, by.sent)
	if stale || c.isLate(by.sent) {
		c.become(core.CompanionJoining)
		c.rejoinOr(func() { c.Later(c.JoinBy()) })
		return
	}
	c.hold(by.sent)
}

// hold begins to rely on the tenure.
func (c *Companion) hold(sent int64) {
	c.become(core.CompanionJoined)
	c.Rejoin = true
	c.renewer.hold(c.HolderID, sent)
}

func (c *Companion) joinedAnswer(ev *core.Event, f base.Flight) {
	if reason := c.renewalAnswer(ev, f); reason != core.ReasonNone {
		c.lose(reason)
	}
}

// pastDeadline stops believing, says so once, and joins again.
func (c *Companion) pastDeadline() {
	c.LoseContact(&c.Machine)
	c.seek()
}

// unreadable is retried for a TTL, and forever by one that was joined before.
func (c *Companion) unreadable() {
	c.rejoinOr(func() { c.Later(c.JoinBy()) })
}

// lose ends it. Nothing of ours is written after it.
func (c *Companion) lose(reason core.Reason) {
	c.become(core.CompanionLost)
	c.Lost(reason, c.Observed)
}

// leave ends it at its own wish. The others are told, so that their release frees
// the name at once; an owner that comes back (RoleOwner) has not left.
func (c *Companion) leave() {
	switch {
	case c.State >= core.CompanionLeaving:
	case c.State != core.CompanionJoined || c.Cfg.Role == core.RoleOwner || register.WithoutOwner(c.Cur.Owners, c.ParticipantID) == "":
		c.Left(&c.Machine)
	default:
		c.Abandon()
		c.become(core.CompanionLeaving)
		c.sayLeft()
	}
}

// sayLeft makes the next version without us. It is a courtesy, tried a few times:
// what it cannot say costs the next one a TTL of waiting.
func (c *Companion) sayLeft() {
	const courtesy = 3
	if c.leaves >= courtesy {
		c.Left(&c.Machine)
		return
	}
	v := c.Successor(core.VersionHeld)
	v.Owners = register.WithoutOwner(c.Cur.Owners, c.ParticipantID)
	c.Create(&v, c.JoinLimit())
}

func (c *Companion) leaving(ev *core.Event) {
	switch {
	case ev.Outcome == core.OutcomeUnknown:
		c.Class = ev.Class
		c.leaves++
		c.Later(base.Unset)
	case c.Doing == register.ForCreate && ev.Outcome == core.OutcomeNo: // somebody was faster, or ours has landed
		c.Ask(register.ForReadBack, core.ActionGet, c.Key, c.JoinLimit())
	case c.Doing == register.ForReadBack && ev.Outcome == core.OutcomeYes:
		n, _, _ := register.ParseRegisterKey(c.Prefix, []byte(c.Key))
		c.ReadVersion(ev.Body, n, ev.Stamp)
		there := register.WithoutOwner(c.Cur.Owners, c.ParticipantID) != c.Cur.Owners
		if c.LossBy(c.HolderID) == core.ReasonNone && there {
			c.sayLeft()
			return
		}
		c.Left(&c.Machine)
	default:
		c.Left(&c.Machine)
	}
}
