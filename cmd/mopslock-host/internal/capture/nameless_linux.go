package capture

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// openNameless makes a file without a name in a directory. Some filesystems cannot.
func openNameless(dir string) (*os.File, error) {
	return os.OpenFile(dir, unix.O_TMPFILE|os.O_RDWR, 0o600)
}

// nameFile gives such a file a name, without a copy. A file that has lost its name cannot get one.
func nameFile(file *os.File, name string) error {
	return unix.Linkat(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(int(file.Fd())), unix.AT_FDCWD, name, unix.AT_SYMLINK_FOLLOW)
}
