package keep

import (
	"errors"

	"golang.org/x/sys/windows"
)

// AwaitEnd returns when the process of an id has ended. The end of its messages does not tell that alone: a
// child that lives on holds them open.
func AwaitEnd(pid int) {
	process, err := windows.OpenProcess(windows.SYNCHRONIZE, false, uint32(pid))
	if errors.Is(err, windows.ERROR_INVALID_PARAMETER) { // there is none
		return
	}
	if err == nil {
		defer func() { _ = windows.CloseHandle(process) }()
		if _, err = windows.WaitForSingleObject(process, windows.INFINITE); err == nil {
			return
		}
	}
	select {} // it may not be waited for: its messages tell
}
