// Package child starts one command in a process group of its own, watches it, and ends it on request.
// `mopslock-host run`, `permit`, `accompany`, `remote`, `invoke` and `once` use it.
//
// It gives the command our stdin, stdout and stderr, or files in their place. It hands the terminal over and takes it
// back, handles Ctrl-Z and fg, forwards signals, sets a parent-death signal (Linux), and kills the group without ever
// hitting another process. Its exit statuses are a shell's.
//
// It knows nothing about leases, copies no bytes, and prints nothing. It has no timers: the sequence of SIGTERM, grace
// and SIGKILL is the caller's.
//
// # The life of a command
//
//	Start ──► running ──(the command ends)──► Done is closed ──Close──► reaped
//	             │                               │                        │
//	             │ Signal, Terminate, Kill       │ Kill still reaches     │ os.ErrProcessDone
//	             │                               │ the rest of the group  │
//
// Between Done and Close the command is a zombie, on purpose: the kernel gives the id of a zombie, and of its group,
// to no other process. So until Close, Kill reaches what is left of the group and nothing else. The caller MUST call
// Close, after the last Kill.
//
// # What is not reached
//
//   - A process that left the group (setsid, or a job of an interactive shell). We do not search for it.
//   - A background grandchild that outlives a command that ended by itself: only the caller kills it, by Kill.
//   - The kernel sends the parent-death signal to the command only, not to the command's children. Executing a set-uid
//     program (sudo) clears it.
//   - `stty tostop`: a line that we print while the command has the terminal stops us, as it would any program.
//
// macOS has no parent-death signal and no way to look at a zombie without reaping it: there the group is watched
// less closely, see child_darwin.go. Windows and the rest get a plain start and wait (child_other.go).
package child

import (
	"fmt"
	"log/slog"
	"os"
	"syscall"
)

// Exit statuses of a command that never ran, and the base of those ended by a signal. As in POSIX shells.
const (
	StatusCannotExecute = 126
	StatusNotFound      = 127
	statusSignalBase    = 128
)

// Options says what to start and how. Argv is required; the zero value of the rest is good.
type Options struct {
	Argv []string // the command and its arguments, never a shell string
	Env  []string // nil: our own environment

	// Stdout and Stderr replace ours. nil: ours, untouched. The caller closes them, any time after Start.
	Stdout, Stderr *os.File

	// ThenWait makes the wait go on when the command has ended: signals end WaitContext again, and another command
	// may be started. Only for Signals.Start.
	ThenWait bool

	// ParentDeath asks the kernel to SIGKILL the command when we die. Linux only; without effect elsewhere.
	ParentDeath bool

	// OnStop is called when the command was stopped from the terminal (Ctrl-Z), before we stop ourselves. The
	// terminal is ours then, so it may print a line.
	OnStop func()

	// OnContinue is called when we were continued, before the command is. We may have been stopped for hours, so the
	// caller checks its lease here. False leaves the command stopped: it will not run another instruction, and the
	// caller kills it, which works on a stopped process. nil means true.
	//
	// Both are called from the goroutine that watches the command: Done cannot close before they return.
	OnContinue func() bool

	Logger *slog.Logger // nil: no logging. Debug level only
}

func (o *Options) logger() *slog.Logger {
	if o.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return o.Logger
}

// Status is how a command ended: by itself with Code, or by Signal if that is not 0.
type Status struct {
	Code   int
	Signal syscall.Signal
}

// ExitStatus is the status to exit with: the command's own, or 128+N.
func (s Status) ExitStatus() int {
	if s.Signal != 0 {
		return statusSignalBase + int(s.Signal)
	}
	return s.Code
}

func (s Status) String() string {
	if s.Signal != 0 {
		return fmt.Sprintf("ended by signal %d (%v)", int(s.Signal), s.Signal)
	}
	return fmt.Sprintf("exit status %d", s.Code)
}

// StartError says why a command could not be started. Nothing of it is left behind.
type StartError struct {
	Status int // 127: not found. 126: found, but it could not be executed
	Name   string
	Err    error
}

func (e *StartError) Error() string { return fmt.Sprintf("child: %s: %v", e.Name, e.Err) }
func (e *StartError) Unwrap() error { return e.Err }

// ExitStatus is 126 or 127.
func (e *StartError) ExitStatus() int { return e.Status }

// Interrupted says that a signal told us to end while no command was running.
type Interrupted struct{ Signal syscall.Signal }

func (e *Interrupted) Error() string {
	return fmt.Sprintf("child: interrupted by signal %d (%v)", int(e.Signal), e.Signal)
}

// ExitStatus is 128+N.
func (e *Interrupted) ExitStatus() int { return statusSignalBase + int(e.Signal) }
