//go:build linux || darwin

package child

import (
	"errors"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// defaultPath is what execvp searches when there is no PATH at all.
const defaultPath = "/bin:/usr/bin"

// lookup finds the file to execute as execvp does: a name with a slash is a path, an empty element of PATH is the
// current directory, and a file that may not be executed is skipped for a later one that may. Unlike execvp, it gives no
// file of an unknown format to a shell: what follows `--` is never a shell's.
func lookup(name string) (string, *StartError) {
	if strings.Contains(name, "/") {
		return name, unusable(name, name)
	}
	searchPath, set := os.LookupEnv("PATH")
	if !set {
		searchPath = defaultPath
	}
	notFound := &StartError{Status: StatusNotFound, Name: name, Err: errors.New("command not found")}
	if name == "" {
		return "", notFound
	}
	var denied *StartError
	for _, dir := range strings.Split(searchPath, ":") {
		if dir == "" {
			dir = "."
		}
		path := strings.TrimSuffix(dir, "/") + "/" + name
		failure := unusable(name, path)
		if failure == nil {
			return path, nil
		}
		if failure.Status == StatusCannotExecute && denied == nil {
			denied = failure
		}
	}
	if denied != nil {
		return "", denied
	}
	return "", notFound
}

// unusable says why path cannot be executed, or nil. The kernel decides when it is tried.
func unusable(name, path string) *StartError {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.ENOTDIR):
		return &StartError{Status: StatusNotFound, Name: name, Err: underlying(err)}
	case err != nil:
		return &StartError{Status: StatusCannotExecute, Name: name, Err: underlying(err)}
	case info.IsDir():
		return &StartError{Status: StatusCannotExecute, Name: name, Err: syscall.EISDIR}
	}
	if err := unix.Faccessat(unix.AT_FDCWD, path, unix.X_OK, unix.AT_EACCESS); err != nil {
		return &StartError{Status: StatusCannotExecute, Name: name, Err: err}
	}
	return nil
}

// execFailure names the kernel's error for a file that lookup has found. ENOENT then means that the interpreter in its
// first line, or the dynamic loader, is missing.
func execFailure(name string, err error) *StartError {
	switch {
	case errors.Is(err, syscall.ENOENT):
		err = errors.New("its interpreter is missing")
	case errors.Is(err, syscall.ENOEXEC):
		err = errors.New("exec format error (no #! line, or made for another machine)")
	}
	return &StartError{Status: StatusCannotExecute, Name: name, Err: err}
}

func underlying(err error) error {
	var pathError *os.PathError
	if errors.As(err, &pathError) {
		return pathError.Err
	}
	return err
}
