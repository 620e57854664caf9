//go:build mopslock_mutations

package semaphore

import "github.com/mopslock/mopslock/core/internal/base"

func (s *Semaphore) fits(a *ask, held, most uint64) bool {
	return s.Has(base.Overallocate) || held+a.weight <= most
}

func (s *Semaphore) isIn(a *ask) bool {
	if s.Has(base.SettleAtVersion) && s.Open != 0 && s.Open != s.Cur.N {
		return false
	}
	return !a.isLimit && s.Value.Find(a.ID) >= 0
}

func (s *Semaphore) landsNoMore() bool { return s.Has(base.ForgetUnknownCreate) || s.Cur.N >= s.Open }

func (s *Semaphore) mayBeIn(a *ask) bool { return !s.Has(base.ReleaseLeft) && a.isSent() }

func (s *Semaphore) isKept(a *ask) bool {
	return s.Has(base.PermitOutlivesSession) || a.session == s.Session.ID && s.InForce()
}

func (s *Semaphore) askAnew(a *ask) {
	if !s.Has(base.IDReused) {
		a.ID, a.weighed = s.freshID(), false
	}
}
