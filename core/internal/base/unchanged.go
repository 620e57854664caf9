package base

// Unchanged remembers what an unchanged record looked like and since when.
type Unchanged struct {
	Fingerprint uint64
	Since       int64 // Mono of the first answer that showed it
}

// Ending says what Releasing ends in.
type Ending uint8

const (
	EndReleased Ending = iota // the caller released
	EndRaced                  // a failed attempt cleans up, and goes on
	EndRefused                // the caller was refused, and what may yet land is cleaned up
)
