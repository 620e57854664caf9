//go:build unix

package keep

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mapped is the memory of a file.
func mapped(file *os.File, size int64) (unsafe.Pointer, error) {
	memory, err := unix.Mmap(int(file.Fd()), 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	return unsafe.Pointer(unsafe.SliceData(memory)), err
}
