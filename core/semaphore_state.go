package core

// AppendState implements Machine.
func (s *Semaphore) AppendState(dst []byte) []byte {
	w := snapshot(dst)
	w.octet(uint8(MachineSemaphore))
	w.octet(uint8(s.state))
	s.register.snapshot(&w)
	w.int(int64(len(s.asks)))
	for i := range s.asks {
		s.asks[i].snapshot(&w)
	}
	s.roster.snapshot(&w)
	w.text(s.reading)
	w.uint(uint64(s.below))
	w.uint(uint64(s.warnedOf))
	w.bools(s.known, s.mine, s.moved, s.answered, s.sampling, s.refused, s.closing, s.forced)
	w.int(int64(s.polls))
	if w.bools(s.next != nil); s.next != nil {
		s.next.snapshot(&w)
	}
	w.uint(s.nonce.a)
	w.uint(s.nonce.b)
	w.int(s.rested)
	w.int(int64(s.races))
	w.int(s.sampleBy)
	w.uint(uint64(s.valueOf))
	w.uint(uint64(s.open))
	w.text(s.openOn)
	w.uint(uint64(s.triedAt))
	w.uint(uint64(s.tidiedAt))
	return w
}

func (a *ask) snapshot(s *snapshot) {
	s.uint(a.number)
	s.text(a.id)
	s.octet(uint8(a.phase))
	s.bools(a.isLimit, a.lastTry, a.weighed, a.blocked, a.told, a.sampled, a.quiet)
	s.bools(a.enters)
	s.uint(a.limit)
	s.uint(a.capacity)
	s.uint(a.width)
	s.uint(a.weight)
	s.uint(a.spare)
	s.text(a.label)
	s.text(a.session)
	s.int(a.since)
	s.int(a.until)
	s.int(a.sent)
	s.int(int64(a.races))
	s.octet(uint8(a.news))
	s.octet(uint8(a.why))
}

// Clone implements Machine.
func (s *Semaphore) Clone() Machine {
	twin := *s
	twin.detach()
	twin.asks = append([]ask(nil), s.asks...)
	twin.roster = append(roster(nil), s.roster...)
	if s.next != nil {
		next := copyOf(s.next)
		twin.next = &next
	}
	return &twin
}
