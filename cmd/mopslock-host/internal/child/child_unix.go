//go:build linux || darwin

package child

import (
	"errors"
	"log/slog"
	"os"
	"runtime"
	"sync"
	"syscall"
)

// Child is a command that was started. Its methods may be called from any goroutine.
type Child struct {
	pid        int // of the command, and the id of its group
	options    Options
	log        *slog.Logger
	terminal   *terminal // nil: we have no controlling terminal
	done       chan struct{}
	status     Status // written before done is closed
	unfinished sync.WaitGroup

	mu        sync.Mutex
	gone      bool // the pid may belong to another process: never signal it again
	reaped    bool // there is no zombie to reap
	closed    bool
	suspended bool // between a stop from the terminal and our own continuation
	continued bool // a SIGCONT came while suspended
	refused   bool // OnContinue said no: the command is never continued again
}

// Start starts the command and returns when it has been executed. The error is a *StartError: 126 or 127.
func Start(options Options) (*Child, error) {
	if len(options.Argv) == 0 {
		panic("child: Start without a command")
	}
	path, failure := lookup(options.Argv[0])
	if failure != nil {
		return nil, failure
	}
	c := &Child{options: options, log: options.logger(), terminal: findTerminal(options.logger()), done: make(chan struct{})}
	started := make(chan error)
	c.unfinished.Add(1)
	go c.supervise(path, started)
	if err := <-started; err != nil {
		c.unfinished.Wait()
		c.terminal.close()
		return nil, execFailure(options.Argv[0], err)
	}
	return c, nil
}

// supervise runs the command to its end, on one OS thread.
//
// The kernel sends the parent-death signal when the *thread* that forked ends, not the process. Go ends a thread when a
// goroutine that locked it returns without unlocking. While this goroutine has its thread locked, no other goroutine
// runs on it and can end it, and this one waits until the command has ended.
func (c *Child) supervise(path string, started chan<- error) {
	defer c.unfinished.Done()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	err := c.forkExec(path)
	started <- err
	if err != nil {
		return
	}
	c.watch()
	c.terminal.takeBack(c.pid)
	c.log.Debug("command ended", "pid", c.pid, "status", c.status.String())
	close(c.done)
}

// forkExec starts the command in its own group. The runtime does this in the child, in this order, with all signals
// blocked up to the third step: setpgid; tcsetpgrp (if foreground), so that the command never runs without its
// terminal and no SIGTTOU can stop it; caught signals to default (ignored ones stay ignored), and the signal mask as we
// found it; prctl(PR_SET_PDEATHSIG); exec.
//
// The runtime also closes the race of the parent-death signal (syscall.forkAndExecInChild1). After the prctl the child
// compares getppid with the pid that its parent noted before the fork:
//
//	us                          child
//	getpid → 7
//	fork ─────────────────────► (signal not asked for yet)
//	SIGKILL, dead
//	                            prctl(PR_SET_PDEATHSIG, SIGKILL)    too late for the signal
//	                            getppid → 1 ≠ 7: kill(getpid(), SIGKILL)
func (c *Child) forkExec(path string) error {
	env := c.options.Env
	if env == nil {
		env = os.Environ()
	}
	attributes := &syscall.SysProcAttr{Setpgid: true}
	setParentDeath(attributes, c.options.ParentDeath)
	foreground := c.terminal.givenAtStart()
	if foreground {
		attributes.Foreground, attributes.Ctty = true, c.terminal.fd
	}
	files := []uintptr{0, 1, 2}
	if out := c.options.Stdout; out != nil {
		files[1] = out.Fd()
	}
	if errs := c.options.Stderr; errs != nil {
		files[2] = errs.Fd()
	}
	pid, err := syscall.ForkExec(path, c.options.Argv, &syscall.ProcAttr{Env: env, Files: files, Sys: attributes})
	runtime.KeepAlive(c.options)
	if err != nil {
		if foreground { // the child took the terminal before its exec failed, and its group is empty now
			c.terminal.give(c.terminal.ourGroup)
		}
		return err
	}
	c.pid = pid
	c.log.Debug("command started", "pid", pid, "path", path, "foreground", foreground)
	return nil
}

// watch returns when the command has ended and c.status says how. On Linux it is not reaped here.
func (c *Child) watch() {
	for {
		event, err := c.nextEvent()
		if err != nil {
			// ECHILD: other code in this process waited for it, and its status is lost.
			c.log.Debug("command lost from sight", "pid", c.pid, "error", err)
			c.mu.Lock()
			c.reaped, c.gone = true, true
			c.mu.Unlock()
			c.status = Status{Code: StatusCannotExecute}
			return
		}
		if event.ended {
			c.status = event.status
			return
		}
		c.stopped(event.stop)
	}
}

// event is a change of state of the command: it ended, or it was stopped by a signal.
type event struct {
	ended  bool
	status Status
	stop   syscall.Signal
}

// Pid is the command's process id, which is also the id of its group.
func (c *Child) Pid() int { return c.pid }

// Done is closed when the command has ended. Others of its group may be alive.
func (c *Child) Done() <-chan struct{} { return c.done }

// Status is how the command ended. Only after Done.
func (c *Child) Status() Status {
	select {
	case <-c.done:
		return c.status
	default:
		panic("child: Status before Done")
	}
}

// Signal sends sig to the whole group. After Close: os.ErrProcessDone.
func (c *Child) Signal(sig syscall.Signal) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.signalLocked(sig)
}

// signalLocked needs mu. Close reaps under mu, so the pid stays the command's while we have mu.
//
//	Signal                          Close
//	mu.Lock, gone is false
//	                                mu.Lock waits
//	kill(-pid) reaches our group
//	mu.Unlock
//	                                gone = true, wait4(pid): from here on the kernel may give pid away
func (c *Child) signalLocked(sig syscall.Signal) error {
	if c.gone {
		return os.ErrProcessDone
	}
	err := syscall.Kill(-c.pid, sig)
	if errors.Is(err, syscall.ESRCH) { // the command moved to another group, and its own is empty
		err = syscall.Kill(c.pid, sig)
	}
	return err
}

// Terminate sends SIGTERM to the group, then SIGCONT, since a stopped command cannot handle SIGTERM.
func (c *Child) Terminate() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.signalLocked(syscall.SIGTERM)
	if err == nil {
		err = c.signalLocked(syscall.SIGCONT)
	}
	return err
}

// Kill sends SIGKILL to every living process of the group, also when the command itself has ended: until Close the id of
// the group belongs to no other. It is no error if none is left.
func (c *Child) Kill() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.signalLocked(syscall.SIGKILL)
	select {
	case <-c.done:
	default: // in case the command moved to another group while its own lives on
		if !c.gone {
			_ = syscall.Kill(c.pid, syscall.SIGKILL)
		}
	}
	if errors.Is(err, syscall.ESRCH) || (errors.Is(err, syscall.EPERM) && onlyZombiesGiveEPERM) {
		return nil
	}
	return err
}

// Others reports whether other processes of the group are known to live, when the command has ended. It looks at every
// process of the system. After Close: false.
func (c *Child) Others() bool {
	<-c.done
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.gone && others(c.pid)
}

// Close waits for Done and reaps the command. After that no signal reaches anything. Closing twice is allowed.
func (c *Child) Close() {
	<-c.done
	c.unfinished.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	c.closed, c.gone = true, true
	c.terminal.close()
	if !c.reaped {
		c.reap()
	}
}

// reap reaps the zombie, which does not block.
func (c *Child) reap() {
	for {
		_, err := syscall.Wait4(c.pid, nil, 0, nil)
		if !errors.Is(err, syscall.EINTR) {
			return
		}
	}
}
