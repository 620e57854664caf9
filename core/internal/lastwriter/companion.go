package lastwriter

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
	"github.com/mopslock/mopslock/core/internal/lockfile"
)

// Companion is the machine of a second owner: it joins a tenure that another
// process acquired, keeps it alive, and never releases it. Losing contact does not
// stop it; only what it reads can (doc.go has its states and edges).
type Companion struct {
	Tenure
	base.Companion

	RivalSince int64 // Mono since when another's attempt has been in progress, or unset
	readStart  int64 // of the read that found the tenure expired
}

// NewCompanion makes a companion in state Idle; cfg.Holder is the tenure.
func NewCompanion(cfg core.Config) (*Companion, error) {
	cfg.Machine = core.MachineCompanion
	t, err := newTenure(cfg)
	if err != nil {
		return nil, err
	}
	return &Companion{Tenure: t, Companion: base.NewCompanion(CompanionEdges[:]), RivalSince: base.Unset}, nil
}

// UsesChange implements base.Reporting.
func (c *Companion) UsesChange() bool { return c.State == core.CompanionJoined }

// Step implements Machine.
func (c *Companion) Step(now core.Instant, ev core.Event) ([]core.Action, error) {
	if err := c.Start(c, now, &ev); err != nil {
		return nil, err
	}
	if ev.Kind != core.EventLeave && c.Due(base.TimerDeadline) {
		c.pastDeadline()
	}
	switch ev.Kind {
	case core.EventAccompany:
		c.Accompany(&c.Machine)
		c.become(core.CompanionJoining)
		c.read(c.JoinLimit())
	case core.EventLeave:
		c.leave()
	case core.EventAnswer:
		if f, ok := c.Land(&ev); ok {
			c.answer(&ev, f)
		}
	case core.EventWoke:
		if c.RanOut(base.TimerNext) {
			c.next()
		}
	}
	return c.Finish(), nil
}

// become moves along an edge of the table.
func (c *Companion) become(to core.CompanionState) { c.Become(&c.Machine, to) }

func (c *Companion) answer(ev *core.Event, f base.Flight) {
	c.Reached(&c.Machine, ev, f)
	switch c.State {
	case core.CompanionJoining:
		c.joining(ev, f)
	case core.CompanionReviving:
		c.revived(ev)
	case core.CompanionDoubtful:
		c.readBack(ev)
	case core.CompanionVerifying:
		c.verified(ev)
	case core.CompanionJoined:
		c.joinedAnswer(ev, f)
	case core.CompanionLeaving:
		c.Left(&c.Machine)
	}
}

// next does what the state was waiting to do.
func (c *Companion) next() {
	if c.State == core.CompanionJoined {
		c.renew()
		return
	}
	c.read(c.JoinLimit())
}

// joining applies the rules of joining, in their order.
func (c *Companion) joining(ev *core.Event, f base.Flight) {
	switch ev.Outcome {
	case core.OutcomeUnknown:
		c.Class = ev.Class
		c.unreadable()
		return
	case core.OutcomeNo:
		c.CannotMaintain(&c.Machine, core.ReasonAbsent)
		return
	}
	lockfile.Parse(ev.Body, &c.seen)
	c.classify(f)
}

// classify is the second half of joining: what the record itself says.
func (c *Companion) classify(f base.Flight) {
	r := &c.seen
	if r.State != lockfile.Empty {
		c.note(c.observe())
	}
	switch {
	case r.NoExpiry:
		c.CannotMaintain(&c.Machine, core.ReasonNoExpiry)
	case r.State == lockfile.Released:
		c.lose(core.ReasonReleased)
	case r.State != lockfile.Live:
		c.Class = core.ClassNone
		c.unreadable()
	case !r.Writer.Equal(string(c.HolderID)):
		c.another()
	case r.AcquiredAt == 0:
		c.CannotMaintain(&c.Machine, core.ReasonNeverAcquired)
	default:
		c.ours(f)
	}
}

// ours joins a tenure that is alive and revives one that is not. A record so
// old that no owner may rely on it any more counts as expired, fresh or not.
func (c *Companion) ours(f base.Flight) {
	c.adopt()
	c.seeExpire(c.seen.Expire)
	good := f.Sent - max(0, c.Now.Wall-c.seen.WrittenAt)
	if !c.fresh() || c.Now.Mono >= good+int64(c.span()) {
		c.revive(f)
		return
	}
	c.join(good)
}

// unreadable is retried for a TTL, and forever by one that was joined before.
func (c *Companion) unreadable() {
	if c.State != core.CompanionJoining {
		c.become(core.CompanionJoining)
	}
	if c.IsTooLate(&c.Machine) {
		c.CannotMaintain(&c.Machine, core.ReasonUnreadable)
		return
	}
	c.Later(c.JoinBy())
}

// another: the record is another tenure's. Its maker may still lose a claim in progress,
// or it is the last write of an old claim: it is read again for up to a TTL.
func (c *Companion) another() {
	c.seeExpire(c.seen.Expire)
	if c.RivalSince == base.Unset {
		c.RivalSince = c.Now.Mono
	}
	over := c.Now.Mono-c.RivalSince >= int64(c.Cfg.TTL)
	if c.seen.AcquiredAt != 0 || !c.fresh() || over {
		c.lose(core.ReasonTaken)
		return
	}
	again := max(c.Cfg.AcquireMargin, core.JoinAgainMin)
	c.Timers[base.TimerNext] = min(c.In(again), max(c.RivalSince+int64(c.Cfg.TTL), c.In(core.RetryFloor)))
}

// join believes: the record just read is ours and fresh. That read is the check
// of the first renewal too, so its put goes out at once. Until it is answered
// the deadline rests on what is left of the record as it was read.
func (c *Companion) join(good int64) {
	c.believe(good)
	c.write(c.RequestLimit(c.Timers[base.TimerDeadline]))
	c.Timers[base.TimerNext] = base.Unset // the renewal that it would begin is under way
}

// believe enters Joined with a beat of the given Mono.
func (c *Companion) believe(good int64) {
	c.become(core.CompanionJoined)
	c.Rejoin, c.RivalSince = true, base.Unset
	c.hold(good)
}

// adopt copies what the tenure's other owner wrote. A companion counts its own
// writes; an owner that comes back goes on counting.
func (c *Companion) adopt() {
	c.there = true
	c.acquired, c.Epoch = c.seen.AcquiredAt, c.seen.Epoch
	if !c.remote && c.count == 0 {
		c.count, c.firstWritten = c.seen.Count, c.seen.FirstWrittenAt
	}
}

// revive claims our own expired tenure again, with acquire's wait: another machine may
// be claiming it at this moment.
func (c *Companion) revive(f base.Flight) {
	c.readStart = f.Sent
	c.become(core.CompanionReviving)
	c.write(c.attemptLimit(c.JoinLimit(), c.readStart))
}

func (c *Companion) revived(ev *core.Event) {
	if ev.Outcome == core.OutcomeYes {
		c.startVerifying()
		return
	}
	c.Class, c.putSaid = ev.Class, ev.Class
	c.doubt()
	c.become(core.CompanionDoubtful)
	c.read(c.JoinLimit())
}

func (c *Companion) startVerifying() {
	c.become(core.CompanionVerifying)
	took := core.Duration(c.Now.Mono - c.readStart)
	c.Timers[base.TimerNext] = c.In(max(c.Cfg.AcquireMargin, 2*took))
}

// readBack: only our very put, seen there, may go on to be verified. While
// nothing can be read it stays in doubt, for as long as the put could keep us
// alive: the rules of joining would take our unverified put for a living tenure.
func (c *Companion) readBack(ev *core.Event) {
	switch found := c.find(ev); {
	case found == foundPut:
		c.settle()
		c.startVerifying()
	case found == foundUnknown || found == foundUnreadable:
		if c.Now.Mono < c.sent+int64(c.span()) {
			c.Later(c.sent + int64(c.span()))
			return
		}
		c.unreadable()
	case found == foundOther:
		c.lose(core.ReasonTaken)
	case found == foundReleased:
		c.lose(core.ReasonReleased)
	default: // the store did not take our put: judged again, but not forever
		c.Class = c.putSaid
		c.unreadable()
	}
}

// verified takes the read after the wait.
func (c *Companion) verified(ev *core.Event) {
	switch c.find(ev) {
	case foundPut, foundOurs:
		if !c.ownFresh() || c.Now.Mono >= c.sent+int64(c.span()) {
			c.unreadable() // too slow to live: once more, from the start
			return
		}
		c.believe(c.sent)
		c.Emit(core.ActionRenewed).At = c.Timers[base.TimerDeadline]
	case foundReleased:
		c.lose(core.ReasonReleased)
	case foundUnknown, foundUnreadable:
		c.unreadable()
	default:
		c.lose(core.ReasonTaken)
	}
}

func (c *Companion) joinedAnswer(ev *core.Event, f base.Flight) {
	switch reason := c.renewal(ev, f); reason {
	case core.ReasonNone:
	case core.ReasonExpired:
		c.pastDeadline()
	default:
		c.lose(reason)
	}
}

// pastDeadline stops believing, says so once, and joins again.
func (c *Companion) pastDeadline() {
	c.LoseContact(&c.Machine)
	c.read(c.JoinLimit())
}

// lose ends it. Nothing of ours is written after it.
func (c *Companion) lose(reason core.Reason) {
	c.become(core.CompanionLost)
	c.Lost(reason, &c.Observed)
}

// leave ends it at its own wish; it writes nothing. A put in flight is waited
// for, since it could otherwise land after the holder's release.
func (c *Companion) leave() {
	switch {
	case c.State >= core.CompanionLeaving:
	case c.Flight.ID != 0 && c.Flight.Verb == core.ActionPut:
		c.become(core.CompanionLeaving)
	default:
		c.Left(&c.Machine)
	}
}
