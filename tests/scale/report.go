package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/doctor"
)

//go:embed page.tmpl
var pageText string

// page is what page.tmpl is filled from.
type page struct {
	*options
	all []*outcome
}

func report(o *options, outcomes []*outcome) []byte {
	var out bytes.Buffer
	text := template.Must(template.New("page").Funcs(template.FuncMap{
		"number": number[int64], "minus": func(a, b int64) int64 { return a - b }, "tenthMark": func() string { return tenthMark },
		"steady": steady, "waits": waits, "starts": starts, "outages": outages, "requests": requests, "needed": needed, "latencies": latencies,
	}).Parse(pageText))
	if err := text.Execute(&out, &page{o, outcomes}); err != nil {
		panic("scale: " + err.Error())
	}
	return out.Bytes()
}

// Played are the figures of scenarios, if all of them were played.
func (p *page) Played(keys ...string) (found []map[string]any) {
	for _, key := range keys {
		i := slices.IndexFunc(p.all, func(r *outcome) bool { return r.plan.key == key })
		if i < 0 {
			return nil
		}
		found = append(found, p.all[i].figures())
	}
	return found
}

// In are the outcomes that stand in a table, in order.
func (p *page) In(t int) []*outcome {
	return slices.DeleteFunc(slices.Clone(p.all), func(r *outcome) bool { return r.plan.table != table(t) })
}

// Processes and Leases are the size of the fleet.
func (p *page) Processes() int64 { return int64(p.orchestrators) }
func (p *page) Leases() int64    { return int64(p.leases) }

// Times is what a smaller fleet's figures are to be multiplied by, against smaller limits; "" is a whole one.
func (p *page) Times() string {
	if !p.shrunk {
		return ""
	}
	return strconv.FormatFloat(fullSize/float64(p.orchestrators), 'g', 4, 64)
}

// Tenths reports whether a scenario was played on a tenth of the fleet.
func (p *page) Tenths() bool {
	return slices.ContainsFunc(p.all, func(r *outcome) bool { return r.plan.tenth })
}

// number is one with a comma between thousands.
func number[T int | int32 | int64 | uint64](n T) string {
	text := strconv.FormatInt(int64(n), 10)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// share is a part of a whole, in per cent.
func share(part, whole int64) string {
	switch {
	case part == 0 || whole == 0:
		return "0"
	case part*1000 < whole:
		return "< 0.1 %"
	case part == whole:
		return "100 %"
	}
	return fmt.Sprintf("%.1f %%", min(99.9, float64(part)*100/float64(whole)))
}

// brief is a duration with as many digits as matter.
func brief(d time.Duration) string {
	switch {
	case d == 0:
		return "0"
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < 10*time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	}
	return fmt.Sprintf("%.1f min", d.Minutes())
}

// after is a time, or says that it never came.
func after(d time.Duration) string {
	if d == 0 {
		return "never"
	}
	return brief(d)
}

// of are quantiles, and 100 is the most; or that there is none.
func (s samples) of(percents ...int) string {
	if len(s) == 0 {
		return "none"
	}
	var texts []string
	for _, percent := range percents {
		texts = append(texts, brief(s.quantile(percent)))
	}
	return strings.Join(texts, " · ")
}

// whole is what a figure would be of the whole fleet, if this was a tenth of it.
func (r *outcome) whole(n int64) int64 {
	if r.plan.tenth {
		return 10 * n
	}
	return n
}

// perSecond is how many there were a second of the window.
func (r *outcome) perSecond(n int64) int64 { return n * int64(time.Second) / int64(r.plan.window) }

// usd is what an hour of this costs at S3's list prices.
func (r *outcome) usd() float64 {
	return doctor.USD(float64(r.stats.writers()), float64(r.stats.readers())) / r.plan.window.Hours()
}

// figures are what the page says of a scenario in its prose: requests and money of a whole fleet.
func (r *outcome) figures() map[string]any {
	s := &r.stats
	lost, latest, short, size := "no lease was lost", "came "+r.least()+" before its deadline", "", ""
	if s.losses > 0 {
		lost = number(s.losses) + " of " + number(r.plan.leases) + " leases were lost in " + brief(r.plan.window)
		latest = "came too late: " + lost
	}
	if s.holding < r.plan.leases {
		short = number(s.holding)
	}
	if r.plan.tenth {
		size = " (of a tenth of the fleet)"
	}
	throttled := strings.Split(r.throttled(), " / ")
	return map[string]any{
		"Fits": s.losses+s.overlaps == 0, "Lost": lost, "Latest": latest, "Short": short, "Size": size,
		"Requests": r.whole(r.perSecond(s.writers() + s.readers())), "Reads": r.whole(r.perSecond(s.readers())),
		"Puts": r.whole(r.perSecond(s.verbs[core.ActionPut])), "Waiters": r.whole(int64(r.plan.leases * r.plan.waiters / 1000)),
		"USD": fmt.Sprintf("%.2f", r.usd()*float64(r.whole(1))), "Held": number(s.holding) + " of " + number(r.plan.leases),
		"AllHeld": after(s.mostly[len(shares)-1]), "Window": brief(r.plan.window), "Late": s.late.of(99), "Left": brief(s.left.least()),
		"HandOver": s.handover.of(50, 99), "ThrottledWrites": throttled[0], "ThrottledReads": throttled[1],
	}
}

// needed is how many partitions of S3 a fleet needs, if half of each limit stays free.
func needed() string {
	t := tableOf("processes", "waiters", "TTL 60 s", "TTL 120 s", "TTL 300 s")
	for _, processes := range []int{1_000, 10_000, 100_000} {
		for _, waiters := range []int{0, processes} {
			cells := []string{number(processes), number(waiters)}
			for _, ttl := range []time.Duration{time.Minute, 2 * time.Minute, 5 * time.Minute} {
				cells = append(cells, number(partitions(processes, waiters, ttl)))
			}
			t.row(cells...)
		}
	}
	return t.String()
}

// partitions is how many partitions of S3 are used by half.
func partitions(processes, waiters int, ttl time.Duration) int {
	const room = 2 // the parts of each limit, one of which is used
	beats := float64(processes) * 36 / (11 * ttl.Seconds())
	samples := float64(waiters) / core.SampleEach.Seconds()
	polls := float64(waiters)/(core.PollCap.Seconds()*0.92) + 2*samples // jitter is cut at the cap
	writes, reads := beats+samples, beats+polls
	return max(1, int(math.Ceil(max(writes/float64(s3.writes), reads/float64(s3.reads))*room)))
}

// Command is how this page is made again.
func (p *page) Command() string {
	c := "go run ./tests/scale"
	if p.orchestrators != fullSize {
		c += fmt.Sprintf(" -orchestrators %d", p.orchestrators)
	}
	if p.leases != 10*fullSize {
		c += fmt.Sprintf(" -leases %d", p.leases)
	}
	if p.only != "" {
		c += " -only " + p.only
	}
	if p.shrunk {
		c += " -shrunk"
	}
	return fmt.Sprintf("%s -seed %d", c, p.seed)
}
