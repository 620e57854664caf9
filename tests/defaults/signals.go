// Package defaults makes tests independent of the process that starts them. It changes nothing in the code under test.
package defaults

import (
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
)

// Signals gives every process that is started from now on the default disposition of every signal. A process inherits what
// its parent ignores, so under nohup, or in the background of a shell, a test would wait forever for the end of a
// process that it has sent SIGHUP or SIGINT. TestMain calls it, before anything else is started.
//
// The signals stay without effect on the test itself, which catches and drops them. exec turns a caught signal into
// the default.
func Signals() {
	dropped, mask := make(chan os.Signal, 1), ignored()
	for number := 1; number < 32; number++ {
		if sig := syscall.Signal(number); signal.Ignored(sig) || mask>>(number-1)&1 == 1 {
			signal.Notify(dropped, sig)
		}
	}
}

// ignored is the set of signals that the kernel ignores for us, a bit each, as far as /proc tells. The runtime knows of
// SIGHUP and SIGINT alone.
func ignored() uint64 {
	status, _ := os.ReadFile("/proc/self/status")
	_, after, _ := strings.Cut(string(status), "SigIgn:")
	digits, _, _ := strings.Cut(after, "\n")
	mask, _ := strconv.ParseUint(strings.TrimSpace(digits), 16, 64)
	return mask
}
