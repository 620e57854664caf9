package core

// snapshot writes a machine's dynamic state as canonical bytes: each field in
// one order and one form.
type snapshot []byte

func (s *snapshot) int(v int64)    { *s = appendBE64(*s, uint64(v)) }
func (s *snapshot) octet(v uint8)  { *s = append(*s, v) }
func (s *snapshot) bytes(v []byte) { s.int(int64(len(v))); *s = append(*s, v...) }
func (s *snapshot) uint(v uint64)  { s.int(int64(v)) }
func (s *snapshot) bools(v ...bool) { // up to eight of them in one octet
	var packed uint8
	for i, set := range v {
		if set {
			packed |= 1 << i
		}
	}
	s.octet(packed)
}

func (m *machine) snapshot(s *snapshot) {
	s.uint(m.rng.a)
	s.uint(m.rng.b)
	s.int(m.now.Mono)
	s.int(m.now.Wall)
	s.uint(uint64(m.issued))
	s.uint(uint64(m.flight.id))
	s.octet(uint8(m.flight.verb))
	s.int(m.flight.sent)
	for _, at := range m.timers {
		s.int(at)
	}
}

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
	k.sight.snapshot(s)
}

func (g *Sighting) snapshot(s *snapshot) {
	s.octet(uint8(g.State))
	s.bytes(g.Holder)
	s.bytes(g.Host)
	s.bytes(g.PID)
	s.bools(g.Remote)
	s.int(int64(g.TTL))
	s.int(g.WrittenAt)
	s.int(g.AcquiredAt)
	s.int(g.ReleasedAt)
	s.int(g.LookAt)
	s.uint(uint64(g.Epoch))
	s.uint(uint64(g.Token))
	s.bytes(g.Companions)
	s.bytes(g.Label)
	s.bytes(g.Session)
	s.bytes(g.Why)
	s.bytes(g.By)
	s.bools(g.StoreClock)
	s.int(int64(g.Left))
	s.uint(g.Print)
	s.int(g.Since)
	s.uint(uint64(g.Capacity))
	s.uint(uint64(g.Width))
	s.uint(g.Held)
	s.uint(g.Limit)
	s.bytes(g.Permits)
	s.bytes(g.Dead)
}

// detach gives a copied sighting buffers of its own.
func (g *Sighting) detach() {
	for _, b := range []*[]byte{&g.Holder, &g.Host, &g.PID, &g.Companions, &g.Label, &g.Session, &g.Why, &g.By, &g.Permits, &g.Dead} {
		*b = append([]byte(nil), *b...)
	}
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
	k.sight.detach()
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
