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

// isAt is isUnchanged of what is at path, in a third of its time: each verb asks twice.
func (id *identity) isAt(path string) bool {
	var now syscall.Stat_t
	was, ok := id.info.Sys().(*syscall.Stat_t)
	return ok && syscall.Stat(path, &now) == nil && now.Mode&syscall.S_IFMT == syscall.S_IFDIR &&
		now.Dev == was.Dev && now.Ino == was.Ino && (id.nonce == "" || now.Mtim == was.Mtim)
}
