package client_test

import (
	"testing"

	"github.com/mopslock/mopslock/core"
)

// round takes a lease and gives it back, and says how many requests that cost.
func (p *process) round() int { return p.roundBy(core.ExpiryCalibrated) }

func (p *process) roundBy(clock core.Expiry) int {
	p.t.Helper()
	before := p.sent
	n := p.begin(core.EventAcquire, core.Terms{Name: "n", Protocol: core.ProtocolStrict, Expiry: clock}, core.Event{Wait: core.Forever})
	p.do(core.Event{Kind: core.EventRelease, Claim: n})
	p.now += int64(core.Second / 1000)
	return p.sent - before
}

// The requests of one round are bounded, however many versions stand there. While all are
// young it is two creates, and each eighth time two reads. When they are old it is as many
// reads as their number has digits, a list and 64 deletes.
func TestCollectionIsBounded(t *testing.T) {
	for versions, most := range map[int]int{10: 34, 1_000: 75, 10_000: 72} {
		p := newProcess(t, newBucket(), 1)
		for range versions / 2 {
			p.round()
		}
		young, old := 0, 0
		for range 16 {
			young = max(young, p.round())
		}
		p.now += int64(20 * 60 * core.Second)
		for range 16 {
			old = max(old, p.round())
		}
		if young != 4 || old != most {
			t.Errorf("%d versions: %d requests a round while they are young, and %d later, not 4 and %d", versions, young, old, most)
		}
	}
}

// A collection removes the newest of what is old, and leaves a hole above the rest. The next ones
// go on below the hole while all that is above it is young.
func TestCollectionBelowAHole(t *testing.T) {
	p := newProcessOf(t, newBucket(), core.Config{Seed: [16]byte{1}, OwnStore: true, Boot: "boot"})
	for range 504 {
		p.roundBy(core.ExpiryObserved)
	}
	p.now += int64(20 * 60 * core.Second)
	for range 80 {
		p.roundBy(core.ExpiryObserved)
	}
	if left := len(p.bucket.objects); left != 2*(504+80)-10*64 {
		t.Errorf("%d objects are left", left)
	}
}

// A name that one process takes again and again, never looking, has no more versions than are
// young, and those of two collections.
func TestOwnChainIsCollected(t *testing.T) {
	p := newProcess(t, newBucket(), 1)
	for range 1_000 {
		p.round()
		p.now += int64(10 * core.Second)
	}
	if left := len(p.bucket.objects); left > 2*60+2*16+3 {
		t.Errorf("%d objects are left of 2000 versions", left)
	}
}

// A release waits for no collection. It is told at once, and what is removed goes on behind it,
// for five seconds: so long a client that closes waits at most.
func TestReleaseBeforeCollection(t *testing.T) {
	p := newProcess(t, newBucket(), 1)
	for range 7 {
		p.round()
	}
	p.heard()
	p.holds = func(a *core.Action) bool { return a.Kind == core.ActionGet }
	p.round()
	p.hears("8 held; 8 released")
	p.round() // nor does the next claim wait
	p.hears("9 held; 9 released")
	p.holds = nil
	begun := p.now
	p.do(core.Event{Kind: core.EventClose})
	p.hears("")
	p.until(p.Wake)
	p.hears("0 closed")
	if took := core.Duration(p.now - begun); took != core.CollectLimit-core.Second/1000 {
		t.Errorf("it took %v", took)
	}
}
