package core

import (
	"fmt"
	"strings"
	"testing"
)

// TestCrowdedRecord: when a record is full its texts for people go first, and then
// whoever comes is told that it is crowded; who gives back makes room.
func TestCrowdedRecord(t *testing.T) {
	v := permitsOf(250, true)
	if _, ok := v.fits(nil); !ok {
		t.Fatal("250 do not fit")
	}
	k := newAsking(t, nil)
	k.step(Event{Kind: EventAcquire, Permit: 1, Capacity: 2000, Width: 1, Label: []byte("a label")})
	k.yes(k.page(7))
	for len(v.permits) < MaxPermits {
		v.permits = append(v.permits, permitsOf(len(v.permits)+1, true).permits[len(v.permits)])
		if _, ok := v.fits(nil); !ok {
			v.permits = v.permits[:len(v.permits)-1]
			break
		}
	}
	k.yes(Event{Body: testValue(k.m, 7, v)})
	if k.m.String() != "committing" || strings.Contains(string(k.m.body), "a label") || strings.Contains(string(k.m.body), "worker-1\"") {
		t.Fatalf("%s: %d bytes", k.m, len(k.m.body))
	}
	v = fullValue()
	k = newAsking(t, nil)
	k.step(Event{Kind: EventAcquire, Permit: 1, Capacity: 2000, Width: 1, Wait: Forever})
	k.yes(k.page(7))
	last := k.yes(Event{Body: testValue(k.m, 7, v)})
	if last[0].Kind != ActionRefused || last[0].Reason != ReasonCrowded || len(last[0].Sight.Permits) > MaxShown {
		t.Errorf("%s: %+v", k.m, last[0])
	}
}

// fullValue has no room for another holder, however little is said of each.
func fullValue() *value {
	for n := 1; ; n++ {
		next := permitsOf(n, true)
		next.terse()
		if _, ok := next.fits(nil); !ok {
			next.permits = next.permits[:n-1]
			return next
		}
	}
}

// permitsOf is a value with so many permits, each of a process of its own if apart.
func permitsOf(n int, apart bool) *value {
	v := &value{capacity: 1000, width: 2}
	for i := range n {
		p := permit{
			id: string(seedUUID([16]byte{byte(i), byte(i >> 8), 1})), session: string(seedUUID([16]byte{2})), weight: 1,
			host: "worker-7f9c4d", pid: "12345", label: "nightly",
		}
		if apart {
			p.session, p.host, p.pid = string(seedUUID([16]byte{byte(i), byte(i >> 8), 3})), fmt.Sprint("worker-", i), fmt.Sprint(i)
		}
		v.permits = append(v.permits, p)
	}
	return v
}
