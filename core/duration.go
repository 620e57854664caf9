package core

// Units of a Duration, as in package time.
const (
	nanosecond  Duration = 1
	Microsecond          = 1000 * nanosecond
	millisecond          = 1000 * Microsecond
	Second               = 1000 * millisecond
	Minute               = 60 * Second
	hour                 = 60 * Minute
)
