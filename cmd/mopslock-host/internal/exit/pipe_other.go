//go:build !windows

package exit

import "syscall"

// closedPipe is what a pipe whose reader has gone comes to.
var closedPipe = []error{syscall.EPIPE} // never written
