package child

import (
	"errors"
	"os"
	"os/signal"
	"syscall"
)

// macOS differs from Linux in this:
//
//   - No parent-death signal. A command outlives a mopslock-host that was killed with SIGKILL; the fencing token is
//     the only guard then.
//   - waitid cannot be trusted with WNOWAIT, so the command is reaped as soon as it has ended. If others of its group
//     are alive at that moment, the id of the group stays theirs while they live, and Kill may use it; should the
//     last of them end and the whole pid space wrap around before that Kill, it would hit a stranger. If none is
//     alive the id is never used again.
//   - A thread cannot be stopped synchronously, so it is SIGSTOP, sent after a look at whether anybody can continue us.

// onlyZombiesGiveEPERM: kill(2) on macOS, for a group of which only zombies are left.
const onlyZombiesGiveEPERM = true

// others reports whether anybody else of a group lives: the command itself is reaped by then.
func others(group int) bool { return syscall.Kill(-group, 0) == nil }

func setParentDeath(*syscall.SysProcAttr, bool) {}

// nextEvent waits for SIGCHLD and looks, under the lock, since the look reaps.
func (c *Child) nextEvent() (event, error) {
	changes := make(chan os.Signal, 1) // registered before the first look: no change is missed
	signal.Notify(changes, syscall.SIGCHLD)
	defer signal.Stop(changes)
	for {
		seen, found, err := c.look()
		if err != nil || found {
			return seen, err
		}
		<-changes
	}
}

func (c *Child) look() (seen event, found bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var status syscall.WaitStatus
	var pid int
	for {
		pid, err = syscall.Wait4(c.pid, &status, syscall.WNOHANG|syscall.WUNTRACED, nil)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	switch {
	case err != nil || pid == 0:
		return event{}, false, err
	case status.Stopped():
		return event{stop: status.StopSignal()}, true, nil
	}
	c.reaped = true
	c.gone = errors.Is(syscall.Kill(-c.pid, 0), syscall.ESRCH)
	if status.Signaled() {
		return event{ended: true, status: Status{Signal: status.Signal()}}, true, nil
	}
	return event{ended: true, status: Status{Code: status.ExitStatus()}}, true, nil
}

// withoutTTOU runs f with SIGTTOU ignored: then tcsetpgrp from a background group succeeds instead of stopping us.
// It stays ignored: once a signal was ignored, signal.Reset does not bring back its default (Go 1.26), and there is
// no mask of a thread to be had. It means that our own lines never stop us under `stty tostop`; a command that is
// started after that inherits it.
func withoutTTOU(f func() error) error {
	signal.Ignore(syscall.SIGTTOU)
	return f()
}

// stopOurGroup stops the others of our group with SIGTSTP, which we catch, and then ourselves. It returns when we
// have been continued. If our parent is not of our session nobody could do that, and it returns at once.
func stopOurGroup() error {
	session, err := syscall.Getsid(0)
	if err != nil {
		return err
	}
	if parents, err := syscall.Getsid(syscall.Getppid()); err != nil || parents != session {
		return nil
	}
	if err := syscall.Kill(0, syscall.SIGTSTP); err != nil {
		return err
	}
	return syscall.Kill(syscall.Getpid(), syscall.SIGSTOP)
}

func kernelIgnores() map[syscall.Signal]bool { return nil }

// We are never the first process there.
func adopted() <-chan os.Signal { return nil }
func reapAdopted(*Child)        {}
