package strict

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
)

// The canonical bytes of strict's machines, and their copies. Everything that an
// explorer must tell apart is here, and nothing that changes without a meaning.

func (r *renewer) snapshot(s *base.Snapshot) {
	r.Register.Snapshot(s)
	s.Uint(r.seq)
	s.Bools(r.beats)
	s.Int(r.putSent)
	s.Int(r.asked)
	s.Int(r.selfAt)
	s.Text(r.beatKey)
	s.Text(r.selfKey)
	s.Text(r.standOn)
	s.Int(r.own)
	s.Int(r.quiet)
}

func (a *Attempt) snapshot(s *base.Snapshot) {
	v := &a.V
	s.Uint(uint64(v.N))
	s.Uint(uint64(v.Origin))
	s.Octet(uint8(v.State))
	s.Text(string(v.Tenure))
	s.Text(v.Owner)
	s.Text(v.Owners)
	s.Uint(v.Nonce.A)
	s.Uint(v.Nonce.B)
	s.Int(int64(v.TTL))
	s.Int(int64(v.Margin))
	s.Text(v.Session)
	s.Bools(v.Alone, a.guess)
	s.Uint(uint64(a.below))
	s.Text(v.Why)
	s.Text(v.By)
	s.Text(v.Label)
	s.Text(v.Ext)
	s.Int(int64(a.N))
	for i := range a.N {
		s.Uint(a.Requests[i].Nonce.A)
		s.Uint(a.Requests[i].Nonce.B)
		s.Int(a.Requests[i].sent)
	}
	s.Int(a.since)
	s.Int(a.doubt)
	s.Int(a.newestConfirmedAt)
}

// AppendState implements Machine.
func (l *Lease) AppendState(dst []byte) []byte {
	s := l.Head(dst, core.MachineLease)
	l.renewer.snapshot(&s)
	s.Text(string(l.holderID))
	s.Bools(l.LastTry, l.Wants, l.Checking, l.moved, l.Attempt != nil)
	s.Bools(l.sampling, l.Again, l.yields)
	s.Uint(uint64(l.metAt))
	s.Uint(uint64(l.calledAt))
	s.Uint(uint64(l.waitedAt))
	s.Int(int64(l.Polls))
	s.Int(int64(l.Races))
	s.Int(int64(l.lateWins))
	s.Uint(l.Told)
	if l.Attempt != nil {
		l.Attempt.snapshot(&s)
	}
	s.Octet(uint8(l.Ending))
	s.Uint(uint64(l.Closing))
	return s
}

// AppendState implements Machine.
func (c *Companion) AppendState(dst []byte) []byte {
	s := c.Head(dst, core.MachineCompanion)
	c.renewer.snapshot(&s)
	s.Text(string(c.HolderID))
	c.Companion.Snapshot(&s)
	c.Attempt.snapshot(&s)
	s.Int(int64(c.leaves))
	return s
}

// AppendState implements Machine.
func (s *Session) AppendState(dst []byte) []byte {
	w := s.Head(dst, core.MachineSession)
	s.Machine.Snapshot(&w)
	w.Text(s.Key)
	w.Bytes(s.body)
	w.Uint(s.call)
	w.Text(s.callKey)
	w.Int(s.putSent)
	w.Octet(uint8(s.Doing))
	w.Int(int64(s.Retries))
	w.Octet(uint8(s.Class))
	w.Bools(s.Failing, s.warned, s.made)
	w.Int(s.selfAt)
	w.Int(s.quiet)
	w.Texts(s.Calls)
	return w
}

// Clone implements Machine.
func (l *Lease) Clone() core.Machine {
	twin := *l
	twin.Detach()
	if l.Attempt != nil {
		a := *l.Attempt
		twin.Attempt = &a
	}
	return &twin
}

// Clone implements Machine.
func (c *Companion) Clone() core.Machine {
	twin := *c
	twin.Detach()
	return &twin
}

// Clone implements Machine.
func (s *Session) Clone() core.Machine {
	twin := *s
	twin.Out = nil
	twin.body = append([]byte(nil), s.body...)
	twin.Calls = append([]string(nil), s.Calls...)
	return &twin
}
