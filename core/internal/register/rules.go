//go:build !mopslock_mutations

package register

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
)

// Each rule here is one that core/PROTOCOL.md names a mutation for: the explorer leaves it
// out, by rules_mutated.go, and finds what then goes wrong.

// InForce reports whether the process's session may be relied on now (PROTOCOL N2).
func (r *Register) InForce() bool { return r.Session.ID != "" && r.Now.Mono < r.Session.Until }

// IsConfirmedLately reports whether the newest version was confirmed so lately that
// what is above it was not collected since (PROTOCOL S12).
func (r *Register) IsConfirmedLately() bool {
	return r.NewestConfirmedAt != base.Unset && r.Now.Mono-r.NewestConfirmedAt <= int64(core.NewestWindow)
}

// IsWinNewest reports whether version n, which a create of ours has made, is surely above
// all others: the one below it was confirmed at that Mono, and none that was above it was
// collected since (PROTOCOL S12). Version 1 is not, but in a store of our own: an answer that
// is not the store's looks like the list of a name without versions (PROTOCOL S7.9).
func (r *Register) IsWinNewest(n core.Epoch, confirmedAt int64) bool {
	return (n != 1 || r.Cfg.OwnStore) && r.Now.Mono-confirmedAt <= int64(core.NewestWindow)
}

// keep is how long a superseded version stays: longer than any process may act on what it saw
// before that version was made (PROTOCOL S13.4).
func (r *Register) keep() int64 { return r.longEnough() }

// judgedAt is the Mono at which all reads of the observation count as made: that of the
// first one, since a beat may have come before any later one (PROTOCOL S4.1 and S4.2).
func (r *Register) judgedAt() int64 { return r.Observation.Start }

// lowerBound is what the store's clock showed at least at the Mono t: ours may run faster
// by the rate (PROTOCOL S5.1).
func (r *Register) lowerBound(s StoreClockSample, t int64) int64 {
	gone := t - s.At
	return s.Stamp + gone - gone/core.RateInverse - 1
}

// slop is how far a stamp and the store's clock, read elsewhere, may be apart (PROTOCOL
// S5.1).
func (r *Register) slop() int64 { return int64(r.Cfg.StampUnit) + int64(max(0, r.Cfg.StampSpread)) }

// checkedBoottime is a time of this boot, if a stamp agrees with it: clones of a machine
// share the boot's name and not its clock (PROTOCOL S5.2).
func (r *Register) checkedBoottime(boottime, stamp int64) (at int64, ok bool) {
	return r.Now.Emitted(boottime, stamp)
}

// epochsByBoot are the versions whose beats count by the boot's clock: all of the tenure's,
// since a version may land long after it was emitted (PROTOCOL S5.2).
func (r *Register) epochsByBoot() (first, last core.Epoch) { return r.Cur.Origin, r.beatsOf() }

// boottime is when the version whose beats count was emitted, on this boot's clock. It is
// never that of a release or a break, which is no beat, and whose emission is no bound of
// the beats that landed before it (PROTOCOL S6.4).
func (r *Register) boottime() (at int64, ok bool) {
	if r.Cur.isEnded() {
		return r.Ended.boottime, r.hasEnded() && r.Ended.SameBoot
	}
	return r.Cur.Boottime, r.Cur.SameBoot
}

// counts reports whether a beat keeps the tenure alive: also that of a tenure which was
// just ended (PROTOCOL S6.2).
func (r *Register) counts(b *Beat) bool { return b.epoch == r.beatsOf() && !b.Absent }

// markOf is what tells a beat from the owner's next one: its nonce, since two can have one
// stamp (PROTOCOL S5.3).
func (r *Register) markOf(b *Beat) (mark uint64, read bool) { return b.fingerprint, b.read }

// freesAtOnce reports that a release or a break frees by itself: no owner but its maker
// can be alive (PROTOCOL S6.1).
func (r *Register) freesAtOnce() bool { return r.Cur.isEnded() && r.Cur.alone }

// countsFromCall reports that a release or a break counts only from the call to its
// session, which does not hear of it otherwise (PROTOCOL N4).
func (r *Register) countsFromCall() bool { return r.hasSession() }

// sessionTTL is how long a session's beat counts (PROTOCOL P5). One that cannot be read
// counts for as long as a corrupt record.
func (r *Register) sessionTTL(s *seenSession) int64 {
	if s.Beat.ttl == 0 {
		return int64(max(r.Cfg.TTL.Duration(), core.CorruptMin))
	}
	return int64(s.Beat.ttl)
}
