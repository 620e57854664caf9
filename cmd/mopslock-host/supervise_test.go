package main

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/mopslock/mopslock/host"
)

// A lease that is lost for another reason has nothing left, too. That is no
// failing renewal: nothing is said of one, and no signal is sent for it.
func TestFenceOfALostLease(t *testing.T) {
	ctx := context.Background()
	h, err := host.Open(ctx, "mem://", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close(ctx)
	lease, err := h.Acquire(ctx, "n", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := lease.Release(ctx); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	s := supervisor{app: &app{ui: newUI(&said)}, loss: &lossFlags{onLoss: "continue"}, name: "n", grace: time.Second}
	s.fence(lease)
	s.app.ui.out.flush(time.Minute)
	if s.terminated || said.Len() > 0 {
		t.Errorf("terminated %v, said %q", s.terminated, said.String())
	}
}
