//go:build !linux

package local

import "io/fs"

// changeFraction is known on Linux only.
func changeFraction(fs.FileInfo) int64 { return 0 }
