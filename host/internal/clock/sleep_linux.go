package clock

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// PreciseSleep returns a sleep as exact as the kernel's, to some 10 µs. Go's timers use
// epoll, which counts whole milliseconds: a timer of 1.1 ms fires after 2 ms. A thread's
// sleeps end up to 50 µs late, by its timer slack, which is taken off for this one. A signal
// ends the sleep early, so the caller must also have a timer.
func PreciseSleep() func(time.Duration) {
	return func(d time.Duration) {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
		defer func() { _ = unix.Prctl(unix.PR_SET_TIMERSLACK, 0, 0, 0, 0) }() // the default again
		ts := unix.NsecToTimespec(d.Nanoseconds())
		_ = unix.Nanosleep(&ts, nil)
	}
}
