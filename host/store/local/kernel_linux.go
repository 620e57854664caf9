package local

import "golang.org/x/sys/unix"

// maxIdle bounds the directories that stay watched without a subscription. Linux begins a watch
// in 30 ns for each entry of the directory. A watch holds nothing open.
const maxIdle = 16

// ours has the file systems whose files only this kernel writes and stamps, by the number
// that statfs(2) gives. Many machines may write the files of all others, and their stamps
// may be of any clock: NFS, SMB, 9P, virtiofs, FUSE, and the file systems of clusters.
var ours = map[uint32]bool{ // never written
	unix.EXT4_SUPER_MAGIC:      true, // also ext2 and ext3
	unix.XFS_SUPER_MAGIC:       true,
	unix.BTRFS_SUPER_MAGIC:     true,
	unix.TMPFS_MAGIC:           true,
	unix.RAMFS_MAGIC:           true,
	unix.OVERLAYFS_SUPER_MAGIC: true, // for containers; it takes no upper layer that others write to
	unix.F2FS_SUPER_MAGIC:      true,
	unix.REISERFS_SUPER_MAGIC:  true,
	0x2fc12fc1:                 true, // ZFS
	0xca451a4e:                 true, // bcachefs
	0x3153464a:                 true, // JFS
}

// isOurs reports whether only this kernel writes the file system of a path.
func isOurs(path string) (bool, error) {
	kind, err := fileSystem(path)
	return ours[kind], err
}

// isMemory reports whether the file system of a path is in memory.
func isMemory(path string) (bool, error) {
	kind, err := fileSystem(path)
	return kind == unix.TMPFS_MAGIC || kind == unix.RAMFS_MAGIC, err
}

// fileSystem is the number of that of a path, or 0.
func fileSystem(path string) (uint32, error) {
	var at unix.Statfs_t
	for {
		err := unix.Statfs(path, &at)
		switch err {
		case nil:
			return uint32(at.Type), nil
		case unix.EINTR:
		default:
			return 0, err
		}
	}
}
