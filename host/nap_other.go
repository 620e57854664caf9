//go:build !linux

package host

import "time"

// napper is nil: timers are exact enough here, or nothing is.
func napper() func(time.Duration) { return nil }
