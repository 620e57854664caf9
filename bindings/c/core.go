//go:build cgo

package main

/*
#cgo CFLAGS: -std=gnu11 -O2 -Wall -Wextra -Werror
#include "mopslock.h"
*/
import "C"

import (
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/mopslock/mopslock/core/machines"
)

// shards is how many machines can be stepped at once: more than most computers that
// run leases have processors, and a power of two.
const (
	shardBits = 4
	shards    = 1 << shardBits
)

// shard is a registry behind a lock. A machine's handle is its handle in the registry,
// followed by the shard's number in shardBits bits.
type shard struct {
	mu       sync.Mutex
	registry machines.Registry
	// input has the latest input, also after its step: a machine keeps a pointer to the
	// body of its latest event, without reading it, and the caller may have unmapped its
	// memory by then.
	input []byte
}

// cores has all machines. It lives as long as the library is loaded, since a C caller has
// no object to keep it in.
var cores struct {
	shards [shards]shard
	made   atomic.Uint64
}

func shardOf(handle C.uint64_t) (*shard, machines.Handle) {
	return &cores.shards[handle%shards], machines.Handle(handle >> shardBits)
}

//export goCoreNew
func goCoreNew(config unsafe.Pointer, configLen C.size_t, handle *C.uint64_t,
	answer unsafe.Pointer, answerCap C.size_t, answerLen *C.size_t,
) C.int {
	number := cores.made.Add(1) % shards
	s := &cores.shards[number]
	s.mu.Lock()
	defer s.mu.Unlock()
	h, message := s.registry.New(room(answer, answerCap), unsafe.Slice((*byte)(config), configLen))
	*handle = 0
	if h != 0 {
		*handle = C.uint64_t(uint64(h)<<shardBits | number)
	}
	return hand(message, answer, answerCap, answerLen)
}

//export goCoreStep
func goCoreStep(handle C.uint64_t, input unsafe.Pointer, inputLen C.size_t,
	answer unsafe.Pointer, answerCap C.size_t, answerLen *C.size_t,
) C.int {
	s, h := shardOf(handle)
	s.mu.Lock()
	s.input = append(s.input[:0], unsafe.Slice((*byte)(input), inputLen)...)
	message := s.registry.Step(room(answer, answerCap), h, s.input)
	s.mu.Unlock()
	return handOf(handle, message, answer, answerCap, answerLen)
}

//export goCoreAgain
func goCoreAgain(handle C.uint64_t, answer unsafe.Pointer, answerCap C.size_t, answerLen *C.size_t) C.int {
	s, h := shardOf(handle)
	s.mu.Lock()
	message := s.registry.Again(room(answer, answerCap), h)
	s.mu.Unlock()
	return handOf(handle, message, answer, answerCap, answerLen)
}

//export goCoreDrop
func goCoreDrop(handle C.uint64_t) C.int {
	s, h := shardOf(handle)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.registry.Drop(h) {
		return C.MOPSLOCK_EHANDLE
	}
	return C.MOPSLOCK_OK
}

// room is the caller's buffer, to append to. An answer that does not fit moves into
// memory of ours, and is then longer than the buffer.
func room(answer unsafe.Pointer, answerCap C.size_t) []byte {
	return unsafe.Slice((*byte)(answer), answerCap)[:0]
}

// handOf is hand for an answer about a handle. If there is none, it makes the error again
// for the handle as the caller knows it.
func handOf(handle C.uint64_t, message []byte, answer unsafe.Pointer, answerCap C.size_t, answerLen *C.size_t) C.int {
	if outcome(message) == C.MOPSLOCK_EHANDLE {
		message = new(machines.Registry).Again(room(answer, answerCap), machines.Handle(handle))
	}
	return hand(message, answer, answerCap, answerLen)
}

// hand writes the length of an answer, and the answer if the caller has room for it. The
// core may have written a fitting answer elsewhere: it asks for some bytes more than it
// needs in the end.
func hand(message []byte, answer unsafe.Pointer, answerCap C.size_t, answerLen *C.size_t) C.int {
	*answerLen = C.size_t(len(message))
	if *answerLen > answerCap {
		return C.MOPSLOCK_ESHORT
	}
	if unsafe.Pointer(unsafe.SliceData(message)) != answer {
		copy(unsafe.Slice((*byte)(answer), answerCap), message)
	}
	return outcome(message)
}

// An answer that is an error begins with its code; every other with a state.
const (
	errorKey     = "\xa5error"
	handleIsNone = "\xa6handle"
)

func outcome(message []byte) C.int {
	body := message[1:] // the map's header
	if len(body) < len(errorKey) || string(body[:len(errorKey)]) != errorKey {
		return C.MOPSLOCK_OK
	}
	code := body[len(errorKey):]
	if len(code) >= len(handleIsNone) && string(code[:len(handleIsNone)]) == handleIsNone {
		return C.MOPSLOCK_EHANDLE
	}
	return C.MOPSLOCK_ECONTRACT
}
