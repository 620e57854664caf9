package lastwriter

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
	"github.com/mopslock/mopslock/core/internal/lockfile"
)

func (t *Tenure) snapshot(s *base.Snapshot) {
	t.Machine.Snapshot(s)
	s.Int(t.count)
	s.Int(t.firstWritten)
	s.Int(t.acquired)
	s.Bytes(t.Body)
	s.Int(t.wroteAt)
	s.Int(t.sent)
	s.Int(t.good)
	s.Int(int64(t.Shortest))
	s.Int(int64(t.Doubts))
	s.Int(t.doubtAt)
	s.Int(t.CompanionAt)
	s.Int(int64(t.Retries))
	s.Octet(uint8(t.Class))
	s.Octet(uint8(t.putSaid))
	s.Bools(t.closing, t.there, t.Warned, t.Failing)
	s.Observed(&t.Observed)
}

// AppendState implements Machine.
func (l *Lease) AppendState(dst []byte) []byte {
	s := l.Head(dst, core.MachineLease)
	l.Tenure.snapshot(&s)
	s.Bools(l.LastTry, l.Confirming, l.Rereading, l.brief, l.Settling)
	s.Octet(uint8(l.Ending))
	s.Int(l.readStart)
	s.Int(int64(l.Polls))
	s.Int(int64(l.Races))
	s.Int(int64(l.empties))
	s.Int(int64(l.lostPuts))
	s.Int(int64(l.slowReads))
	s.Uint(l.Unchanged.Fingerprint)
	s.Int(l.Unchanged.Since)
	s.Uint(l.Told)
	s.Int(int64(l.Rounds))
	s.Int(l.firstPutSent)
	s.Int(l.firstPutWall)
	s.Int(l.firstPutCount)
	s.Int(int64(l.verifyWait))
	s.Int(l.releasedAt)
	s.Int(int64(l.rechecks))
	return s
}

// AppendState implements Machine.
func (c *Companion) AppendState(dst []byte) []byte {
	s := c.Head(dst, core.MachineCompanion)
	c.Tenure.snapshot(&s)
	c.Companion.Snapshot(&s)
	s.Int(c.RivalSince)
	s.Int(c.readStart)
	return s
}

// detach gives a copied tenure buffers of its own.
func (t *Tenure) detach() {
	t.Out = nil
	t.Body = append([]byte(nil), t.Body...)
	t.seen = lockfile.Record{}
	base.DetachObserved(&t.Observed)
}

// Clone implements Machine.
func (l *Lease) Clone() core.Machine {
	twin := *l
	twin.detach()
	return &twin
}

// Clone implements Machine.
func (c *Companion) Clone() core.Machine {
	twin := *c
	twin.detach()
	return &twin
}
