package main

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/mopslock/mopslock/core"
)

// with writes a line about scenarios, if all of them were played.
func (p *page) with(keys string, line func(r []*outcome) string) {
	var found []*outcome
	for key := range strings.FieldsSeq(keys) {
		r := p.outcomes[key]
		if r == nil {
			return
		}
		found = append(found, r)
	}
	p.say("%s", line(found))
}

// lost says how many leases were lost, of how many.
func (r *outcome) lost() string {
	if r.stats.losses == 0 {
		return "no lease was lost"
	}
	return number(r.stats.losses) + " of " + number(r.plan.leases) + " leases were lost in " + brief(r.plan.window)
}

// size says if it was not the whole fleet.
func (r *outcome) size() string {
	if r.plan.tenth {
		return " (of a tenth of the fleet)"
	}
	return ""
}

// puts is how many puts a whole fleet sends in a second.
func (r *outcome) puts() int64 {
	return int64(r.whole(float64(r.perSecond(r.stats.verbs[core.ActionPut]))))
}

// latest says how the latest renewal ended.
func (r *outcome) latest() string {
	if r.stats.losses > 0 {
		return "came too late: " + r.lost()
	}
	return "came " + r.least() + " before its deadline"
}

func (p *page) verdict() {
	p.with("s3-16 s3-16-hour", func(r []*outcome) string {
		s, hour := &r[0].stats, &r[1].stats
		fits := "It fits"
		if s.losses+hour.losses+s.overlaps+hour.overlaps > 0 {
			fits = "It does not fit"
		}
		return fmt.Sprintf("- **%s on 16 prefixes of S3.** Holding costs %s requests a second, US$ %.2f an hour; renewals are good %s after they are due at the 99th percentile, the latest %s before its deadline, and %s. An hour with waiters, releases and deaths: %s, hand-over after %s at the 50th and 99th, US$ %.2f.",
			fits, number(r[0].perSecond(s.writers()+s.readers())), r[0].usd(), brief(s.late.quantile(99)), brief(s.left.least), r[0].lost(), r[1].lost(), hour.handover.of(50, 99), r[1].whole(r[1].usd()))
	})
	p.with("s3-1 s3-1-ttl120 s3-1-ttl300", func(r []*outcome) string {
		tail := ""
		if left := r[0].stats.holding; left < r[0].plan.leases {
			tail = fmt.Sprintf(", and %s were held in the end: a process that loses a lease asks again, and those requests keep the store busy", number(left))
		}
		return fmt.Sprintf("- **On one that S3 has not split**, TTL 60 s: %s%s. TTL 120 s: %s (throttled: %s of the writes). TTL 300 s: %s (%s).",
			r[0].lost(), tail, r[1].lost(), share(r[1].stats.throttled[0], r[1].stats.asked[0]), r[2].lost(), share(r[2].stats.throttled[0], r[2].stats.asked[0]))
	})
	p.with("s3-4 s3-4-by-name", func(r []*outcome) string {
		return fmt.Sprintf("- **Choose the prefix by what shares names**, a team or a pipeline, not by the name: a process beats on every prefix that it uses. 4 prefixes by process: %s puts a second, %s; by name: %s, and %s.",
			number(r[0].puts()), r[0].lost(), number(r[1].puts()), r[1].lost())
	})
	p.with("s3-16 s3-16-hour s3-4-waiters", func(r []*outcome) string {
		extra := r[1].whole(float64(r[1].perSecond(r[1].stats.readers()))) - r[0].whole(float64(r[0].perSecond(r[0].stats.readers())))
		return fmt.Sprintf("- **Count waiters**: %s of them read %s times a second, however long the TTL is. On 4 prefixes %s of all reads are then throttled, also those of renewals, of which the latest %s.",
			number(int64(r[1].whole(float64(r[1].plan.leases*r[1].plan.waiters/1000)))), number(int64(extra)), share(r[2].stats.throttled[1], r[2].stats.asked[1]), r[2].latest())
	})
	p.with("s3-16-herd s3-16-outage s3-4-outage gcs-8-ramp", func(r []*outcome) string {
		return fmt.Sprintf("- **Starts and outages**: if all processes start at once on 16 prefixes, all leases%s are held after %s. In an outage of 30 s, on 16 prefixes %s, on 4 %s. On GCS, %s of %s leases were held %s after a start over 10 minutes began, though GCS throttles the store's card, one object that every process writes and that takes one write a second. A process that is throttled there tests create-if-absent on an object of its own.",
			r[0].size(), after(r[0].stats.mostly[len(shares)-1]), r[1].lost(), r[2].lost(), number(r[3].stats.holding), number(r[3].plan.leases), brief(r[3].plan.window))
	})
}

// after is a time, or says that it never came.
func after(d time.Duration) string {
	if d == 0 {
		return "never"
	}
	return brief(d)
}

// Numbers of the advice.
const (
	room    = 2                // the parts of each limit, one of which is used
	perBeat = 36 * time.Second // renewals a second are processes x perBeat / (11 x TTL)
)

// renewals is how many good ones there are in a second.
func renewals(processes int, ttl time.Duration) float64 {
	return float64(processes) * perBeat.Seconds() / (11 * ttl.Seconds())
}

func (p *page) advice() {
	p.say("\n## What to do\n")
	p.say("- **Count.** Renewals a second = processes × 36 ÷ (11 × TTL in seconds), each a put and an exists. A waiter asks each 5 s, however long the TTL is. Each minute it also reads the session of the holder, and samples the")
	p.say("  store's clock with an object of its own. A name that is acquired and released costs an exists, a list and two creates. Keep half of each limit free: an outage or a start puts renewals in step.")
	p.say("- **Lengthen the TTL** if a take-over may take longer. That divides the requests of holders, and nothing else.")
	p.say("- **Spread** over store URLs: `s3://bucket/07/locks`, with one number for all processes that share names. A bucket's prefixes are one partition until S3 splits it. S3 does so gradually,")
	p.say("  under load, and answers 503 meanwhile. So grow slowly, or use several buckets: each has its own limits, as each Azure account and each GCS bucket has.")
	p.say("- **Start over minutes.** If an acquire says \"unreachable\" while the store throttles, try again after a random pause.\n")
	p.say("How many partitions of S3 a fleet needs, if half of each limit stays free:\n")
	p.head("processes", "waiters", "TTL 60 s", "TTL 120 s", "TTL 300 s")
	for _, processes := range []int{1_000, 10_000, 100_000} {
		for _, waiters := range []int{0, processes} {
			cells := []string{number(processes), number(waiters)}
			for _, ttl := range []time.Duration{time.Minute, 2 * time.Minute, 5 * time.Minute} {
				cells = append(cells, number(partitions(processes, waiters, ttl)))
			}
			p.row(cells...)
		}
	}
}

// partitions is how many partitions of S3 are used by half.
func partitions(processes, waiters int, ttl time.Duration) int {
	beats := renewals(processes, ttl)
	samples := float64(waiters) / core.SampleEach.Seconds()
	polls := float64(waiters)/(core.PollCap.Seconds()*0.92) + 2*samples // jitter is cut at the cap
	writes, reads := beats+samples, beats+polls
	return max(1, int(math.Ceil(max(writes/float64(s3.writes), reads/float64(s3.reads))*room)))
}

func (p *page) assumed() {
	o := p.options
	p.say("\n## What was assumed\n")
	p.say("- Each process has the core's own client, one for each prefix that it uses. It asks, claims, renews, retries and keeps its bound of 64 requests at once as it does in a real host. No answer has a Retry-After, which neither S3 nor GCS sends")
	p.say("  with these answers. No lease is broken or joined, and no process pauses or closes. Processes that die leave what they have written.")
	p.say("  Lateness, hand-overs, take-overs and acquired names count only if they ended within the time that was simulated. On an overloaded store many have not ended by then, so the truth is worse.")
	p.say("- Limits are the clouds' documented ones, **not measured by us**: S3 %s writes and %s reads a second for a partition of keys; GCS %s and %s for a bucket that has not grown, and one write a second to one object; Azure", number(s3.writes), number(s3.reads), number(gcs.writes), number(gcs.reads))
	p.say("  %s requests a second for an account and %s for one blob. Requests within %s may come in one burst, and lists count as reads. A request above the limit is told \"come later\" (503, 429). During the simulation no partition splits and no bucket grows:", number(azure.all), number(azure.objectAll), brief(time.Duration(burst)))
	p.say("  \"16 prefixes\" are 16 partitions, \"grown to 8 times\" is 8 times the limits. GCS' documentation says that a bucket doubles its limits in 20 minutes at the fastest.")
	if o.shrunk {
		p.say("- **Limits of partitions are those of a fleet of %s in proportion** (-shrunk).", number(fullSize))
	}
	p.say("- Latencies are **assumed**, linear between these quantiles. Half of each passes before the store applies the request:\n")
	p.head("ms, p50 · p90 · p99 · p99.9", "S3", "GCS", "Azure")
	for _, verb := range []struct {
		name string
		of   func(*cloud) latency
	}{
		{"put, create, delete", func(c *cloud) latency { return c.put }},
		{"get, exists", func(c *cloud) latency { return c.get }},
		{"list", func(c *cloud) latency { return c.list }},
	} {
		cells := []string{verb.name}
		for _, c := range []*cloud{&s3, &gcs, &azure} {
			l := verb.of(c)
			cells = append(cells, fmt.Sprintf("%d · %d · %d · %d", l.p50.Milliseconds(), l.p90.Milliseconds(), l.p99.Milliseconds(), l.p999.Milliseconds()))
		}
		p.row(cells...)
	}
	p.say("\n- Money is at S3's list prices (package host/doctor), for every store. Throttled requests count as if they were paid for. The cost of a process and hour is what `mopslock-host doctor` says of a session.")
	p.say("- Each scenario has its own stream of one seed, and the same seed gives the same page, to the byte. `go test ./tests/scale` proves that, and that no two processes ever held one lease.\n")
	p.say("Made by `%s`.", o.command())
}

// command is how this page is made again.
func (o *options) command() string {
	c := "go run ./tests/scale"
	if o.orchestrators != fullSize {
		c += fmt.Sprintf(" -orchestrators %d", o.orchestrators)
	}
	if o.leases != 10*fullSize {
		c += fmt.Sprintf(" -leases %d", o.leases)
	}
	if o.window > 0 {
		c += fmt.Sprintf(" -for %v", o.window)
	}
	if o.only != "" {
		c += " -only " + o.only
	}
	if o.shrunk {
		c += " -shrunk"
	}
	if o.whole {
		c += " -whole"
	}
	return fmt.Sprintf("%s -seed %d", c, o.seed)
}
