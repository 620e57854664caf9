package servers

import (
	"testing"

	"github.com/mopslock/mopslock/host"
	_ "github.com/mopslock/mopslock/host/store/s3"
)

// TestS3 makes a lease change hands on the real server.
func TestS3(t *testing.T) {
	h, err := host.Open(t.Context(), S3(t), nil)
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
}
