package simulate

import (
	"cmp"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Run plays one seed. One that violates an invariant is played again to tell the
// last events in words, and who held what, which gives the same events.
func Run(opts Options) Result {
	w := newSimulation(opts)
	w.run()
	if w.checker.found != nil && !opts.Trace {
		opts.Trace = true
		return Run(opts)
	}
	return w.result()
}

// Summary is the result of a swarm of seeds.
type Summary struct {
	Protocol string        `json:"protocol"`
	First    uint64        `json:"first_seed"`
	Asked    int           `json:"seeds_asked"`
	Ran      int           `json:"seeds_ran"`
	Virtual  time.Duration `json:"virtual_ns"`
	Events   uint64        `json:"events"`
	Holds    int           `json:"holds"`
	Requests uint64        `json:"requests"`
	Overlaps int           `json:"overlaps"` // in weathers that promise nothing
	Overlap  int           `json:"seeds_with_overlaps"`
	Cut      int           `json:"seeds_cut,omitempty"` // whose faults the bound of events ended
	Losses   int           `json:"losses"`
	// Failed is the violation with the lowest seed among those that were run, or nil.
	Failed *Result `json:"failed,omitempty"`
}

// Swarm plays count seeds from first on, as many at a time as there are workers (0 is
// one), and stops at the first violation. It sets the Options' Seed.
func Swarm(first uint64, count, workers int, opts Options) Summary {
	results := make([]*Result, count)
	var next atomic.Int64
	var failed atomic.Bool
	var group sync.WaitGroup
	for range max(1, workers) {
		group.Go(func() {
			for !failed.Load() {
				i := next.Add(1) - 1
				if i >= int64(count) {
					return
				}
				mine := opts
				mine.Seed = first + uint64(i)
				r := Run(mine)
				results[i] = &r
				if r.Violation != nil {
					failed.Store(true)
				}
			}
		})
	}
	group.Wait()
	s := Summary{First: first, Asked: count}
	for _, r := range results {
		if r != nil {
			s.take(r)
		}
	}
	return s
}

func (s *Summary) take(r *Result) {
	one := Summary{Protocol: r.Protocol, Ran: 1, Virtual: r.Virtual, Events: r.Events, Holds: r.Holds, Requests: r.Requests, Overlaps: r.Overlaps}
	for _, n := range r.Losses {
		one.Losses += n
	}
	if r.Overlaps > 0 {
		one.Overlap = 1
	}
	if r.Cut > 0 {
		one.Cut = 1
	}
	if r.Violation != nil {
		one.Failed = r
	}
	s.Add(&one)
}

// Add adds what was found in more seeds.
func (s *Summary) Add(more *Summary) {
	s.Protocol = more.Protocol
	s.Ran += more.Ran
	s.Virtual += more.Virtual
	s.Events += more.Events
	s.Holds += more.Holds
	s.Requests += more.Requests
	s.Overlaps += more.Overlaps
	s.Overlap += more.Overlap
	s.Losses += more.Losses
	s.Cut += more.Cut
	s.Failed = cmp.Or(s.Failed, more.Failed)
}

// String is the summary for people.
func (s *Summary) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d of %d seeds from %d on, %v of virtual time, %d events, %d requests, held %d times, lost %d times\n",
		s.Protocol, s.Ran, s.Asked, s.First, s.Virtual.Round(time.Second), s.Events, s.Requests, s.Holds, s.Losses)
	if s.Overlap > 0 {
		fmt.Fprintf(&b, "%d seeds had overlaps, %d pairs of tenures, that no promise excludes: by the weather, or after a break with now\n", s.Overlap, s.Overlaps)
	}
	if s.Cut > 0 {
		fmt.Fprintf(&b, "of %d seeds the bound of events ended the faults, before the duration that was asked for\n", s.Cut)
	}
	if s.Failed == nil {
		b.WriteString("no invariant was violated\n")
	} else {
		b.WriteString(s.Failed.String())
	}
	return b.String()
}
