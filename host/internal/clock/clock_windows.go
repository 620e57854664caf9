package clock

import "golang.org/x/sys/windows"

// suspendedTime returns the time since boot, including sleep.
func suspendedTime() int64 { return int64(windows.DurationSinceBoot()) }
