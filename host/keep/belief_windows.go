package keep

import (
	"os"
	"unsafe"

	"golang.org/x/sys/windows"
)

// mapped is the memory of a file.
func mapped(file *os.File, size int64) (unsafe.Pointer, error) {
	mapping, err := windows.CreateFileMapping(windows.Handle(file.Fd()), nil, windows.PAGE_READWRITE, 0, uint32(size), nil)
	if err != nil {
		return nil, err
	}
	address, err := windows.MapViewOfFile(mapping, windows.FILE_MAP_READ|windows.FILE_MAP_WRITE, 0, 0, uintptr(size))
	_ = windows.CloseHandle(mapping) // the view keeps it
	return *(*unsafe.Pointer)(unsafe.Pointer(&address)), err
}
