package machines

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
	"github.com/mopslock/mopslock/core/internal/register"
)

// TestCrowdedRecord: a full record first loses its texts for people. Then a process that
// asks is told that the record is crowded, until another gives back a permit.
func TestCrowdedRecord(t *testing.T) {
	v := permitsOf(250, true)
	if _, ok := v.Fits(nil); !ok {
		t.Fatal("250 do not fit")
	}
	k := newAsking(t, nil)
	k.step(core.Event{Kind: core.EventAcquire, Permit: 1, Capacity: 2000, Width: 1, Label: []byte("a label")})
	k.yes(k.page(7))
	for len(v.Permits) < core.MaxPermits {
		v.Permits = append(v.Permits, permitsOf(len(v.Permits)+1, true).Permits[len(v.Permits)])
		if _, ok := v.Fits(nil); !ok {
			v.Permits = v.Permits[:len(v.Permits)-1]
			break
		}
	}
	k.yes(core.Event{Body: testValue(k.m, 7, v)})
	if k.m.String() != "committing" || strings.Contains(string(k.m.Body), "a label") || strings.Contains(string(k.m.Body), "worker-1\"") {
		t.Fatalf("%s: %d bytes", k.m, len(k.m.Body))
	}
	v = fullValue()
	k = newAsking(t, nil)
	k.step(core.Event{Kind: core.EventAcquire, Permit: 1, Capacity: 2000, Width: 1, Wait: core.Forever})
	k.yes(k.page(7))
	last := k.yes(core.Event{Body: testValue(k.m, 7, v)})
	if last[0].Kind != core.ActionRefused || last[0].Reason != core.ReasonCrowded || len(last[0].Observed.Permits) > core.MaxShown {
		t.Errorf("%s: %+v", k.m, last[0])
	}
}

// fullValue has no room for another holder, however little is said of each.
func fullValue() *register.Value {
	for n := 1; ; n++ {
		next := permitsOf(n, true)
		next.Terse()
		if _, ok := next.Fits(nil); !ok {
			next.Permits = next.Permits[:n-1]
			return next
		}
	}
}

// permitsOf is a value with so many permits, each of a process of its own if apart.
func permitsOf(n int, apart bool) *register.Value {
	v := &register.Value{Capacity: 1000, Width: 2}
	for i := range n {
		p := register.PermitEntry{
			ID: string(base.SeedUUID([16]byte{byte(i), byte(i >> 8), 1})), Session: string(base.SeedUUID([16]byte{2})), Weight: 1,
			Host: "worker-7f9c4d", PID: "12345", Label: "nightly",
		}
		if apart {
			p.Session, p.Host, p.PID = string(base.SeedUUID([16]byte{byte(i), byte(i >> 8), 3})), fmt.Sprint("worker-", i), fmt.Sprint(i)
		}
		v.Permits = append(v.Permits, p)
	}
	return v
}
