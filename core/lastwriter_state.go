package core

func (k *tenure) snapshot(s *snapshot) {
	k.machine.snapshot(s)
	s.int(k.count)
	s.int(k.firstWritten)
	s.int(k.acquired)
	s.bytes(k.body)
	s.int(k.wroteAt)
	s.int(k.sent)
	s.int(k.good)
	s.int(int64(k.shortest))
	s.int(int64(k.doubts))
	s.int(k.doubtAt)
	s.int(k.companionAt)
	s.int(int64(k.retries))
	s.octet(uint8(k.class))
	s.octet(uint8(k.putSaid))
	s.bools(k.closing, k.warned, k.failing)
	s.sighting(&k.sight)
}

// AppendState implements Machine.
func (l *Lease) AppendState(dst []byte) []byte {
	s := snapshot(dst)
	s.octet(uint8(MachineLease))
	s.octet(uint8(l.state))
	l.tenure.snapshot(&s)
	s.bools(l.lastTry, l.answered, l.confirming, l.looking, l.brief, l.settling)
	s.octet(uint8(l.ending))
	s.int(l.readStart)
	s.int(int64(l.polls))
	s.int(int64(l.races))
	s.int(int64(l.empties))
	s.int(int64(l.lostPuts))
	s.int(int64(l.slowLooks))
	s.uint(l.watch.print)
	s.int(l.watch.since)
	s.uint(l.told)
	s.int(int64(l.rounds))
	s.int(l.claimSent)
	s.int(l.claimWall)
	s.int(l.claimCount)
	s.int(int64(l.claimWait))
	s.int(l.releasedAt)
	s.int(int64(l.rechecks))
	return s
}

// AppendState implements Machine.
func (c *Companion) AppendState(dst []byte) []byte {
	s := snapshot(dst)
	s.octet(uint8(MachineCompanion))
	s.octet(uint8(c.state))
	c.tenure.snapshot(&s)
	s.bools(c.rejoin)
	s.int(c.joinBy)
	s.int(c.rivalSince)
	s.int(c.readStart)
	return s
}

// detach gives a copied tenure buffers of its own.
func (k *tenure) detach() {
	k.out = nil
	k.body = append([]byte(nil), k.body...)
	k.seen = record{}
	detachSighting(&k.sight)
}

// Clone implements Machine.
func (l *Lease) Clone() Machine {
	twin := *l
	twin.detach()
	return &twin
}

// Clone implements Machine.
func (c *Companion) Clone() Machine {
	twin := *c
	twin.detach()
	return &twin
}
