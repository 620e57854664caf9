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

// sighting writes a Sighting.
func (s *snapshot) sighting(g *Sighting) {
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

// detachSighting gives a copied sighting buffers of its own.
func detachSighting(g *Sighting) {
	for _, b := range []*[]byte{&g.Holder, &g.Host, &g.PID, &g.Companions, &g.Label, &g.Session, &g.Why, &g.By, &g.Permits, &g.Dead} {
		*b = append([]byte(nil), *b...)
	}
}

func (s *snapshot) text(v string) { s.int(int64(len(v))); *s = append(*s, v...) }

func (s *snapshot) texts(all []string) {
	s.int(int64(len(all)))
	for _, v := range all {
		s.text(v)
	}
}
