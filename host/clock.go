package host

import (
	"time"

	"github.com/mopslock/mopslock/core"
)

// Clock tells the two times that the core works with. Tests bring their own.
type Clock interface {
	// Now reads both clocks. Mono must never go back and must count the time
	// that the machine spent suspended.
	Now() core.Instant
}

// systemClock is the machine's own pair of clocks; see suspendedTime for the
// first of them.
type systemClock struct{}

func (systemClock) Now() core.Instant {
	return core.Instant{Mono: suspendedTime(), Wall: time.Now().UnixNano()}
}
