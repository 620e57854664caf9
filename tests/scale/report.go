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
		"number": number[int64], "brief": brief, "fits": fits, "tenthMark": func() string { return tenthMark },
		"steady": steady, "waits": waits, "starts": starts, "outages": outages, "requests": requests, "needed": needed, "latencies": latencies,
	}).Parse(pageText))
	if err := text.Execute(&out, &page{o, outcomes}); err != nil {
		panic("scale: " + err.Error())
	}
	return out.Bytes()
}

// Played are scenarios, if all of them were played.
func (p *page) Played(keys ...string) (found []*outcome) {
	for _, key := range keys {
		i := slices.IndexFunc(p.all, func(r *outcome) bool { return r.plan.key == key })
		if i < 0 {
			return nil
		}
		found = append(found, p.all[i])
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

// fits reports whether nothing was lost.
func fits(all []*outcome) bool {
	return !slices.ContainsFunc(all, func(r *outcome) bool { return r.stats.losses+r.stats.overlaps > 0 })
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
func (s *samples) of(percents ...int) string {
	if s.seen == 0 {
		return "none"
	}
	var texts []string
	for _, percent := range percents {
		d := s.most
		if percent < 100 {
			d = s.quantile(percent)
		}
		texts = append(texts, brief(d))
	}
	return strings.Join(texts, " · ")
}

// whole is what a figure would be of the whole fleet, if this was a tenth of it.
func (r *outcome) whole(x float64) float64 {
	if r.plan.tenth {
		return 10 * x
	}
	return x
}

// perSecond is how many there were a second of the window.
func (r *outcome) perSecond(n int64) int64 { return n * int64(time.Second) / int64(r.plan.window) }

// wholePerSecond is how many a whole fleet would send.
func (r *outcome) wholePerSecond(n int64) int64 { return int64(r.whole(float64(r.perSecond(n)))) }

func (r *outcome) usd() float64 {
	return doctor.USD(float64(r.stats.writers()), float64(r.stats.readers())) / r.plan.window.Hours()
}

// USD is what an hour of this costs a whole fleet at S3's list prices.
func (r *outcome) USD() string { return fmt.Sprintf("%.2f", r.whole(r.usd())) }

// Requests, Reads and Puts are those of a whole fleet in a second.
func (r *outcome) Requests() int64 { return r.wholePerSecond(r.stats.writers() + r.stats.readers()) }
func (r *outcome) Reads() int64    { return r.wholePerSecond(r.stats.readers()) }
func (r *outcome) Puts() int64     { return r.wholePerSecond(r.stats.verbs[core.ActionPut]) }

// MoreReads is how many it reads more than another.
func (r *outcome) MoreReads(than *outcome) int64 { return r.Reads() - than.Reads() }

// Waiters is how many of a whole fleet wait.
func (r *outcome) Waiters() int64 {
	return int64(r.whole(float64(r.plan.leases * r.plan.waiters / 1000)))
}

// Lost says how many leases were lost, of how many.
func (r *outcome) Lost() string {
	if r.stats.losses == 0 {
		return "no lease was lost"
	}
	return number(r.stats.losses) + " of " + number(r.plan.leases) + " leases were lost in " + brief(r.plan.window)
}

// Held says how many leases were held in the end, of how many; Short is "" if all were.
func (r *outcome) Held() string { return number(r.stats.holding) + " of " + number(r.plan.leases) }

func (r *outcome) Short() string {
	if r.stats.holding < r.plan.leases {
		return number(r.stats.holding)
	}
	return ""
}

// AllHeld is after which time, and Window is how long it was measured.
func (r *outcome) AllHeld() string { return after(r.stats.mostly[len(shares)-1]) }
func (r *outcome) Window() string  { return brief(r.plan.window) }

// Late is by how much renewals were late at a percentile, Left what was left to the nearest
// deadline, and HandOver how long that took.
func (r *outcome) Late(percent int) string { return r.stats.late.of(percent) }
func (r *outcome) Left() string            { return brief(r.stats.left.least) }
func (r *outcome) HandOver() string        { return r.stats.handover.of(50, 99) }

// Latest says how the latest renewal ended.
func (r *outcome) Latest() string {
	if r.stats.losses > 0 {
		return "came too late: " + r.Lost()
	}
	return "came " + r.least() + " before its deadline"
}

// Size says if it was not the whole fleet.
func (r *outcome) Size() string {
	if r.plan.tenth {
		return " (of a tenth of the fleet)"
	}
	return ""
}

// ThrottledWrites and ThrottledReads are the shares that were told to come later.
func (r *outcome) ThrottledWrites() string { return share(r.stats.throttled[0], r.stats.asked[0]) }
func (r *outcome) ThrottledReads() string  { return share(r.stats.throttled[1], r.stats.asked[1]) }

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
