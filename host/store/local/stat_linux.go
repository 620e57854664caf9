package local

import (
	"io/fs"
	"syscall"
)

// changeFraction is the fraction of a second of an inode's change time, which
// nobody can set: that of a modification may have been set by an archive.
func changeFraction(info fs.FileInfo) int64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return int64(stat.Ctim.Nsec) //nolint:unconvert // an int32 on some
	}
	return 0
}
