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

// SIGTERM never comes before a renewal is due, an interval after the stamp, however slow acquiring was; and where the
// deadline is near by a large margin, or by somebody else's short TTL, there is still some grace.
func TestGraceWithin(t *testing.T) {
	for name, test := range map[string]struct{ ttl, margin, slow, deadline, interval, grace time.Duration }{
		"as is":                       {60 * time.Second, 0, 0, 54 * time.Second, 20 * time.Second, 10 * time.Second},
		"slowly":                      {60 * time.Second, 0, 19 * time.Second, 54 * time.Second, 20 * time.Second, 10 * time.Second},
		"large margin":                {24 * time.Second, 11600 * time.Millisecond, 0, 12400 * time.Millisecond, 8 * time.Second, 3300 * time.Millisecond},
		"large margin, slowly":        {24 * time.Second, 11600 * time.Millisecond, 1400 * time.Millisecond, 12400 * time.Millisecond, 8 * time.Second, 3300 * time.Millisecond},
		"large margin, very slowly":   {24 * time.Second, 11600 * time.Millisecond, 5200 * time.Millisecond, 12400 * time.Millisecond, 8 * time.Second, 3300 * time.Millisecond},
		"short TTL of the fleet":      {88 * time.Second, 0, 0, 16200 * time.Millisecond, 6 * time.Second, 7650 * time.Millisecond},
		"and a large margin":          {24 * time.Second, 11600 * time.Millisecond, 0, 7200 * time.Millisecond, 2670 * time.Millisecond, 3300 * time.Millisecond},
		"and slowly":                  {88 * time.Second, 0, 3600 * time.Millisecond, 16200 * time.Millisecond, 6 * time.Second, 5950 * time.Millisecond},
		"short TTL of one, long ours": {600 * time.Second, 0, 0, 79200 * time.Millisecond, 29334 * time.Millisecond, 10 * time.Second},
	} {
		s := supervisor{loss: &lossFlags{grace: defaultGrace}}
		got := s.graceWithin(test.deadline-test.slow, test.ttl, test.margin)
		if got.Round(time.Microsecond) != test.grace || test.deadline-got < test.interval {
			t.Errorf("%s: %v, want %v", name, got, test.grace)
		}
	}
}
