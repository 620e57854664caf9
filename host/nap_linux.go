package host

import (
	"time"

	"golang.org/x/sys/unix"
)

// napper sleeps as exactly as the kernel does, to some 50 µs. Go's timers come by
// epoll, which counts whole milliseconds: one of 1.1 ms comes after 2.
func napper() func(time.Duration) {
	return func(d time.Duration) {
		ts := unix.NsecToTimespec(d.Nanoseconds())
		_ = unix.Nanosleep(&ts, nil) // a signal ends it early; there is a timer besides
	}
}
