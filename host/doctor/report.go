package doctor

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/mopslock/mopslock/core"
)

// Milliseconds is a duration. In JSON it is a number of milliseconds, with microseconds
// as its fraction.
type Milliseconds time.Duration

// Seconds is a duration. In JSON it is a number of seconds.
type Seconds time.Duration

// MarshalJSON implements json.Marshaler.
func (m Milliseconds) MarshalJSON() ([]byte, error) {
	return json.Marshal(math.Round(float64(m)/float64(time.Microsecond)) / 1e3)
}

// MarshalJSON implements json.Marshaler.
func (s Seconds) MarshalJSON() ([]byte, error) {
	return json.Marshal(time.Duration(s).Seconds())
}

// Report is the result of an examination. Its JSON is for programs: keys do not change,
// and have their unit in their name (_ms, _s, _usd).
type Report struct {
	// Reached is how long the first answer took. 0 means that there was none.
	Reached Milliseconds `json:"reached_ms"`
	// Verbs are get, put, create, exists, list and delete.
	Verbs      []Verb     `json:"verbs"`
	Create     Create     `json:"create"`
	Fresh      Fresh      `json:"fresh"`
	Stamps     Stamps     `json:"stamps"`
	Clock      Clock      `json:"clock"`
	Capability Capability `json:"card"`
	// Findings are the faults, and facts that are worth knowing, the worst first.
	Findings []Finding `json:"findings"`
	// Protocol is the protocol that can keep leases here: "strict", "lastwriter", which
	// does not exclude for certain, or "none".
	Protocol string  `json:"protocol"`
	Advice   *Advice `json:"advice,omitempty"` // nil if Protocol is none
	// Left is how many objects below Prefix could not be deleted.
	Left int `json:"left_behind"`
}

// Verb is how the store answered one verb.
type Verb struct {
	Verb string `json:"verb"`
	// Answered is how many requests were answered. P50 and P99 are of Timed requests:
	// those that were in flight alone, and of creates those that were told yes.
	Answered int          `json:"answered"`
	Timed    int          `json:"timed"`
	P50      Milliseconds `json:"p50_ms"`
	P99      Milliseconds `json:"p99_ms"`
	// Unknown is how many had no answer, Throttled how many were throttled.
	Unknown   int `json:"unknown"`
	Throttled int `json:"throttled"`
	// Denied: the credentials do not allow this verb.
	Denied bool `json:"denied"`
}

// Create is what was seen of create-if-absent.
type Create struct {
	// Unsupported: the store says that it does not support create-if-absent.
	Unsupported bool `json:"unsupported"`
	// Rounds counts the races in which at least two writers were answered. Each race
	// has Writers.
	Rounds  int `json:"rounds"`
	Writers int `json:"writers"`
	// Doubled counts the rounds that more than one writer won. MostWinners is the
	// greatest number of winners in a round.
	Doubled     int `json:"rounds_with_two_winners"`
	MostWinners int `json:"most_winners"`
	// Lost counts the rounds in which no writer was told yes although an object was
	// made: the answer was lost, or the request was sent twice.
	Lost int `json:"rounds_with_lost_answer"`
	// Unknown counts the writers that had no answer.
	Unknown int `json:"unknown"`
	// Over counts the creates over an object, and Overwrote those of them that were
	// told yes.
	Over      int `json:"over_object"`
	Overwrote int `json:"over_object_told_yes"`
}

// honoured reports whether the store passed every test of create-if-absent.
func (c *Create) honoured() bool {
	return !c.Unsupported && c.Doubled == 0 && c.Overwrote == 0 && c.Rounds > 0
}

// text says which test of create-if-absent the store failed, for the capability record and for people.
func (c *Create) text() string {
	n := strconv.Itoa
	switch {
	case c.Unsupported:
		return "the store says that it does not know create-if-absent"
	case c.Doubled > 0:
		return n(c.MostWinners) + " of " + n(c.Writers) + " writers were told they won, in " + n(c.Doubled) + " of " + n(c.Rounds) + " rounds"
	case c.Overwrote > 0:
		return n(c.Overwrote) + " of " + n(c.Over) + " creates over an object were told yes"
	}
	return ""
}

// Fresh says whether the store shows the writes to which it has said yes.
type Fresh struct {
	AfterWrite     Checked `json:"list_after_write"`
	AfterDelete    Checked `json:"list_after_delete"`
	AfterOverwrite Checked `json:"read_after_overwrite"`
	Exists         Checked `json:"exists_after_write_or_delete"`
}

// stale returns how often the store did not show them.
func (f *Fresh) stale() int {
	return f.AfterWrite.Stale + f.AfterDelete.Stale + f.AfterOverwrite.Stale + f.Exists.Stale
}

// Checked counts how often the doctor looked, and how often the answer was stale.
type Checked struct {
	Tries int `json:"tries"`
	Stale int `json:"stale"`
}

func (c *Checked) add(fresh bool) {
	c.Tries++
	if !fresh {
		c.Stale++
	}
}

// Stamps is what was seen of the store's modification times.
type Stamps struct {
	// Samples is how many stamps were seen. 0 means that the store gives none.
	Samples int `json:"samples"`
	// Unit is the resolution that the driver expects, and in which it gives stamps.
	Unit Seconds `json:"unit_s"`
	// Get and List are the coarsest unit of which all stamps were multiples.
	Get  Seconds `json:"get_unit_s"`
	List Seconds `json:"list_unit_s"`
	// Spread is how far the clocks behind the stamps disagree at least. 0 means that
	// they can be one clock.
	Spread Seconds `json:"spread_s"`
}

// coarseFrom is the least difference that matters: the slop anyway covers less.
const coarseFrom = core.DefaultSpread / 10

// coarser returns how much coarser the stamps are than the driver expects.
func (s *Stamps) coarser() time.Duration {
	coarser := time.Duration(max(s.Get, s.List) - s.Unit)
	if s.Samples < leastTries || coarser < coarseFrom { // so few samples may look coarse by chance
		return 0
	}
	return coarser
}

// Clock says how far the store's clock is ahead of this machine's wall clock, give or
// take Bound. A negative Offset means behind.
type Clock struct {
	Known  bool    `json:"known"`
	Offset Seconds `json:"offset_s"`
	Bound  Seconds `json:"bound_s"`
	// Steps: somebody may set it while leases are held, so no lease is judged dead by it.
	Steps bool `json:"may_step"`
	// Why we think so, or not.
	Why string `json:"why"`
}

// Capability is what the store's capability record says after the examination.
type Capability struct {
	// Refused: no process uses strict here until a doctor finds the store mended.
	Refused bool `json:"refused"`
	// Seen is why, and when that was seen.
	Seen string `json:"seen"`
	// Mended: the capability record refused the store, and this examination replaced it.
	Mended bool `json:"mended"`
}

// Finding is one fault, or one fact that is worth knowing.
type Finding struct {
	// Kind is a word that does not change.
	Kind string `json:"kind"`
	// Bad: because of it leases cannot be kept as they should be.
	Bad  bool   `json:"bad"`
	Text string `json:"text"`
}

func (x *examiner) find(bad bool, kind, text string) {
	x.report.Findings = append(x.report.Findings, Finding{kind, bad, text})
}

// Advice is the terms that fit, and what they cost. Each command takes them as flags.
type Advice struct {
	// TTLFloor is the shortest TTL that is useful here. TTL is the one to begin with.
	TTLFloor Seconds `json:"ttl_floor_s"`
	TTL      Seconds `json:"ttl_s"`
	Margin   Seconds `json:"margin_s"`
	// AcquireMargin is for lastwriter; it is 0 under strict.
	AcquireMargin Seconds `json:"acquire_margin_s"`
	// Command is a command line with these terms, without --store.
	Command string `json:"command"`
	Cost    Cost   `json:"cost"`
	// Handover is the longest time from a release until a waiter elsewhere that has
	// waited for long learns of it. TakeOver is the longest time from a holder's death
	// until another holds the lease.
	Handover Seconds `json:"handover_s"`
	TakeOver Seconds `json:"take_over_s"`
	// Watched: on one machine, file events tell of a release at once.
	Watched bool `json:"file_events"`
}

// Cost estimates how many requests leases make at most in an hour, and what those cost
// in US$ at S3's list prices (PUT and LIST 0.005, GET and HEAD 0.0004 per 1,000). Other
// stores have other prices.
type Cost struct {
	// Puts, Gets and USD are of one held lease. Gets counts get and exists.
	Puts float64 `json:"lease_put_per_hour"`
	Gets float64 `json:"lease_get_per_hour"`
	USD  float64 `json:"lease_usd_per_hour"`
	// Thousand is of 1,000 leases in one process: under strict all of them are on one
	// session, under lastwriter each is by itself.
	Thousand float64 `json:"thousand_leases_usd_per_hour"`
	// Polls is how many gets and exists a waiter makes in an hour.
	Polls    float64 `json:"waiter_get_per_hour"`
	PollsUSD float64 `json:"waiter_usd_per_hour"`
}

// summarize fills in the report's verbs.
func (x *examiner) summarize() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, verb := range []string{"get", "put", "create", "exists", "list", "delete"} {
		t := x.tallyOf(verb)
		slices.Sort(t.took)
		x.report.Verbs = append(x.report.Verbs, Verb{
			Verb: verb, Answered: t.answered, Timed: len(t.took), P50: Milliseconds(Quantile(t.took, 50)), P99: Milliseconds(Quantile(t.took, 99)),
			Unknown: t.unknown, Throttled: t.throttled, Denied: t.denied != nil,
		})
	}
}

// Quantile returns the smallest of sorted durations that percent of them do not exceed. It
// returns 0 for none.
func Quantile(sorted []time.Duration, percent int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[(len(sorted)*percent+99)/100-1]
}

// verb returns one of the report's verbs.
func (r *Report) verb(name string) Verb {
	i := slices.IndexFunc(r.Verbs, func(v Verb) bool { return v.Verb == name })
	if i < 0 {
		return Verb{}
	}
	return r.Verbs[i]
}

// Strict reports whether strict can be relied on here.
func (r *Report) Strict() bool { return r.Protocol == core.ProtocolStrict.String() }
