//go:build unix

package main

import (
	"errors"
	"syscall"
	"time"
)

// stop ends run, and reports whether it has ended before the patience had.
func (i *intake) stop(patience <-chan time.Time) bool {
	_ = i.read.SetReadDeadline(time.Unix(0, 1)) // long ago: a Read that waits returns, and so does every next one
	select {
	case <-i.done:
		return true
	case <-patience:
		return false
	}
}

// drain takes what is left, as far as that is there: the descriptor does not block.
func (i *intake) drain() {
	_ = i.read.SetReadDeadline(time.Time{}) // else nothing is read at all
	raw, err := i.read.SyscallConn()
	if err != nil {
		return
	}
	buffer := make([]byte, intakeBuffer)
	_ = raw.Read(func(fd uintptr) bool {
		for taken := 0; taken < mostLeft; {
			n, err := syscall.Read(int(fd), buffer)
			switch {
			case errors.Is(err, syscall.EINTR):
				continue
			case err != nil || n <= 0: // EAGAIN: it is empty; 0: nobody has it open
				return true
			}
			i.hand(buffer[:n])
			taken += n
		}
		return true
	})
}
