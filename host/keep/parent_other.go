//go:build !linux && !windows

package keep

import (
	"os"
	"syscall"
	"time"
)

// lookEach is how often is looked for the process: a tenth of a short TTL.
const lookEach = 100 * time.Millisecond

// AwaitEnd returns when the process of an id has ended. The end of its messages does not tell that alone: a forked
// child that lives on holds them open.
func AwaitEnd(pid int) {
	p, err := os.FindProcess(pid)
	if err != nil {
		return
	}
	for p.Signal(syscall.Signal(0)) == nil {
		time.Sleep(lookEach)
	}
}
