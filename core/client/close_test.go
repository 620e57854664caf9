package client_test

import (
	"testing"

	"github.com/mopslock/mopslock/core"
)

// A client closes though what it sends for tidiness finds no slot: requests that nobody wants
// any more hang in all of them.
func TestCloseWithoutSlots(t *testing.T) {
	p := newProcessOf(t, newBucket(), core.Config{Seed: [16]byte{1}, OwnStore: true, InFlight: 1})
	q := newProcess(t, p.bucket, 2)
	q.begin(core.EventAcquire, core.Config{Name: "n"}, core.Event{Wait: core.Forever})
	q.now += int64(10 * core.Second)
	p.now = q.now
	p.begin(core.EventAcquire, core.Config{Name: "n"}, core.Event{Wait: core.Forever}) // takes a sample of the store's clock
	p.holds = all
	p.begin(core.EventAcquire, core.Config{Name: "m"}, core.Event{Wait: core.Forever})
	p.told = nil
	p.do(core.Event{Kind: core.EventClose})
	p.until(p.now + int64(3*core.Second))
	p.hears("1 refused cancelled; 2 refused cancelled; 0 closed")
}
