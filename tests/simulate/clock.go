package simulate

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/tests/world"
)

const million = int64(1_000_000)

// computer is a clock that its processes share, and a boot.
type computer struct {
	boot  string
	start int64 // Mono at true time 0
	drift int64 // of the rate, in millionths
	wall  int64 // wall clock minus the true one
}

// mono is what the monotonic clock shows at a true time.
func (c *computer) mono(now int64) int64 {
	return c.start + now + now/million*c.drift + now%million*c.drift/million
}

// trueAt is the first true time at which the monotonic clock shows mono.
func (c *computer) trueAt(mono int64) int64 {
	if mono >= core.MaxClockRange {
		return core.Never
	}
	mono = max(mono, 0) // which is past
	m := mono - c.start
	rate := million + c.drift
	at := m - m/rate*c.drift - m%rate*c.drift/rate - 2
	for c.mono(at) < mono {
		at++
	}
	for c.mono(at-1) >= mono {
		at--
	}
	return at
}

func (c *computer) instant(now int64) core.Instant {
	return core.Instant{Mono: c.mono(now), Wall: world.Epoch + now + c.wall}
}
