package core

import (
	"slices"
	"testing"
	"time"
)

// benchTrace is a recording of many leases being renewed: encoded inputs in
// the order in which a host would give them, handle by handle, and what came out.
type benchTrace struct {
	machines map[int64]*Lease
	saved    []*Lease
	handles  []int64
	inputs   [][]byte
	outputs  [][]byte
}

const (
	benchHandles = 64
	benchRounds  = 2 // few, so that the caches hold the trace: the beside must not pay for memory
)

func recordTrace(b *testing.B) *benchTrace {
	tr := &benchTrace{machines: map[int64]*Lease{}}
	cycles := make([]*cycle, benchHandles)
	for h := range cycles {
		cycles[h] = heldCycle(b, byte(h+1))
		tr.machines[int64(h)*7919] = cycles[h].m.(*Lease)
		tr.saved = append(tr.saved, cycles[h].m.Clone().(*Lease))
	}
	for range benchRounds {
		for _, phase := range []func(*cycle) Event{wokeEvent, getAnswered, putAnswered} {
			for h, c := range cycles {
				tr.record(b, int64(h)*7919, c, phase(c))
			}
		}
	}
	tr.rewind()
	return tr
}

func wokeEvent(c *cycle) Event {
	d := c.wake - c.now.Mono
	c.now.Mono, c.now.Wall = c.now.Mono+d, c.now.Wall+d
	return Event{Kind: EventWoke}
}

func getAnswered(c *cycle) Event {
	return Event{Kind: EventAnswer, Request: c.id, Outcome: OutcomeYes, Body: c.body}
}

func putAnswered(c *cycle) Event { return Event{Kind: EventAnswer, Request: c.id, Outcome: OutcomeYes} }

func (tr *benchTrace) record(b *testing.B, handle int64, c *cycle, ev Event) {
	tr.handles = append(tr.handles, handle)
	tr.inputs = append(tr.inputs, AppendInput(nil, c.now, &ev))
	twin := c.m.Clone()
	actions, err := twin.Step(c.now, ev)
	if err != nil {
		b.Fatal(err)
	}
	tr.outputs = append(tr.outputs, appendActions(nil, actions))
	c.step(ev)
}

// rewind puts every machine back to the beginning, in the buffers that it has.
func (tr *benchTrace) rewind() {
	for h, saved := range tr.saved {
		l := tr.machines[int64(h)*7919]
		body, out := l.body, l.out
		*l = *saved
		l.body, l.out = append(body[:0], saved.body...), out
	}
}

// steps plays the rewound trace through bytes: decode, step, encode.
func (tr *benchTrace) steps(b *testing.B, out []byte) []byte {
	var now Instant
	var ev Event
	for i, input := range tr.inputs {
		if err := DecodeInput(input, &now, &ev); err != nil {
			b.Fatal(err)
		}
		actions, err := tr.machines[tr.handles[i]].Step(now, ev)
		if err != nil {
			b.Fatal(err)
		}
		out = appendActions(out[:0], actions)
	}
	return out
}

// beside is what cannot be avoided: find the handle, take the bytes in, give
// the bytes out.
func (tr *benchTrace) beside(in, out []byte) (n int) {
	for i, input := range tr.inputs {
		n += int(tr.machines[tr.handles[i]].state)
		n += copy(in, input)
		n += copy(out, tr.outputs[i])
	}
	return n
}

// BenchmarkRenewStep measures one step of a lease's renewal, through bytes, and
// the bare lookup and copying of the same bytes beside it, A B A B in one run.
// BUDGETS.md: at most 16 times.
func BenchmarkRenewStep(b *testing.B) {
	tr := recordTrace(b)
	in, out := make([]byte, MaxMessage), make([]byte, 0, MaxMessage)
	out = tr.steps(b, out) // grows what there is to grow
	var ours, bare []time.Duration
	b.ReportAllocs()
	for b.Loop() {
		tr.rewind()
		start := time.Now()
		out = tr.steps(b, out)
		middle := time.Now()
		tr.beside(in, out[:MaxMessage])
		ours, bare = append(ours, middle.Sub(start)), append(bare, time.Since(middle))
	}
	steps := float64(len(tr.inputs))
	a, c := float64(median(ours))/steps, float64(median(bare))/steps
	b.ReportMetric(a, "ns/step")
	b.ReportMetric(c, "ns/beside")
	b.ReportMetric(a/c, "ratio")
	b.ReportMetric(float64(total(tr.inputs))/steps, "bytes-in")
	b.ReportMetric(float64(total(tr.outputs))/steps, "bytes-out")
}

// BenchmarkRenewPhase is the same, for each step of the renewal by itself.
func BenchmarkRenewPhase(b *testing.B) {
	for phase, name := range []string{"woke", "get-answered", "put-answered"} {
		b.Run(name, func(b *testing.B) {
			tr := recordTrace(b)
			out := tr.steps(b, nil)
			var spent []time.Duration
			for b.Loop() {
				spent = append(spent, tr.timePhase(b, phase, out))
			}
			b.ReportMetric(float64(median(spent))/float64(benchHandles*benchRounds), "ns/step")
		})
	}
}

// timePhase plays the whole trace and answers the time of one step in three.
func (tr *benchTrace) timePhase(b *testing.B, phase int, out []byte) (spent time.Duration) {
	tr.rewind()
	for at := 0; at < len(tr.inputs); at += benchHandles {
		start := time.Now()
		for i := at; i < at+benchHandles; i++ {
			var now Instant
			var ev Event
			if err := DecodeInput(tr.inputs[i], &now, &ev); err != nil {
				b.Fatal(err)
			}
			actions, err := tr.machines[tr.handles[i]].Step(now, ev)
			if err != nil {
				b.Fatal(err)
			}
			out = appendActions(out[:0], actions)
		}
		if at/benchHandles%3 == phase {
			spent += time.Since(start)
		}
	}
	return spent
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

func total(all [][]byte) (n int) {
	for _, b := range all {
		n += len(b)
	}
	return n
}

// BenchmarkBuckets measures one permit taken and given back: by the one holder of a
// name, by one of a hundred, and behind messages.
func BenchmarkBuckets(b *testing.B) {
	b.Run("one-holder", func(b *testing.B) { benchBuckets(b, 0) })
	b.Run("hundred-holders", func(b *testing.B) { benchBuckets(b, 99) })
	b.Run("machine", func(b *testing.B) {
		m, holder := newBuckets(b), []byte("request-4711")
		b.ReportAllocs()
		for b.Loop() {
			for _, ev := range []Event{
				{Kind: EventAcquire, Capacity: 100, Width: 4, Holder: holder}, {Kind: EventRelease, Holder: holder},
			} {
				if _, err := m.Step(Instant{}, ev); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}

func benchBuckets(b *testing.B, others uint64) {
	var buckets Buckets[uint64]
	for holder := range others {
		buckets.Acquire(100, 4, 1, holder)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, reason := buckets.Acquire(100, 4, 1, others); reason != ReasonNone || !buckets.Release(others, 1) {
			b.Fatal(reason)
		}
	}
}
