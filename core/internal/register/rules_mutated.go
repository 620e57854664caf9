//go:build mopslock_mutations

package register

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
)

func (r *Register) InForce() bool {
	return r.Session.ID != "" && (r.Has(base.SessionNotInForce) || r.Now.Mono < r.Session.Until)
}

func (r *Register) IsConfirmedLately() bool {
	return r.NewestConfirmedAt != base.Unset &&
		(r.Has(base.PollAsBasis) || r.Now.Mono-r.NewestConfirmedAt <= int64(core.NewestWindow))
}

func (r *Register) IsWinNewest(n core.Epoch, confirmedAt int64) bool {
	return (n != 1 || r.Cfg.OwnStore || r.Has(base.EmptyListBelieved)) &&
		(r.Has(base.GCWithoutBasis) || r.Now.Mono-confirmedAt <= int64(core.NewestWindow))
}

func (r *Register) keep() int64 {
	if r.Has(base.CollectedYoung) {
		return 0
	}
	return r.longEnough()
}

func (r *Register) judgedAt() int64 {
	switch {
	case r.Has(base.JudgeAtAnswer):
		return r.Now.Mono
	case r.Has(base.SignsReadApart):
		return r.Observation.Latest
	}
	return r.Observation.Start
}

func (r *Register) lowerBound(s StoreClockSample, t int64) int64 {
	gone := t - s.At
	if r.Has(base.OldCalibration) {
		return s.Stamp + gone
	}
	return s.Stamp + gone - gone/core.RateInverse - 1
}

func (r *Register) slop() int64 {
	if r.Has(base.SlopShort) {
		return 0
	}
	return int64(r.Cfg.StampUnit) + int64(max(0, r.Cfg.StampSpread))
}

func (r *Register) checkedBoottime(boottime, stamp int64) (at int64, ok bool) {
	if r.Has(base.BootClockUnchecked) {
		return boottime, true
	}
	return r.Now.Emitted(boottime, stamp)
}

func (r *Register) epochsByBoot() (first, last core.Epoch) {
	switch {
	case r.Has(base.SameBootNewest):
		return r.beatsOf(), r.beatsOf()
	case r.Has(base.SameBootFreed) && r.Cur.isEnded():
		return r.Cur.N, r.Cur.N
	}
	return r.Cur.Origin, r.beatsOf()
}

func (r *Register) boottime() (at int64, ok bool) {
	if r.Cur.isEnded() && !r.Has(base.SameBootFreed) {
		return r.Ended.boottime, r.hasEnded() && r.Ended.SameBoot
	}
	return r.Cur.Boottime, r.Cur.SameBoot
}

func (r *Register) counts(b *Beat) bool {
	return !(r.Has(base.EndedBeatsMissed) && r.Cur.isEnded()) && b.epoch == r.beatsOf() && !b.Absent
}

func (r *Register) markOf(b *Beat) (mark uint64, read bool) {
	if r.Has(base.StampsAsNonces) {
		return uint64(b.Stamp), true
	}
	return b.fingerprint, b.read
}

func (r *Register) freesAtOnce() bool {
	return r.Cur.isEnded() && r.Cur.alone ||
		r.Has(base.BrokenFreesNow) && r.Cur.State == core.VersionBroken ||
		r.Has(base.ReleasedFreesNow) && r.Cur.State == core.VersionReleased
}

func (r *Register) countsFromCall() bool { return !r.Has(base.SessionWithoutCalls) && r.hasSession() }

func (r *Register) sessionTTL(s *seenSession) int64 {
	switch {
	case s.Beat.ttl == 0:
		return int64(max(r.Cfg.TTL.Duration(), core.CorruptMin))
	case r.Has(base.PermitFreedEarly):
		return int64(s.Beat.ttl) / 2
	}
	return int64(s.Beat.ttl)
}
