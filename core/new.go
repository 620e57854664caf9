package core

// New makes the machine that the Config describes. The Config is validated
// whole; the error lists every bad field.
func New(cfg Config) (m Machine, err error) {
	isStrict := cfg.Protocol == ProtocolStrict
	switch {
	case cfg.Machine == MachineLease && isStrict:
		m, err = NewStrictLease(cfg)
	case cfg.Machine == MachineCompanion && isStrict:
		m, err = NewStrictCompanion(cfg)
	case cfg.Machine == MachineLease:
		m, err = NewLease(cfg)
	case cfg.Machine == MachineCompanion:
		m, err = NewCompanion(cfg)
	case cfg.Machine == MachineSession && isStrict:
		m, err = NewSession(cfg)
	case cfg.Machine == MachineBreaker && isStrict:
		m, err = NewBreaker(cfg)
	case cfg.Machine == MachineObserver && isStrict:
		m, err = NewObserver(cfg)
	case cfg.Machine == MachineCalibration && isStrict:
		m, err = NewCalibration(cfg)
	case cfg.Machine == MachineInvocation:
		m, err = NewInvocation(cfg)
	case cfg.Machine == MachineSemaphore && isStrict:
		m, err = NewSemaphore(cfg)
	case cfg.Machine == MachineBuckets && isStrict:
		m, err = NewBucketsMachine(cfg)
	default: // no such machine; whatever else is wrong is said too
		_, err = newMachine(cfg)
	}
	if err != nil {
		return nil, err // m may be a nil pointer in an interface, which is not nil
	}
	return m, nil
}

// NewStepper is New for who only steps a machine: what may rest does so by itself.
func NewStepper(cfg Config) (Stepper, error) {
	m, err := New(cfg)
	if err != nil {
		return nil, err
	}
	if l, ok := m.(*StrictLease); ok && l.cfg.OnSession {
		return &sleeper{lease: l}, nil
	}
	return m, nil
}

// sleeper is a lease that rests whenever it can.
type sleeper struct {
	lease   *StrictLease // nil: it rests
	resting *Resting
}

// Step implements Stepper.
func (s *sleeper) Step(now Instant, ev Event) ([]Action, error) {
	l := s.lease
	if l == nil {
		l = s.resting.Wake()
	}
	actions, err := l.Step(now, ev)
	s.lease, s.resting = l, l.Rest()
	if s.resting != nil {
		s.lease = nil
	}
	return actions, err
}

// Idle implements Stepper. What rests waits for its session.
func (s *sleeper) Idle() bool { return s.lease != nil && s.lease.Idle() }

// String implements Stepper.
func (s *sleeper) String() string {
	if s.lease == nil {
		return LeaseHeld.String()
	}
	return s.lease.String()
}
