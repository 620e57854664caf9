package core

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// bucketsCase is one story, an operation a line: who, what, what comes of it and,
// where it is known, the counters after. Nobody is the holder "h".
//
//	a(3,2) 4 [4,1]         acquire of capacity 3, width 2: 4 are held with it
//	p1 a(3,2,5) 9          of weight 5, by p1
//	a(5,2) 1..10 [6,5]     ten of them
//	r ok, r out_of_buckets release; r(5) of weight 5
//	p1 down 2              p1 dies, and held 2
type bucketsCase struct {
	name, theorem, story string
}

// canalCases are what canal_lock does in sequence, run on Erlang/OTP 25 and written
// down in COMPAT.md, B: result for result and counter for counter.
var canalCases = []bucketsCase{
	{"timeline", "The ancestor's own timeline: a bucket that was seen full shows one more.", `
		a(3,1) 1 [1]
		a(3,1) 2 [2]
		a(3,2) 3 [3]
		a(3,1) full [4]
		a(3,2) 4 [4,1]`},
	{"usage", "Callers of two widths on one name, and what a release frees.", `
		a(3,1) 1 [1]
		a(3,1) 2 [2]
		a(3,1) 3 [3]
		a(3,1) full [4]
		a(3,2) 4 [4,1]
		a(3,1) full [4,1]
		r ok [4,0]
		a(3,1) full [4,0]
		r ok [2,0]
		a(3,1) 3 [3,0]
		a(3,1) full [4,0]`},
	{"downsize", "Who sees fewer buckets is refused until so many are free; nobody is evicted.", `
		a(5,2) 1..10 [6,5]
		a(5,2) full [6,6]
		a(5,1) full [6,6]
		r ok [6,4]
		a(5,1) full [6,4]
		r ok [6,3]
		a(5,1) full [6,3]
		r ok [6,2]
		a(5,1) full [6,2]
		r ok [6,1]
		a(5,1) full [6,1]
		r ok [6,0]
		a(5,1) full [6,0]
		r ok [4,0]
		a(5,1) 5 [5,0]`},
	{"downsize_by_death", "The same with ten holders, of whom six die.", `
		p1 a(5,2) 1
		p2 a(5,2) 2
		p3 a(5,2) 3
		p4 a(5,2) 4
		p5 a(5,2) 5 [5]
		p6 a(5,2) 6 [6,1]
		p7 a(5,2) 7
		p8 a(5,2) 8
		p9 a(5,2) 9
		p10 a(5,2) 10 [6,5]
		a(5,2) full [6,6]
		a(5,1) full [6,6]
		p1 down 1 [6,4]
		a(5,1) full [6,4]
		p2 down 1 [6,3]
		a(5,1) full [6,3]
		p3 down 1 [6,2]
		a(5,1) full [6,2]
		p4 down 1 [6,1]
		a(5,1) full [6,1]
		p5 down 1 [6,0]
		a(5,1) full [6,0]
		p6 down 1 [4,0]
		a(5,1) 5 [5,0]`},
	{"upsize", "Who sees more buckets goes on where the others are refused.", `
		a(5,1) 1..5 [5]
		a(5,2) 6 [6,1]
		r ok [6,0]
		a(5,1) full [6,0]
		a(5,2) 6 [6,1]`},
	{"upsize_by_death", "The same, and the one who goes dies.", `
		a(5,1) 1..5 [5]
		p1 a(5,2) 6 [6,1]
		p1 down 1 [6,0]
		a(5,1) full [6,0]
		a(5,2) 6 [6,1]`},
	{"right_holder", "A release is the holder's own, and his death frees what he still has.", `
		p1 a(3,1) 1
		p1 a(3,1) 2
		p2 a(3,1) 3 [3]
		me a(3,1) full [4]
		p2 r ok [2]
		p2 down 0 [2]
		me a(3,1) 3 [3]
		me a(3,1) full [4]
		p1 down 2 [1]
		me a(3,1) 2 [2]
		me a(3,1) 3 [3]
		me a(3,1) full [4]`},
	{"drain", "Buckets empty from right to left, and what is not held cannot be released.", `
		a(3,3) 1..7 [4,4,1]
		r ok [4,4,0]
		r ok [4,2,0]
		r ok [4,1,0]
		r ok [4,0,0]
		r ok [2,0,0]
		r ok [1,0,0]
		r ok [0,0,0]
		r out_of_buckets [0,0,0]`},
	{"never_seen_full", "A full bucket that nobody walked past drops by one.", `
		a(2,1) 1 [1]
		a(2,1) 2 [2]
		r ok [1]`},
	{"seen_full_twice", "However often it was seen full, it shows one more, and drops by two.", `
		a(2,1) 1 [1]
		a(2,1) 2 [2]
		a(2,1) full [3]
		a(2,1) full [3]
		r ok [1]
		r ok [0]
		r out_of_buckets [0]`},
	{"capacity_1", "Buckets of one permit are full or empty.", `
		a(1,2) 1 [1]
		a(1,2) 2 [2,1]
		a(1,2) full [2,2]
		r ok [2,0]
		a(1,1) full [2,0]
		r ok [0,0]
		a(1,1) 1 [1,0]`},
	{"shrink_regrow", "The view shrinks and grows again.", `
		a(2,3) 1..5 [3,3,1]
		a(2,1) full [3,3,1]
		r ok [3,3,0]
		r ok [3,1,0]
		r ok [3,0,0]
		a(2,2) 3 [3,1,0]
		a(2,2) 4 [3,2,0]
		a(2,3) 5 [3,3,1]`},
}

// ourCases are where canal_lock fails or has nothing to say.
var ourCases = []bucketsCase{
	{"unknown_name", "A release where nothing was ever held is refused, and makes no bucket.", `
		r out_of_buckets []
		h down 0 []`},
	{"mixed_over", "Of two capacities no more is granted than either's view; canal_lock grants 7 of 5.", `
		a(5,1) 1..5 [5]
		a(2,1) full [6]
		a(5,1) full
		a(5,1) full`},
	{"mixed_release", "A release is good whatever capacity the others have; canal_lock crashes.", `
		a(5,1) 1..5 [5]
		a(2,2) full
		r ok [4]
		a(2,2) full
		r ok [3]
		a(2,2) 4 [3,2]`},
	{"mixed_under", "What was released is free to every view; canal_lock says full with 2 held.", `
		a(3,2) 1..4 [4,1]
		r ok [4,0]
		r ok [2,0]
		a(3,1) 3 [3,0]`},
	{"weights", "A weight is granted whole or not at all, and more than the view is refused at once.", `
		a(3,2,4) 4 [4,1]
		p1 a(3,2,3) full [4,1]
		p1 a(3,2,2) 6 [4,3]
		p1 a(3,2,7) too_heavy [4,3]
		a(3,2) full [4,4]
		r(5) out_of_buckets [4,4]
		r(4) ok [2,0]
		p1 r(3) out_of_buckets [2,0]
		p1 r ok [1,0]
		p1 r ok [0,0]
		p1 down 0 [0,0]`},
	{"heavy_on_nothing", "A weight that is too heavy is so although nothing is held.", `
		a(3,1,4) too_heavy []
		a(3,1,3) 3 [3]`},
	{"holders", "Nobody releases another's, and the nameless holder is one too.", `
		p1 a(4,1) 1 [1]
		p2 r out_of_buckets [1]
		- a(4,1,2) 3 [3]
		p1 r(3) out_of_buckets [3]
		p1 down 1 [2]
		- r(2) ok [0]
		- r out_of_buckets [0]`},
	{"first_goes", "The first holder goes and comes again while others hold.", `
		p1 a(9,1,2) 2 [2]
		p2 a(9,1,3) 5 [5]
		p1 down 2 [3]
		p2 a(9,1) 4 [4]
		p3 a(9,1) 5 [5]
		p1 a(9,1) 6 [6]
		p2 down 4 [2]
		p3 r ok [1]
		p1 r(2) out_of_buckets [1]
		p1 r ok [0]`},
	{"view_of_others", "A refusal for weight marks only what it walked past.", `
		a(3,3,3) 3 [3]
		a(3,3,7) full [4]
		a(3,3) 4 [4,1]
		a(3,3,2) 6 [4,3]
		a(3,1) full [4,3]
		r ok [4,2]`},
}

// bucketsCases is every case, with those of which there are many.
func bucketsCases() []bucketsCase {
	all := append(append([]bucketsCase(nil), canalCases...), ourCases...)
	for _, c := range []struct{ capacity, width int }{{1, 2}, {1, 7}, {2, 2}, {3, 2}, {3, 5}, {10, 4}, {4, 10}} {
		most := c.capacity * c.width
		all = append(all, bucketsCase{
			fmt.Sprintf("fill_%d_%d", c.capacity, c.width),
			"Capacity x width are granted and one more is not; as many are released, and one is granted.",
			fmt.Sprintf("a(%[1]d,%[2]d) 1..%[3]d\na(%[1]d,%[2]d) full\n", c.capacity, c.width, most) +
				strings.Repeat("r ok\n", most) + fmt.Sprintf("r out_of_buckets\na(%d,%d) 1", c.capacity, c.width),
		})
	}
	return all
}

// bucketsOp is one operation of a story. Without an opinion of the counters
// counters is empty.
type bucketsOp struct {
	event    Event
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
		op := bucketsOp{result: m[6], line: line, event: Event{Holder: []byte("h")}}
		switch m[1] {
		case "":
		case "-":
			op.event.Holder = nil
		default:
			op.event.Holder = []byte(m[1])
		}
		switch m[2] {
		case "a":
			op.event.Kind, op.event.Capacity, op.event.Width, op.event.Weight = EventAcquire, n(3), n(4), n(5)
		case "r":
			op.event.Kind, op.event.Weight = EventRelease, n(3)
		case "down":
			op.event.Kind = EventDown
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
