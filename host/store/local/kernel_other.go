//go:build !linux

package local

// maxIdle is none: a watch holds its directory open, so that it could not be unmounted.
const maxIdle = 0

// isOurs returns false: this system does not tell, and its boots have no names to compare.
func isOurs(string) (bool, error) { return false, nil }

// isMemory returns false: it is not known here.
func isMemory(string) (bool, error) { return false, nil }
