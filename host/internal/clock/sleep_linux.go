package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// late is how late a sleep of the kernel's may end: the slack of a thread's timer is 50 µs, and
// then the thread has to wake.
const late = 100 * time.Microsecond

// PreciseSleep returns a sleep that ends within a few microseconds. Go's timers use epoll,
// which counts whole milliseconds: a timer of 1.1 ms fires after 2 ms. The kernel's sleeps are
// late by a part of late, so the last of the time is spent awake.
func PreciseSleep() func(time.Duration) {
	return func(d time.Duration) {
		end := suspendedTime() + int64(d)
		if d > late {
			ts := unix.NsecToTimespec(int64(d - late))
			for unix.Nanosleep(&ts, &ts) == unix.EINTR { // as by the runtime's own signals
			}
		}
		for suspendedTime() < end {
		}
	}
}
