package bridge

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
	"github.com/mopslock/mopslock/core/internal/lastwriter"
	"github.com/mopslock/mopslock/core/internal/strict"
)

// Companion is the machine of a second owner by bridge. It joins the register first, and
// lock.json then: where the register has ended, lock.json is not touched.
type Companion struct {
	pair
	base.Standing[core.CompanionState]
	told core.CompanionState // what its caller was told last: joined, lost contact, or how it ended
	in   [halves]bool        // which of both are joined: the register, lock.json
}

// NewCompanion makes a companion in state Idle; cfg.Holder is the tenure, cfg.Epoch one that it had.
func NewCompanion(cfg core.Config) (*Companion, error) {
	cfg.Machine, cfg.Protocol = core.MachineCompanion, core.ProtocolBridge
	p, err := newPair(cfg)
	if err != nil {
		return nil, err
	}
	return &Companion{pair: p, Standing: base.At(core.CompanionIdle, CompanionEdges[:])}, nil
}

// Idle implements Machine.
func (c *Companion) Idle() bool {
	return c.Machine.Idle() && c.register.isOver() && c.record.isOver()
}

// String implements Machine.
func (c *Companion) String() string { return c.Standing.String() }

// UsesChange implements base.Reporting.
func (c *Companion) UsesChange() bool { return c.State == core.CompanionJoined }

// Accepts is the contract's table for commands.
func (c *Companion) Accepts(kind core.EventKind) bool {
	switch kind {
	case core.EventAccompany:
		return c.State == core.CompanionIdle
	case core.EventLeave:
		return c.State != core.CompanionIdle
	}
	return base.IsNews(kind) || kind == core.EventCalled
}

// Step implements Machine.
func (c *Companion) Step(now core.Instant, ev core.Event) ([]core.Action, error) {
	if err := c.start(c, now, &ev); err != nil {
		return nil, err
	}
	c.goOn()
	switch ev.Kind {
	case core.EventAccompany:
		c.become(core.CompanionJoining)
		m, err := strict.NewCompanion(c.configOfRegister(core.MachineCompanion))
		must(err)
		m.Bridge()
		m.Mutant = c.Mutant
		c.register.machine = m
		c.order(&c.register, core.EventAccompany, 0)
	case core.EventLeave:
		c.leave()
	}
	c.goOn()
	return c.finish(), nil
}

// become moves along an edge of the table.
func (c *Companion) become(to core.CompanionState) { c.Move(&c.Machine, to) }

// goOn goes on with what the halves have said, until they say no more.
func (c *Companion) goOn() {
	for c.next() {
	}
}

// next reports whether anything was new.
func (c *Companion) next() bool {
	register, record := c.register.said, c.record.said
	c.register.said, c.record.said = spoken{}, spoken{}
	if c.State == core.CompanionLeaving {
		return c.leaving()
	}
	c.in[0] = (c.in[0] || register.held) && !register.out
	c.in[1] = (c.in[1] || record.held) && !record.out
	switch {
	case c.State != core.CompanionJoining && c.State != core.CompanionJoined:
	case register.ended != 0:
		c.end(register)
		c.endRecord(register.why)
		return true
	case record.ended != 0: // lock.json is another's: the version that we have joined is left
		c.end(record)
		c.record.forget()
		return true
	case c.in[0] && c.record.machine == nil:
		m, err := lastwriter.NewCompanion(c.configOfRecord(core.MachineCompanion))
		must(err)
		m.Mutant = c.Mutant
		c.record.machine = m
		c.order(&c.record, core.EventAccompany, 0)
		return true
	case c.in[0] && c.in[1] && c.State == core.CompanionJoining:
		c.become(core.CompanionJoined)
		c.hold()
	case (!c.in[0] || !c.in[1]) && c.State == core.CompanionJoined:
		c.become(core.CompanionJoining)
		c.Emit(core.ActionContactLost)
	case c.State == core.CompanionJoined:
		c.say()
	}
	return false
}

// end tells how it ended, and gives up what is left of both.
func (c *Companion) end(half spoken) {
	c.told = core.CompanionLost
	if half.ended == core.ActionCannotMaintain {
		c.told = core.CompanionRefused
	}
	c.become(core.CompanionLeaving)
	a := c.Emit(half.ended)
	a.Reason, a.Class, a.Observed = half.why, half.class, half.seen
}

// endRecord gives up lock.json. A put of ours may have landed on the release of the holder: it is released.
func (c *Companion) endRecord(reason core.Reason) {
	joined := c.record.machine != nil
	c.record.forget()
	if reason != core.ReasonReleased || !joined {
		return
	}
	m, err := lastwriter.NewLease(c.configOfRecord(core.MachineLease)) // of a tenure that is known on paper
	must(err)
	m.Mutant = c.Mutant
	c.record.machine, c.record.leaves = m, true
	c.order(&c.record, core.EventRelease, 0)
}

// leave ends it at its own wish.
func (c *Companion) leave() {
	if c.State < core.CompanionLeaving {
		c.told = core.CompanionLeft
		c.become(core.CompanionLeaving)
	}
}

// leaving waits for both: lock.json first, for a put in flight.
func (c *Companion) leaving() bool {
	for _, h := range [...]*half{&c.record, &c.register} {
		switch {
		case h.machine == nil || h.leaves && h.machine.Idle():
		case h.leaves:
			return false
		default:
			h.leaves = true
			c.order(h, core.EventLeave, 0)
			return true
		}
	}
	c.become(c.told)
	if c.told == core.CompanionLeft {
		c.Emit(core.ActionLeft)
	}
	return false
}
