package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/doctor"
)

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

// perSecond is how many there were a second of the window.
func (r *outcome) perSecond(n int64) int64 { return n * int64(time.Second) / int64(r.plan.window) }

// whole is what a figure would be of the whole fleet, if this was a tenth of it.
func (r *outcome) whole(x float64) float64 {
	if r.plan.tenth {
		return 10 * x
	}
	return x
}

// verbs is how many requests there were a second, by verb.
func (r *outcome) verbs() string {
	var texts []string
	for _, verb := range []core.ActionKind{core.ActionPut, core.ActionCreate, core.ActionList, core.ActionGet, core.ActionExists, core.ActionDelete} {
		if n := r.stats.verbs[verb]; n > 0 {
			texts = append(texts, number(r.perSecond(n))+" "+verb.String())
		}
	}
	return strings.Join(texts, " · ")
}

// usd is what an hour of this costs at S3's list prices.
func (r *outcome) usd() float64 {
	hours := r.plan.window.Hours()
	return doctor.USD(float64(r.stats.writers()), float64(r.stats.readers())) / hours
}

// throttled is the share of writes and of reads that were told to come later.
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
	return brief(r.stats.left.least)
}
