//go:build !wasip1

package core

import "time"

// Duration is a time.Duration, in nanoseconds. In the WASM guest it is a type
// of its own: package time would make the guest a quarter of a megabyte larger.
type Duration = time.Duration
