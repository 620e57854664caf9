//go:build unix

package capture

import (
	"errors"
	"syscall"
	"time"
)

// stop ends run, and reports whether run has ended before the patience was over.
func (p *Pipe) stop(patience <-chan time.Time) bool {
	_ = p.read.SetReadDeadline(time.Unix(0, 1)) // long ago: this Read returns, and every later one
	select {
	case <-p.done:
		return true
	case <-patience:
		return false
	}
}

// drain takes what is left in the pipe. The descriptor does not block.
func (p *Pipe) drain() {
	_ = p.read.SetReadDeadline(time.Time{}) // otherwise nothing is read
	raw, err := p.read.SyscallConn()
	if err != nil {
		return
	}
	buffer := make([]byte, pipeBuffer)
	_ = raw.Read(func(fd uintptr) bool {
		for taken := 0; taken < mostLeft; {
			n, err := syscall.Read(int(fd), buffer)
			switch {
			case errors.Is(err, syscall.EINTR):
				continue
			case err != nil || n <= 0: // EAGAIN: the pipe is empty; 0: no writer has it open
				return true
			}
			p.hand(buffer[:n])
			taken += n
		}
		return true
	})
}
