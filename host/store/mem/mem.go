// Package mem keeps objects in the memory of this process. Importing it
// registers mem:// with store.Open:
//
//	import _ "github.com/mopslock/mopslock/host/store/mem"
//
// Every Open makes a store of its own, which no other process shares. It is for tests,
// simulation and bench.
//
// It works inside testing/synctest: nothing in it waits for anything outside.
package mem

import (
	"context"

	"gocloud.dev/blob/memblob"

	"github.com/mopslock/mopslock/host/store"
	"github.com/mopslock/mopslock/host/store/cloud"
)

func init() {
	store.Register("mem", func(_ context.Context, at *store.Location) (store.Store, error) {
		return open(at.Prefix), nil
	})
}

// maxSize bounds a streamed body in bytes, since all of it is in memory.
const maxSize = 1 << 30

// Open returns an empty store. The store is also a store.Streamer, for objects of up to
// 1 GiB.
func Open() store.Store { return open("") }

func open(prefix string) store.Store {
	return cloud.New(memblob.OpenBucket(nil), &cloud.Options{Prefix: prefix, MaxSize: maxSize})
}
