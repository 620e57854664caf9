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

// SIGTERM never comes before a renewal is due, however slow acquiring was; and where that left little, or the deadline
// is near by somebody else's short TTL, there is still some grace.
func TestGraceWithin(t *testing.T) {
	for name, test := range map[string]struct{ ttl, margin, fresh, interval, grace time.Duration }{
		"as is":                       {60 * time.Second, 0, 54 * time.Second, 20 * time.Second, 10 * time.Second},
		"acquired slowly":             {60 * time.Second, 0, 35 * time.Second, 20 * time.Second, 10 * time.Second},
		"large margin":                {24 * time.Second, 11600 * time.Millisecond, 12400 * time.Millisecond, 8 * time.Second, 3300 * time.Millisecond},
		"large margin, slowly":        {24 * time.Second, 11600 * time.Millisecond, 11 * time.Second, 8 * time.Second, 2250 * time.Millisecond},
		"short TTL of the fleet":      {88 * time.Second, 0, 16200 * time.Millisecond, 6 * time.Second, 7650 * time.Millisecond},
		"short TTL of one, long ours": {600 * time.Second, 0, 79200 * time.Millisecond, 29334 * time.Millisecond, 10 * time.Second},
	} {
		s := supervisor{loss: &lossFlags{grace: defaultGrace}}
		got := s.graceWithin(test.fresh, test.ttl, test.margin)
		if got != test.grace || test.fresh-got < test.interval {
			t.Errorf("%s: %v of %v, want %v", name, got, test.fresh, test.grace)
		}
	}
}
