package gs

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/mopslock/mopslock/host/store"
)

// TestSmallPut: a record of a lease does not cost the SDK's buffer of 16 MiB.
func TestSmallPut(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"name":"locks/k","bucket":"bucket"}`)
	}))
	defer server.Close()
	t.Setenv("STORAGE_EMULATOR_HOST", server.Listener.Addr().String())
	s, err := store.Open(t.Context(), "gs://bucket/locks")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	body := make([]byte, 200)
	result := testing.Benchmark(func(b *testing.B) {
		for b.Loop() {
			if err := s.Put(b.Context(), "k", body, ""); err != nil {
				b.Fatal(err)
			}
		}
	})
	if n := result.AllocedBytesPerOp(); n > 1<<20 {
		t.Errorf("%d bytes for a put of %d", n, len(body))
	}
}
