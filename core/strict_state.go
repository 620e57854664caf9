package core

// The canonical bytes of strict's machines, and their copies. Everything that an
// explorer must tell apart is here, and nothing that changes without a meaning.

func (o *owner) snapshot(s *snapshot) {
	o.register.snapshot(s)
	s.uint(o.seq)
	s.int(o.putSent)
	s.int(o.asked)
	s.int(o.selfAt)
	s.text(o.beatKey)
	s.text(o.selfKey)
	s.text(o.standOn)
	s.int(o.own)
	s.int(o.quiet)
}

func (c *claim) snapshot(s *snapshot) {
	v := &c.v
	s.uint(uint64(v.n))
	s.uint(uint64(v.origin))
	s.octet(uint8(v.state))
	s.text(string(v.tenure))
	s.text(v.owner)
	s.text(v.owners)
	s.uint(v.nonce.a)
	s.uint(v.nonce.b)
	s.int(int64(v.ttl))
	s.int(int64(v.margin))
	s.text(v.session)
	s.bools(v.alone, c.guess)
	s.uint(uint64(c.below))
	s.text(v.why)
	s.text(v.by)
	s.text(v.label)
	s.int(int64(c.n))
	for i := range c.n {
		s.uint(c.tried[i].nonce.a)
		s.uint(c.tried[i].nonce.b)
		s.int(c.tried[i].sent)
	}
	s.int(c.since)
	s.int(c.doubt)
	s.int(c.basis)
}

// AppendState implements Machine.
func (l *StrictLease) AppendState(dst []byte) []byte {
	s := snapshot(dst)
	s.octet(uint8(MachineLease))
	s.octet(uint8(l.state))
	l.owner.snapshot(&s)
	s.text(string(l.holder))
	s.bools(l.lastTry, l.answered, l.wants, l.checking, l.moved, l.claim != nil)
	s.bools(l.sampling, l.again)
	s.uint(uint64(l.calledAt))
	s.uint(uint64(l.waitedAt))
	s.int(int64(l.polls))
	s.int(int64(l.races))
	s.int(int64(l.lateWins))
	s.uint(l.told)
	if l.claim != nil {
		l.claim.snapshot(&s)
	}
	s.octet(uint8(l.ending))
	s.uint(uint64(l.closing))
	return s
}

// AppendState implements Machine.
func (c *StrictCompanion) AppendState(dst []byte) []byte {
	s := snapshot(dst)
	s.octet(uint8(MachineCompanion))
	s.octet(uint8(c.state))
	c.owner.snapshot(&s)
	s.text(string(c.tenure))
	s.bools(c.rejoin)
	s.int(c.joinBy)
	c.claim.snapshot(&s)
	s.int(int64(c.leaves))
	return s
}

// AppendState implements Machine.
func (s *Session) AppendState(dst []byte) []byte {
	w := snapshot(dst)
	w.octet(uint8(MachineSession))
	w.octet(uint8(s.state))
	s.machine.snapshot(&w)
	w.text(s.key)
	w.bytes(s.body)
	w.uint(s.call)
	w.text(s.callKey)
	w.int(s.putSent)
	w.octet(uint8(s.doing))
	w.int(int64(s.retries))
	w.octet(uint8(s.class))
	w.bools(s.failing)
	w.int(s.quiet)
	w.texts(s.calls)
	return w
}

// Clone implements Machine.
func (l *StrictLease) Clone() Machine {
	twin := *l
	twin.detach()
	if l.claim != nil {
		c := *l.claim
		twin.claim = &c
	}
	return &twin
}

// Clone implements Machine.
func (c *StrictCompanion) Clone() Machine {
	twin := *c
	twin.detach()
	return &twin
}

// Clone implements Machine.
func (s *Session) Clone() Machine {
	twin := *s
	twin.out = nil
	twin.body = append([]byte(nil), s.body...)
	twin.calls = append([]string(nil), s.calls...)
	return &twin
}
