//go:build linux || darwin

package child

import (
	"os/signal"
	"syscall"
)

// endingSignals end a wait.
var endingSignals = []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT}

// forwardedSignals are passed on to the command's group.
var forwardedSignals = []syscall.Signal{
	syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
	syscall.SIGCONT, syscall.SIGWINCH, syscall.SIGTSTP,
}

// caughtSignals are the signals that Signals listens for. It drops SIGPIPE: a reader of our stderr that has gone must
// not kill us while we hold a lease.
var caughtSignals = append([]syscall.Signal{syscall.SIGPIPE}, forwardedSignals...)

// ignoredAtStart returns the signals that our parent wanted ignored, as far as a Go program can know.
//
// The runtime honours an inherited SIG_IGN for HUP and INT alone, and leaves TSTP, CONT, TTIN and TTOU as they are.
// For all others (QUIT, TERM, USR1, USR2, WINCH, PIPE) it has installed its handler before our code runs, and does not
// say what was there. So `trap "" TERM; mopslock-host …` has no effect on us, nor on the command. For QUIT there is a
// clue: a shell without job control ignores INT and QUIT together for what it starts with &.
func ignoredAtStart() map[syscall.Signal]bool {
	ignored := kernelIgnores()
	if ignored == nil {
		ignored = make(map[syscall.Signal]bool)
	}
	for _, sig := range caughtSignals {
		if signal.Ignored(sig) {
			ignored[sig] = true
		}
	}
	if ignored[syscall.SIGINT] {
		ignored[syscall.SIGQUIT] = true
		signal.Ignore(syscall.SIGQUIT) // for the command to inherit
	}
	return ignored
}
