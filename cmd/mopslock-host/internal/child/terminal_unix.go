//go:build linux || darwin

package child

import (
	"errors"
	"log/slog"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// Job control. The shell gave our group a job; the command's group is another one, so whatever the shell and the
// terminal do to the one must be passed on to the other.
//
// Ctrl-Z, and fg:
//
//	terminal    SIGTSTP to its foreground group, which is the command's
//	command     stops; we see it by waitid(WSTOPPED)
//	us          take the terminal back, so that OnStop may print
//	us          suspended = true: from here on the SIGCONT that wakes us is not forwarded
//	us          OnStop
//	us          ignore SIGTSTP, send it to our group (pid 0): the rest of the pipeline, or the script that we are
//	            part of, stops as it would have if the terminal had been ours; without this the shell would wait
//	            for ever for the job to stop
//	us          SIGTSTP to default, raised on this thread: we stop here. Ignoring it first keeps the one sent to the
//	            group from stopping us too, perhaps a moment too late, after the SIGCONT
//	shell       sees the job stopped, takes the terminal, prompts; the user types fg; the shell makes our group the
//	            foreground group and sends it SIGCONT
//	us          OnContinue: false ends it here, and the command stays stopped until the caller kills it
//	us          if the terminal is our group's: to the command's group. After bg it is the shell's: left alone
//	us          suspended = false, SIGCONT to the command's group
//
// No lease is renewed while we are stopped: whoever stops a job with a lease gives it up after the TTL.
//
// The forwarder may get to our SIGCONT only after suspended is false again. It then passes on a second SIGCONT, which
// does nothing to a running command.
//
// If our group is orphaned (the first process of a container or of `ssh -t`), nobody could continue us. The kernel
// drops SIGTSTP then, so we are not stopped, and the command is continued at once: Ctrl-Z does nothing, as it does
// for any program there.
//
// A command that is in the middle of a vfork when Ctrl-Z comes (dash starts everything that way) is not stopped: its
// child is, and it waits for that. Nobody sees a stop then, with us or with an ordinary shell; Ctrl-C still works.
//
// kill -TSTP to us, without a terminal or in the background: forwarded, the command stops, we run on and keep the
// lease. kill -CONT continues it.

// terminal is our controlling terminal. A nil *terminal is none, and its methods do nothing.
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

// give makes group the foreground group, whoever has the terminal now.
func (t *terminal) give(group int) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := withoutTTOU(func() error { return unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, group) })
	if err != nil { // hung up, or the group is empty by now
		t.log.Debug("terminal not given", "group", group, "error", err)
	}
}

// takeBack takes the terminal from the command's group, and from nobody else.
func (t *terminal) takeBack(commands int) {
	if t == nil {
		return
	}
	if group, err := t.foreground(); err == nil && group == commands {
		t.give(t.ourGroup)
	}
}

// place says where the job stands.
type place int

const (
	apart      place = iota // no terminal
	background              // the terminal is somebody else's
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
		// A reader in the background: the shell says so, and waits for fg. If nobody can say fg, continuing it
		// would only stop it again, for ever: so here the SIGCONT must have been heard.
		c.stopAlong()
		c.resumeIfContinued()
	}
	// Else somebody stopped it on purpose, with kill: it stays stopped, and we keep the lease.
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

// resumeUnlessRefused continues the command's group. Once refused, suspended stays: no SIGCONT may wake it.
func (c *Child) resumeUnlessRefused(withTerminal bool) {
	c.mu.Lock()
	refused := c.refused
	c.suspended = refused
	c.mu.Unlock()
	if !refused {
		c.resume(withTerminal)
	}
}

// resumeIfContinued continues the command's group if the forwarder has held a SIGCONT back; else it leaves that to
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

// forward passes on a signal that we got. SIGCONT follows one that is to end the command: a stopped command cannot end.
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
