package trace

import (
	"bytes"
	"context"
	"sync"
	"testing"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
)

// What a Host does with a semaphore replays the same: its machine, and that of the
// session.
func TestPermitsReplay(t *testing.T) {
	ctx := context.Background()
	var out bytes.Buffer
	r := NewRecorder(host.Native{}, &out)
	h, err := host.Open(ctx, "mem://", &host.Options{Engine: r, Memory: "-"})
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			opts := &host.PermitOptions{Weight: 1 + i%3, Spare: i % 2, Terms: host.Terms{Label: "replay"}}
			permit, err := h.AcquirePermit(ctx, "n", host.View{Capacity: 2, Width: 3}, opts)
			if err == nil {
				err = permit.Release(ctx)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if err := h.SetLimit(ctx, "n", 3); err != nil {
		t.Error(err)
	}
	if err := h.Close(ctx); err != nil {
		t.Error(err)
	}
	if err := r.Close(ctx); err != nil {
		t.Fatal(err)
	}
	recording := out.Bytes()
	if !bytes.Contains(recording, []byte(core.MachineSemaphore.String())) {
		t.Error("no semaphore in it")
	}
	if got, err := Replay(bytes.NewReader(recording), host.Native{}); err != nil || got.Steps < 40 {
		t.Errorf("%+v, %v", got, err)
	}
}
