package explore

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/mopslock/mopslock/tests/explore/check"
)

// Limits bounds one search. 0 is no bound.
type Limits struct {
	MaxStates int
	Depth     int
	// For bounds the time, and MaxBytes what the states may take, as they are
	// counted: a little more than the heap shows.
	For      time.Duration
	MaxBytes int64
	// Progress, if set, is called now and then with the states seen so far.
	Progress func(states, depth int)
}

// Found is what a search of one scenario has found.
type Found struct {
	Scenario    *Scenario
	States      int // distinct
	Transitions int
	Depth       int // of the deepest state that was expanded
	Faults      int // how many faults the last states had that were expanded
	Exhausted   bool
	Bound       Bound // that was met, if any
	Elapsed     time.Duration
	// Violation is nil if there is none; then Trace is empty.
	Violation *check.Violation
	Trace     []Step
}

// Bound says why a search ended before it had seen all.
type Bound string

// The bounds of a search.
const (
	BoundStates Bound = "states"
	BoundDepth  Bound = "depth"
	BoundTime   Bound = "time"
	BoundMemory Bound = "memory"
)

// node remembers how a state was reached: from which one, and as its how
// manyth successor.
type node struct {
	parent  uint32
	ordinal uint16
}

// pending are worlds that are to be expanded, packed: most of the memory is theirs.
type pending struct {
	packed []byte
	count  int
}

// search is one breadth-first search: first all worlds without a fault, then all
// with one, and so on. Its counter-example is a shortest of those with the fewest
// faults.
type search struct {
	*engine
	seen  *visited
	nodes []node
	// rounds are the worlds that wait: by faults, then by depth.
	rounds  [][]pending
	faults  int // of the round
	result  *Found
	limits  Limits
	queued  int64 // bytes of the worlds that wait
	until   time.Time
	depth   int    // of the worlds that are being expanded
	bound   Bound  // that was met
	at      uint32 // node that is being expanded
	ordinal uint16
	bad     *check.Violation
	badAt   node
	key     []byte
}

// progressEvery is how many states lie between two calls of Progress.
const progressEvery = 1 << 16

// Search explores one scenario until it finds a violation, has seen all, or
// meets a limit.
func Search(ctx context.Context, sc *Scenario, limits Limits) (*Found, error) {
	began := time.Now()
	s := &search{engine: newEngine(sc), seen: newVisited(), limits: limits, result: &Found{Scenario: sc}}
	if limits.For != 0 {
		s.until = began.Add(limits.For)
	}
	root, err := s.root()
	if err != nil {
		return nil, err
	}
	s.visit(&root)
	for s.faults = 0; s.faults < len(s.rounds) && !s.done(); s.faults++ {
		for s.depth = 0; s.depth < len(s.rounds[s.faults]) && !s.done(); s.depth++ {
			if err := s.level(ctx); err != nil {
				return nil, err
			}
		}
	}
	r := s.result
	r.States, r.Faults = len(s.nodes), s.faults-1
	r.Exhausted, r.Bound = s.bad == nil && s.bound == "", s.bound
	r.Elapsed, r.Violation = time.Since(began), s.bad
	if s.bad != nil {
		r.Trace, err = s.trace()
	}
	return r, err
}

func (s *search) done() bool {
	return s.bad != nil || s.bound != "" && s.bound != BoundDepth
}

// measure notes a bound that is met.
func (s *search) measure() {
	switch {
	case s.limits.MaxStates != 0 && len(s.nodes) >= s.limits.MaxStates:
		s.bound = BoundStates
	case s.limits.MaxBytes != 0 && s.bytes() >= s.limits.MaxBytes:
		s.bound = BoundMemory
	}
}

// bytes is what the search has allocated: a slice that grows by doubling is there
// twice while it does.
func (s *search) bytes() int64 {
	const perNode, perKey = 8, 16
	return 2*s.queued + 2*perNode*int64(cap(s.nodes)) + 2*perKey*int64(len(s.seen.keys)) + s.engine.bytes()
}

// lookUpEvery is how many worlds are expanded between two looks at the clock.
const lookUpEvery = 256

// level expands all worlds of one depth that have this round's faults.
func (s *search) level(ctx context.Context) error {
	if s.limits.Depth != 0 && s.depth >= s.limits.Depth {
		s.bound = BoundDepth
		return nil
	}
	worlds := s.rounds[s.faults][s.depth]
	s.rounds[s.faults][s.depth] = pending{} // it is not looked at again
	size := int64(cap(worlds.packed))
	if worlds.count > 0 {
		s.result.Depth = max(s.result.Depth, s.depth)
	}
	var w state
	for i := range worlds.count {
		if i%lookUpEvery == 0 {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if !s.until.IsZero() && time.Now().After(s.until) {
				s.bound = BoundTime
				return nil
			}
		}
		worlds.packed = w.unpack(worlds.packed, &s.at)
		s.ordinal = 0
		s.successors(&w, func(next *state, _ *move, v *check.Violation) {
			s.result.Transitions++
			s.ordinal++
			if s.bad == nil && v != nil {
				s.blame(v)
			} else if s.bad == nil {
				s.visit(next)
			}
		})
		if s.failure != nil {
			return s.failure
		}
		if s.measure(); s.done() {
			return nil
		}
	}
	s.queued -= size
	return nil
}

func (s *search) blame(v *check.Violation) {
	s.bad, s.badAt = v, node{s.at, s.ordinal}
}

// visit judges a world and keeps it, if it is new.
func (s *search) visit(w *state) {
	var key digest
	key, s.key = w.key(s.key)
	if !s.seen.add(key) {
		return
	}
	if v := s.judge(w); v != nil {
		s.blame(v)
		return
	}
	id := uint32(len(s.nodes))
	s.nodes = append(s.nodes, node{s.at, s.ordinal})
	s.queue(w, id)
	if s.limits.Progress != nil && len(s.nodes)%progressEvery == 0 {
		s.limits.Progress(len(s.nodes), s.result.Depth)
	}
}

// queue lets a world wait for its turn. A fault comes with a step, and no step
// takes one back.
func (s *search) queue(w *state, id uint32) {
	faults, depth := 0, 0
	for _, n := range w.spent {
		faults += int(n)
	}
	if id != 0 {
		depth = s.depth + 1
	}
	for len(s.rounds) <= faults {
		s.rounds = append(s.rounds, nil)
	}
	for len(s.rounds[faults]) <= depth {
		s.rounds[faults] = append(s.rounds[faults], pending{})
	}
	to := &s.rounds[faults][depth]
	before := cap(to.packed)
	to.packed = w.pack(to.packed, id)
	to.count++
	s.queued += int64(cap(to.packed) - before)
}

// judge checks what can be seen in one world alone.
func (e *engine) judge(w *state) *check.Violation {
	if !e.sc.Bare && !e.sc.Shared {
		claims := e.believed(w)
		if e.sc.Mixed {
			claims = slices.DeleteFunc(claims, func(c check.Claim) bool { return c.Epoch == 0 })
		}
		if v := check.Overlap(claims); v != nil {
			return v
		}
	}
	if e.sc.Patience != 0 && int(w.now) == e.sc.Horizon && w.turn == nobody {
		if v := e.drain(w); v != nil {
			return v
		}
		if v := e.leaks(w); v != nil {
			return v
		}
	}
	if e.sc.Left != nil && e.stuck(w) {
		if v := e.sc.Left(e.stores.items[w.store], len(e.relied(w))); v != nil {
			return v
		}
	}
	if e.sc.End != nil && e.quiet(w) {
		states := make([]string, len(e.sc.Actors))
		for i := range states {
			states[i] = e.actors.items[w.actors[i]].program.String()
		}
		return e.sc.End(e.ledgers.items[w.ledger], states)
	}
	return nil
}

// trace walks from the root to the violation, and tells it.
func (s *search) trace() ([]Step, error) {
	path := []uint16{s.badAt.ordinal}
	for at := s.badAt.parent; at != 0; at = s.nodes[at].parent {
		path = append(path, s.nodes[at].ordinal)
	}
	w, err := s.root()
	if err != nil {
		return nil, err
	}
	t := newTeller(s.engine)
	for i := len(path) - 1; i >= 0; i-- {
		ordinal := uint16(0)
		here := w
		s.successors(&here, func(next *state, m *move, _ *check.Violation) {
			if ordinal++; ordinal == path[i] {
				t.tell(&here, next, m)
				w = *next
			}
		})
		if ordinal < path[i] {
			return nil, errLost
		}
	}
	return t.steps, nil
}

var errLost = errors.New("explore: the path to a state cannot be walked again")
