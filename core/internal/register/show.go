package register

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
)

// What people are shown decides nothing.

// see copies what a version says to people.
func (r *Register) see(v *Version) {
	if r.Observed == nil {
		r.Observed = new(core.Observed)
	}
	s, c := r.Observed, &r.Cur
	*s = core.Observed{
		State: core.ObservedCorrupt, Epoch: c.N, Token: c.Origin, TTL: c.TTL, WrittenAt: v.wall,
		Holder: append(s.Holder[:0], v.Tenure...), Host: v.host.AppendCut(s.Host[:0], core.MaxText),
		PID: v.pid.AppendCut(s.PID[:0], core.MaxText), Label: v.label.AppendCut(s.Label[:0], core.MaxLabel),
		Session: append(s.Session[:0], v.session...), Why: v.why.AppendCut(s.Why[:0], core.MaxWhy),
		By: v.by.AppendCut(s.By[:0], core.MaxText), Companions: s.Companions[:0], Permits: s.Permits[:0],
	}
	eachOwner(c.Owners, func(id string) {
		if id != string(c.Tenure) && len(s.Companions)+len(id) < core.MaxHolder {
			if len(s.Companions) > 0 {
				s.Companions = append(s.Companions, ',')
			}
			s.Companions = append(s.Companions, id...)
		}
	})
	switch {
	case c.State == core.VersionReleased:
		s.State, s.ReleasedAt = core.ObservedReleased, v.wall
	case c.State == core.VersionBroken:
		s.State, s.ReleasedAt = core.ObservedBroken, v.wall
		s.Host, s.PID = s.Host[:0], s.PID[:0] // of the process that broke it, which By names
	case c.State == core.VersionHeld:
		s.State, s.Remote = core.ObservedHeld, string(v.owner) != string(v.Tenure)
		if c.N == c.Origin {
			s.AcquiredAt = v.wall
		}
	}
}

// showLeft tells people what is left of the TTL, by whose clock.
func (r *Register) showLeft(s *core.Observed) {
	if c := &r.Cur; c.Result != ReadGood || c.State == core.VersionHeld && c.TTL == 0 || c.alone {
		return // not ours to tell; until it is released or broken; free
	}
	l, ttl := r.tenureLife(), int64(r.ttl())
	most := ttl
	if r.Cur.isEnded() {
		// It is free a ttl after the end, or after the call to its session, which was made
		// right after that and which an inspection does not read. It decides nothing.
		if s.Left = core.Duration(min(ttl, s.ReleasedAt+ttl-r.Now.Wall)); r.hasSession() && r.Call.N != r.Cur.N {
			most = int64(s.Left)
		}
	}
	if l.boot != base.Unset {
		s.Left = core.Duration(min(most, l.boot-r.Now.Mono))
		return
	}
	if r.Cur.SameBoot && r.isYoung() { // at least
		s.Left = core.Duration(r.Cur.Boottime + ttl - r.Now.Mono)
		return
	}
	sample := better(r.Sample, r.Fresh)
	if l.store != base.Unset && sample.At != 0 && r.Cfg.Expiry == core.ExpiryCalibrated {
		s.Left, s.StoreClock = core.Duration(min(most, l.store-r.lowerBound(sample, r.Now.Mono))), true
		// To a machine that takes no part, and has no sample but the beat's own stamp, our
		// wall clock tells more. It decides nothing.
		if byWall := core.Duration(l.store - r.Now.Wall); r.ReadOnly && byWall < s.Left {
			s.Left, s.StoreClock = byWall, false
		}
	}
}

// ShowDead shows a session as dead that is so by our wall clock, where no other can tell.
func (r *Register) ShowDead(s *seenSession) {
	l := r.sessionLife(s)
	s.Dead = s.Dead || !s.Beat.SameBoot && l.store != base.Unset && r.Now.Wall > l.store+r.slop()
}
