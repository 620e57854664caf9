package strict

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
	"github.com/mopslock/mopslock/core/internal/register"
)

// StoreClockSample is the machine of one sample of the store's clock: it writes an
// object of its own and reads how the store has stamped it.
type StoreClockSample struct {
	base.Machine
	task
	body []byte
}

// NewStoreClockSample makes the machine in state Idle; cfg.Owner is the process.
func NewStoreClockSample(cfg core.Config) (*StoreClockSample, error) {
	cfg.Machine, cfg.Protocol = core.MachineStoreClockSample, core.ProtocolStrict
	m, err := base.New(cfg)
	if err != nil {
		return nil, err
	}
	if cfg.Owner == "" {
		cfg.Owner = string(base.SeedUUID(cfg.Seed))
	}
	m.Cfg.Owner = cfg.Owner
	m.Key = core.StoreClockPrefix + cfg.Owner
	return &StoreClockSample{Machine: m, task: newTask()}, nil
}

// Step implements Machine.
func (c *StoreClockSample) Step(now core.Instant, ev core.Event) ([]core.Action, error) {
	if err := c.Start(c, now, &ev); err != nil {
		return nil, err
	}
	switch ev.Kind {
	case core.EventBegin:
		c.Move(&c.Machine, core.TaskWorking)
		c.body = register.AppendBeat(c.body[:0], &c.Machine, c.Cfg.Owner, 1)
		a := c.Send(core.ActionPut, core.RequestLimit)
		a.Type, a.Body = core.RegisterType, c.body
	case core.EventCancel:
		c.end(core.ReasonCancelled)
	case core.EventAnswer:
		if f, ok := c.Land(&ev); ok && c.State == core.TaskWorking {
			c.answer(&ev, f)
		}
	}
	return c.Finish(), nil
}

func (c *StoreClockSample) end(reason core.Reason) {
	if c.hasEnded() {
		return
	}
	c.Move(&c.Machine, core.TaskRefused)
	c.Refused(reason, nil)
}

func (c *StoreClockSample) answer(ev *core.Event, f base.Flight) {
	c.Reach.Note(ev, f, c.Now.Mono)
	switch {
	case ev.Outcome == core.OutcomeUnknown:
		c.end(core.ReasonUnreachable)
	case f.Verb == core.ActionPut:
		c.Send(core.ActionGet, core.RequestLimit)
	case ev.Outcome != core.OutcomeYes || ev.Stamp == 0:
		c.end(core.ReasonUnusable)
	default:
		c.Move(&c.Machine, core.TaskDone)
		a := c.Emit(core.ActionStoreClockSampled)
		a.At, a.Wall = c.Now.Mono, ev.Stamp
	}
}
