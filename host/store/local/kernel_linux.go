package local

import "golang.org/x/sys/unix"

// ours are the file systems whose files this kernel alone writes and stamps, by the
// number that statfs(2) tells. All others, those of a network above all, may be written
// by many, and are stamped by who knows what clock: NFS, SMB, 9P, virtiofs, FUSE, and
// those of clusters.
var ours = map[uint32]bool{ // never written
	unix.EXT4_SUPER_MAGIC:      true, // ext2 and ext3, too
	unix.XFS_SUPER_MAGIC:       true,
	unix.BTRFS_SUPER_MAGIC:     true,
	unix.TMPFS_MAGIC:           true,
	unix.RAMFS_MAGIC:           true,
	unix.OVERLAYFS_SUPER_MAGIC: true, // of containers; it takes no upper layer that others write to
	unix.F2FS_SUPER_MAGIC:      true,
	unix.REISERFS_SUPER_MAGIC:  true,
	0x2fc12fc1:                 true, // ZFS
	0xca451a4e:                 true, // bcachefs
	0x3153464a:                 true, // JFS
}

// isOurs reports whether what lies at a path is written by this kernel alone.
func isOurs(path string) (bool, error) {
	var at unix.Statfs_t
	for {
		err := unix.Statfs(path, &at)
		if err != unix.EINTR {
			return err == nil && ours[uint32(at.Type)], err
		}
	}
}
