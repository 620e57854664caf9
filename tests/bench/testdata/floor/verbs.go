//go:build floor_verbs

package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/mopslock/mopslock/host/store"
	_ "github.com/mopslock/mopslock/host/store/local"
)

// lookEntries is how many entries a look at a lease asks for.
const lookEntries = 64

// before makes the requests of a run to a directory that is known, and a name that
// was released: the store's card is read and must not be made again, mops' file is
// looked for, versions are listed, the latest is read, and the next is created. after
// creates the one that releases.
func before() (after func()) {
	ctx := context.Background()
	s, err := store.Open(ctx, os.Getenv("MOPSLOCK_STORE"))
	must(err)
	body := make([]byte, 512)
	_, err = s.Exists(ctx, "floor/lock.json")
	must(err)
	_, err = s.Get(ctx, "floor/card.json")
	must(err)
	must(s.Create(ctx, "floor/card.json", body[:87], ""))
	listed, _, err := s.List(ctx, "floor/v/", "", lookEntries)
	must(err)
	next := uint64(1 << 40) // counts down: the latest is the first of a list
	if len(listed) > 0 {
		_, err = s.Get(ctx, listed[0].Key)
		must(err)
		_, err = fmt.Sscanf(listed[0].Key, "floor/v/%x/v", &next)
		must(err)
	}
	must(s.Create(ctx, fmt.Sprintf("floor/v/%016x/v", next-1), body, ""))
	return func() {
		must(s.Create(ctx, fmt.Sprintf("floor/v/%016x/v", next-2), body, ""))
		must(s.Close())
	}
}

func must(err error) {
	if err != nil && !errors.Is(err, store.ErrAbsent) && !errors.Is(err, store.ErrExists) {
		panic(err)
	}
}
