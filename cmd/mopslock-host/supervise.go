package main

import (
	"errors"
	"time"

	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/exit"
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
)

// supervisor watches a command and the lease, or the permit, that it runs under, and
// ends the command when that is lost.
//
//	good renewal                 deadline-grace          deadline
//	    |--------- CMD runs -----------|---- SIGTERM, grace ---|  SIGKILL
//	                                   a good renewal here calls the SIGKILL off
type supervisor struct {
	app   *app
	child command
	loss  *lossFlags
	name  string

	isPermit   bool
	grace      time.Duration // from SIGTERM to the deadline
	lost       error         // the lease's end, once it is known
	spare      time.Duration // what SIGTERM may wait for, after a pause of ours
	terminated bool          // SIGTERM was sent because renewals fail
	toldToEnd  bool          // SIGTERM was sent while the command ran, for whatever reason
	kill       <-chan time.Time
}

// holder supervises the command of a holder to its end.
func (s *supervisor) holder(lease heldLease, margin time.Duration) *exit.Error {
	_, s.isPermit = lease.(permit)
	s.grace = s.graceWithin(lease.Left(), lease.TTL(), margin)
	fence := time.NewTimer(s.untilFence(lease))
	defer fence.Stop()
	lost := lease.Done()
	for {
		select {
		case <-s.child.Done():
			if s.lost == nil {
				s.lost = lease.Err() // it looks at the clock: we may have been paused
			}
			if s.lost == nil && s.terminated {
				s.fence(lease) // renewed at this very moment?
			}
			if s.lost == nil && s.terminated { // the deadline rules
				s.kill = time.After(max(0, lease.Left()))
			}
			s.awaitRest(lost)
			return s.end()
		case <-lost:
			lost = nil
			s.lostHolder(lease.Err())
		case <-fence.C:
			if s.lost == nil {
				s.fence(lease)
				fence.Reset(s.untilFence(lease))
			}
		case <-s.kill:
			s.kill = nil
			_ = s.child.Kill()
		}
	}
}

// graceWithin is --grace, or less where a large margin or somebody else's short
// TTL brings the deadline so near to the renewals that they are not late yet at
// deadline - grace. fresh is what is left right after acquiring: less than there was at
// the stamp, if that was slow.
//
//	stamp      renewal due                      deadline
//	  |------- interval -------|-- its time -------|
//	                             three quarters of it at most are grace
//
// Which of the two TTLs the store is judged by nobody tells, so both bounds hold: of our
// own TTL, the interval is a third, and its time is what the margin leaves of the rest;
// of E, shorter than ours, 0.9 E is left at the stamp, and the interval is E/3.
func (s *supervisor) graceWithin(fresh, ttl, margin time.Duration) time.Duration {
	if margin == 0 {
		margin = ttl / core.MarginShare
	}
	byTTL, byE := ttl-margin-ttl/3, fresh-fresh*10/27
	return min(s.loss.grace, max(0, min(byTTL, byE))/4*3)
}

// fenceCheck is how often the deadline is looked at while SIGTERM is out.
const fenceCheck = 50 * time.Millisecond

// untilFence is how long it is to deadline - grace, or to the next look.
func (s *supervisor) untilFence(lease heldLease) time.Duration {
	if early := lease.Left() - s.grace; early > 0 {
		return early
	}
	return fenceCheck
}

// pausedNow reports whether SIGTERM is to wait although deadline - grace is
// behind us. If we were paused (Ctrl-Z, a suspended machine) the renewal that
// was due meanwhile goes out only now: half of what is left is its chance.
func (s *supervisor) pausedNow(left time.Duration) bool {
	if s.spare == 0 && left < s.grace-2*fenceCheck { // we look in time, unless we could not
		s.spare = left / 2
	}
	return s.spare > 0 && left > s.spare
}

// fence sends SIGTERM when no renewal has come by deadline - grace, and takes
// the threat back when one comes after all. Of a lease that is lost already,
// nothing is left either; what it was lost for is about to be told.
func (s *supervisor) fence(lease heldLease) {
	if lease.Err() != nil {
		return
	}
	left := lease.Left()
	near := left <= s.grace
	if !near {
		s.spare = 0
	}
	switch {
	case near && !s.terminated:
		if s.pausedNow(left) {
			return
		}
		s.terminated = true
		if s.loss.onLoss == "continue" {
			s.app.console.Printf("%s: renewals fail, and its deadline is near; the command goes on (--on-loss continue)", subject(lease))
			return
		}
		s.terminate() // before the line: its reader may have stopped reading
		s.app.console.Printf("%s: renewals fail, and its deadline is in %v: SIGTERM to the command", subject(lease), left.Round(time.Millisecond))
	case !near && s.terminated:
		s.terminated = false
		s.app.console.Printf("%s: renewed after all", subject(lease))
	}
}

// terminate sends SIGTERM to the command, or to the rest of its group.
func (s *supervisor) terminate() {
	select {
	case <-s.child.Done():
	default:
		s.toldToEnd = true
	}
	_ = s.child.Terminate()
}

// lostHolder: a lease that ran out of time kills at once, since another may
// hold it already; one that somebody took or ended leaves the command its grace.
func (s *supervisor) lostHolder(err error) {
	var lost *host.Error
	outOfTime := errors.As(err, &lost) && (lost.Reason == core.ReasonUnreachable || lost.Reason == core.ReasonExpired)
	if outOfTime && s.loss.onLoss != "continue" {
		_ = s.child.Kill()
	}
	s.noteLost(err, !outOfTime)
}

// noteLost says that the lease is lost, after the command has been told so.
func (s *supervisor) noteLost(err error, terminate bool) {
	s.lost = err
	text := exit.Text(err)
	switch {
	case s.loss.onLoss == "continue":
		text += "; the command goes on without the " + s.what() + " (--on-loss continue)"
	case terminate:
		s.terminate()
		s.kill = time.After(s.loss.grace)
	}
	s.app.console.Printf("%s", text)
}

func (s *supervisor) what() string {
	if s.isPermit {
		return "permit"
	}
	return "lease"
}

// companion supervises the command of a companion: only taken or broken ends it.
func (s *supervisor) companion(c *host.Companion) *exit.Error {
	lost := c.Done()
	for {
		select {
		case <-s.child.Done():
			s.awaitRest(nil)
			return s.end()
		case <-lost:
			lost = nil
			s.lostCompanion(c.Err())
		case <-s.kill:
			s.kill = nil
			_ = s.child.Kill()
		}
	}
}

func (s *supervisor) lostCompanion(err error) {
	var lost *host.Error
	if errors.As(err, &lost) && lost.Reason == core.ReasonReleased {
		s.app.console.Printf("lease %s was released by its holder; the command goes on", s.name)
		return
	}
	s.noteLost(err, true)
}

// awaitRest leaves to the rest of the group, which was sent SIGTERM with the command,
// what is left of its grace: until s.kill, which nobody else looks at any more, or
// the lease's own end. It goes on at once where there is nobody left.
func (s *supervisor) awaitRest(lost <-chan struct{}) {
	if s.kill == nil || s.loss.onLoss != "terminate" {
		return
	}
	ticker := time.NewTicker(restCheck)
	defer ticker.Stop()
	for s.child.Others() {
		select {
		case <-s.kill:
			return
		case <-lost:
			return
		case <-ticker.C:
		}
	}
}

// restCheck is how often the group is looked at, which costs a look at every process.
const restCheck = 100 * time.Millisecond

// end is the status once the command has ended. After a loss nobody of its
// group may go on either: another may hold the lease already.
func (s *supervisor) end() *exit.Error {
	if s.lost == nil && !(s.terminated && s.loss.onLoss == "terminate") {
		status := s.child.Status()
		reason := "exited"
		if status.Signal != 0 {
			reason = "signalled"
		}
		return &exit.Error{Status: status.ExitStatus(), Reason: reason, ByCommand: true}
	}
	if s.loss.onLoss == "terminate" {
		_ = s.child.Kill()
	}
	reason := core.ReasonUnreachable // SIGTERM was sent for it, and the lease is as good as lost
	var lost *host.Error
	if errors.As(s.lost, &lost) {
		reason = lost.Reason
	} else {
		s.app.console.Printf("%s %s lost (%s): the command ended before it was renewed", s.what(), s.name, reason)
	}
	return &exit.Error{Status: exit.StatusLost, Reason: reason.String()}
}
