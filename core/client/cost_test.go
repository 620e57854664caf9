package client_test

import (
	"fmt"
	"maps"
	"runtime"
	"strings"
	"testing"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/client"
	"github.com/mopslock/mopslock/core/machines"
	"github.com/mopslock/mopslock/tests/world"
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
	m, err := machines.New(core.Config{Machine: core.MachineLease, Terms: core.Terms{
		Protocol: core.ProtocolStrict, Name: "n",
	}, Seed: [16]byte{1}, Host: "h", PID: "1"})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

var acquire = core.Event{Kind: core.EventAcquire, Wait: core.Forever}

func ofClient(ev core.Event) core.Event {
	ev.Claim, ev.Terms = 1, &core.Terms{Name: "n"}
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

// TestRememberedNamesAreSmall: of a name that was released, or only waited for, no more is kept
// than what is remembered, and of the oldest ones nothing.
func TestRememberedNamesAreSmall(t *testing.T) {
	const names, most = 3 * 16_384, 320 // bytes of heap
	p := newProcessOf(t, newBucket(), core.Config{Seed: [16]byte{1}, OwnStore: true, Remembers: true, Boot: "b"})
	q := newProcess(t, newBucket(), 2)
	q.begin(core.EventAcquire, core.Terms{Name: "n"}, core.Event{})
	taken := maps.Clone(q.bucket.objects)
	heap := func() (bytes int64) {
		var m runtime.MemStats
		p.bucket.objects, p.told, p.latest = world.Objects{}, nil, map[core.ActionKind]core.Action{}
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	for i := range names {
		clear(p.bucket.objects)
		p.told = p.told[:0]
		name := fmt.Sprintf("name-%07d", i)
		if i%2 == 0 {
			claim := p.begin(core.EventAcquire, core.Terms{Name: name, OnSession: true}, core.Event{Wait: core.Forever})
			p.do(core.Event{Kind: core.EventRelease, Claim: claim})
			continue
		}
		for key, object := range taken {
			p.bucket.objects[name+strings.TrimPrefix(key, "n")] = object
		}
		p.begin(core.EventAcquire, core.Terms{Name: name}, core.Event{})
	}
	p.hears(fmt.Sprint(names, " refused held held"))
	if each := (heap() - before) / 16_384; each > most {
		t.Errorf("%d bytes each", each)
	} else {
		t.Log(each, "bytes each")
	}
	if got := p.Client.(*client.Client).Names(); got != 16_384 {
		t.Error(got, "names")
	}
}

// TestNamesAreForgottenInOrderOfUse: a name that is released again and again is remembered
// beside any number of others, so that its next claim does not look.
func TestNamesAreForgottenInOrderOfUse(t *testing.T) {
	p := newProcess(t, newBucket(), 1)
	release := func(name string) (requests int) {
		before := p.sent
		claim := p.begin(core.EventAcquire, core.Terms{Name: name}, core.Event{Wait: core.Forever})
		requests = p.sent - before
		p.do(core.Event{Kind: core.EventRelease, Claim: claim})
		return requests
	}
	first := release("busy")
	for i := range 20_000 {
		clear(p.bucket.objects)
		release(fmt.Sprint("name-", i))
		if i%10_000 == 0 {
			release("busy")
		}
	}
	if again := release("busy"); first != 3 || again != 1 {
		t.Error(first, "requests, then", again)
	}
	if first := release("name-0"); first != 3 {
		t.Error(first, "requests for one that was used long ago")
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
	p.begin(core.EventAcquire, core.Terms{Name: "first", OnSession: true}, core.Event{Wait: core.Forever})
	runtime.GC()
	runtime.ReadMemStats(&before)
	bucket := p.bucket.objects
	for _, name := range names {
		maps.DeleteFunc(bucket, func(key string, _ world.Object) bool { return !strings.HasPrefix(key, core.SessionPrefix) })
		p.begin(core.EventAcquire, core.Terms{Name: name, OnSession: true}, core.Event{Wait: core.Forever})
		p.told = p.told[:0]
	}
	p.Claims = nil // what the host knows is its own
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
