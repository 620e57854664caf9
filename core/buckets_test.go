package core

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// countersText is the counters as counted shows them.
func countersText(b *Buckets[string]) string {
	return strings.ReplaceAll(fmt.Sprint(b.AppendCounters(nil, MaxCounters)), " ", ",")
}

// doTo does one operation to buckets, and says what came of it as the stories do.
func (op bucketsOp) doTo(b *Buckets[string]) string {
	ev := &op.event
	switch ev.Kind {
	case EventAcquire:
		total, reason := b.Acquire(ev.Capacity, ev.Width, ev.Weight, string(ev.Holder))
		if reason != ReasonNone {
			return reason.String()
		}
		return strconv.FormatUint(total, 10)
	case EventRelease:
		if !b.Release(string(ev.Holder), ev.Weight) {
			return ReasonOutOfBuckets.String()
		}
		return "ok"
	}
	return strconv.FormatUint(b.Down(string(ev.Holder)), 10)
}

// TestBucketsCases: each case, result for result and counter for counter.
func TestBucketsCases(t *testing.T) {
	for _, c := range bucketsCases() {
		t.Run(c.name, func(t *testing.T) {
			var b Buckets[string]
			for _, op := range c.ops(t) {
				if got := op.doTo(&b); got != op.result {
					t.Fatalf("%s: got %s, want %s", op.line, got, op.result)
				}
				if got := countersText(&b); op.counters != "" && got != op.counters {
					t.Fatalf("%s: counters %s, want %s", op.line, got, op.counters)
				}
			}
		})
	}
}

// TestCanalLockIsSimulated: the oracle of the next test does what canal_lock was
// seen to do.
func TestCanalLockIsSimulated(t *testing.T) {
	for _, c := range canalCases {
		ops := c.ops(t)
		l := canalLock{capacity: ops[0].event.Capacity}
		var b Buckets[string] // who holds what; canal_lock's manager
		for _, op := range ops {
			result := op.doTo(&b)
			switch op.event.Kind {
			case EventAcquire:
				total, ok := l.acquire(op.event.Width)
				if ok != (result != "full") || ok && strconv.FormatUint(total, 10) != op.result {
					t.Errorf("%s: %s: %d, %v", c.name, op.line, total, ok)
				}
			case EventRelease:
				if ok := l.release(); ok != (op.result == "ok") {
					t.Errorf("%s: %s: %v", c.name, op.line, ok)
				}
			case EventDown:
				for n, _ := strconv.Atoi(op.result); n > 0; n-- {
					l.release()
				}
			}
			if got := strings.ReplaceAll(fmt.Sprint(l.counters), " ", ","); op.counters != "" && got != op.counters {
				t.Errorf("%s: %s: %s, want %s", c.name, op.line, got, op.counters)
			}
		}
	}
}

// TestBucketsAreCanalLock: with one capacity on a name and any widths, buckets are
// canal_lock in sequence, result for result and counter for counter.
func TestBucketsAreCanalLock(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := canalLock{capacity: rapid.Uint32Range(1, 5).Draw(t, "capacity")}
		held := map[string]int{}
		var b Buckets[string]
		holder := rapid.SampledFrom([]string{"", "p", "q"})
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				if got := b.AppendCounters(nil, MaxCounters); !slices.Equal(got, l.counters) {
					t.Fatalf("%v, canal_lock %v", got, l.counters)
				}
			},
			"acquire": func(t *rapid.T) {
				width, who := rapid.Uint32Range(1, 6).Draw(t, "width"), holder.Draw(t, "holder")
				total, reason := b.Acquire(l.capacity, width, 0, who)
				want, ok := l.acquire(width)
				if ok != (reason == ReasonNone) || !ok && reason != ReasonFull || ok && total != want {
					t.Fatalf("%d, %s, canal_lock %d, %v", total, reason, want, ok)
				}
				if ok {
					held[who]++
				}
			},
			"release": func(t *rapid.T) {
				who := holder.Draw(t, "holder")
				if got := b.Release(who, 0); got != (held[who] > 0) || got && !l.release() {
					t.Fatalf("%v, with %d held", got, held[who])
				}
				held[who] = max(0, held[who]-1)
			},
			"down": func(t *rapid.T) {
				who := holder.Draw(t, "holder")
				if got := b.Down(who); got != uint64(held[who]) {
					t.Fatalf("%d, with %d held", got, held[who])
				}
				for ; held[who] > 0; held[who]-- {
					l.release()
				}
			},
		})
	})
}

// shelf is the dumb alternative: who holds how many, and nothing else.
type shelf map[string]uint64

func (s shelf) total() (all uint64) {
	for _, n := range s {
		all += n
	}
	return all
}

func (s shelf) acquire(most, more uint64, who string) Reason {
	switch {
	case more > most:
		return ReasonTooHeavy
	case s.total()+more > most:
		return ReasonFull
	}
	s[who] += more
	return ReasonNone
}

func (s shelf) release(who string, less uint64) bool {
	if s[who] < less {
		return false
	}
	s[who] -= less
	return true
}

// TestBucketsCount: whatever views the callers have, what is held decides, and the
// counters show it.
func TestBucketsCount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := shelf{}
		var b Buckets[string]
		var highest, capacity uint32
		holder := rapid.SampledFrom([]string{"", "p", "q", "r"})
		weight := rapid.Uint32Range(0, 9)
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				if b.Held() != s.total() || b.Highest() < highest {
					t.Fatalf("%d held of %d, %d buckets after %d", b.Held(), s.total(), b.Highest(), highest)
				}
				highest = b.Highest()
				for _, who := range []string{"", "p", "q", "r", "nobody"} {
					if b.HeldBy(who) != s[who] {
						t.Fatalf("%q holds %d, not %d", who, s[who], b.HeldBy(who))
					}
				}
				checkCounters(t, &b, capacity)
				if twin := b.clone(); twin.holders() != b.holders() || b.holders() > 4 {
					t.Fatalf("%d holders, of the clone %d", b.holders(), twin.holders())
				}
			},
			"acquire": func(t *rapid.T) {
				c, width := rapid.Uint32Range(1, 6).Draw(t, "capacity"), rapid.Uint32Range(1, 5).Draw(t, "width")
				w, who := weight.Draw(t, "weight"), holder.Draw(t, "holder")
				most := uint64(c) * uint64(width)
				total, reason := b.Acquire(c, width, w, who)
				if want := s.acquire(most, uint64(max(w, 1)), who); reason != want || total != s.total() {
					t.Fatalf("%s, want %s; %d held, want %d", reason, want, total, s.total())
				}
				if reason == ReasonNone {
					capacity = c
					if total > most {
						t.Fatalf("%d held, above the view of %d", total, most)
					}
				}
			},
			"release": func(t *rapid.T) {
				w, who := weight.Draw(t, "weight"), holder.Draw(t, "holder")
				if got, want := b.Release(who, w), s.release(who, uint64(max(w, 1))); got != want {
					t.Fatalf("%v, want %v", got, want)
				}
			},
			"down": func(t *rapid.T) {
				who := holder.Draw(t, "holder")
				if got := b.Down(who); got != s[who] {
					t.Fatalf("%d freed of %d", got, s[who])
				}
				delete(s, who)
			},
		})
	})
}

// checkCounters: filled from left to right, and together what is held.
func checkCounters(t *rapid.T, b *Buckets[string], capacity uint32) {
	counters := b.AppendCounters(nil, MaxCounters)
	var sum uint64
	for i, n := range counters {
		if n > capacity+1 || i > 0 && n > 0 && counters[i-1] != capacity+1 {
			t.Fatalf("%v with a capacity of %d", counters, capacity)
		}
		sum += uint64(min(n, capacity))
	}
	if sum != b.Held() || len(counters) != int(b.Highest()) {
		t.Fatalf("%v show %d of %d, in %d buckets", counters, sum, b.Held(), b.Highest())
	}
	if some := b.AppendCounters([]uint32{7}, 2); !slices.Equal(some[1:], counters[:min(2, len(counters))]) {
		t.Fatalf("of %v the first two are %v", counters, some[1:])
	}
}

// TestBucketsAtTheLimits: the largest view there is, and no sum runs over.
func TestBucketsAtTheLimits(t *testing.T) {
	const most = MaxCapacity * MaxWidth
	var b Buckets[int]
	for n := range most / (1 << 31) {
		if total, reason := b.Acquire(MaxCapacity, MaxWidth, 1<<31, n); reason != ReasonNone || total != uint64(n+1)<<31 {
			t.Fatalf("%d: %d, %s", n, total, reason)
		}
	}
	if _, reason := b.Acquire(MaxCapacity, MaxWidth, 1, 0); reason != ReasonFull || b.Held() != most || b.Highest() != MaxWidth {
		t.Errorf("%s, %d held in %d buckets", reason, b.Held(), b.Highest())
	}
	if _, reason := b.Acquire(1, 1, 1<<32-1, 0); reason != ReasonTooHeavy {
		t.Error(reason)
	}
	if got := b.AppendCounters(nil, 1); !slices.Equal(got, []uint32{MaxCapacity + 1}) {
		t.Error(got)
	}
	if !b.Release(3, 1<<31) || b.Release(3, 1) || b.Down(4) != 1<<31 || b.holders() != most/(1<<31)-2 {
		t.Errorf("%d held by %d", b.Held(), b.holders())
	}
}

// TestCheckView: each edge.
func TestCheckView(t *testing.T) {
	for _, v := range []struct {
		capacity, width uint32
		good            bool
	}{
		{1, 1, true}, {MaxCapacity, MaxWidth, true}, {0, 1, false}, {1, 0, false}, {MaxCapacity + 1, 1, false}, {1, MaxWidth + 1, false},
	} {
		err := CheckView(v.capacity, v.width)
		if good := err == nil; good != v.good || !good && !errors.Is(err, &Error{Code: ErrorEvent}) {
			t.Errorf("%d x %d: %v", v.capacity, v.width, err)
		}
	}
	want := "mopslock: capacity must be from 1 to 1048576 and width from 1 to 65536"
	if err := CheckView(0, 0); err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// TestBucketsNoAllocations: one holder of a name costs nothing, and neither does a
// second one once there was one.
func TestBucketsNoAllocations(t *testing.T) {
	var b Buckets[string]
	counters := make([]uint32, 0, 4)
	once := func(who string) func() {
		return func() {
			_, reason := b.Acquire(3, 2, 1, who)
			counters = b.AppendCounters(counters[:0], 4)
			if reason != ReasonNone || !b.Release(who, 1) {
				t.Fatal(reason)
			}
		}
	}
	if n := testing.AllocsPerRun(100, once("h")); n != 0 {
		t.Errorf("one holder: %v allocations", n)
	}
	b.Acquire(3, 2, 1, "other")
	once("h")()
	if n := testing.AllocsPerRun(100, once("h")); n != 0 {
		t.Errorf("beside another: %v allocations", n)
	}
}
