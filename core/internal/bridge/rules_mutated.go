//go:build mopslock_mutations

package bridge

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
)

func (p *pair) believedUntil() int64 {
	if p.Has(base.LaterDeadline) {
		return max(p.held.registerAt, p.held.recordAt)
	}
	return min(p.held.registerAt, p.held.recordAt)
}

func (l *Lease) waitUnderVersion() core.Duration {
	if l.Has(base.WaitUnderVersion) {
		return core.Forever
	}
	return 0
}

func (l *Lease) attemptBy() int64 {
	if l.Has(base.WaitUnderVersion) {
		return base.Unset
	}
	return l.In(l.Cfg.AcquireMargin + min(l.Cfg.TTL.Duration()/3, core.RequestLimit))
}

func (l *Lease) isEnded(epoch core.Epoch) bool {
	return !l.Has(base.EpochUnread) && epoch != 0 && epoch < l.held.token
}

func (l *Lease) isStale(s *core.Observed) bool {
	return l.Has(base.ReleasedClaimed) || l.stale != "" && string(s.Holder) == l.stale
}

func (l *Lease) first() (first, second *half) {
	if l.Has(base.VersionReleasedFirst) {
		return &l.register, &l.record
	}
	return &l.record, &l.register
}

func (l *Lease) isOrphan() bool { return !l.Has(base.VersionLeft) }
