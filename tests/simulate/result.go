package simulate

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mopslock/mopslock/tests/explore/check"
)

// Result is what a run measured and found.
type Result struct {
	Protocol   string        `json:"protocol"`
	Seed       uint64        `json:"seed"`
	Hash       string        `json:"hash"` // of all events, in order
	Actors     int           `json:"actors"`
	Names      int           `json:"names"`
	Companions int           `json:"companions"`
	TTL        time.Duration `json:"ttl_ns"`
	Weather    Weather       `json:"weather"`
	Faults     []string      `json:"faults"`
	Virtual    time.Duration `json:"virtual_ns"` // how long it lasted
	Events     uint64        `json:"events"`
	// Cut is when the bound of events ended the faults, before Options.Duration; otherwise 0.
	Cut time.Duration `json:"cut_ns,omitempty"`

	Holds              int               `json:"holds"`
	Commits            int               `json:"commits"`   // versions that were made
	HandOver           Latency           `json:"hand_over"` // from a release to the next held
	TakeOver           Latency           `json:"take_over"` // from a death to the next held
	Requests           uint64            `json:"requests"`
	RequestsByVerb     map[string]uint64 `json:"requests_by_verb"`
	RequestsPerHold    float64           `json:"requests_per_hold"`
	PollsPerInterval   float64           `json:"polls_per_interval"` // requests of a waiter in one poll interval
	Fairness           Fairness          `json:"fairness"`
	Overlaps           int               `json:"overlaps"`
	OverlapsArePromise bool              `json:"overlaps_promised_none"`
	Losses             map[string]int    `json:"losses"`
	Refusals           map[string]int    `json:"refusals"`

	Violation *Violation `json:"violation,omitempty"`
	Last      []string   `json:"last_events,omitempty"`

	Timeline []Hold `json:"-"` // who held what when, if Options.Holds or Trace is set
}

func (w *simulation) result() Result {
	o, s, r := &w.opts, &w.stats, w.stats.Result
	r.Protocol, r.Seed, r.Hash = o.protocolName(), o.Seed, fmt.Sprintf("%016x", w.hash.Sum64())
	r.Actors, r.Names, r.Companions, r.TTL, r.Weather = o.Actors, o.Names, o.Companions, o.TTL, o.Weather
	r.Faults = slices.Concat(words(*w.faults), words(*o.Clients), words(struct{ Idles, Works bool }{o.Idles, o.Works}))
	r.HandOver, r.TakeOver, r.Fairness = latencyOf(s.handovers), latencyOf(s.takeovers), s.fairness()
	r.Overlaps, r.OverlapsArePromise, r.Violation = w.checker.overlaps, o.promised(), w.checker.found
	r.Timeline = w.holds.told(time.Duration(w.Now + int64(w.life)))
	if r.Holds > 0 {
		r.RequestsPerHold = share(r.Requests, uint64(r.Holds))
	}
	if s.intervals > 0 {
		r.PollsPerInterval = share(s.polls, s.intervals)
	}
	return r
}

// share is a / b to three places, cut, so that every processor says the same.
func share(a, b uint64) float64 { return float64(a*1000/b) / 1000 }

// String is the result for people.
func (r *Result) String() string {
	var b strings.Builder
	line := func(what, format string, args ...any) {
		fmt.Fprintf(&b, "%-18s "+format+"\n", append([]any{what}, args...)...)
	}
	line("protocol", "%s, seed %d, hash %s", r.Protocol, r.Seed, r.Hash)
	ttl := r.TTL.String()
	if r.TTL < 0 {
		ttl = "none"
	}
	line("cast", "%d actors, %d names, %d companions, TTL %s", r.Actors, r.Names, r.Companions, ttl)
	line("weather", "%s: %s", r.Weather, strings.Join(r.Faults, ", "))
	line("played", "%v of virtual time, %d events", r.Virtual.Round(time.Millisecond), r.Events)
	if r.Cut != 0 {
		line("cut", "the bound of events ended the faults at %v, before the duration that was asked for", r.Cut.Round(time.Millisecond))
	}
	line("held", "%d times", r.Holds)
	line("hand-over", "%s", &r.HandOver)
	line("take-over", "%s", &r.TakeOver)
	line("requests", "%d (%s), %.3f per hold, %.3f per waiter and poll interval",
		r.Requests, counts(r.RequestsByVerb), r.RequestsPerHold, r.PollsPerInterval)
	if r.Commits > 0 && r.Holds > 0 {
		line("commits", "%d versions, %.3f per hold", r.Commits, share(uint64(r.Commits), uint64(r.Holds)))
	}
	line("fairness", "%.3f (Jain) over %d turns, longest wait %v, %d actors without a turn",
		r.Fairness.Jain, r.Fairness.Turns, r.Fairness.Longest.Round(time.Millisecond), r.Fairness.Starved)
	line("losses", "%s", counts(r.Losses))
	line("refusals", "%s", counts(r.Refusals))
	switch {
	case r.OverlapsArePromise && r.Overlaps == 0, r.Violation != nil && r.Violation.Invariant == check.NoOverlap:
		line("overlaps", "%d, and none may be", r.Overlaps)
	case r.OverlapsArePromise:
		line("overlaps", "%d pairs of tenures, one of which was broken with now; no others may be", r.Overlaps)
	default:
		line("overlaps", "%d pairs of tenures; this protocol does not promise otherwise in this weather", r.Overlaps)
	}
	if r.Violation != nil {
		fmt.Fprintf(&b, "\n%s is violated by seed %d at %v: %s\nthe last events:\n", r.Violation.Invariant, r.Seed,
			r.Violation.At, r.Violation.Text)
		for _, text := range r.Last {
			b.WriteString(text + "\n")
		}
	}
	return b.String()
}

func (l *Latency) String() string {
	if l.Count == 0 {
		return "none"
	}
	ms := time.Millisecond
	return fmt.Sprintf("%d times, median %v, p99 %v, max %v", l.Count, l.Median.Round(ms), l.P99.Round(ms), l.Max.Round(ms))
}

func counts[N int | uint64](m map[string]N) string {
	if len(m) == 0 {
		return "none"
	}
	parts := make([]string, 0, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, fmt.Sprintf("%s %d", key, m[key]))
	}
	return strings.Join(parts, ", ")
}
