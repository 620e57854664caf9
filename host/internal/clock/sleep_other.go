//go:build !linux

package clock

import "time"

// PreciseSleep is nil: on these systems timers are exact enough, or nothing is.
func PreciseSleep() func(time.Duration) { return nil }
