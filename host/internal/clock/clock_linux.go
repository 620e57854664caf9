package clock

import "golang.org/x/sys/unix"

// suspendedTime reads CLOCK_BOOTTIME. It is monotonic, and counts the sleep of a
// laptop or a paused virtual machine. Go's own monotonic clock leaves sleep out, so
// a lease would outlive its TTL in a process that slept.
func suspendedTime() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic("mopslock: internal: clock: CLOCK_BOOTTIME: " + err.Error()) // Linux has had it since 2.6.39
	}
	return ts.Nano()
}
