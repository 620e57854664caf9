//go:build unix

package keep

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// OpenBelief maps a file, which the parent has made and maps as well. It stays mapped until the process ends.
func OpenBelief(file *os.File) (*Belief, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	size := info.Size()
	if size < 16 || size%8 != 0 || size > 1<<30 {
		return nil, fmt.Errorf("mopslock: keep: the file of deadlines has %d bytes, and not some words of 8", size)
	}
	memory, err := unix.Mmap(int(file.Fd()), 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mopslock: keep: the file of deadlines cannot be mapped: %w", err)
	}
	return &Belief{words: unsafe.Slice((*int64)(unsafe.Pointer(unsafe.SliceData(memory))), size/8)}, nil
}
