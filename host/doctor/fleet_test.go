package doctor_test

import (
	"context"
	"testing"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
	"github.com/mopslock/mopslock/host/doctor"
	"github.com/mopslock/mopslock/host/store/mem"
)

// A doctor at work disturbs no lease of either protocol, with or without a session, is
// in no list, and nothing that others collect is his.
func TestLiveFleet(t *testing.T) {
	s := mem.Open()
	h, err := host.New(s, &host.Options{Memory: "-"})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close(context.Background())
	var leases []*host.Lease
	var epochs []uint64
	for name, terms := range map[string]host.Terms{
		"strict": {Protocol: core.ProtocolStrict}, "session": {Protocol: core.ProtocolStrict, Session: true}, "m/lock": {},
	} {
		l, err := h.Acquire(t.Context(), name, &host.AcquireOptions{Terms: terms})
		if err != nil {
			t.Fatal(err)
		}
		leases, epochs = append(leases, l), append(epochs, l.Epoch())
	}
	listed := 0
	r, err := doctor.Examine(t.Context(), s, &doctor.Options{Tries: 10, Rounds: 10, Progress: func(string, int, int) {
		names := 0
		for _, err := range h.List(t.Context(), "") {
			if err != nil {
				t.Error(err)
			}
			names++
		}
		if listed++; names != len(leases) {
			t.Errorf("%d names are listed", names)
		}
	}})
	if err != nil || !r.Strict() || r.Left != 0 || listed < 40 {
		t.Errorf("%+v, %v, %d lists", r, err, listed)
	}
	for i, l := range leases {
		if err := l.Err(); err != nil || l.Epoch() != epochs[i] {
			t.Errorf("%s: %v, epoch %d", l.Name(), err, l.Epoch())
		}
		if err := l.Release(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
