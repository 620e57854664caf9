package doctor

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/store"
)

// conclude says what was found, and what to do. err is why nothing can be kept here.
func (x *examiner) conclude(err error) {
	x.summarize()
	x.judgeStamps()
	r := x.report
	if err != nil {
		r.Protocol = "none"
		x.findRights()
		x.findLeft()
		return
	}
	x.findCreate()
	x.findStale()
	x.findRights()
	x.findClocks()
	x.findRest()
	slices.SortStableFunc(r.Findings, func(a, b Finding) int {
		switch {
		case a.Bad == b.Bad:
			return 0
		case a.Bad:
			return -1
		}
		return 1
	})
	r.Protocol = core.ProtocolLastWriter.String()
	if r.Create.honoured() && !r.Card.Refused && r.Fresh.stale() == 0 && !r.verb("list").Denied && !r.verb("exists").Denied {
		r.Protocol = core.ProtocolStrict.String()
	}
	x.advise()
}

func (x *examiner) findCreate() {
	c, card := &x.report.Create, &x.report.Card
	switch {
	case x.denied("create") != nil: // see findRights
	case c.Unsupported:
		x.find(true, "create_unsupported", c.text()+": strict cannot be had here, nor semaphores")
	case !c.honoured():
		x.find(true, "two_winners", c.text()+": create-if-absent is not honoured, so strict would exclude nobody; whoever asks for strict is refused here from now on")
		if !card.Refused {
			x.find(true, "card_unwritten", "the store's card could not be written, so others are not told of it")
		}
	case card.Refused:
		x.find(true, "card_unwritten", "the store's card refuses it ("+card.Seen+"), and could not be replaced")
	case card.Mended:
		x.find(false, "mended", "the store was refused before, and is no more; processes that run already go on as they were")
	}
	if c.Lost > 0 {
		x.find(false, "lost_answers", fmt.Sprintf("in %d of %d rounds nobody was told that he had won, though one had: something on the way loses answers, or sends requests twice; mopslock reads back, so it does no harm", c.Lost, c.Rounds))
	}
}

func (x *examiner) findStale() {
	f := &x.report.Fresh
	for _, seen := range []struct {
		Checked
		kind, what string
	}{
		{f.AfterWrite, "stale_list", "lists after a write did not show it"},
		{f.AfterDelete, "stale_list", "lists after a delete showed it still"},
		{f.AfterOverwrite, "stale_read", "reads after an overwrite showed the old object"},
		{f.Exists, "stale_read", "looks whether an object is there were wrong right after a write or a delete"},
	} {
		if seen.Stale > 0 {
			x.find(true, seen.kind, fmt.Sprintf("%d of %d %s: strict needs a store that shows what it has said yes to; auto does not know of it, so ask for lastwriter", seen.Stale, seen.Tries, seen.what))
		}
	}
}

// findRights names each right that is missing as what it breaks.
func (x *examiner) findRights() {
	for _, right := range []struct {
		verb, breaks string
		bad          bool
	}{
		{"put", "no lease can be kept: holders must write", true},
		{"get", "no lease can be kept: everybody must read", true},
		{"create", "strict cannot be had: claims must be created", true},
		{"exists", "strict cannot be had: holders look whether somebody else has claimed", true},
		{"list", "strict cannot be had, and ls and semaphores neither: the newest claim is found by a list; grant it, or ask for lastwriter", true},
		{"delete", "old versions and dead sessions stay in the store for ever; leases are safe", false},
	} {
		denied := x.denied(right.verb)
		if denied == nil {
			continue
		}
		kind := "no_" + right.verb + "_right"
		if denied.Class == core.ClassReadOnly {
			kind = "read_only"
		}
		x.find(right.bad, kind, right.verb+" is denied ("+denied.Class.String()+"): "+right.breaks)
	}
}

// smallOffset is how wrong a clock may be before it is worth a word.
const smallOffset = 2 * time.Second

func (x *examiner) findClocks() {
	s, c := &x.report.Stamps, &x.report.Clock
	_, steps := x.store.(store.SteppingClock)
	if s.Samples == 0 {
		x.find(false, "no_stamps", "the store tells no modification times: a dead holder's lease is found dead by watching it for its TTL")
	}
	if coarser := s.coarser(); coarser > 0 {
		x.find(!steps, "coarse_stamps", fmt.Sprintf("stamps come in units of %v, and the driver counts on %v: use TTLs of %v and more, and the margin that is advised",
			time.Duration(max(s.Get, s.List)), time.Duration(s.Unit), core.MinTTLCoarse))
	}
	if spread := time.Duration(s.Spread); spread > core.DefaultSpread && !steps {
		x.find(true, "clocks_disagree", fmt.Sprintf("the clocks of the store's front doors disagree by %v at least, and %v is allowed for: use the margin that is advised, or more",
			spread.Round(time.Millisecond), core.DefaultSpread))
	}
	if off := time.Duration(c.Offset); c.Known && off.Abs()-time.Duration(c.Bound) > smallOffset {
		which := "behind"
		if off > 0 {
			which = "ahead of"
		}
		x.find(false, "clock_offset", fmt.Sprintf("the store's clock is %v %s this machine's, give or take %v: strict compares no clocks, but under lastwriter others judge by theirs, so set this one right",
			off.Abs().Round(time.Millisecond), which, time.Duration(c.Bound).Round(time.Millisecond)))
	}
}

func (x *examiner) findRest() {
	throttled, unknown, total := 0, 0, 0
	for _, v := range x.report.Verbs {
		throttled, unknown, total = throttled+v.Throttled, unknown+v.Unknown, total+v.Throttled+v.Unknown+v.Answered
	}
	if throttled > 0 {
		x.find(false, "throttled", fmt.Sprintf("%d of %d requests were throttled: it is a store that wants to be asked less often, so use sessions and long TTLs", throttled, total))
	}
	if unknown > 0 {
		x.find(false, "unknown", fmt.Sprintf("%d of %d requests had no answer, or none that says yes or no", unknown, total))
	}
	x.findLeft()
}

func (x *examiner) findLeft() {
	if x.report.Left > 0 {
		x.find(false, "left_behind", fmt.Sprintf("%d objects below %s could not be deleted; they do no harm", x.report.Left, x.prefix))
	}
}

// Of the advice.
const (
	slowShare   = 100 // the TTL is at least so many times a slow renewal
	floorShare  = 10  // and its floor so many times
	perHour     = 3600
	putUSD      = 0.005 / 1000
	getUSD      = 0.0004 / 1000
	thousand    = 1000
	pollGets    = 2       // exists and get of one poll
	earliest    = 6.0 / 5 // renewals come up to so much more often than each third of the TTL
	pollJitter  = 12      // tenths: a poll comes up to 20 % later
	marginRoom  = 5       // quarters: of what the front doors disagree by
	leastWait   = 100 * time.Millisecond
	ttlRounding = 10 * time.Second
)

// advise chooses terms. What slop does not allow for, the margin has to: a holder
// believes until ttl - margin, and is judged dead after ttl + slop.
func (x *examiner) advise() {
	r := x.report
	strict := r.Strict()
	slow := time.Duration(r.verb("put").P99 + r.verb("exists").P99)
	def := core.DefaultStrictTTL
	if !strict {
		slow, def = time.Duration(r.verb("put").P99+r.verb("get").P99), core.DefaultTTL
	}
	floor := core.MinTTL
	if max(r.Stamps.Unit, r.Stamps.Get, r.Stamps.List) >= Seconds(core.CoarseStamp) {
		floor = core.MinTTLCoarse
	}
	a := &Advice{TTLFloor: Seconds(max(floor, roundUp(floorShare*slow, 10*time.Millisecond)))}
	_, steps := x.store.(store.SteppingClock)
	margin := time.Duration(0)
	if !steps {
		margin = r.Stamps.coarser() + max(0, time.Duration(r.Stamps.Spread)-core.DefaultSpread)*marginRoom/4
	}
	ttl := def
	for _, least := range []time.Duration{time.Duration(a.TTLFloor), slowShare * slow, 4 * margin} {
		if least > ttl {
			ttl = roundUp(least, ttlRounding)
		}
	}
	ttl = min(ttl, core.MaxTTL)
	if margin > 0 {
		margin = roundUp(margin+2*ttl/core.RateInverse, time.Second)
	}
	a.TTL, a.Margin = Seconds(ttl), Seconds(min(max(margin, ttl/core.MarginShare), ttl*9/20))
	if !strict {
		a.AcquireMargin = Seconds(min(max(leastWait, roundUp(2*slow, 10*time.Millisecond)), ttl/2))
	}
	a.Command = a.command(r.Protocol)
	a.Cost = cost(ttl, strict)
	x.adviseWaits(a, ttl, steps)
	r.Advice = a
}

// adviseWaits says how long others wait.
func (x *examiner) adviseWaits(a *Advice, ttl time.Duration, steps bool) {
	r := x.report
	poll := min(core.PollCap, max(core.PollCapFloor, ttl/8))
	a.Handover = Seconds(poll*pollJitter/10) + Seconds(r.verb("exists").P99+r.verb("list").P99+r.verb("create").P99)
	if !r.Strict() {
		a.Handover = Seconds(poll*pollJitter/10) + Seconds(2*(r.verb("get").P99+r.verb("put").P99)) + a.AcquireMargin
	}
	_, a.Watched = x.store.(store.Watcher)
	local, ok := x.store.(store.Orderly)
	orderly := ok && local.Orderly()
	switch {
	case !r.Strict():
		a.TakeOver = a.Handover + Seconds(ttl)
	case !steps && r.Stamps.Samples > 0:
		a.TakeOver = a.Handover + Seconds(ttl+core.DefaultSpread) + r.Stamps.Unit
	case orderly: // by the clock of the boot, on one machine
		a.TakeOver = a.Handover + Seconds(ttl)
	default:
		a.TakeOver = a.Handover + Seconds(2*ttl)
	}
	polls := pollGets * perHour / poll.Seconds()
	a.Cost.Polls, a.Cost.PollsUSD = math.Round(polls), usd(0, polls)
}

// cost is that of renewals as often as they can come.
func cost(ttl time.Duration, strict bool) Cost {
	renewals := perHour / ttl.Seconds() * 3 * earliest
	c := Cost{Puts: math.Round(renewals), Gets: math.Round(renewals), USD: usd(renewals, renewals)}
	if c.Thousand = c.USD; !strict {
		c.Thousand = usd(thousand*renewals, thousand*renewals)
	}
	return c
}

// USD is what requests cost at S3's list prices: puts, creates and lists, and gets and
// looks whether an object exists.
func USD(puts, gets float64) float64 { return puts*putUSD + gets*getUSD }

func usd(puts, gets float64) float64 { return math.Round(USD(puts, gets)*1e6) / 1e6 }

func (a *Advice) command(protocol string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "mopslock-host run --protocol %s --ttl %s --margin %s", protocol, Brief(time.Duration(a.TTL)), Brief(time.Duration(a.Margin)))
	if a.AcquireMargin > 0 {
		fmt.Fprintf(&b, " --acquire-margin %s", Brief(time.Duration(a.AcquireMargin)))
	}
	return b.String() + " NAME -- CMD"
}

// Brief is a duration as one types it: 90s, and not 1m30s.
func Brief(d time.Duration) string {
	if d >= time.Second && d < time.Hour && d%time.Millisecond == 0 {
		return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.3f", d.Seconds()), "0"), ".") + "s"
	}
	return d.String()
}

func roundUp(d, unit time.Duration) time.Duration {
	if over := d % unit; over > 0 {
		return d - over + unit
	}
	return d
}
