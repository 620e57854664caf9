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
	gone      bool // the pid may belong to somebody else: never signal it again
	reaped    bool // there is no zombie to take away
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

// supervise is the life of the command, on one OS thread.
//
// The parent-death signal is sent when the *thread* that forked ends, not the process. Go ends a thread when a
// goroutine that locked it returns without unlocking. While this goroutine has its thread locked, no other can run
// on it, so nobody else can end it; and this one waits until the command has ended.
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

// forkExec starts the command in its own group. In this order the runtime does in the child, with all signals
// blocked up to the third: setpgid; tcsetpgrp (if foreground), so that the command never runs without the terminal
// it is to have, and no SIGTTOU can stop it; caught signals to default (ignored ones stay ignored), the signal mask
// as we found it; prctl(PR_SET_PDEATHSIG); exec.
//
// The race of the parent-death signal is closed by the runtime (syscall.forkAndExecInChild1): the child compares
// getppid with the pid its parent noted before the fork, after the prctl:
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
		if foreground { // the child took the terminal before its exec failed; nobody is left in that group
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
			// ECHILD: somebody else in this process waited for it. The truth about its status is gone.
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

// Pid is the command's process id, which is the id of its group too.
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

// signalLocked needs mu: Close reaps under it, so the pid is the command's for as long as we have it.
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

// Terminate sends SIGTERM to the group, then SIGCONT: a stopped command cannot end politely.
func (c *Child) Terminate() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.signalLocked(syscall.SIGTERM)
	if err == nil {
		err = c.signalLocked(syscall.SIGCONT)
	}
	return err
}

// Kill sends SIGKILL to every living member of the group, whether or not the command itself has ended: up to Close
// the id of the group cannot belong to anybody else. It is no error if nobody was left.
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

// Others reports whether others of the group are known to live, when the command has ended. It takes a look at every
// process there is. After Close: false.
func (c *Child) Others() bool {
	<-c.done
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.gone && others(c.pid)
}

// Close waits for Done and reaps the command. From then on nothing can be signalled. Closing twice is fine.
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

// reap takes the zombie away. It has ended, so this does not block.
func (c *Child) reap() {
	for {
		_, err := syscall.Wait4(c.pid, nil, 0, nil)
		if !errors.Is(err, syscall.EINTR) {
			return
		}
	}
}
