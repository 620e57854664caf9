package core

// Duration is an elapsed time in nanoseconds, as time.Duration is; see
// duration_time.go.
type Duration int64
