package local

import (
	"io/fs"
	"syscall"
)

// changeFraction returns the fraction of a second of an inode's change time. No program
// can set that; an archive may have set the modification time.
func changeFraction(info fs.FileInfo) int64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return int64(stat.Ctim.Nsec) //nolint:unconvert // an int32 on some
	}
	return 0
}
