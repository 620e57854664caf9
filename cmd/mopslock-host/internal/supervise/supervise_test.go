package supervise

import (
	"testing"
	"time"

	"github.com/mopslock/mopslock/host"
)

// held is a lease of which so much is left.
type held struct {
	Held
	left time.Duration
	err  error
}

func (h *held) Err() error { return h.err }

func (h *held) Left() time.Duration { return h.left }

// A pause that ends between deadline - grace and the deadline is no failing renewal. The renewal that goes out at once
// gets half of what is left. Without a pause SIGTERM is sent at deadline - grace.
func TestDeadlineAfterAPause(t *testing.T) {
	for name, c := range map[string]struct {
		left []time.Duration
		told bool
	}{
		"in time":             {[]time.Duration{10 * time.Second}, true},
		"a little late":       {[]time.Duration{9900 * time.Millisecond}, true},
		"paused":              {[]time.Duration{9 * time.Second, 8 * time.Second, 4600 * time.Millisecond}, false},
		"paused, and failing": {[]time.Duration{9 * time.Second, 4500 * time.Millisecond}, true},
		"paused, renewed":     {[]time.Duration{9 * time.Second, 50 * time.Second, 9 * time.Second}, false},
		"renewed, and late":   {[]time.Duration{9 * time.Second, 50 * time.Second, 10 * time.Second}, true},
	} {
		lease := new(held)
		s := Supervisor{Continue: true, Say: func(string, ...any) {}, early: 10 * time.Second}
		for _, lease.left = range c.left {
			s.checkDeadline(lease)
		}
		if s.terminated != c.told {
			t.Errorf("%s: told %v", name, s.terminated)
		}
	}
}

// A lease that is lost for another reason has nothing left either. That is no failing renewal:
// nothing is said of one, and no signal is sent for it.
func TestDeadlineOfALostLease(t *testing.T) {
	s := Supervisor{Continue: true, Say: func(format string, _ ...any) { t.Errorf("said %q", format) }, early: time.Second}
	if s.checkDeadline(&held{err: host.ErrLost}); s.terminated {
		t.Error("terminated")
	}
}

// SIGTERM never comes before a renewal is due, an interval after the stamp, however slow acquiring was. If a large margin
// or a short TTL of others makes the deadline near, some grace is left.
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
		s := Supervisor{Grace: 10 * time.Second}
		got := s.graceWithin(test.deadline-test.slow, test.ttl, test.margin)
		if got.Round(time.Microsecond) != test.grace || test.deadline-got < test.interval {
			t.Errorf("%s: %v, want %v", name, got, test.grace)
		}
	}
}
