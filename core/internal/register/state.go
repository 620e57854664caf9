package register

import "github.com/mopslock/mopslock/core/internal/base"

func (c *Current) snapshot(s *base.Snapshot) {
	s.Uint(uint64(c.N))
	s.Uint(uint64(c.Origin))
	s.Octet(uint8(c.State))
	s.Octet(uint8(c.Result))
	s.Text(string(c.Tenure))
	s.Text(c.Owners)
	s.Text(c.Session)
	s.Text(c.Label)
	s.Text(c.ext)
	s.Int(int64(c.TTL))
	s.Int(int64(c.Margin))
	s.Bools(c.alone, c.SameBoot)
	s.Int(c.Boottime)
	s.Uint(c.Fingerprint)
	s.Int(c.Stamp)
}

func (b *Beat) snapshot(s *base.Snapshot) {
	s.Text(b.key)
	s.Uint(uint64(b.epoch))
	s.Int(b.Stamp)
	s.Bools(b.read, b.Absent, b.SameBoot)
	s.Int(b.boottime)
	s.Int(int64(b.ttl))
	s.Uint(b.fingerprint)
}

func (obs *Observation) snapshot(s *base.Snapshot) {
	s.Bools(obs.poll, obs.Listed, obs.More, obs.session, obs.lock, obs.absent, obs.called)
	s.Bools(obs.LockHeld)
	s.Int(obs.Start)
	s.Int(obs.Latest)
	s.Uint(uint64(obs.N))
	s.Uint(uint64(obs.Lowest))
	s.Int(obs.Stamp)
	s.Text(obs.after)
	s.Int(int64(len(obs.beats)))
	for i := range obs.beats {
		obs.beats[i].snapshot(s)
	}
	obs.sessionBeat.snapshot(s)
	s.Uint(obs.callNext)
	s.Texts(obs.calls)
}

func (r *Register) Snapshot(s *base.Snapshot) {
	r.Machine.Snapshot(s)
	r.Cur.snapshot(s)
	s.Text(r.ParticipantID)
	s.Text(r.Key)
	s.Int(r.NewestConfirmedAt)
	r.Observation.snapshot(s)
	s.Uint(r.Unchanged.Fingerprint)
	s.Int(r.Unchanged.Since)
	s.Uint(r.EndUnchanged.Fingerprint)
	s.Int(r.EndUnchanged.Since)
	r.Ended.snapshot(s)
	s.Uint(uint64(r.Call.N))
	s.Int(r.Call.stamp)
	s.Uint(uint64(r.Call.readOf))
	s.Uint(r.Call.next)
	s.Int(r.Sample.Stamp)
	s.Int(r.Sample.At)
	s.Int(r.Fresh.Stamp)
	s.Int(r.Fresh.At)
	s.Int(r.ToldAt)
	s.Text(r.After)
	s.Int(r.Paged)
	s.Text(r.Above)
	s.Uint(uint64(r.AboveOf))
	s.Text(r.Session.ID)
	s.Int(r.Session.Until)
	s.Octet(uint8(r.Session.End))
	s.Octet(uint8(r.Doing))
	s.Bytes(r.Body)
	s.Bools(r.Observed != nil, r.Failing, r.ReadOnly, r.Garbage != nil, r.Value != nil, r.denied)
	if r.Value != nil {
		r.Value.Snapshot(s)
	}
	if g := r.Garbage; g != nil {
		s.Uint(uint64(g.old))
		s.Uint(uint64(g.young))
		s.Uint(uint64(g.step))
		s.Bools(g.proven, g.listed)
		s.Texts(g.Keys)
		s.Int(int64(g.Left))
	}
	if r.Observed != nil {
		s.Observed(r.Observed)
	}
	s.Int(int64(r.Retries))
	s.Octet(uint8(r.Class))
}

// Detach gives a copied register buffers of its own.
func (r *Register) Detach() {
	r.Out = nil
	r.Body = append([]byte(nil), r.Body...)
	r.Observation.beats = append([]Beat(nil), r.Observation.beats...)
	r.Observation.calls = append([]string(nil), r.Observation.calls...)
	if r.Observed != nil {
		twin := *r.Observed
		base.DetachObserved(&twin)
		r.Observed = &twin
	}
	if r.Value != nil {
		twin := CopyOf(r.Value)
		r.Value = &twin
	}
	if r.Garbage != nil {
		twin := *r.Garbage
		twin.Keys = append([]string(nil), r.Garbage.Keys...)
		r.Garbage = &twin
	}
}

func (v *Value) Snapshot(s *base.Snapshot) {
	s.Uint(uint64(v.Capacity))
	s.Uint(uint64(v.Width))
	s.Uint(v.Limit)
	s.Text(v.Ext)
	s.Int(int64(len(v.Permits)))
	for i := range v.Permits {
		p := &v.Permits[i]
		s.Text(p.ID)
		s.Text(p.Session)
		s.Uint(p.Weight)
		s.Text(p.Host)
		s.Text(p.PID)
		s.Text(p.Label)
	}
}

func (t SessionTable) Snapshot(s *base.Snapshot) {
	s.Int(int64(len(t)))
	for i := range t {
		seen := &t[i]
		s.Text(seen.ID)
		seen.Beat.snapshot(s)
		s.Uint(seen.unchanged.Fingerprint)
		s.Int(seen.unchanged.Since)
		s.Bools(seen.read, seen.Asked, seen.Dead)
	}
}
