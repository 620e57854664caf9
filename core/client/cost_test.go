package client_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/client"
	"github.com/mopslock/mopslock/core/machines"
)

// held is a stepper that holds a lease with beats of its own, and when it wants to be woken.
func held(t testing.TB, s core.Stepper, b *bucket, first core.Event) (wake int64) {
	t.Helper()
	queue := []core.Event{first}
	for len(queue) > 0 {
		actions, err := s.Step(core.Instant{Mono: 1, Wall: wallBase}, queue[0])
		if err != nil {
			t.Fatal(err)
		}
		queue = queue[1:]
		for i := range actions {
			if a := &actions[i]; a.Kind.IsRequest() {
				queue = append(queue, b.apply(a, wallBase))
			} else if a.Kind == core.ActionWake {
				wake = a.At
			}
		}
	}
	return wake
}

// renew is one renewal: a wake, the answer to the beat, the answer to the look above; now and
// then there is more.
func renew(t testing.TB, s core.Stepper, b *bucket, at int64) (wake int64) {
	now := core.Instant{Mono: at, Wall: wallBase + at}
	var room [4]core.Event
	queue := append(room[:0], core.Event{Kind: core.EventWoke})
	for i := 0; i < len(queue); i++ {
		actions, err := s.Step(now, queue[i])
		if err != nil {
			t.Fatal(err)
		}
		for k := range actions {
			a := &actions[k]
			switch {
			case a.Kind == core.ActionWake:
				wake = a.At
				continue
			case !a.Kind.IsRequest():
				continue
			case a.Kind == core.ActionPut:
				queue = append(queue, core.Event{Kind: core.EventAnswer, Request: a.Request, Outcome: core.OutcomeYes})
			default:
				queue = append(queue, b.apply(a, now.Wall))
			}
		}
	}
	return wake
}

func theClient(t testing.TB) core.Stepper {
	t.Helper()
	c, err := client.New(core.Config{Machine: core.MachineClient, Seed: [16]byte{1}, Host: "h", PID: "1", OwnStore: true})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func theMachine(t testing.TB) core.Stepper {
	t.Helper()
	m, err := machines.New(core.Config{Machine: core.MachineLease, Protocol: core.ProtocolStrict, Name: "n", Seed: [16]byte{1}, Host: "h", PID: "1"})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

var acquire = core.Event{Kind: core.EventAcquire, Wait: core.Forever}

func ofClient(ev core.Event) core.Event {
	ev.Claim, ev.Terms = 1, &core.Config{Name: "n"}
	return ev
}

// TestRenewalAllocatesNothing.
func TestRenewalAllocatesNothing(t *testing.T) {
	c := theClient(t)
	b := newBucket()
	at := held(t, c, b, ofClient(acquire))
	for range 3 { // its room is made by then
		at = renew(t, c, b, at)
	}
	if n := testing.AllocsPerRun(8, func() { at = renew(t, c, b, at) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkRenewal(b *testing.B) {
	for _, name := range []string{"client", "machine"} {
		b.Run(name, func(b *testing.B) {
			s, first := theMachine(b), acquire
			if name == "client" {
				s, first = theClient(b), ofClient(acquire)
			}
			bucket := newBucket()
			at := held(b, s, bucket, first)
			b.ReportAllocs()
			for b.Loop() {
				at = renew(b, s, bucket, at)
			}
		})
	}
}

// TestLeasesAtRestAreSmall: ten thousand leases on a session, each of which waits for that.
func TestLeasesAtRestAreSmall(t *testing.T) {
	const leases = 10_000
	p := newProcess(t, newBucket(), 1)
	var before, after runtime.MemStats
	names := make([]string, leases)
	for i := range names {
		names[i] = fmt.Sprint("name-", i)
	}
	p.begin(core.EventAcquire, core.Config{Name: "first", OnSession: true}, core.Event{Wait: core.Forever})
	runtime.GC()
	runtime.ReadMemStats(&before)
	bucket := p.bucket.objects
	for _, name := range names {
		clear(bucket)
		p.begin(core.EventAcquire, core.Config{Name: name, OnSession: true}, core.Event{Wait: core.Forever})
		p.told = p.told[:0]
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	each := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / leases
	t.Log(each, "bytes each")
	if each > 900 {
		t.Errorf("%d bytes each", each)
	}
	p.sent = 0
	p.until(p.now + int64(19*core.Second))
	if p.sent != 2 {
		t.Errorf("%d requests in an interval", p.sent)
	}
}
