package lastwriter

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
	"github.com/mopslock/mopslock/core/internal/lockfile"
)

func (k *Tenure) snapshot(s *base.Snapshot) {
	k.Machine.Snapshot(s)
	s.Int(k.count)
	s.Int(k.firstWritten)
	s.Int(k.acquired)
	s.Bytes(k.Body)
	s.Int(k.wroteAt)
	s.Int(k.sent)
	s.Int(k.good)
	s.Int(int64(k.Shortest))
	s.Int(int64(k.Doubts))
	s.Int(k.doubtAt)
	s.Int(k.CompanionAt)
	s.Int(int64(k.Retries))
	s.Octet(uint8(k.Class))
	s.Octet(uint8(k.putSaid))
	s.Bools(k.closing, k.Warned, k.Failing)
	s.Observed(&k.Observed)
}

// AppendState implements Machine.
func (l *Lease) AppendState(dst []byte) []byte {
	s := l.Head(dst, core.MachineLease)
	l.Tenure.snapshot(&s)
	s.Bools(l.LastTry, l.Answered, l.Confirming, l.Rereading, l.brief, l.Settling)
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
	s.Int(l.claimSent)
	s.Int(l.claimWall)
	s.Int(l.claimCount)
	s.Int(int64(l.claimWait))
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
func (k *Tenure) detach() {
	k.Out = nil
	k.Body = append([]byte(nil), k.Body...)
	k.seen = lockfile.Record{}
	base.DetachObserved(&k.Observed)
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
