//go:build !linux

package clock

// Boot is "": these systems name no boot that could be compared.
func Boot() string { return "" }
