// Package mem keeps objects in the memory of this process. Importing it
// registers mem:// with store.Open:
//
//	import _ "github.com/mopslock/mopslock/host/store/mem"
//
// Every Open makes a store of its own, which excludes nobody else: for tests,
// simulation and bench.
//
// It works inside testing/synctest: nothing in it waits for the world.
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

// maxSize of a streamed body in bytes: here all of it is in memory.
const maxSize = 1 << 30

// Open returns an empty store. It is a store.Streamer too, for objects of up to
// 1 GiB.
func Open() store.Store { return open("") }

func open(prefix string) store.Store {
	return cloud.New(memblob.OpenBucket(nil), &cloud.Options{Prefix: prefix, MaxSize: maxSize})
}
