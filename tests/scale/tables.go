package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/mopslock/mopslock/core"
)

// tableText is a table under way.
type tableText struct{ strings.Builder }

func tableOf(head ...string) *tableText {
	t := &tableText{}
	t.row(head...)
	t.row(strings.Split(strings.Repeat("---,", len(head)-1)+"---", ",")...)
	return t
}

func (t *tableText) row(cells ...string) { fmt.Fprintf(t, "| %s |\n", strings.Join(cells, " | ")) }

func steady(rows []*outcome) string {
	t := tableOf("store", "TTL", "limit of a partition, writes / reads a second", "asked of the busiest", "throttled, writes / reads", "renewals late, p50 · p99 · most", "least left", "leases lost", "held at the end", "US$ an hour")
	for _, r := range rows {
		s := &r.stats
		t.row(r.plan.name(), brief(r.plan.ttl), r.plan.cloud.limits(), r.busiest(), r.throttled(), s.late.of(50, 99, 100), r.least(), number(s.losses), number(s.holding), fmt.Sprintf("%.2f", r.usd()))
	}
	return t.String()
}

func requests(rows []*outcome) string {
	t := tableOf("store", "TTL", "requests a second")
	for _, r := range rows {
		var verbs []string
		for _, verb := range []core.ActionKind{core.ActionPut, core.ActionCreate, core.ActionList, core.ActionGet, core.ActionExists, core.ActionDelete} {
			if n := r.stats.verbs[verb]; n > 0 {
				verbs = append(verbs, number(r.perSecond(n))+" "+verb.String())
			}
		}
		t.row(r.plan.name(), brief(r.plan.ttl), strings.Join(verbs, " · "))
	}
	return t.String()
}

func waits(rows []*outcome) string {
	t := tableOf("store", "TTL", "limit", "asked of the busiest", "throttled, writes / reads", "hand-over, p50 · p90 · p99 (how many)", "take-over, p50 · p99 · most (how many)", "a free name, p50 · p99", "renewals late, p99 · most", "least left", "leases lost", "US$ an hour")
	for _, r := range rows {
		s := &r.stats
		t.row(r.plan.name(), brief(r.plan.ttl), r.plan.cloud.limits(), r.busiest(), r.throttled(),
			s.handover.of(50, 90, 99)+" ("+number(len(s.handover))+")", s.takeover.of(50, 99, 100)+" ("+number(len(s.takeover))+")", s.acquired.of(50, 99),
			s.late.of(99, 100), r.least(), number(s.losses), fmt.Sprintf("%.2f", r.usd()))
	}
	return t.String()
}

func starts(rows []*outcome) string {
	t := tableOf("store", "they begin within", "held by half · 90 % · 99 % · all after", "held at the end", "refused", "throttled, writes / reads", "a name, p50 · p99", "leases lost", "most requests in a second", "most writes in a second of each of the last 3 minutes")
	for _, r := range rows {
		s := &r.stats
		var when []string
		for _, d := range s.mostly {
			when = append(when, after(d))
		}
		t.row(r.plan.name(), brief(r.plan.within), strings.Join(when, " · "), number(s.holding), number(s.refusals), r.throttled(), s.acquired.of(50, 99), number(s.losses),
			number(s.busiestSecond(0, r.plan.end(), (*second).all)), r.minutes(r.plan.end()-startMinutes*time.Minute, startMinutes))
	}
	return t.String()
}

func outages(rows []*outcome) string {
	t := tableOf("store", "limit", "leases lost", "least left", "renewals late, p99 · most", "most writes in a second before", "in the 30 s after", "throttled in the 30 s after", "in each of the 4 minutes after that", "of one session in a second")
	for _, r := range rows {
		s, back := &r.stats, r.plan.outageFrom()+r.plan.outage
		throttled := int64(0)
		for i := int(back / time.Second); i < min(len(s.series), int((back+backWithin)/time.Second)); i++ {
			throttled += int64(s.series[i].throttled)
		}
		t.row(r.plan.name(), r.plan.cloud.limits(), number(s.losses), r.least(), s.late.of(99, 100),
			number(s.busiestSecond(r.plan.from(), r.plan.outageFrom(), (*second).writes)), number(s.busiestSecond(back, back+backWithin, (*second).writes)),
			number(throttled), r.minutes(back+backWithin, outageMinutes), number(s.busiest))
	}
	return t.String()
}

// minutes is the most writes in a second of each of so many minutes.
func (r *outcome) minutes(from time.Duration, n int) string {
	var texts []string
	for i := range n {
		at := from + time.Duration(i)*time.Minute
		texts = append(texts, number(r.stats.busiestSecond(at, at+time.Minute, (*second).writes)))
	}
	return strings.Join(texts, " · ")
}

// throttled are the shares of writes and of reads that were told to come later.
func (r *outcome) throttled() string {
	s := &r.stats
	return share(s.throttled[0], s.asked[0]) + " / " + share(s.throttled[1], s.asked[1])
}

// busiest is the most that a partition was asked for in a second.
func (r *outcome) busiest() string {
	return number(r.stats.peak[0]) + " / " + number(r.stats.peak[1])
}

// limits are those of a partition.
func (c *cloud) limits() string {
	if c.all > 0 {
		return number(c.all) + " in all"
	}
	return number(c.writes) + " / " + number(c.reads)
}

// least is the least that was left to a deadline in force: nothing, where a session
// was lost.
func (r *outcome) least() string {
	if r.stats.dead > 0 {
		return "0, lost"
	}
	return brief(r.stats.left.least())
}

func latencies() string {
	t := tableOf("ms, p50 · p90 · p99 · p99.9", "S3", "GCS", "Azure")
	for i, verb := range []string{"put, create, delete", "get, exists", "list"} {
		cells := []string{verb}
		for _, c := range []cloud{s3, gcs, azure} {
			l := []latency{c.put, c.get, c.list}[i]
			cells = append(cells, fmt.Sprintf("%d · %d · %d · %d", l.p50.Milliseconds(), l.p90.Milliseconds(), l.p99.Milliseconds(), l.p999.Milliseconds()))
		}
		t.row(cells...)
	}
	return t.String()
}
