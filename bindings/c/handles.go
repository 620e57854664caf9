//go:build cgo && !mopslock_core

package main

// #include <stdint.h>
import "C"

import (
	"context"
	"sync"
	"time"

	"github.com/mopslock/mopslock/host"
)

// member is a lease or a companion.
type member interface {
	Holder() string
	Left() time.Duration
	Done() <-chan struct{}
	Err() error
}

// canceller ends calls from elsewhere.
type canceller struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
}

// A handle is a number, then its kind in kindBits bits. Each kind counts its own
// from 1 and gives none twice: so a host that was closed is told from one that
// never was.
const (
	kindBits = 2
	kindMask = 1<<kindBits - 1

	hostKind   = 1
	memberKind = 2
	cancelKind = 3
)

// table lives as long as the library is loaded, as cores does.
var table struct {
	mu   sync.RWMutex
	last [kindMask + 1]uint64 // of each kind
	live map[uint64]entry
}

type entry struct {
	value any    // *host.Host, *host.Lease, *host.Companion, *canceller
	owner uint64 // the host's handle of a lease or companion, or 0
}

// put gives a new handle to a value. It gives none, 0, to what a host owns that
// has been closed meanwhile.
func put(value any, kind, owner uint64) uint64 {
	table.mu.Lock()
	defer table.mu.Unlock()
	if table.live == nil {
		table.live = map[uint64]entry{}
	}
	if owner != 0 && table.live[owner].value == nil {
		return 0
	}
	table.last[kind]++
	handle := table.last[kind]<<kindBits | kind
	table.live[handle] = entry{value, owner}
	return handle
}

// take forgets a handle, and with a host those of all that it held.
func take(handle uint64) {
	table.mu.Lock()
	defer table.mu.Unlock()
	delete(table.live, handle)
	if handle&kindMask != hostKind {
		return
	}
	for member, e := range table.live {
		if e.owner == handle {
			delete(table.live, member)
		}
	}
}

// find returns what a handle stands for, if that is a T.
func find[T any](handle C.uint64_t) (T, error) {
	table.mu.RLock()
	defer table.mu.RUnlock()
	h := uint64(handle)
	e, live := table.live[h]
	value, ok := e.value.(T)
	switch {
	case ok:
		return value, nil
	case !live && wasHost(h):
		return value, host.ErrClosed
	}
	return value, errHandle
}

func wasHost(handle uint64) bool {
	number := handle >> kindBits
	return handle&kindMask == hostKind && number >= 1 && number <= table.last[hostKind]
}
