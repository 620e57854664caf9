package machines

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/buckets"
	"pgregory.net/rapid"
)

// bucketsCase is one story of testdata/buckets.txt.
type bucketsCase struct {
	name, theorem, story string
	canal                bool // canal_lock does the same
}

// bucketsCases is every story of the file, and those of which there are many.
func bucketsCases(t testing.TB) (all []bucketsCase) {
	t.Helper()
	text, err := os.ReadFile("../testdata/buckets.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range strings.Split(string(text), "\n\n")[1:] {
		head, story, _ := strings.Cut(part, "\n")
		title, theorem, _ := strings.Cut(head, ": ")
		whose, name, _ := strings.Cut(title, " ")
		all = append(all, bucketsCase{name, theorem, story, whose == "canal"})
	}
	for _, c := range []struct{ capacity, width int }{{1, 2}, {1, 7}, {2, 2}, {3, 2}, {3, 5}, {10, 4}, {4, 10}} {
		most := c.capacity * c.width
		all = append(all, bucketsCase{
			name:    fmt.Sprintf("fill_%d_%d", c.capacity, c.width),
			theorem: "Capacity x width are granted and one more is not; as many are released, and one is granted.",
			story: fmt.Sprintf("a(%[1]d,%[2]d) 1..%[3]d\na(%[1]d,%[2]d) full\n", c.capacity, c.width, most) +
				strings.Repeat("r ok\n", most) + fmt.Sprintf("r out_of_buckets\na(%d,%d) 1", c.capacity, c.width),
		})
	}
	return all
}

// bucketsOp is one operation of a story. Without an opinion of the counters
// counters is empty.
type bucketsOp struct {
	event    core.Event
	result   string
	counters string
	line     string
}

var opPattern = regexp.MustCompile(`^(?:([a-z0-9]+|-) )?(a|r|down)(?:\((\d+)(?:,(\d+))?(?:,(\d+))?\))? ([a-z_]+|\d+)(?:\.\.(\d+))?(?: (\[[\d,]*\]))?$`)

func (c bucketsCase) ops(t testing.TB) (all []bucketsOp) {
	t.Helper()
	for line := range strings.Lines(strings.TrimSpace(c.story)) {
		line = strings.TrimSpace(line)
		m := opPattern.FindStringSubmatch(line)
		if m == nil {
			t.Fatalf("%s: %q", c.name, line)
		}
		n := func(i int) uint32 {
			v, _ := strconv.ParseUint("0"+m[i], 10, 32)
			return uint32(v)
		}
		op := bucketsOp{result: m[6], line: line, event: core.Event{Holder: []byte("h")}}
		switch m[1] {
		case "":
		case "-":
			op.event.Holder = nil
		default:
			op.event.Holder = []byte(m[1])
		}
		switch m[2] {
		case "a":
			op.event.Kind, op.event.Capacity, op.event.Width, op.event.Weight = core.EventAcquire, n(3), n(4), n(5)
		case "r":
			op.event.Kind, op.event.Weight = core.EventRelease, n(3)
		case "down":
			op.event.Kind = core.EventDown
		}
		for total, last := n(6), n(7); total < last; total++ {
			op.result = strconv.Itoa(int(total))
			all = append(all, op)
		}
		if m[7] != "" {
			op.result = m[7]
		}
		op.counters = m[8]
		all = append(all, op)
	}
	return all
}

// canalLock is canal_lock simulated literally, for one capacity on the name and
// without a race: ets:update_counter of one bucket after the other.
type canalLock struct {
	capacity uint32
	counters []uint32 // as many as {Key, highest} says
}

func (l *canalLock) acquire(width uint32) (total uint64, ok bool) {
	for i := range width {
		if i == uint32(len(l.counters)) {
			l.counters = append(l.counters, 0)
		}
		l.counters[i] = min(l.counters[i]+1, l.capacity+1) // {2, 1, Limit, Limit+1}
		if l.counters[i] <= l.capacity {
			return uint64(i)*uint64(l.capacity) + uint64(l.counters[i]), true
		}
	}
	return 0, false
}

func (l *canalLock) release() bool {
	for i := len(l.counters) - 1; i >= 0; i-- {
		switch c := &l.counters[i]; {
		case *c == 0: // decremented, put right, and the next lower bucket
			continue
		case *c == l.capacity+1: // it comes to the limit, so once more
			*c -= 2
		default:
			*c--
		}
		return true
	}
	return false
}

// do returns what canal_lock answers to an operation whose result is known.
func (l *canalLock) do(ev *core.Event, result string) string {
	switch ev.Kind {
	case core.EventAcquire:
		if total, ok := l.acquire(ev.Width); ok {
			return strconv.FormatUint(total, 10)
		}
		return "full"
	case core.EventRelease: // its manager knows who holds what
		if result != "ok" || l.release() {
			return result
		}
		return "out_of_buckets"
	}
	for n, _ := strconv.Atoi(result); n > 0; n-- {
		l.release()
	}
	return result
}

func bucketsConfig() core.Config {
	return core.Config{Machine: core.MachineBuckets, Terms: core.Terms{Protocol: core.ProtocolStrict}, Seed: [16]byte{1}}
}

func newBuckets(tb testing.TB) *buckets.Machine {
	tb.Helper()
	m, err := New(bucketsConfig())
	if err != nil {
		tb.Fatal(err)
	}
	return m.(*buckets.Machine)
}

// bucketsStep tells a machine an event, and is what came of it as the stories say it,
// and the counters.
func bucketsStep(t tester, m core.Machine, ev core.Event) (result, counters string) {
	t.Helper()
	freed := m.(*buckets.Machine).Buckets.HeldBy(string(ev.Holder))
	actions, err := m.Step(core.Instant{}, ev)
	last := len(actions) - 1
	if err != nil || last != 1 || actions[last].Kind != core.ActionCounted {
		t.Fatalf("%s: %v, %d actions", formatEvent(ev), err, len(actions))
	}
	switch a := actions[0]; {
	case a.Kind == core.ActionGranted:
		result = strconv.FormatUint(a.Total, 10)
		if a.Total != actions[last].Total {
			t.Fatalf("granted %d, counted %d", a.Total, actions[last].Total)
		}
	case a.Kind == core.ActionReleased && ev.Kind == core.EventDown:
		result = strconv.FormatUint(freed, 10)
	case a.Kind == core.ActionReleased:
		result = "ok"
	case a.Kind == core.ActionRefused:
		result = a.Reason.String()
	}
	return result, string(actions[last].Body)
}

// TestBucketsCases: each case, result for result and counter for counter; so does
// canal_lock as the next test has it; and neither a machine nor its clone sees what
// the other does.
func TestBucketsCases(t *testing.T) {
	for _, c := range bucketsCases(t) {
		t.Run(c.name, func(t *testing.T) {
			ops := c.ops(t)
			m, l := newBuckets(t), canalLock{capacity: ops[0].event.Capacity}
			for _, op := range ops {
				before, twin := m.AppendState(nil), m.Clone()
				bucketsStep(t, twin, op.event)
				after := twin.AppendState(nil)
				if !bytes.Equal(before, m.AppendState(nil)) {
					t.Fatalf("%s: the clone's step changed it", op.line)
				}
				result, counters := bucketsStep(t, m, op.event)
				if result != op.result || op.counters != "" && counters != op.counters {
					t.Fatalf("%s: got %s %s", op.line, result, counters)
				}
				if !bytes.Equal(after, m.AppendState(nil)) {
					t.Fatalf("%s: the clone is another", op.line)
				}
				if got := l.do(&op.event, result); c.canal && (got != result || countersText(l.counters) != counters) {
					t.Fatalf("%s: got %s %s, of canal_lock %s %v", op.line, result, counters, got, l.counters)
				}
			}
		})
	}
}

// countersText is counters as counted shows them.
func countersText(counters []uint32) string {
	return "[" + strings.Trim(strings.ReplaceAll(fmt.Sprint(counters), " ", ","), "[]") + "]"
}

// oracle is the dumb alternative: who holds how many, and nothing else.
type oracle map[string]uint64

func (s oracle) total() (all uint64) {
	for _, n := range s {
		all += n
	}
	return all
}

// do is what an operation comes to.
func (s oracle) do(ev *core.Event) string {
	most, weight, who := uint64(ev.Capacity)*uint64(ev.Width), uint64(max(ev.Weight, 1)), string(ev.Holder)
	switch {
	case ev.Kind == core.EventDown:
		freed := s[who]
		delete(s, who)
		return strconv.FormatUint(freed, 10)
	case ev.Kind == core.EventRelease && s[who] < weight:
		return "out_of_buckets"
	case ev.Kind == core.EventRelease:
		s[who] -= weight
		return "ok"
	case weight > most:
		return "too_heavy"
	case s.total()+weight > most:
		return "full"
	}
	s[who] += weight
	return strconv.FormatUint(s.total(), 10)
}

// bucketsCount: whatever views the callers have, what is held decides, and the
// counters show it. With one capacity on the name, any widths and no weights, buckets
// are canal_lock in sequence, result for result and counter for counter.
func bucketsCount(t *rapid.T) {
	s := oracle{}
	m, err := New(bucketsConfig())
	if err != nil {
		t.Fatal(err)
	}
	capacities, weight := rapid.Uint32Range(1, 6), rapid.Uint32Range(0, 9)
	canal := canalLock{}
	if rapid.Bool().Draw(t, "one capacity") {
		canal.capacity = capacities.Draw(t, "capacity")
		capacities, weight = rapid.Just(canal.capacity), rapid.Just(uint32(0))
	}
	var capacity, highest uint32
	b := &m.(*buckets.Machine).Buckets
	tell := func(ev core.Event) {
		want := s.do(&ev)
		got, counters := bucketsStep(t, m, ev)
		if got != want || canal.capacity > 0 && (canal.do(&ev, got) != want || countersText(canal.counters) != counters) {
			t.Fatalf("%s: %s, want %s; counters %s, of canal_lock %v", formatEvent(ev), got, want, counters, canal.counters)
		}
		if ev.Kind == core.EventAcquire && want != "full" && want != "too_heavy" {
			capacity = ev.Capacity
		}
	}
	holder := rapid.Map(rapid.SampledFrom([]string{"", "p", "q", "r"}), func(s string) []byte { return []byte(s) })
	t.Repeat(map[string]func(*rapid.T){
		"": func(t *rapid.T) {
			if b.Held() != s.total() || b.Highest() < highest || b.Holders() > 4 {
				t.Fatalf("%d held of %d by %d, %d buckets after %d", b.Held(), s.total(), b.Holders(), b.Highest(), highest)
			}
			highest = b.Highest()
			for _, who := range []string{"", "p", "q", "r", "nobody"} {
				if b.HeldBy(who) != s[who] {
					t.Fatalf("%q holds %d, not %d", who, b.HeldBy(who), s[who])
				}
			}
			checkCounters(t, &b.Buckets, capacity)
		},
		"acquire": func(t *rapid.T) {
			tell(core.Event{
				Kind: core.EventAcquire, Capacity: capacities.Draw(t, "capacity"), Width: rapid.Uint32Range(1, 6).Draw(t, "width"),
				Weight: weight.Draw(t, "weight"), Holder: holder.Draw(t, "holder"),
			})
		},
		"release": func(t *rapid.T) {
			tell(core.Event{Kind: core.EventRelease, Weight: weight.Draw(t, "weight"), Holder: holder.Draw(t, "holder")})
		},
		"down": func(t *rapid.T) {
			tell(core.Event{Kind: core.EventDown, Holder: append(holder.Draw(t, "holder"), 'p')[:1]})
		},
	})
}

func TestBucketsCount(t *testing.T) { rapid.Check(t, bucketsCount) }

// FuzzBucketsCount is the same, by coverage.
func FuzzBucketsCount(f *testing.F) { f.Fuzz(rapid.MakeFuzz(bucketsCount)) }

// checkCounters: filled from left to right, and together what is held.
func checkCounters(t *rapid.T, b *buckets.Buckets[string], capacity uint32) {
	counters := b.AppendCounters(nil, core.MaxCounters)
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
	const most = core.MaxCapacity * core.MaxWidth
	var b buckets.Buckets[int]
	for n := range most / (1 << 31) {
		if total, reason := b.Acquire(core.MaxCapacity, core.MaxWidth, 1<<31, n); reason != core.ReasonNone || total != uint64(n+1)<<31 {
			t.Fatalf("%d: %d, %s", n, total, reason)
		}
	}
	if _, reason := b.Acquire(core.MaxCapacity, core.MaxWidth, 1, 0); reason != core.ReasonFull || b.Held() != most || b.Highest() != core.MaxWidth {
		t.Errorf("%s, %d held in %d buckets", reason, b.Held(), b.Highest())
	}
	if _, reason := b.Acquire(1, 1, 1<<32-1, 0); reason != core.ReasonTooHeavy {
		t.Error(reason)
	}
	if got := b.AppendCounters(nil, 1); !slices.Equal(got, []uint32{core.MaxCapacity + 1}) {
		t.Error(got)
	}
	if !b.Release(3, 1<<31) || b.Release(3, 1) || b.Down(4) != 1<<31 || b.Holders() != most/(1<<31)-2 {
		t.Errorf("%d held by %d", b.Held(), b.Holders())
	}
}

// TestBucketsNoAllocations: one holder of a name costs nothing, and neither does a
// second one once there was one.
func TestBucketsNoAllocations(t *testing.T) {
	var b buckets.Buckets[string]
	counters := make([]uint32, 0, 4)
	once := func() {
		_, reason := b.Acquire(3, 2, 1, "h")
		counters = b.AppendCounters(counters[:0], 4)
		if reason != core.ReasonNone || !b.Release("h", 1) {
			t.Fatal(reason)
		}
	}
	for _, beside := range []string{"nobody", "another"} {
		once()
		if n := testing.AllocsPerRun(100, once); n != 0 {
			t.Errorf("beside %s: %v allocations", beside, n)
		}
		b.Acquire(3, 2, 1, "other")
	}
}

// bucketsContract is each event that breaks the contract, and its words.
func bucketsContract() (events []core.Event, words []string) {
	const knows = ": only acquire has a capacity and a width, down has no weight, and buckets know no wait, brief, permit, spare, limit and label"
	const view, text = "capacity must be from 1 to 1048576 and width from 1 to 65536", "holder: at most 512 bytes of UTF-8"
	add := func(said string, ev core.Event) { events, words = append(events, ev), append(words, "mopslock: "+said) }
	acquire := func(said string, change func(*core.Event)) {
		ev := core.Event{Kind: core.EventAcquire, Capacity: 1, Width: 1, Weight: 1, Holder: []byte("h")}
		change(&ev)
		add(said, ev)
	}
	acquire(view, func(ev *core.Event) { ev.Capacity = 0 })
	acquire(view, func(ev *core.Event) { ev.Capacity = core.MaxCapacity + 1 })
	acquire(view, func(ev *core.Event) { ev.Width = 0 })
	acquire(view, func(ev *core.Event) { ev.Width = core.MaxWidth + 1 })
	acquire("acquire"+knows, func(ev *core.Event) { ev.Wait = 1 })
	acquire("acquire: wait -2ns is out of range", func(ev *core.Event) { ev.Wait = -2 })
	acquire("acquire"+knows, func(ev *core.Event) { ev.Permit = 1 })
	acquire("acquire"+knows, func(ev *core.Event) { ev.Spare = 1 })
	acquire("acquire"+knows, func(ev *core.Event) { ev.Label = []byte("l") })
	acquire("acquire"+knows, func(ev *core.Event) { ev.StoreLimit = 1 })
	acquire("acquire: "+text, func(ev *core.Event) { ev.Holder = []byte("\xff") })
	acquire("acquire: "+text, func(ev *core.Event) { ev.Holder = make([]byte, core.MaxHolder+1) })
	add("release"+knows, core.Event{Kind: core.EventRelease, Brief: true})
	add("release"+knows, core.Event{Kind: core.EventRelease, Permit: 1})
	add("release"+knows, core.Event{Kind: core.EventRelease, Capacity: 1})
	add("down"+knows, core.Event{Kind: core.EventDown, Holder: []byte("h"), Weight: 1})
	add("down"+knows, core.Event{Kind: core.EventDown, Holder: []byte("h"), Width: 1})
	add("down: without a holder", core.Event{Kind: core.EventDown})
	add("down: "+text, core.Event{Kind: core.EventDown, Holder: make([]byte, core.MaxHolder+1)})
	add("woke"+knows, core.Event{Kind: core.EventWoke, Holder: []byte("h")})
	add("event limit has no meaning in state ready", core.Event{Kind: core.EventLimit, Permit: 1})
	add("event cancel has no meaning in state ready", core.Event{Kind: core.EventCancel})
	add("event begin has no meaning in state ready", core.Event{Kind: core.EventBegin})
	add("event EventKind(0) has no meaning in state ready", core.Event{})
	return events, words
}

// TestBucketsContract: what breaks the contract is told, and changes nothing; one
// holder too many is, and nobody else is kept from anything: neither who holds
// already, nor who is refused anyway.
func TestBucketsContract(t *testing.T) {
	m := newBuckets(t)
	acquire := func(who string, width uint32) core.Event {
		return core.Event{Kind: core.EventAcquire, Capacity: 1, Width: width, Holder: []byte(who)}
	}
	bucketsStep(t, m, acquire(strings.Repeat("h", core.MaxHolder), core.MaxWidth))
	for n := range core.MaxAsked - 1 {
		bucketsStep(t, m, acquire(strconv.Itoa(n), core.MaxWidth))
	}
	before := m.AppendState(nil)
	events, words := bucketsContract()
	events, words = append(events, acquire("one more", core.MaxWidth)), append(words, "mopslock: acquire: at most 1024 holders at once")
	for i, ev := range events {
		if _, err := m.Step(core.Instant{}, ev); !errors.Is(err, &core.Error{Code: core.ErrorEvent}) || err.Error() != words[i] {
			t.Errorf("%s: got %v, want %s", formatEvent(ev), err, words[i])
		}
	}
	for now, ev := range map[core.Instant]core.Event{{}: {Kind: core.EventAnswer, Request: 1, Outcome: core.OutcomeYes}, {Mono: -1}: {Kind: core.EventWoke}} {
		if _, err := m.Step(now, ev); err == nil {
			t.Errorf("%s: accepted", formatEvent(ev))
		}
	}
	if !bytes.Equal(before, m.AppendState(nil)) || !m.Idle() || m.State() != core.BucketsReady || m.String() != "ready" {
		t.Error("an error changed the machine", m)
	}
	for i, want := range []string{"full", "1025", "1", "1025"} {
		got, _ := bucketsStep(t, m, []core.Event{
			acquire("one more", core.MaxAsked), acquire("7", core.MaxWidth), {Kind: core.EventDown, Holder: []byte("8")}, acquire("one more", core.MaxWidth),
		}[i])
		if got != want {
			t.Errorf("%d: %s, want %s", i, got, want)
		}
	}
}

// TestBucketsMessageFits: the first MaxCounters counters of the largest, and how
// many there are; in a message that may be sent.
func TestBucketsMessageFits(t *testing.T) {
	m := newBuckets(t)
	var actions []core.Action
	for range 4 {
		actions = stepping(t, m, core.Instant{}, core.Event{Kind: core.EventAcquire, Capacity: core.MaxCapacity, Width: core.MaxWidth, Weight: 1 << 31})
	}
	a := actions[1]
	want := "[" + strings.Repeat("1048577,", core.MaxCounters-1) + "1048577]"
	if string(a.Body) != want || a.Count != 8192 || a.Total != 1<<33 {
		t.Errorf("%.20s... of %d bytes, %d counters, %d held", a.Body, len(a.Body), a.Count, a.Total)
	}
	if n := len(core.AppendAnswer(nil, m, actions)); n > core.MaxMessage {
		t.Errorf("%d bytes", n)
	}
}

// TestBucketsState has all that decides, and one form of one standing, however it
// came about.
func TestBucketsState(t *testing.T) {
	after := func(story string) *buckets.Machine {
		m := newBuckets(t)
		for _, op := range (bucketsCase{story: story}).ops(t) {
			bucketsStep(t, m, op.event)
		}
		return m
	}
	for _, c := range []struct {
		what, one, other string
		alike            bool
	}{
		{"order of holders", "p a(3,3) 1\nq a(3,3) 2\nr a(3,3) 3", "r a(3,3) 1\nq a(3,3) 2\np a(3,3) 3", true},
		{"scale of nothing", "a(3,1) 1\nr ok", "a(5,1) 1\nr ok", true},
		{"scale", "a(3,1) 1", "a(5,1) 1", false},
		{"first holder", "p a(3,1) 1", "q a(3,1) 1", false},
		{"second holder", "p a(3,1) 1\nq a(3,1) 2", "p a(3,1) 1\nr a(3,1) 2", false},
		{"weights", "p a(3,1) 1\nq a(3,1) 2\nq a(3,1) 3", "p a(3,1) 1\nq a(3,1) 2\np a(3,1) 3", false},
		{"held", "a(3,1) 1", "a(3,1) 1\na(3,1) 2", false},
		{"highest", "a(1,2) 1\nr ok", "a(1,2) 1\na(1,2) 2\nr ok\nr ok", false},
		{"walked past", "a(1,2) 1\na(1,2) 2\nr ok", "a(1,2) 1\na(1,2) 2\nr ok\nr ok\na(1,2) 1", false},
	} {
		if bytes.Equal(after(c.one).AppendState(nil), after(c.other).AppendState(nil)) != c.alike {
			t.Errorf("%s: alike is not %v", c.what, c.alike)
		}
	}
}
