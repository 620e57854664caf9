package core

// watch remembers what an unchanged record looked like and since when.
type watch struct {
	print uint64
	since int64 // Mono of the first answer that showed it
}
