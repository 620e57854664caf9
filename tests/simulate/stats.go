package simulate

import (
	"slices"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/tests/explore/check"
)

// stats is what a run measures.
type stats struct {
	Result
	actors    int
	waiting   int
	polls     uint64   // requests of waiters
	cap       int64    // of a poll interval
	intervals uint64   // how many all waiters have waited
	said      [256]int // notices, by their kinds
	longest   int64
	turns     []int
	vacancies map[string]*vacancy
	handovers []int64 // after a release
	takeovers []int64 // after a death
}

// vacancy is how long no actor has relied on a name while another waited for it.
type vacancy struct {
	believers int
	waiters   int
	since     int64
	released  bool
	open      bool
}

func newStats(ttl time.Duration) stats {
	ceiling := core.PollCap
	if ttl > 0 {
		ceiling = min(ceiling, max(core.PollCapFloor, ttl/8))
	}
	return stats{
		Result: Result{RequestsByVerb: map[string]uint64{}, Losses: map[string]int{}, Refusals: map[string]int{}},
		cap:    int64(ceiling), vacancies: map[string]*vacancy{},
	}
}

func (s *stats) vacancy(name string) *vacancy {
	v := s.vacancies[name]
	if v == nil {
		v = &vacancy{}
		s.vacancies[name] = v
	}
	return v
}

func (s *stats) request(u *unit, a *core.Action) {
	s.RequestsByVerb[a.Kind.String()]++
	s.Requests++
	if u != nil && u.waiting && !check.Changes(a.Kind) {
		s.polls++
	}
}

// waits: a lease begins to wait.
func (s *stats) waits(u *unit) {
	s.waiting++
	s.vacancy(u.name).waiters++
}

// waitOver: it has what it waited for, or waits no more.
func (s *stats) waitOver(w *simulation, u *unit) {
	if !u.waiting {
		return
	}
	u.waiting = false
	s.waiting--
	s.vacancy(u.name).waiters--
	waited := w.Now - u.waitSince
	s.intervals += s.intervalsOf(waited)
	s.longest = max(s.longest, waited)
}

// intervalsOf is how many intervals a waiter's schedule has until then, the one
// before its first look included.
func (s *stats) intervalsOf(waited int64) uint64 {
	n := uint64(1)
	for step := int64(core.PollFirst); step < s.cap && waited >= step; step += step / 2 {
		waited -= step
		n++
	}
	return n + uint64(waited/s.cap)
}

// held: a lease or a companion relies on a name from now on.
func (s *stats) held(w *simulation, u *unit) {
	v := s.vacancy(u.name)
	v.believers++
	if u.what == whatCompanion {
		v.open = false // the tenure goes on
		return
	}
	s.Holds++
	if u.slot != nil {
		s.turns[u.slot.number]++
	}
	if v.open && v.released {
		s.handovers = append(s.handovers, w.Now-v.since)
	} else if v.open {
		s.takeovers = append(s.takeovers, w.Now-v.since)
	}
	v.open = false
	s.waitOver(w, u)
}

// stopped: it does not rely on the name any more. how says whether it meant to stop.
func (s *stats) stopped(w *simulation, u *unit, how string) {
	v := s.vacancy(u.name)
	if v.believers--; v.believers == 0 {
		*v = vacancy{
			waiters: v.waiters, since: w.Now, open: v.waiters > 0,
			released: how == core.EventRelease.String() || how == core.EventCancel.String(),
		}
	}
}

// Latency is how long something took.
type Latency struct {
	Count  int           `json:"count"`
	Median time.Duration `json:"median_ns"`
	P99    time.Duration `json:"p99_ns"`
	Max    time.Duration `json:"max_ns"`
}

func latencyOf(times []int64) Latency {
	if len(times) == 0 {
		return Latency{}
	}
	slices.Sort(times)
	at := func(share int) time.Duration { return time.Duration(times[(len(times)-1)*share/100]) }
	return Latency{Count: len(times), Median: at(50), P99: at(99), Max: at(100)}
}

// Fairness is how turns were shared out.
type Fairness struct {
	Jain    float64       `json:"jain"` // 1 is all alike, 1/n is all to one
	Longest time.Duration `json:"longest_wait_ns"`
	Starved int           `json:"starved"` // actors without a turn
	Turns   int           `json:"turns"`
}

func (s *stats) fairness() Fairness {
	out := Fairness{Longest: time.Duration(s.longest)}
	squares := 0
	for _, turns := range s.turns {
		out.Turns += turns
		squares += turns * turns
		if turns == 0 {
			out.Starved++
		}
	}
	if squares > 0 {
		out.Jain = float64(out.Turns*out.Turns*1000/(len(s.turns)*squares)) / 1000
	}
	return out
}
