package child

import (
	"errors"
	"os"
	"os/signal"
	"syscall"
)

// macOS differs from Linux in this:
//
//   - No parent-death signal. A command outlives a mopslock-host that was killed with SIGKILL; the fencing token is the
//     only protection then.
//   - waitid is not reliable with WNOWAIT, so the command is reaped as soon as it has ended. If other processes of its
//     group live at that moment, the id of the group stays theirs while they live, and Kill may use it. If the last of
//     them ended, and the whole pid space wrapped around before that Kill, it would hit another process. If none lives
//     we never use the id again.
//   - A thread cannot be stopped synchronously, so we use SIGSTOP, after a look whether a shell can continue us.

// onlyZombiesGiveEPERM: kill(2) on macOS, for a group of which only zombies are left.
const onlyZombiesGiveEPERM = true

// others reports whether other processes of a group live. The command itself is reaped by then.
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

// withoutTTOU runs f with SIGTTOU ignored. Then tcsetpgrp from a background group succeeds, and does not stop us.
// SIGTTOU stays ignored: signal.Reset does not restore the default of a signal that was ignored (Go 1.26), and a thread
// has no mask here. So our own lines never stop us under `stty tostop`, and a command that starts later inherits that.
func withoutTTOU(f func() error) error {
	signal.Ignore(syscall.SIGTTOU)
	return f()
}

// stopOurGroup stops the other processes of our group with SIGTSTP, which we catch, and then ourselves. It returns when
// we have been continued. If our parent is not of our session no process could do that, and it returns at once.
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
