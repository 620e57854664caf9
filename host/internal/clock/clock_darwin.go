package clock

import "golang.org/x/sys/unix"

// suspendedTime reads CLOCK_MONOTONIC, which on this system counts the time asleep.
func suspendedTime() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic("mopslock: internal: clock: CLOCK_MONOTONIC: " + err.Error())
	}
	return ts.Nano()
}
