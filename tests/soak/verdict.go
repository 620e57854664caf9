//go:build unix

package main

import (
	"fmt"
	"slices"
	"time"
)

// sample is what one process showed at one moment, without what it cannot tell.
type sample struct {
	At     float64            `json:"at"` // seconds since all was held
	Values map[string]float64 `json:"values"`
}

// quantity is one column: what is sampled, how it is shown, and how much it may grow
// over the whole of a soak.
type quantity struct {
	name, unit string
	scale      float64 // the value is divided by this when it is shown; 0 is 1
	share      float64 // it may grow by this share of its level
	least      float64 // and by this much more, in its own unit
	unjudged   bool    // it is shown, and no part of the verdict
	work       bool    // it is work done, and may not fall to less than half
}

// Names of what is sampled.
const (
	qHeap, qRSS, qGoroutines, qThreads = "heap", "rss", "goroutines", "threads"
	qFiles, qWatches, qObjects         = "files", "watches", "objects"
	qLateSession, qLateAlone, qHeld    = "late, session", "late, alone", "held"
	qTurns, qLost, qProcessor          = "turns", "lost", "core"
)

// verbs are sampled as requests a second. Lists and deletes are only shown: superseded
// versions are collected after ten minutes, and not before.
var verbs = []string{"put", "get", "create", "exists", "list", "delete"}

const mib = 1 << 20

// quantities are judged in this order. Counts are per second, and steady: work that piles
// up shows as a higher count. A limit is the growth that can still be chance: a leak of
// 100 bytes for each of 20 turns a second is 3.4 MiB in half an hour.
var quantities = []quantity{
	{name: qHeap, unit: "MiB", scale: mib, share: .03, least: mib / 2},
	{name: qRSS, unit: "MiB", scale: mib, share: .10, least: 4 * mib},
	{name: qGoroutines, share: .02, least: 40},
	{name: qThreads, least: 4},
	{name: qFiles, least: 24},
	{name: qWatches, share: .05, least: 16},
	{name: qObjects, share: .01, least: 500},
	{name: qLateSession, unit: "ms", least: 250},
	{name: qLateAlone, unit: "ms", least: 250},
	{name: "put", unit: "/s", share: .15, least: 5},
	{name: "get", unit: "/s", share: .15, least: 10},
	{name: "create", unit: "/s", share: .15, least: 5},
	{name: "exists", unit: "/s", share: .15, least: 10},
	{name: qProcessor, unit: "%", share: .5, least: 10},
	{name: "list", unit: "/s", unjudged: true},
	{name: "delete", unit: "/s", unjudged: true},
	{name: qTurns, unit: "/s", work: true},
	{name: qHeld, work: true},
	{name: qLost, unjudged: true},
}

// warmUp is the share of the time before judging begins: heaps, caches and pools find
// their size in it, and in half an hour it is as long as superseded versions are kept.
const warmUp = 1. / 3

// finding is what the verdict says of one quantity.
type finding struct {
	quantity
	first, last float64 // medians of the first and of the last quarter
	slope       float64 // growth over the whole of the judged time, by the median of all slopes
	limit       float64
	flat        bool
}

// judge says for each quantity whether it is flat. It has grown only if both the medians
// of the quarters and the slope say so. Other load on the machine that comes and goes in
// one quarter moves the medians, and not the slope over all; a leak moves both.
func judge(samples []sample) []finding {
	samples = samples[int(float64(len(samples))*warmUp):]
	var found []finding
	for _, q := range quantities {
		at, values := series(samples, q.name)
		if q.unjudged || len(values) < 8 {
			continue
		}
		quarter := len(values) / 4
		f := finding{quantity: q, first: median(values[:quarter]), last: median(values[len(values)-quarter:])}
		f.slope = slope(at, values) * (at[len(at)-1] - at[0])
		f.limit = q.share*f.first + q.least
		f.flat = f.last-f.first <= f.limit || f.slope <= f.limit
		if q.work { // a waiter may never get its turn, and ask for nothing more
			f.flat = f.last >= f.first/2
		}
		found = append(found, f)
	}
	return found
}

// series is one quantity over time, where it was sampled.
func series(samples []sample, name string) (at, values []float64) {
	for _, s := range samples {
		if v, ok := s.Values[name]; ok {
			at, values = append(at, s.At), append(values, v)
		}
	}
	return at, values
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// slope is the median of the slopes between any two samples (Theil and Sen): up to
// a quarter of them may be anything.
func slope(at, values []float64) float64 {
	var all []float64
	for i := range at {
		for j := i + 1; j < len(at); j++ {
			if at[j] > at[i] {
				all = append(all, (values[j]-values[i])/(at[j]-at[i]))
			}
		}
	}
	if len(all) == 0 {
		return 0
	}
	return median(all)
}

func (q *quantity) show(value float64) string {
	if q.scale != 0 {
		value /= q.scale
	}
	text := fmt.Sprintf("%.0f", value)
	if q.scale != 0 || q.unit == "%" || q.unit == "/s" {
		text = fmt.Sprintf("%.1f", value)
	}
	return text
}

func elapsed(seconds float64) string {
	return time.Duration(seconds * float64(time.Second)).Round(time.Second).String()
}
