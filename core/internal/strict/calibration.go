package strict

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
	"github.com/mopslock/mopslock/core/internal/register"
)

// Calibration is the machine of one sample of the store's clock: it writes an
// object of its own and reads how the store has stamped it.
type Calibration struct {
	base.Machine
	state core.TaskState
	body  []byte
}

// NewCalibration makes a calibration in state Idle; cfg.Owner is the process.
func NewCalibration(cfg core.Config) (*Calibration, error) {
	cfg.Machine, cfg.Protocol = core.MachineCalibration, core.ProtocolStrict
	m, err := base.New(cfg)
	if err != nil {
		return nil, err
	}
	if cfg.Owner == "" {
		cfg.Owner = string(base.SeedUUID(cfg.Seed))
	}
	m.Cfg.Owner = cfg.Owner
	m.Key = core.CalibrationPrefix + cfg.Owner
	return &Calibration{Machine: m, state: core.TaskIdle}, nil
}

// String implements Machine.
func (c *Calibration) String() string { return c.state.String() }

// State is where the machine stands.
func (c *Calibration) State() core.TaskState { return c.state }

// Step implements Machine.
func (c *Calibration) Step(now core.Instant, ev core.Event) ([]core.Action, error) {
	if err := c.Admit(now, &ev); err != nil {
		return nil, err
	}
	if !taskAccepts(c.state, ev.Kind) {
		return nil, base.ErrEvent(c.state.String(), ev.Kind)
	}
	c.Begin(now)
	switch ev.Kind {
	case core.EventBegin:
		c.become(core.TaskWorking)
		c.body = register.AppendBeat(c.body[:0], &c.Machine, c.Cfg.Owner, 1)
		a := c.Send(core.ActionPut, core.RequestLimit)
		a.Type, a.Body = core.RegisterType, c.body
	case core.EventCancel:
		c.end(core.ReasonCancelled, core.ClassNone)
	case core.EventAnswer:
		if f, ok := c.Land(&ev); ok && c.state == core.TaskWorking {
			c.answer(&ev, f)
		}
	}
	return c.Finish(), nil
}

// become moves along an edge of the table.
func (c *Calibration) become(to core.TaskState) {
	base.CheckMove(TaskEdges[:], c.state, to)
	c.state = to
}

func (c *Calibration) end(reason core.Reason, class core.Class) {
	if c.state >= core.TaskDone {
		return
	}
	c.Abandon()
	c.become(core.TaskRefused)
	a := c.Emit(core.ActionRefused)
	a.Reason, a.Class = reason, class
}

func (c *Calibration) answer(ev *core.Event, f base.Flight) {
	switch {
	case ev.Outcome == core.OutcomeUnknown:
		c.end(core.ReasonUnreachable, ev.Class)
	case f.Verb == core.ActionPut:
		c.Send(core.ActionGet, core.RequestLimit)
	case ev.Outcome != core.OutcomeYes || ev.Stamp == 0:
		c.end(core.ReasonUnusable, core.ClassNone)
	default:
		c.become(core.TaskDone)
		a := c.Emit(core.ActionCalibrated)
		a.At, a.Wall = c.Now.Mono, ev.Stamp
	}
}

// AppendState implements Machine.
func (c *Calibration) AppendState(dst []byte) []byte {
	s := base.Snapshot(dst)
	s.Octet(uint8(core.MachineCalibration))
	s.Octet(uint8(c.state))
	c.Machine.Snapshot(&s)
	s.Bytes(c.body)
	return s
}

// Clone implements Machine.
func (c *Calibration) Clone() core.Machine {
	twin := *c
	twin.Out = nil
	twin.body = append([]byte(nil), c.body...)
	return &twin
}
