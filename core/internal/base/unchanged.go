package base

// Unchanged remembers what an unchanged record looked like and since when.
type Unchanged struct {
	Fingerprint uint64
	Since       int64 // Mono of the first answer that showed it
}

// Ending says what Releasing ends in.
type Ending uint8

const (
	EndReleased  Ending = iota // the caller released
	EndRaced                   // a failed attempt cleans up
	EndCancelled               // a cancelled attempt cleans up
	EndUnreached               // an attempt of a store that never answered cleans up (strict)
)
