//go:build !linux

package clock

import "time"

// PreciseSleep returns nil: on these systems timers are exact enough, or no sleep is.
func PreciseSleep() func(time.Duration) { return nil }
