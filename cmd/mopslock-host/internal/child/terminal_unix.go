//go:build linux || darwin

package child

import (
	"errors"
	"log/slog"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// Job control. The shell made our group a job. The command's group is another one, so what the shell and the terminal do
// to the one must be passed on to the other.
//
// Ctrl-Z, and fg:
//
//	terminal    SIGTSTP to its foreground group, which is the command's
//	command     stops; we see it by waitid(WSTOPPED)
//	us          take the terminal back, so that OnStop may print
//	us          suspended = true: from here on the SIGCONT that wakes us is not forwarded
//	us          OnStop
//	us          ignore SIGTSTP, send it to our group (pid 0): the rest of the pipeline, or the script that we are
//	            part of, stops as it would if the terminal were ours; without this the shell would wait forever
//	            for the job to stop
//	us          SIGTSTP to default, raised on this thread: we stop here. Ignoring it first keeps the one sent to the
//	            group from stopping us too, perhaps a moment too late, after the SIGCONT
//	shell       sees the job stopped, takes the terminal, prompts; the user types fg; the shell makes our group the
//	            foreground group and sends it SIGCONT
//	us          OnContinue: false ends it here, and the command stays stopped until the caller kills it
//	us          if the terminal is our group's: to the command's group. After bg it is the shell's: left alone
//	us          suspended = false, SIGCONT to the command's group
//
// No lease is renewed while we are stopped: a stopped job loses its lease after the TTL.
//
// The forwarder may get to our SIGCONT only after suspended is false again. It then passes on a second SIGCONT, which
// does nothing to a running command.
//
// If our group is orphaned (the first process of a container or of `ssh -t`), no shell could continue us. The kernel
// drops SIGTSTP then, so we are not stopped, and the command is continued at once. Ctrl-Z does nothing there, as for any
// program.
//
// A command that is in the middle of a vfork when Ctrl-Z comes (dash starts everything that way) is not stopped: its
// child is, and the command waits for it. We see no stop then, nor does an ordinary shell; Ctrl-C still works.
//
// kill -TSTP to us, without a terminal or in the background: forwarded, the command stops, we run on and keep the
// lease. kill -CONT continues it.

// terminal is our controlling terminal. nil is no terminal, and its methods do nothing.
type terminal struct {
	fd       int
	opened   bool // by us: /dev/tty, since stdin is something else
	ourGroup int
	log      *slog.Logger
}

// findTerminal prefers stdin. If that is a pipe there may still be a terminal that the command wants (ssh asks for a
// password there) and that sends Ctrl-Z.
func findTerminal(log *slog.Logger) *terminal {
	t := &terminal{fd: 0, ourGroup: syscall.Getpgrp(), log: log}
	if _, err := t.foreground(); err == nil {
		return t
	}
	fd, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	t.fd, t.opened = fd, true
	return t
}

func (t *terminal) close() {
	if t != nil && t.opened {
		_ = unix.Close(t.fd)
	}
}

// foreground is the terminal's foreground group. ENOTTY also means: a terminal, but not ours.
func (t *terminal) foreground() (int, error) {
	for {
		group, err := unix.IoctlGetInt(t.fd, unix.TIOCGPGRP)
		if !errors.Is(err, unix.EINTR) {
			return group, err
		}
	}
}

// givenAtStart says whether the command gets the terminal right away: stdin is the terminal, and it is ours to give;
// a job started with & never takes it.
//
// In `mopslock-host run N -- make | less` the reader of our stdout is the one that needs the terminal. It is in our
// group; with the terminal given away its first read would stop the group, us and the renewals included. So the
// command gets the terminal when it asks for it (stopped: SIGTTIN, SIGTTOU).
func (t *terminal) givenAtStart() bool {
	if t == nil || t.opened {
		return false
	}
	group, err := t.foreground()
	return err == nil && group == t.ourGroup && !isPipe(1)
}

func isPipe(fd int) bool {
	var info unix.Stat_t
	return unix.Fstat(fd, &info) == nil && info.Mode&unix.S_IFMT == unix.S_IFIFO
}

// give makes group the foreground group, also if another group has the terminal now.
func (t *terminal) give(group int) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := withoutTTOU(func() error { return unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, group) })
	if err != nil { // hung up, or the group is empty by now
		t.log.Debug("terminal not given", "group", group, "error", err)
	}
}

// takeBack takes the terminal from the command's group, and from no other.
func (t *terminal) takeBack(commands int) {
	if t == nil {
		return
	}
	if group, err := t.foreground(); err == nil && group == commands {
		t.give(t.ourGroup)
	}
}

// place says which group has the terminal.
type place int

const (
	apart      place = iota // no terminal
	background              // another group has the terminal
	foreOurs                // our group is in the foreground
	foreTheirs              // the command's group is
)

func (t *terminal) place(commands int) place {
	if t == nil {
		return apart
	}
	group, err := t.foreground()
	switch {
	case err != nil: // hung up
		return apart
	case group == commands:
		return foreTheirs
	case group == t.ourGroup:
		return foreOurs
	}
	return background
}

// stopped decides what a stop of the command means.
func (c *Child) stopped(sig syscall.Signal) {
	where := c.terminal.place(c.pid)
	wantsTerminal := sig == syscall.SIGTTIN || sig == syscall.SIGTTOU
	c.log.Debug("command stopped", "pid", c.pid, "signal", sig.String(), "place", int(where))
	switch {
	case where == foreOurs && wantsTerminal:
		c.resume(true)
	case where == foreOurs || where == foreTheirs:
		c.stopAlong()
		c.resumeUnlessRefused(where == foreTheirs)
	case where == background && wantsTerminal:
		// A command in the background wants to read: the shell says so, and waits for fg. Without a shell, a
		// continued command would only stop again, forever. So it is continued only after a SIGCONT.
		c.stopAlong()
		c.resumeIfContinued()
	}
	// Otherwise it was stopped on purpose, with kill: it stays stopped, and we keep the lease.
}

// stopAlong is the sequence at the top of this file, up to OnContinue.
func (c *Child) stopAlong() {
	c.terminal.takeBack(c.pid)
	c.mu.Lock()
	c.suspended, c.continued = true, false
	c.mu.Unlock()
	if c.options.OnStop != nil {
		c.options.OnStop()
	}
	if err := stopOurGroup(); err != nil {
		c.log.Debug("could not stop", "error", err)
	}
	if c.options.OnContinue != nil && !c.options.OnContinue() {
		c.mu.Lock()
		c.refused = true
		c.mu.Unlock()
	}
}

// resumeUnlessRefused continues the command's group. If OnContinue refused, suspended stays set: no SIGCONT wakes it.
func (c *Child) resumeUnlessRefused(withTerminal bool) {
	c.mu.Lock()
	refused := c.refused
	c.suspended = refused
	c.mu.Unlock()
	if !refused {
		c.resume(withTerminal)
	}
}

// resumeIfContinued continues the command's group if the forwarder has held back a SIGCONT. Otherwise it leaves that to
// the forwarder:
//
//	SIGCONT is read while suspended      continued = true, and it is done here
//	SIGCONT is read afterwards           forwarded
//	no SIGCONT: we were never stopped    the command stays stopped; kill -CONT to us wakes it
func (c *Child) resumeIfContinued() {
	c.mu.Lock()
	resume := c.continued && !c.refused
	c.suspended = c.refused
	c.mu.Unlock()
	if resume {
		c.resume(true)
	}
}

// resume continues the command's group, with the terminal if it should have it and it is ours to give.
func (c *Child) resume(withTerminal bool) {
	if withTerminal && c.terminal.place(c.pid) == foreOurs {
		c.terminal.give(c.pid)
	}
	if err := c.Signal(syscall.SIGCONT); err != nil {
		c.log.Debug("command not continued", "error", err)
	}
}

// forward passes on a signal that we got. SIGCONT follows a signal that ends, since a stopped command cannot end.
func (c *Child) forward(sig syscall.Signal) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if sig != syscall.SIGCONT {
		if err := c.signalLocked(sig); err != nil || !ending(sig) {
			return err
		}
	}
	if c.suspended {
		c.continued = true
		return nil // ours, not the command's: see the top of this file
	}
	// A job that was started or continued in the background comes to the foreground.
	if !c.closed && c.terminal.givenAtStart() {
		c.terminal.give(c.pid)
	}
	return c.signalLocked(syscall.SIGCONT)
}
