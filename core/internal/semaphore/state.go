package semaphore

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
	"github.com/mopslock/mopslock/core/internal/register"
)

// AppendState implements Machine.
func (s *Semaphore) AppendState(dst []byte) []byte {
	w := base.Snapshot(dst)
	w.Octet(uint8(core.MachineSemaphore))
	w.Octet(uint8(s.state))
	s.Register.Snapshot(&w)
	w.Int(int64(len(s.Asks)))
	for i := range s.Asks {
		s.Asks[i].snapshot(&w)
	}
	s.sessions.Snapshot(&w)
	w.Text(s.reading)
	w.Uint(uint64(s.below))
	w.Uint(uint64(s.warnedOf))
	w.Bools(s.known, s.mine, s.moved, s.sampling, s.refused, s.Closing)
	w.Int(int64(s.polls))
	if w.Bools(s.next != nil); s.next != nil {
		s.next.Snapshot(&w)
	}
	w.Uint(s.nonce.A)
	w.Uint(s.nonce.B)
	w.Int(s.confirmedAt)
	w.Int(int64(s.races))
	w.Int(s.sampleBy)
	w.Uint(uint64(s.ValueOf))
	w.Uint(uint64(s.Open))
	w.Text(s.openOn)
	w.Int(int64(s.forced))
	w.Uint(uint64(s.forcedAt))
	w.Uint(uint64(s.triedAt))
	w.Uint(uint64(s.TidiedAt))
	return w
}

func (a *ask) snapshot(s *base.Snapshot) {
	s.Uint(a.Number)
	s.Text(a.ID)
	s.Octet(uint8(a.Phase))
	s.Bools(a.isLimit, a.lastTry, a.weighed, a.Blocked, a.told, a.sampled, a.quiet)
	s.Bools(a.enters)
	s.Uint(a.limit)
	s.Uint(a.capacity)
	s.Uint(a.width)
	s.Uint(a.weight)
	s.Uint(a.spare)
	s.Text(a.label)
	s.Text(a.session)
	s.Int(a.since)
	s.Int(a.until)
	s.Int(a.sent)
	s.Int(int64(a.races))
	s.Octet(uint8(a.news))
	s.Octet(uint8(a.why))
}

// Clone implements Machine.
func (s *Semaphore) Clone() core.Machine {
	twin := *s
	twin.Detach()
	twin.Asks = append([]ask(nil), s.Asks...)
	twin.sessions = append(register.SessionTable(nil), s.sessions...)
	if s.next != nil {
		next := register.CopyOf(s.next)
		twin.next = &next
	}
	return &twin
}
