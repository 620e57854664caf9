package core

// Calibration is the machine of one sample of the store's clock: it writes an
// object of its own and reads how the store has stamped it.
type Calibration struct {
	machine
	state TaskState
	body  []byte
}

// NewCalibration makes a calibration in state Idle; cfg.Owner is the process.
func NewCalibration(cfg Config) (*Calibration, error) {
	cfg.Machine, cfg.Protocol = MachineCalibration, ProtocolStrict
	m, err := newMachine(cfg)
	if err != nil {
		return nil, err
	}
	if cfg.Owner == "" {
		cfg.Owner = string(seedUUID(cfg.Seed))
	}
	m.cfg.Owner = cfg.Owner
	m.key = CalibrationPrefix + cfg.Owner
	return &Calibration{machine: m, state: TaskIdle}, nil
}

// String implements Machine.
func (c *Calibration) String() string { return c.state.String() }

// State is where the machine stands.
func (c *Calibration) State() TaskState { return c.state }

// Step implements Machine.
func (c *Calibration) Step(now Instant, ev Event) ([]Action, error) {
	if err := c.admit(now, &ev); err != nil {
		return nil, err
	}
	if !taskAccepts(c.state, ev.Kind) {
		return nil, errEvent(c.state.String(), ev.Kind)
	}
	c.begin(now)
	switch ev.Kind {
	case EventBegin:
		c.become(TaskWorking)
		c.body = appendBeat(c.body[:0], &c.machine, c.cfg.Owner, 1)
		a := c.send(ActionPut, RequestLimit)
		a.Type, a.Body = RegisterType, c.body
	case EventCancel:
		c.end(ReasonCancelled, ClassNone)
	case EventAnswer:
		if f, ok := c.land(&ev); ok && c.state == TaskWorking {
			c.answer(&ev, f)
		}
	}
	return c.finish(), nil
}

// become moves along an edge of the table.
func (c *Calibration) become(to TaskState) {
	checkMove(taskEdges[:], c.state, to)
	c.state = to
}

func (c *Calibration) end(reason Reason, class Class) {
	if c.state >= TaskDone {
		return
	}
	c.abandon()
	c.become(TaskRefused)
	a := c.emit(ActionRefused)
	a.Reason, a.Class = reason, class
}

func (c *Calibration) answer(ev *Event, f flight) {
	switch {
	case ev.Outcome == OutcomeUnknown:
		c.end(ReasonUnreachable, ev.Class)
	case f.verb == ActionPut:
		c.send(ActionGet, RequestLimit)
	case ev.Outcome != OutcomeYes || ev.Stamp == 0:
		c.end(ReasonUnusable, ClassNone)
	default:
		c.become(TaskDone)
		a := c.emit(ActionCalibrated)
		a.At, a.Wall = c.now.Mono, ev.Stamp
	}
}

// AppendState implements Machine.
func (c *Calibration) AppendState(dst []byte) []byte {
	s := snapshot(dst)
	s.octet(uint8(MachineCalibration))
	s.octet(uint8(c.state))
	c.machine.snapshot(&s)
	s.bytes(c.body)
	return s
}

// Clone implements Machine.
func (c *Calibration) Clone() Machine {
	twin := *c
	twin.out = nil
	twin.body = append([]byte(nil), c.body...)
	return &twin
}
