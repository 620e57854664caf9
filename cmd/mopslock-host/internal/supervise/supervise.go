// Package supervise watches a command together with the lease, or the permit, that it runs under. It
// ends the command when the lease is lost, and says with which exit status all ends.
//
// It starts no command, and acquires, renews and releases nothing.
package supervise

import (
	"errors"
	"time"

	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/child"
	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/exit"
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
)

// Command is a command that was started: a *child.Child.
type Command interface {
	Done() <-chan struct{}
	Status() child.Status
	Terminate() error
	Kill() error
	Others() bool
}

// Held is a lease or a permit that is held.
type Held interface {
	TTL() core.TTL
	Left() time.Duration
	Done() <-chan struct{}
	Err() error
}

// Supervisor supervises one command.
//
//	good renewal                 deadline-grace          deadline
//	    |--------- CMD runs -----------|---- SIGTERM, grace ---|  SIGKILL
//	                                   a good renewal here calls the SIGKILL off
type Supervisor struct {
	Command  Command
	Name     string
	Permit   bool                             // it runs under a permit of Name; false: under a lease
	Continue bool                             // --on-loss continue: a loss does not end the command
	Grace    time.Duration                    // --grace: from SIGTERM to SIGKILL
	Say      func(format string, args ...any) // says a line to people

	early      time.Duration // SIGTERM comes so long before the deadline
	lost       error         // why the lease is lost, once that is known
	reserve    time.Duration // after a pause of ours, SIGTERM waits until so much is left
	terminated bool          // SIGTERM was sent because renewals fail
	toldToEnd  bool          // SIGTERM was sent while the command ran, for any reason
	kill       <-chan time.Time
}

// Holder supervises the command of a holder to its end. The margin is the holder's; 0 is the default.
func (s *Supervisor) Holder(lease Held, margin time.Duration) *exit.Error {
	s.early = s.graceWithin(lease.Left(), lease.TTL().Duration(), margin)
	check := time.NewTimer(s.untilCheck(lease))
	defer check.Stop()
	lost := lease.Done()
	for {
		select {
		case <-s.Command.Done():
			if s.lost == nil {
				s.lost = lease.Err() // it looks at the clock: we may have been paused
			}
			if s.lost == nil && s.terminated {
				s.checkDeadline(lease) // renewed at this very moment?
			}
			if s.lost == nil && s.terminated { // the deadline rules
				s.kill = time.After(max(0, lease.Left()))
			}
			s.awaitRest(lost)
			return s.End()
		case <-lost:
			lost = nil
			s.lostHolder(lease.Err())
		case <-check.C:
			if s.lost == nil {
				s.checkDeadline(lease)
				check.Reset(s.untilCheck(lease))
			}
		case <-s.kill:
			s.kill = nil
			_ = s.Command.Kill()
		}
	}
}

// graceWithin returns --grace. It returns less if a large margin, or a shorter TTL of others, puts the
// deadline so near to the renewals that they are not late yet at deadline - grace. fresh is what is
// left right after acquiring, which is less than at the stamp if acquiring was slow.
//
//	stamp      renewal due                      deadline
//	  |------- interval -------|-- its time -------|
//	                             three quarters of it at most are grace
//
// We do not know by which TTL others judge us, so both bounds apply. By our own TTL, the interval is a
// third of it, and its time is the rest without the margin. By the fleet's shorter TTL E, 0.9 E is
// left at the stamp, and the interval is E/3.
func (s *Supervisor) graceWithin(fresh, ttl, margin time.Duration) time.Duration {
	if margin == 0 {
		margin = ttl / core.MarginShare
	}
	byTTL, byE := ttl-margin-ttl/3, fresh-fresh*10/27
	return min(s.Grace, max(0, min(byTTL, byE))/4*3)
}

// checkEach is how often the deadline is checked after SIGTERM.
const checkEach = 50 * time.Millisecond

// untilCheck is how long it is to deadline - grace, or to the next check after that.
func (s *Supervisor) untilCheck(lease Held) time.Duration {
	if early := lease.Left() - s.early; early > 0 {
		return early
	}
	return checkEach
}

// pausedNow reports whether SIGTERM waits although deadline - grace is over. If we were paused
// (Ctrl-Z, a suspended machine), the renewal that was due meanwhile goes out only now. It gets half
// of what is left.
func (s *Supervisor) pausedNow(left time.Duration) bool {
	if s.reserve == 0 && left < s.early-2*checkEach { // a process that is not paused checks earlier
		s.reserve = left / 2
	}
	return s.reserve > 0 && left > s.reserve
}

// checkDeadline sends SIGTERM if no renewal has come by deadline - grace, and calls off the SIGKILL if
// one comes later. A lease that is lost already has nothing left either; Holder handles its loss.
func (s *Supervisor) checkDeadline(lease Held) {
	if lease.Err() != nil {
		return
	}
	left := lease.Left()
	near := left <= s.early
	if !near {
		s.reserve = 0
	}
	switch {
	case near && !s.terminated:
		if s.pausedNow(left) {
			return
		}
		s.terminated = true
		if s.Continue {
			s.Say("%s: renewals fail, and its deadline is near; the command goes on (--on-loss continue)", s.subject())
			return
		}
		s.terminate() // before the line: its reader may have stopped reading
		s.Say("%s: renewals fail, and its deadline is in %v: SIGTERM to the command", s.subject(), left.Round(time.Millisecond))
	case !near && s.terminated:
		s.terminated = false
		s.Say("%s: renewed after all", s.subject())
	}
}

// terminate sends SIGTERM to the command, or to the rest of its group.
func (s *Supervisor) terminate() {
	select {
	case <-s.Command.Done():
	default:
		s.toldToEnd = true
	}
	_ = s.Command.Terminate()
}

// ToldToEnd reports whether SIGTERM was sent while the command ran.
func (s *Supervisor) ToldToEnd() bool { return s.toldToEnd }

// lostHolder ends the command of a holder. If the lease ran out of time another may hold it already, so
// the command is killed at once. If another ended or took the lease, the command has its grace.
func (s *Supervisor) lostHolder(err error) {
	var lost *host.Error
	outOfTime := errors.As(err, &lost) && (lost.Reason == core.ReasonUnreachable || lost.Reason == core.ReasonExpired)
	if outOfTime && !s.Continue {
		_ = s.Command.Kill()
	}
	s.noteLost(err, !outOfTime)
}

// noteLost says that the lease is lost, after it has told the command.
func (s *Supervisor) noteLost(err error, terminate bool) {
	s.lost = err
	text := exit.Text(err)
	switch {
	case s.Continue:
		text += "; the command goes on without the " + s.what() + " (--on-loss continue)"
	case terminate:
		s.terminate()
		s.kill = time.After(s.Grace)
	}
	s.Say("%s", text)
}

func (s *Supervisor) what() string {
	if s.Permit {
		return "permit"
	}
	return "lease"
}

// subject is how lines begin.
func (s *Supervisor) subject() string {
	if s.Permit {
		return "permit of " + s.Name
	}
	return "lease " + s.Name
}

// Companion supervises the command of a companion to its end. Only a lease that is another's or was
// broken ends the command.
func (s *Supervisor) Companion(c *host.Companion) *exit.Error {
	lost := c.Done()
	for {
		select {
		case <-s.Command.Done():
			s.awaitRest(nil)
			return s.End()
		case <-lost:
			lost = nil
			s.lostCompanion(c.Err())
		case <-s.kill:
			s.kill = nil
			_ = s.Command.Kill()
		}
	}
}

func (s *Supervisor) lostCompanion(err error) {
	var lost *host.Error
	if errors.As(err, &lost) && lost.Reason == core.ReasonReleased {
		s.Say("lease %s was released by its holder; the command goes on", s.Name)
		return
	}
	s.noteLost(err, true)
}

// awaitRest gives the rest of the command's group what is left of the grace: SIGTERM has also reached
// it. It waits until s.kill, or until the lease ends, and returns at once if there is no rest.
func (s *Supervisor) awaitRest(lost <-chan struct{}) {
	if s.kill == nil || s.Continue {
		return
	}
	ticker := time.NewTicker(restEach)
	defer ticker.Stop()
	for s.Command.Others() {
		select {
		case <-s.kill:
			return
		case <-lost:
			return
		case <-ticker.C:
		}
	}
}

// restEach is how often awaitRest looks at the group: each time it reads the list of all processes.
const restEach = 100 * time.Millisecond

// End returns the exit of a command that has ended. After a loss it kills the rest of the group, since
// another may hold the lease already.
func (s *Supervisor) End() *exit.Error {
	if s.lost == nil && (!s.terminated || s.Continue) {
		status := s.Command.Status()
		reason := "exited"
		if status.Signal != 0 {
			reason = "signalled"
		}
		return &exit.Error{Status: status.ExitStatus(), Reason: reason, ByCommand: true}
	}
	if !s.Continue {
		_ = s.Command.Kill()
	}
	reason := core.ReasonUnreachable // SIGTERM was sent for that: renewals fail, and the deadline is near
	var lost *host.Error
	if errors.As(s.lost, &lost) {
		reason = lost.Reason
	} else {
		s.Say("%s %s lost (%s): the command ended before it was renewed", s.what(), s.Name, reason)
	}
	return &exit.Error{Status: exit.StatusLost, Reason: reason.String()}
}
