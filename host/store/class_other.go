//go:build !windows

package store

import "github.com/mopslock/mopslock/core"

// systemClass returns none: the syscall package has this system's numbers.
func systemClass(error) core.Class { return core.ClassNone }
