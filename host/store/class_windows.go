package store

import (
	"golang.org/x/sys/windows"

	"github.com/mopslock/mopslock/core"
)

// systemClass is the class of an error of the system's own, or none. The syscall package's EROFS and
// ENOSPC are numbers of Go's, which no Windows returns.
func systemClass(err error) core.Class {
	switch {
	case is(err, windows.ERROR_WRITE_PROTECT):
		return core.ClassReadOnly
	case is(err, windows.ERROR_DISK_FULL, windows.ERROR_HANDLE_DISK_FULL, windows.ERROR_DISK_QUOTA_EXCEEDED):
		return core.ClassFull
	case is(err, windows.ERROR_BAD_NETPATH, windows.ERROR_BAD_NET_NAME, windows.ERROR_NETNAME_DELETED, windows.ERROR_UNEXP_NET_ERR,
		windows.ERROR_SEM_TIMEOUT, windows.ERROR_NETWORK_UNREACHABLE, windows.ERROR_HOST_UNREACHABLE, windows.ERROR_CONNECTION_ABORTED):
		return core.ClassUnreachable
	}
	return core.ClassNone
}
