//go:build wasip1

// Command guest is package core as a WebAssembly module: a reactor that exports
// only the functions below, and imports only what Go's runtime needs of
// wasi_snapshot_preview1, through which the host gives it nothing.
//
// Only numbers and the bytes of messages in two static buffers cross the border,
// so there is no malloc and no free to get wrong. It is not for two
// threads at once.
package main

import (
	"runtime"
	"unsafe"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/machines"
)

// version of the exports: their names, arguments, results and the layout of the
// buffer. Another version is another contract.
const version = 1

// A caller writes the buffer, and reads it after new: 8 bytes for a handle in little
// endian, then the message. It has one byte more than a message may have, for a
// message that is too long, so that the core can say so.
var buffer [8 + core.MaxMessage + 1]byte

// answer is what a caller reads. An answer is shorter than a message may be; if
// one were longer, append would make room elsewhere, and said would tell where.
var answer = make([]byte, 0, core.MaxMessage)

var registry machines.Registry

func main() {}

// exportedVersion answers the version of this contract.
//
//go:wasmexport abi_version
func exportedVersion() uint32 { return version }

// exportedBuffer answers where the buffer is.
//
//go:wasmexport buffer
func exportedBuffer() uint32 { return uint32(uintptr(unsafe.Pointer(&buffer))) }

// exportedNew makes the machine of a config of n bytes, writes its handle, or
// 0, and answers where its answer is: address << 32 | length.
//
//go:wasmexport new
func exportedNew(n uint32) uint64 {
	h, message := registry.New(answer[:0], buffer[8:8+n])
	for i := range 8 { // encoding/binary would bring reflect, a quarter of a megabyte
		buffer[i] = byte(h >> (8 * i))
	}
	return said(message)
}

// exportedStep gives a machine an input of n bytes, and answers as new does.
//
//go:wasmexport step
func exportedStep(handle uint64, n uint32) uint64 {
	return said(registry.Step(answer[:0], machines.Handle(handle), buffer[8:8+n]))
}

// exportedDrop forgets a machine, and answers 1 if there was one.
//
//go:wasmexport drop
func exportedDrop(handle uint64) uint32 {
	if registry.Drop(machines.Handle(handle)) {
		return 1
	}
	return 0
}

// exportedGC collects garbage. A caller calls it now and then: the guest has no
// clock and no other thread that would.
//
//go:wasmexport gc
func exportedGC() { runtime.GC() }

func said(message []byte) uint64 {
	answer = message
	return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(message))))<<32 | uint64(len(message))
}
