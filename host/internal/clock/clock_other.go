//go:build !linux && !darwin && !windows

package clock

import "time"

// suspendedTime reads Go's monotonic clock, which on these systems may or may not
// count the time that the machine was asleep.
func suspendedTime() int64 { return int64(time.Since(processStart)) }

var processStart = time.Now() // never written again
