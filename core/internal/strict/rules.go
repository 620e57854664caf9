//go:build !mopslock_mutations

package strict

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
	"github.com/mopslock/mopslock/core/internal/register"
)

// Each rule here is one that core/PROTOCOL.md names a mutation for: the explorer leaves it
// out, by rules_mutated.go, and finds what then goes wrong.

// startOf is the Mono from which a request counts: when it was sent, since others may
// count from then (PROTOCOL T3).
func (r *renewer) startOf(sent int64) int64 { return sent }

// isLate reports that what was sent at a Mono, and answered now, gives nothing to rely on
// any more (PROTOCOL S7.1 and S8.2).
func (r *renewer) isLate(sent int64) bool { return r.Cur.TTL != 0 && r.Now.Mono >= sent+r.span() }

// renew goes on with the renewal at hand: the beat, and once that is answered the question
// for a version above ours (PROTOCOL S8.1).
func (r *renewer) renew() {
	if r.putSent == base.Unset && r.Cur.TTL != 0 {
		r.beat()
		return
	}
	r.askNewer()
}

// beaten goes on when the beat is there. It renews nothing by itself (PROTOCOL S8.2).
func (r *renewer) beaten(sent int64) core.Reason {
	r.putSent = sent
	r.renew()
	return core.ReasonNone
}

// isSelfDue reports whether this renewal also asks for our own version: each second one
// does, since half a TTL has gone then (PROTOCOL S8.5).
func (r *renewer) isSelfDue() bool { return r.Now.Mono-r.selfAt >= int64(r.Cur.TTL/2) }

// isLockDue reports whether this renewal also asks for a lock.json: each does where there
// was one, otherwise those that ask for our own version (PROTOCOL S8.8).
func (r *renewer) isLockDue() bool {
	return !r.bridged && (r.Cfg.LockFilePresent || r.isSelfDue())
}

// noneNewer goes on when the beat is there, and nothing was above us at the Mono asked.
func (r *renewer) noneNewer(asked int64) core.Reason {
	r.asked = asked
	return r.checkLock()
}

// askHint asks for a version above ours, beside a renewal: that there is none renews
// nothing (PROTOCOL S8.6).
func (r *renewer) askHint() {
	r.Ask(register.ForHint, core.ActionExists, r.KeyAbove(), r.RequestLimit(r.Timers[base.TimerDeadline]))
}

// isOver reports whether the deadline takes the lease away, before anything else and
// without waiting for I/O: an answer that comes with this Step is too late to be believed
// (PROTOCOL S8.4).
func (l *Lease) isOver(core.EventKind) bool { return l.believes() && l.isPast() }

// giveUp shuts out an attempt of unknown fate, by a release at its very key: either that is
// won, and no create can land any more, or the key shows who won it (PROTOCOL S7.4).
func (l *Lease) giveUp(end base.Ending) { l.startReleasing(end, l.Attempt.V.N) }

// isLeftToExpire reports whether an attempt that was given up, and could not be shut out,
// is left to expire by itself. On a session that lives it never would (PROTOCOL S7.4).
func (l *Lease) isLeftToExpire() bool {
	const courtesy = 3
	return l.Retries >= courtesy && !l.hangsOnSession()
}

// sendRelease ends the tenure by a version of its own: epochs only grow (PROTOCOL S1).
func (l *Lease) sendRelease() {
	v := l.released()
	l.Create(&v, l.RequestLimit(l.Timers[base.TimerDeadline]))
}

// renewNonce gives each request a nonce of its own, a repeated one also (PROTOCOL S3.4).
func (a *Attempt) renewNonce(r *register.Register) { a.V.Nonce = register.NewNonce(&r.RNG) }

// goOnJoining joins by a version, which only one process can make, and which copies all
// that keeps the tenure alive (PROTOCOL S9.1 and S3.3).
func (c *Companion) goOnJoining() { c.join(c.Successor(core.VersionHeld)) }

// isOver reports that the session is dead, forever (PROTOCOL N5).
func (s *Session) isOver() bool { return s.Due(base.TimerDeadline) }

// isSelfDue reports whether this renewal also asks for what the session made at its
// beginning: each second one does (PROTOCOL N3).
func (s *Session) isSelfDue() bool { return s.Now.Mono-s.selfAt >= int64(s.Cfg.TTL/2) }

// isCalled reports whether there is a call, which is told before the renewal counts
// (PROTOCOL N3 and N4).
func (s *Session) isCalled(ev *core.Event) bool { return ev.Outcome == core.OutcomeYes }

// isDead reports whether this observation shows that the tenure is dead: what an earlier
// one showed was of an earlier version (PROTOCOL S11.3).
func (r *Revocation) isDead(v register.Verdict) bool { return v == register.Free }
