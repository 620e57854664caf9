package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// PreciseSleep returns a sleep as exact as the kernel's, to some 50 µs. Go's timers use
// epoll, which counts whole milliseconds: a timer of 1.1 ms fires after 2 ms. A signal
// ends the sleep early, so the caller must also have a timer.
func PreciseSleep() func(time.Duration) {
	return func(d time.Duration) {
		ts := unix.NsecToTimespec(d.Nanoseconds())
		_ = unix.Nanosleep(&ts, nil)
	}
}
