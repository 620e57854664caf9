// Package clock asks this machine for the time, for the boot that its clock counts from,
// and for a sleep that ends when it should.
package clock

import (
	"time"

	"github.com/mopslock/mopslock/core"
)

// System is the machine's own pair of clocks; see suspendedTime for the first of them.
type System struct{}

// Now reads both clocks.
func (System) Now() core.Instant {
	return core.Instant{Mono: suspendedTime(), Wall: time.Now().UnixNano()}
}
