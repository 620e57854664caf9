package servers

import (
	"fmt"
	"testing"

	"github.com/mopslock/mopslock/host"
	"github.com/mopslock/mopslock/host/store"
	_ "github.com/mopslock/mopslock/host/store/azblob"
	_ "github.com/mopslock/mopslock/host/store/gs"
	_ "github.com/mopslock/mopslock/host/store/s3"
	"github.com/mopslock/mopslock/host/store/storetest"
)

// TestLease makes a lease change hands on each real server.
func TestLease(t *testing.T) {
	for _, kind := range Kinds {
		t.Run(kind, func(t *testing.T) {
			s := Need(t, kind)
			h, err := host.Open(t.Context(), s.Under(s.Address, "a/prefix"), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer h.Close(t.Context())
			for want := uint64(1); want <= 3; want += 2 {
				lease, err := h.Acquire(t.Context(), "n", nil)
				if err != nil {
					t.Fatal(err)
				}
				if lease.FencingToken() != want {
					t.Errorf("token %d, want %d", lease.FencingToken(), want)
				}
				if err := lease.Release(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestConformance runs the suite that every store passes on each real server.
func TestConformance(t *testing.T) {
	for _, kind := range Kinds {
		t.Run(kind, func(t *testing.T) {
			s := Need(t, kind)
			number := 0
			storetest.Run(t, func(t *testing.T) store.Store {
				number++
				opened, err := store.Open(t.Context(), s.Under(s.Address, fmt.Sprintf("conformance/%d", number)))
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { opened.Close() })
				return opened
			})
		})
	}
}
