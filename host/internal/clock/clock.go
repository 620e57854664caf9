// Package clock asks this machine for the time, for the boot from which its clock counts,
// and for a sleep that ends on time.
package clock

import (
	"time"

	"github.com/mopslock/mopslock/core"
)

// System is the machine's own two clocks; suspendedTime reads the first.
type System struct{}

// Now reads both clocks.
func (System) Now() core.Instant {
	return core.Instant{Mono: suspendedTime(), Wall: time.Now().UnixNano()}
}
