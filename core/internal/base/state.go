package base

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/octets"
)

// Snapshot writes a machine's dynamic state as canonical bytes: each field in
// one order and one form.
type Snapshot []byte

func (s *Snapshot) Int(v int64)    { *s = octets.AppendBE64(*s, uint64(v)) }
func (s *Snapshot) Octet(v uint8)  { *s = append(*s, v) }
func (s *Snapshot) Bytes(v []byte) { s.Int(int64(len(v))); *s = append(*s, v...) }
func (s *Snapshot) Uint(v uint64)  { s.Int(int64(v)) }
func (s *Snapshot) Bools(v ...bool) { // up to eight of them in one octet
	var packed uint8
	for i, set := range v {
		if set {
			packed |= 1 << i
		}
	}
	s.Octet(packed)
}

func (m *Machine) Snapshot(s *Snapshot) {
	m.RNG.Snapshot(s)
	s.Int(m.Now.Mono)
	s.Int(m.Now.Wall)
	s.Uint(uint64(m.Issued))
	s.Uint(uint64(m.Flight.ID))
	s.Octet(uint8(m.Flight.Verb))
	s.Int(m.Flight.Sent)
	s.Bools(m.Flight.Overwrites)
	for _, at := range m.Timers {
		s.Int(at)
	}
	m.Reach.Snapshot(s)
}

// Observed writes an Observed.
func (s *Snapshot) Observed(g *core.Observed) {
	s.Octet(uint8(g.State))
	s.Bytes(g.Holder)
	s.Bytes(g.Host)
	s.Bytes(g.PID)
	s.Bools(g.Remote)
	s.Int(int64(g.TTL))
	s.Int(g.WrittenAt)
	s.Int(g.AcquiredAt)
	s.Int(g.ReleasedAt)
	s.Int(g.RecheckAt)
	s.Uint(uint64(g.Epoch))
	s.Uint(uint64(g.Token))
	s.Bytes(g.Companions)
	s.Bytes(g.Label)
	s.Bytes(g.Session)
	s.Bytes(g.Why)
	s.Bytes(g.By)
	s.Bools(g.StoreClock)
	s.Int(int64(g.Left))
	s.Uint(g.Fingerprint)
	s.Int(g.Since)
	s.Uint(uint64(g.Capacity))
	s.Uint(uint64(g.Width))
	s.Uint(g.Held)
	s.Uint(g.Limit)
	s.Bytes(g.Permits)
	s.Bytes(g.Dead)
}

// DetachObserved gives a copied Observed buffers of its own.
func DetachObserved(g *core.Observed) {
	for _, b := range []*[]byte{&g.Holder, &g.Host, &g.PID, &g.Companions, &g.Label, &g.Session, &g.Why, &g.By, &g.Permits, &g.Dead} {
		*b = append([]byte(nil), *b...)
	}
}

func (s *Snapshot) Text(v string) { s.Int(int64(len(v))); *s = append(*s, v...) }

func (s *Snapshot) Texts(all []string) {
	s.Int(int64(len(all)))
	for _, v := range all {
		s.Text(v)
	}
}
