package doctor

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/mopslock/mopslock/core"
)

// Milliseconds is a duration that JSON has as milliseconds, with microseconds as
// its fraction.
type Milliseconds time.Duration

// Seconds is a duration that JSON has as seconds.
type Seconds time.Duration

// MarshalJSON implements json.Marshaler.
func (m Milliseconds) MarshalJSON() ([]byte, error) {
	return json.Marshal(math.Round(float64(m)/float64(time.Microsecond)) / 1e3)
}

// MarshalJSON implements json.Marshaler.
func (s Seconds) MarshalJSON() ([]byte, error) {
	return json.Marshal(time.Duration(s).Seconds())
}

// Report is what an examination has found. Its JSON is for programmes: keys stay as
// they are, and have their unit in their name (_ms, _s, _usd).
type Report struct {
	// Reached is how long the first answer took; 0: there was none.
	Reached Milliseconds `json:"reached_ms"`
	// Verbs are get, put, create, exists, list and delete.
	Verbs  []Verb `json:"verbs"`
	Create Create `json:"create"`
	Fresh  Fresh  `json:"fresh"`
	Stamps Stamps `json:"stamps"`
	Clock  Clock  `json:"clock"`
	Card   Card   `json:"card"`
	// Findings are what is not as it should be, or worth to know, the worst first.
	Findings []Finding `json:"findings"`
	// Protocol is by which leases can be kept: "strict", "lastwriter", which does not
	// exclude for certain, or "none".
	Protocol string  `json:"protocol"`
	Advice   *Advice `json:"advice,omitempty"` // nil if Protocol is none
	// Left is how many objects could not be deleted; they lie below Prefix.
	Left int `json:"left_behind"`
}

// Verb is how one verb was answered.
type Verb struct {
	Verb string `json:"verb"`
	// Answered is how many requests were. Timed is of how many P50 and P99 are: those
	// that were asked one after the other, and of creates those told yes.
	Answered int          `json:"answered"`
	Timed    int          `json:"timed"`
	P50      Milliseconds `json:"p50_ms"`
	P99      Milliseconds `json:"p99_ms"`
	// Unknown is how many had no answer, Throttled how many were told to come later.
	Unknown   int `json:"unknown"`
	Throttled int `json:"throttled"`
	// Denied: the credentials do not allow it.
	Denied bool `json:"denied"`
}

// Create is what was seen of create-if-absent.
type Create struct {
	// Unsupported: the store says that it does not know it.
	Unsupported bool `json:"unsupported"`
	// Rounds of the race in which at least one was answered, each of Writers.
	Rounds  int `json:"rounds"`
	Writers int `json:"writers"`
	// Doubled is in how many of them more than one has won, MostWinners how many at most.
	Doubled     int `json:"rounds_with_two_winners"`
	MostWinners int `json:"most_winners"`
	// Lost is in how many of them nobody was told yes, and an object was made all
	// the same: the answer was lost, or was one to a request that was sent twice.
	Lost int `json:"rounds_with_lost_answer"`
	// Unknown is how many writers were told nothing.
	Unknown int `json:"unknown"`
	// Over is how often an object was created where one was, Overwrote how often that
	// was answered with yes.
	Over      int `json:"over_object"`
	Overwrote int `json:"over_object_told_yes"`
}

// honoured reports whether nothing speaks against it.
func (c *Create) honoured() bool {
	return !c.Unsupported && c.Doubled == 0 && c.Overwrote == 0 && c.Rounds > 0
}

// text is what speaks against create-if-absent, for the card and for people.
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

// Fresh is whether the store shows what it has said yes to.
type Fresh struct {
	AfterWrite     Checked `json:"list_after_write"`
	AfterDelete    Checked `json:"list_after_delete"`
	AfterOverwrite Checked `json:"read_after_overwrite"`
	Exists         Checked `json:"exists_after_write_or_delete"`
}

// stale is how often it did not.
func (f *Fresh) stale() int {
	return f.AfterWrite.Stale + f.AfterDelete.Stale + f.AfterOverwrite.Stale + f.Exists.Stale
}

// Checked is how often it was looked, and how often what was seen was stale.
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
	// Samples is how many stamps were looked at; 0: the store tells none.
	Samples int `json:"samples"`
	// Unit is in which resolution the driver counts on them, and shows them.
	Unit Seconds `json:"unit_s"`
	// Get and List are the coarsest unit of which all of them were multiples.
	Get  Seconds `json:"get_unit_s"`
	List Seconds `json:"list_unit_s"`
	// Spread is how far the clocks behind them disagree at least; 0: they can be one.
	Spread Seconds `json:"spread_s"`
}

// coarseFrom is what would be noticed beside what is allowed for anyway.
const coarseFrom = core.DefaultSpread / 10

// coarser is how much coarser the stamps are than their driver counts on.
func (s *Stamps) coarser() time.Duration {
	coarser := time.Duration(max(s.Get, s.List) - s.Unit)
	if s.Samples < leastTries || coarser < coarseFrom { // so few may look so by chance
		return 0
	}
	return coarser
}

// Clock is how far the store's clock is before this machine's wall clock, give or
// take Bound; behind it, if negative.
type Clock struct {
	Known  bool    `json:"known"`
	Offset Seconds `json:"offset_s"`
	Bound  Seconds `json:"bound_s"`
}

// Card is what stands on the store's card in the end.
type Card struct {
	// Refused: the store is strict for nobody until a doctor finds it mended.
	Refused bool `json:"refused"`
	// Seen is why, and when that was.
	Seen string `json:"seen"`
	// Mended: it was refused, and this examination has taken that back.
	Mended bool `json:"mended"`
}

// Finding is one thing that is not as it should be, or worth to know.
type Finding struct {
	// Kind is a word that stays the same.
	Kind string `json:"kind"`
	// Bad: leases cannot be kept as they ought to because of it.
	Bad  bool   `json:"bad"`
	Text string `json:"text"`
}

func (x *examiner) find(bad bool, kind, text string) {
	x.report.Findings = append(x.report.Findings, Finding{kind, bad, text})
}

// Advice is which terms fit, and what they cost. Each command takes them as flags.
type Advice struct {
	// TTLFloor is the shortest TTL that is of use here; TTL is the one to begin with.
	TTLFloor Seconds `json:"ttl_floor_s"`
	TTL      Seconds `json:"ttl_s"`
	Margin   Seconds `json:"margin_s"`
	// AcquireMargin is lastwriter's; 0 under strict.
	AcquireMargin Seconds `json:"acquire_margin_s"`
	// Command is them as a command line, without --store.
	Command string `json:"command"`
	Cost    Cost   `json:"cost"`
	// Handover is how long whoever waits elsewhere hears of a release at most, when he
	// has waited for long; TakeOver after how long at most a dead holder's lease is
	// another's.
	Handover Seconds `json:"handover_s"`
	TakeOver Seconds `json:"take_over_s"`
	// Watched: file events tell of a release at once, on one machine.
	Watched bool `json:"file_events"`
}

// Cost is an estimate of what leases ask of the store, at most, in requests an hour,
// and what that costs in US$ at S3's list prices (PUT and LIST 0.005, GET and HEAD
// 0.0004 per 1,000); other stores have others.
type Cost struct {
	// Puts and Gets are of one held lease; GET-class requests: get and exists.
	Puts float64 `json:"lease_put_per_hour"`
	Gets float64 `json:"lease_get_per_hour"`
	USD  float64 `json:"lease_usd_per_hour"`
	// Thousand is of 1,000 leases in one process: under strict all of them on one
	// session, under lastwriter each by itself.
	Thousand float64 `json:"thousand_leases_usd_per_hour"`
	// Polls is how many GET-class requests a waiter makes an hour.
	Polls    float64 `json:"waiter_get_per_hour"`
	PollsUSD float64 `json:"waiter_usd_per_hour"`
}

// summarize fills in the verbs.
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

// Quantile is the smallest of sorted durations that so many of a hundred are not above,
// and 0 of none.
func Quantile(sorted []time.Duration, percent int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[(len(sorted)*percent+99)/100-1]
}

// verb is one of the report's verbs.
func (r *Report) verb(name string) Verb {
	i := slices.IndexFunc(r.Verbs, func(v Verb) bool { return v.Verb == name })
	if i < 0 {
		return Verb{}
	}
	return r.Verbs[i]
}

// Strict reports whether strict can be relied on here.
func (r *Report) Strict() bool { return r.Protocol == core.ProtocolStrict.String() }
