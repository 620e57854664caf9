package mem_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mopslock/mopslock/host/store"
	"github.com/mopslock/mopslock/host/store/mem"
	"github.com/mopslock/mopslock/host/store/storetest"
)

func TestConformance(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store {
		s := mem.Open()
		t.Cleanup(func() { s.Close() })
		return s
	})
}

func TestConformanceWithPrefix(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store {
		s, err := store.Open(t.Context(), "mem://?prefix=a/b")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	})
}

// TestInABubble: the store tells the bubble's time, and keeps nothing running.
func TestInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mem.Open()
		defer s.Close()
		if err := s.Put(t.Context(), "k", []byte("1"), ""); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if err := s.Create(t.Context(), "k", []byte("2"), ""); !errors.Is(err, store.ErrExists) {
			t.Fatal(err)
		}
		object, err := s.Get(t.Context(), "k")
		if err != nil || time.Now().UnixNano()-object.Stamp != int64(time.Hour) {
			t.Fatalf("stamp %d, %v", object.Stamp, err)
		}
	})
}
