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
	p.say("# %s orchestrators, %s leases\n", number(o.orchestrators), number(o.leases))
	p.verdict()
	if o.shrunk {
		p.say("\nThis is a smaller fleet, against limits of partitions in proportion: for %s orchestrators everything is to be multiplied by %s, but for the limits of one object.", number(fullSize), strconv.FormatFloat(fullSize/float64(o.orchestrators), 'g', 4, 64))
	}
	if slices.ContainsFunc(outcomes, func(r *outcome) bool { return r.plan.tenth }) {
		p.say("\nRows with %s, in which a fleet breaks down or which last for an hour, are of a tenth of the fleet, against a tenth of each limit: what they count is to be multiplied by 10, but for the limits of one object.", tenthMark)
		p.say("Above, what a fleet sends and pays is so already, and leases lost are of those that were played. `-whole` plays them, too, at full size.")
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
	p.say("Everybody holds what he holds; nobody comes, goes or waits. A process costs one put and one exists each TTL/3 × [5/6, 1], whatever it holds.")
	p.say("Limits stand from the moment at which all hold their leases, for %s or longer. *Late* is from when a renewal was due to when it was good, *left* how long it was then", brief(rows[0].plan.window))
	p.say("to the deadline at which the session would have been lost, and its leases with it. A *partition* is what the cloud's limit is of.\n")
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
	p.say("A lease lives for %s to %s, and is given back; its orchestrator asks for the next name. For one name of %d somebody in another process waits, and", brief(first.life/2), brief(first.life*3/2), 1000/first.waiters)
	p.say("gets it; whoever has given it up waits for another one. Of %s orchestrators %s die without a word meanwhile, and others come in their place.", number(1000), number(first.deaths))
	p.say("*Hand-over* is from asking for the release to held by who waited, for which the budget on clouds is 1.5 times the poll of %s; *take-over* from the death.\n", brief(core.PollCap))
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
	p.say("Everybody begins with nothing, and limits stand from the beginning; TTL %s. *Refused* is how often an acquire ended with \"unreachable\", because 5 s went by without", brief(rows[0].plan.ttl))
	p.say("one answer but \"come later\"; its caller asked again 1 to 5 s later. The last column shows whether renewals stay in step after it.\n")
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
	p.say("Half of the requests break, half hang until their limit. TTL %s, so a lease that was renewed just before has %s to its deadline. All are late then, and all come back", brief(first.ttl), brief(first.ttl*9/10))
	p.say("at once; what counts is whether that stays within the limits, and how long renewals stay in step.\n")
	p.head("store", "limit", "leases lost", "least left", "renewals late, p99 · most", "most writes in a second before", "in the 30 s after", "throttled in the 30 s after", "in each of the 4 minutes after that", "of one session in a second")
	for _, r := range rows {
		s, back := &r.stats, r.plan.outageFrom()+r.plan.outage
		writes := func(x *second) int32 { return x.writes }
		p.row(r.plan.name(), r.plan.cloud.limits(), number(s.losses), r.least(), s.late.of(99, 100),
			number(s.busiestSecond(r.plan.from(), r.plan.outageFrom(), writes)), number(s.busiestSecond(back, back+backWithin, writes)),
			number(s.throttledIn(back, back+backWithin)), r.minutes(back+backWithin, outageMinutes), number(s.busiest))
	}
}
