//go:build !linux

package clock

// Boot returns "": these systems do not name a boot.
func Boot() string { return "" }
