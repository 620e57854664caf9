//go:build !windows

package local

import (
	"errors"
	"os"
	"syscall"
)

// openToRead opens a file so that it can be replaced and removed meanwhile; and a named pipe, without waiting.
func openToRead(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
}

// rename replaces a file, right after a last look.
func rename(from, to string, last func() error) error {
	if err := last(); err != nil {
		return err
	}
	return os.Rename(from, to)
}

// isBusy returns false: an open file can be replaced and removed here.
func isBusy(error) bool { return false }

// hasNoLinks reports whether a file system without hard links has refused one, or one with too many.
func hasNoLinks(err error) bool {
	return errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EMLINK)
}
