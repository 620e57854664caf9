//go:build !linux && !darwin

package child

import (
	"cmp"
	"errors"
	"os"
	"os/exec"
	"sync"
	"syscall"
)

// On Windows, which has no such process groups and signals, and on the BSDs, which are not tried yet, a command is only
// started and waited for. Signal and Terminate end it as Kill does, and the terminal is shared. On Windows its job ends
// with it, and with us; on the BSDs its own children are not reached, and it outlives us if we are killed. There the
// fencing token is the only protection.

// Child is a command that was started.
type Child struct {
	command *exec.Cmd
	job     job
	done    chan struct{}
	status  Status
	once    sync.Once
}

// Start starts the command. The error is a *StartError: 126 or 127.
func Start(options Options) (*Child, error) {
	if len(options.Argv) == 0 {
		panic("child: Start without a command")
	}
	command := exec.Command(options.Argv[0], options.Argv[1:]...)
	command.Env = options.Env
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, cmp.Or(options.Stdout, os.Stdout), cmp.Or(options.Stderr, os.Stderr)
	if err := command.Start(); err != nil {
		status := StatusCannotExecute
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
			status = StatusNotFound
		}
		return nil, &StartError{Status: status, Name: options.Argv[0], Err: err}
	}
	c := &Child{command: command, job: newJob(command.Process.Pid, options.ParentDeath), done: make(chan struct{})}
	go c.watch()
	return c, nil
}

func (c *Child) watch() {
	_ = c.command.Wait() // its status is in ProcessState
	c.status = Status{Code: c.command.ProcessState.ExitCode()}
	close(c.done)
}

// Pid is the command's process id.
func (c *Child) Pid() int { return c.command.Process.Pid }

// Done is closed when the command has ended.
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

// Signal ends the command if sig would end one; others do nothing. After its end: os.ErrProcessDone.
func (c *Child) Signal(sig syscall.Signal) error {
	if ending(sig) || sig == syscall.SIGKILL {
		select {
		case <-c.done:
			return os.ErrProcessDone
		default:
			return c.Kill()
		}
	}
	return nil
}

// Terminate ends the command.
func (c *Child) Terminate() error { return c.Kill() }

// Kill ends the command, and what is left of its job. It is no error if it has ended.
func (c *Child) Kill() error {
	if c.job.kill() {
		return nil
	}
	if err := c.command.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// Others is false: there are none to speak of.
func (c *Child) Others() bool { return false }

// Close waits for Done. What the command has left in the background goes on.
func (c *Child) Close() {
	<-c.done
	c.once.Do(c.job.close)
}

// forward passes on a signal that we got. On Windows the console has sent Ctrl-C to the command as well.
func (c *Child) forward(syscall.Signal) error { return nil }

// endingSignals end a wait. Windows makes up INT (Ctrl-C) and TERM (console closed, logoff); QUIT and HUP never come.
var endingSignals = []syscall.Signal{syscall.SIGINT, syscall.SIGTERM}

// caughtSignals are all that Signals listens for.
var caughtSignals = endingSignals

func adopted() <-chan os.Signal { return nil }
func reapAdopted(*Child)        {}

func ignoredAtStart() map[syscall.Signal]bool { return nil }
