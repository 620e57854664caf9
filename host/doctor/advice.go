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

// conclude writes the findings and the advice. err is why no lease can be kept here, or nil.
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
	if r.Create.honoured() && !r.Capability.Refused && r.Fresh.stale() == 0 && !r.verb("list").Denied && !r.verb("exists").Denied {
		r.Protocol = core.ProtocolStrict.String()
	}
	x.advise()
}

func (x *examiner) findCreate() {
	c, record := &x.report.Create, &x.report.Capability
	switch {
	case x.denied("create") != nil: // see findRights
	case c.Unsupported:
		x.find(true, "create_unsupported", c.text()+": strict and semaphores cannot work here")
	case !c.honoured():
		x.find(true, "two_winners", c.text()+": create-if-absent is not honoured, so strict would not exclude; from now on mopslock refuses strict on this store")
		if !record.Refused {
			x.find(true, "card_unwritten", "the store's card could not be written, so other processes do not learn of this")
		}
	case record.Refused:
		x.find(true, "card_unwritten", "the store's card refuses strict ("+record.Seen+"), and could not be replaced")
	case record.Mended:
		x.find(false, "mended", "the store was refused before, and is refused no more; processes that already run go on as they did")
	}
	if c.Lost > 0 {
		x.find(false, "lost_answers", fmt.Sprintf("in %d of %d rounds no writer was told that it had won, though one had: something between here and the store loses answers, or sends requests twice; mopslock reads back, so this does no harm", c.Lost, c.Rounds))
	}
}

func (x *examiner) findStale() {
	f := &x.report.Fresh
	for _, seen := range []struct {
		Checked
		kind, what string
	}{
		{f.AfterWrite, "stale_list", "lists after a write did not show it"},
		{f.AfterDelete, "stale_list", "lists after a delete still showed it"},
		{f.AfterOverwrite, "stale_read", "reads after an overwrite showed the old object"},
		{f.Exists, "stale_read", "questions whether an object exists were answered wrongly right after a write or a delete"},
	} {
		if seen.Stale > 0 {
			x.find(true, seen.kind, fmt.Sprintf("%d of %d %s: strict needs a store that at once shows each write to which it has said yes; auto does not notice this, so ask for lastwriter", seen.Stale, seen.Tries, seen.what))
		}
	}
}

// findRights names each right that is missing, and what does not work without it.
func (x *examiner) findRights() {
	for _, right := range []struct {
		verb, breaks string
		bad          bool
	}{
		{"put", "no lease can be kept: holders must write", true},
		{"get", "no lease can be kept: holders and waiters must read", true},
		{"create", "strict cannot be had: a claim is a create", true},
		{"exists", "strict cannot be had: a holder asks whether another has claimed", true},
		{"list", "strict cannot be had, nor ls, nor semaphores: mopslock finds the newest claim by a list; grant the right, or ask for lastwriter", true},
		{"delete", "old versions and dead sessions stay in the store forever; leases are safe", false},
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

// smallOffset is how wrong a clock may be before it is a finding.
const smallOffset = 2 * time.Second

func (x *examiner) findClocks() {
	s, c := &x.report.Stamps, &x.report.Clock
	c.Steps, c.Why = store.ClockSteps(x.store)
	if s.Samples == 0 {
		x.find(false, "no_stamps", "the store gives no modification times: a waiter must watch a dead holder's lease for its TTL to find it dead")
	}
	if coarser := s.coarser(); coarser > 0 {
		x.find(!c.Steps, "coarse_stamps", fmt.Sprintf("stamps have a unit of %v, and the driver expects %v: use TTLs of %v and more, and the advised margin",
			time.Duration(max(s.Get, s.List)), time.Duration(s.Unit), core.MinTTLCoarse))
	}
	if spread := time.Duration(s.Spread); spread > core.DefaultSpread && !c.Steps {
		x.find(true, "clocks_disagree", fmt.Sprintf("the clocks of the store's front ends disagree by %v at least, and strict allows %v: use the advised margin, or more",
			spread.Round(time.Millisecond), core.DefaultSpread))
	}
	if off := time.Duration(c.Offset); c.Known && off.Abs()-time.Duration(c.Bound) > smallOffset {
		which := "behind"
		if off > 0 {
			which = "ahead of"
		}
		x.find(false, "clock_offset", fmt.Sprintf("the store's clock is %v %s this machine's, give or take %v: strict compares no clocks, but under lastwriter other machines judge by their own, so set this one right",
			off.Abs().Round(time.Millisecond), which, time.Duration(c.Bound).Round(time.Millisecond)))
	}
}

func (x *examiner) findRest() {
	throttled, unknown, total := 0, 0, 0
	for _, v := range x.report.Verbs {
		throttled, unknown, total = throttled+v.Throttled, unknown+v.Unknown, total+v.Throttled+v.Unknown+v.Answered
	}
	if throttled > 0 {
		x.find(false, "throttled", fmt.Sprintf("%d of %d requests were throttled: this store takes fewer requests, so use sessions and long TTLs", throttled, total))
	}
	if unknown > 0 {
		x.find(false, "unknown", fmt.Sprintf("%d of %d requests had no answer, or an answer that says neither yes nor no", unknown, total))
	}
	x.findLeft()
}

func (x *examiner) findLeft() {
	if x.report.Left > 0 {
		x.find(false, "left_behind", fmt.Sprintf("%d objects below %s could not be deleted; they do no harm", x.report.Left, x.prefix))
	}
}

// Constants of the advice.
const (
	slowShare   = 100 // the TTL is at least so many times a slow renewal
	floorShare  = 10  // the TTL's floor is so many times a slow renewal
	perHour     = 3600
	putUSD      = 0.005 / 1000
	getUSD      = 0.0004 / 1000
	thousand    = 1000
	pollGets    = 2       // the exists and the get of one poll
	earliest    = 6.0 / 5 // renewals come up to so much more often than each third of the TTL
	pollJitter  = 12      // tenths: a poll comes up to 20 % later
	marginRoom  = 5       // quarters of the time by which the front ends disagree
	leastWait   = 100 * time.Millisecond
	ttlRounding = 10 * time.Second
)

// advise chooses terms. A holder believes until ttl - margin, and is judged dead after
// ttl + slop. So the margin must cover what the slop does not.
func (x *examiner) advise() {
	r := x.report
	strict := r.Strict()
	slow := time.Duration(r.verb("put").P99 + r.verb("exists").P99)
	def := core.StrictTTL
	if !strict {
		slow, def = time.Duration(r.verb("put").P99+r.verb("get").P99), core.LastWriterTTL
	}
	floor := core.MinTTL
	if max(r.Stamps.Unit, r.Stamps.Get, r.Stamps.List) >= Seconds(core.CoarseStamp) {
		floor = core.MinTTLCoarse
	}
	a := &Advice{TTLFloor: Seconds(max(floor, roundUp(floorShare*slow, 10*time.Millisecond)))}
	steps := r.Clock.Steps
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

// adviseWaits estimates how long waiters wait.
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

// cost returns the cost of renewals if they come as often as they can.
func cost(ttl time.Duration, strict bool) Cost {
	renewals := perHour / ttl.Seconds() * 3 * earliest
	c := Cost{Puts: math.Round(renewals), Gets: math.Round(renewals), USD: usd(renewals, renewals)}
	if c.Thousand = c.USD; !strict {
		c.Thousand = usd(thousand*renewals, thousand*renewals)
	}
	return c
}

// USD returns what requests cost at S3's list prices. puts counts puts, creates and lists;
// gets counts gets and exists.
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

// Brief returns a duration as a person types it: 90s, and not 1m30s.
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
