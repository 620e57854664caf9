package clock

import "golang.org/x/sys/windows"

// suspendedTime is the time since boot, sleep included.
func suspendedTime() int64 { return int64(windows.DurationSinceBoot()) }
