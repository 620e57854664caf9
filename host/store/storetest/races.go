package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mopslock/mopslock/host/store"
)

func createRace(t *testing.T, s store.Store) {
	const racers, rounds = 16, 20
	for round := range rounds {
		key := fmt.Sprintf("race/%03d/v", round)
		var (
			start  = make(chan struct{})
			winner atomic.Int64
			wins   atomic.Int64
			all    sync.WaitGroup
		)
		for racer := range racers {
			all.Go(func() {
				<-start
				err := s.Create(t.Context(), key, fmt.Appendf(nil, "%d", racer), kind)
				switch {
				case err == nil:
					wins.Add(1)
					winner.Store(int64(racer))
				case !errors.Is(err, store.ErrExists):
					t.Errorf("round %d: %v", round, err)
				}
			})
		}
		close(start)
		all.Wait()
		if wins.Load() != 1 {
			t.Fatalf("round %d: %d winners", round, wins.Load())
		}
		wantBody(t, s, key, fmt.Sprint(winner.Load()))
	}
}

func tornReads(t *testing.T, s store.Store) {
	const writers, readers, rounds = 2, 3, 60
	whole := func(n int) string { return strings.Repeat(fmt.Sprintf("%08d", n), 1+n%997) }
	put(t, s, "torn", whole(0))
	var writing, reading sync.WaitGroup
	done := make(chan struct{})
	for w := range writers {
		writing.Go(func() {
			for i := range rounds {
				if err := s.Put(t.Context(), "torn", []byte(whole(1+w*rounds*37+i*37)), kind); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range readers {
		reading.Go(func() {
			for {
				object, err := s.Get(t.Context(), "torn")
				if err != nil {
					t.Errorf("read under overwrite: %v", err)
					return
				}
				n := 0
				if _, err := fmt.Sscanf(string(object.Body[:min(8, len(object.Body))]), "%d", &n); err != nil || !bytes.Equal(object.Body, []byte(whole(n))) {
					t.Errorf("torn body of %d bytes", len(object.Body))
					return
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	writing.Wait()
	close(done)
	reading.Wait()
}

// soon waits for a notice. The bound is only reached if the test fails.
func soon(t *testing.T, notices <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-notices:
	case <-time.After(time.Minute):
		t.Fatalf("no notice of %s", what)
	}
}

func watch(t *testing.T, s store.Store) {
	w, ok := s.(store.Watcher)
	if !ok {
		t.Skip("this store does not watch")
	}
	put(t, s, "w/lock.json", "0")
	subscribe := func(key string) (<-chan struct{}, func()) {
		notices := make(chan struct{}, 1)
		stop, err := w.Watch(key, func() {
			select {
			case notices <- struct{}{}:
			default:
			}
		})
		if err != nil {
			t.Fatalf("watch %q: %v", key, err)
		}
		t.Cleanup(stop)
		return notices, stop
	}
	one, stopOne := subscribe("w/lock.json")
	two, _ := subscribe("w/lock.json")
	deep, _ := subscribe("w/_mopslock/ff/v") // two of its directories are missing
	drain := func() {
		for _, c := range []<-chan struct{}{one, two, deep} {
			select {
			case <-c:
			default:
			}
		}
	}
	put(t, s, "w/lock.json", "1")
	soon(t, one, "an overwrite")
	soon(t, two, "an overwrite")

	// Until the object can be seen: notices are hints, and may come early.
	if err := s.Create(t.Context(), "w/_mopslock/ff/v", []byte("v"), kind); err != nil {
		t.Fatal(err)
	}
	for seen := false; !seen; {
		soon(t, deep, "a create in a new directory")
		seen, _ = s.Exists(t.Context(), "w/_mopslock/ff/v")
	}
	drain()
	if err := s.Delete(t.Context(), "w/_mopslock/ff/v"); err != nil {
		t.Fatal(err)
	}
	soon(t, deep, "a delete")
	drain()
	put(t, s, "w/_mopslock/ff/v", "again")
	soon(t, deep, "a directory that is there again")

	stopOne()
	stopOne()
	put(t, s, "w/lock.json", "2")
	soon(t, two, "an overwrite after another's stop")

	if _, err := w.Watch("../x", func() {}); !errors.Is(err, store.ErrKey) {
		t.Fatalf("watch of a bad key: %v", err)
	}
}
