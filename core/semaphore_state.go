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

func (v *value) snapshot(s *snapshot) {
	s.uint(uint64(v.capacity))
	s.uint(uint64(v.width))
	s.uint(v.limit)
	s.int(int64(len(v.permits)))
	for i := range v.permits {
		p := &v.permits[i]
		s.text(p.id)
		s.text(p.session)
		s.uint(p.weight)
		s.text(p.host)
		s.text(p.pid)
		s.text(p.label)
	}
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

func (t roster) snapshot(s *snapshot) {
	s.int(int64(len(t)))
	for i := range t {
		seen := &t[i]
		s.text(seen.id)
		seen.sign.snapshot(s)
		s.uint(seen.watch.print)
		s.int(seen.watch.since)
		s.bools(seen.read, seen.asked, seen.dead)
	}
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
