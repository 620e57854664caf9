package core

// ending says what Releasing ends in.
type ending uint8

const (
	endReleased  ending = iota // the caller released
	endRaced                   // a failed attempt cleans up
	endCancelled               // a cancelled attempt cleans up
	endUnreached               // an attempt of a store that never answered cleans up (strict)
)
