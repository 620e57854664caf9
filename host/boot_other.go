//go:build !linux

package host

// thisBoot is "": these systems name no boot that could be compared.
func thisBoot() string { return "" }
