package main

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mopslock/mopslock/core"
)

// page is the report as it is written.
type page struct {
	bytes.Buffer
	options  *options
	outcomes map[string]*outcome
	all      []*outcome
}

func report(o *options, outcomes []*outcome) []byte {
	p := &page{options: o, outcomes: map[string]*outcome{}, all: outcomes}
	for _, r := range outcomes {
		p.outcomes[r.plan.key] = r
	}
	p.say("# A simulated fleet: %s processes, %s leases\n", number(o.orchestrators), number(o.leases))
	p.say("The core's real clients run in virtual time, against stores with the latency and the documented rate limits of clouds. `make scale` writes this page.\n")
	p.verdict()
	if o.shrunk {
		p.say("\nThis is a smaller fleet, against smaller limits of partitions: for %s orchestrators multiply everything by %s. The limits of one object stay whole.", number(fullSize), strconv.FormatFloat(fullSize/float64(o.orchestrators), 'g', 4, 64))
	}
	if slices.ContainsFunc(outcomes, func(r *outcome) bool { return r.plan.tenth }) {
		p.say("\nRows with %s, in which a fleet breaks down or which last for an hour, simulate a tenth of the fleet against a tenth of each limit: multiply their counts by 10. The limits of one object stay whole.", tenthMark)
		p.say("In the list above, requests and money are multiplied already; lost leases are of those that were simulated. `-whole` simulates these rows at full size.")
	}
	for t, section := range [tableCount]func([]*outcome){p.steady, p.waits, p.starts, p.outages} {
		if rows := p.in(table(t)); len(rows) > 0 {
			section(rows)
		}
	}
	p.advice()
	p.assumed()
	return p.Bytes()
}

func (p *page) say(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

// row is one of a table.
func (p *page) row(cells ...string) { p.say("| %s |", strings.Join(cells, " | ")) }

func (p *page) head(cells ...string) {
	p.row(cells...)
	p.row(strings.Split(strings.Repeat("---,", len(cells)-1)+"---", ",")...)
}

// in are the outcomes that stand in a table, in order.
func (p *page) in(t table) (found []*outcome) {
	for _, r := range p.all {
		if r.plan.table == t {
			found = append(found, r)
		}
	}
	return found
}

func (p *page) steady(rows []*outcome) {
	p.say("\n## Holding\n")
	p.say("Every process keeps the leases that it holds; no process starts, stops or waits. A process costs one put and one exists each TTL/3 × [5/6, 1], however much it holds.")
	p.say("The limits apply once all processes hold their leases, for %s or longer. *Late* is the time from when a renewal was due to when it was good. *Left* is the time from then", brief(rows[0].plan.window))
	p.say("to the deadline at which the session, with all of its leases, would have been lost. A *partition* is the unit to which the cloud's limit applies.\n")
	p.head("store", "TTL", "limit of a partition, writes / reads a second", "asked of the busiest", "throttled, writes / reads", "renewals late, p50 · p99 · most", "least left", "leases lost", "held at the end", "US$ an hour")
	for _, r := range rows {
		s := &r.stats
		p.row(r.plan.name(), brief(r.plan.ttl), r.plan.cloud.limits(), r.busiest(), r.throttled(), s.late.of(50, 99, 100), r.least(), number(s.losses), number(s.holding), fmt.Sprintf("%.2f", r.usd()))
	}
	p.requests(rows)
}

func (p *page) requests(rows []*outcome) {
	p.say("\nRequests a second, by verb:\n")
	p.head("store", "TTL", "requests a second")
	for _, r := range rows {
		p.row(r.plan.name(), brief(r.plan.ttl), r.verbs())
	}
}

func (p *page) waits(rows []*outcome) {
	first := rows[0].plan
	p.say("\n## Coming, going and waiting\n")
	p.say("A lease is held for %s to %s and then released; its process asks for the next name. For one name in %d another process waits until it", brief(first.life/2), brief(first.life*3/2), 1000/first.waiters)
	p.say("gets it, and the process that released it waits for another name. Of %s processes %s die without a release meanwhile, and others replace them.", number(1000), number(first.deaths))
	p.say("*Hand-over* is the time from the request to release until the waiter holds the lease; its budget on clouds is 1.5 times the poll of %s. *Take-over* is the time from the death.\n", brief(core.PollCap))
	p.head("store", "TTL", "limit", "asked of the busiest", "throttled, writes / reads", "hand-over, p50 · p90 · p99 (how many)", "take-over, p50 · p99 · most (how many)", "a free name, p50 · p99", "renewals late, p99 · most", "least left", "leases lost", "US$ an hour")
	for _, r := range rows {
		s := &r.stats
		p.row(r.plan.name(), brief(r.plan.ttl), r.plan.cloud.limits(), r.busiest(), r.throttled(),
			s.handover.of(50, 90, 99)+" ("+number(s.handover.seen)+")", s.takeover.of(50, 99, 100)+" ("+number(s.takeover.seen)+")", s.acquired.of(50, 99),
			s.late.of(99, 100), r.least(), number(s.losses), fmt.Sprintf("%.2f", r.usd()))
	}
	p.requests(rows)
}

func (p *page) starts(rows []*outcome) {
	p.say("\n## Starting\n")
	p.say("No process holds anything at first, and the limits apply from the beginning; TTL %s. *Refused* counts the acquires that ended because the store had served a process no read, or no write,", brief(rows[0].plan.ttl))
	p.say("and said \"come later\" for 5 s or longer; the caller asked again 1 to 5 s later. The last column shows whether renewals stay in step afterwards.\n")
	p.head("store", "they begin within", "held by half · 90 % · 99 % · all after", "held at the end", "refused", "throttled, writes / reads", "a name, p50 · p99", "leases lost", "most requests in a second", "most writes in a second of each of the last 3 minutes")
	for _, r := range rows {
		s := &r.stats
		var when []string
		for _, d := range s.mostly {
			when = append(when, after(d))
		}
		p.row(r.plan.name(), brief(r.plan.within), strings.Join(when, " · "), number(s.holding), number(s.refusals), r.throttled(), s.acquired.of(50, 99), number(s.losses),
			number(s.busiestSecond(0, r.plan.end(), (*second).all)), r.minutes(r.plan.end()-startMinutes*time.Minute, startMinutes))
	}
}

// minutes is the most writes in a second of each of so many minutes.
func (r *outcome) minutes(from time.Duration, n int) string {
	var texts []string
	for i := range n {
		at := from + time.Duration(i)*time.Minute
		texts = append(texts, number(r.stats.busiestSecond(at, at+time.Minute, func(s *second) int32 { return s.writes })))
	}
	return strings.Join(texts, " · ")
}

func (p *page) outages(rows []*outcome) {
	first := rows[0].plan
	p.say("\n## The whole store is away for %s\n", brief(first.outage))
	p.say("Half of the requests fail, and half hang until their limit. With a TTL of %s a lease that was just renewed has %s to its deadline. Then all processes are late, and all return", brief(first.ttl), brief(first.ttl*9/10))
	p.say("at once. The table shows whether that stays within the limits, and how long renewals stay in step.\n")
	p.head("store", "limit", "leases lost", "least left", "renewals late, p99 · most", "most writes in a second before", "in the 30 s after", "throttled in the 30 s after", "in each of the 4 minutes after that", "of one session in a second")
	for _, r := range rows {
		s, back := &r.stats, r.plan.outageFrom()+r.plan.outage
		writes := func(x *second) int32 { return x.writes }
		p.row(r.plan.name(), r.plan.cloud.limits(), number(s.losses), r.least(), s.late.of(99, 100),
			number(s.busiestSecond(r.plan.from(), r.plan.outageFrom(), writes)), number(s.busiestSecond(back, back+backWithin, writes)),
			number(s.throttledIn(back, back+backWithin)), r.minutes(back+backWithin, outageMinutes), number(s.busiest))
	}
}
