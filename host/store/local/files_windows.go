package local

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/windows"
)

// openToRead opens a file so that it can be replaced and removed meanwhile, which os.Open forbids.
func openToRead(path string) (*os.File, error) {
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	const shared = windows.FILE_SHARE_READ | windows.FILE_SHARE_WRITE | windows.FILE_SHARE_DELETE
	handle, err := windows.CreateFile(name, windows.GENERIC_READ, shared, nil, windows.OPEN_EXISTING, windows.FILE_FLAG_BACKUP_SEMANTICS, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(handle), path), nil
}

// rename replaces a file, right after a last look, and one that is open as well where Windows can: a Root renames as POSIX
// says, and os.Rename does not.
func rename(from, to string, last func() error) error {
	dir, err := os.OpenRoot(filepath.Dir(to))
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := last(); err != nil {
		return err
	}
	err = dir.Rename(filepath.Base(from), filepath.Base(to))
	if failed, ok := errors.AsType[*os.LinkError](err); ok {
		failed.Old, failed.New = from, to
	}
	return err
}

// isBusy reports whether another process has a file open in a way that forbids what we want with it.
func isBusy(err error) bool {
	return errors.Is(err, windows.ERROR_ACCESS_DENIED) || errors.Is(err, windows.ERROR_SHARING_VIOLATION) ||
		errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_DELETE_PENDING)
}

// hasNoLinks reports whether a file system without hard links has refused one (FAT), or one with too many.
func hasNoLinks(err error) bool {
	return errors.Is(err, windows.ERROR_INVALID_FUNCTION) || errors.Is(err, windows.ERROR_TOO_MANY_LINKS)
}
