package mem_test

import (
	"testing"

	"github.com/mopslock/mopslock/host/store"
	_ "github.com/mopslock/mopslock/host/store/mem"
	"github.com/mopslock/mopslock/host/store/storetest"
)

// TestHammerConformance also runs with the race detector, since the store and the suite's
// goroutines are all ours.
func TestHammerConformance(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store {
		s, err := store.Open(t.Context(), "mem://?prefix=a/b")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	})
}
