//go:build unix

package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"
)

const (
	module = "github.com/mopslock/mopslock/"
	rounds = 5
	length = "200ms" // of one benchmark in one round
)

// group is the rows of one part of the budgets.
type group struct {
	name string
	rows []row
}

// row compares two things that are measured in turns.
type row struct {
	what         string
	ours, beside source
	budget       budget
	noAllocs     bool // and ours allocates nothing
	rounds       int  // 0 is rounds: fewer for a source that takes long and is itself a median of many
	held         int  // leases, where the figures are requests per lease and hour: a point of a picture
}

// source is something that can be measured again and again.
type source interface {
	measure(w *workshop) (figure, error)
}

// budget is the most that ours may be: a multiple of beside, an amount more than it, or
// an amount. None is for rows that are shown and not promised.
type budget struct {
	most float64
	as   kind
}

type kind int

const (
	none kind = iota
	asRatio
	asMore
	asAll
)

func times(most float64) budget          { return budget{most, asRatio} }
func moreBytes(most float64) budget      { return budget{most, asMore} }
func moreTime(most time.Duration) budget { return budget{float64(most), asMore} }
func atMost(most float64) budget         { return budget{most, asAll} }
func (b budget) met(ours, beside float64) bool {
	switch b.as {
	case asRatio:
		return ours <= b.most*beside
	case asMore:
		return ours-beside <= b.most
	case asAll:
		return ours <= b.most
	}
	return true
}

// text is the budget of a figure of that unit.
func (b budget) text(u unit) string {
	switch b.as {
	case asRatio:
		return fmt.Sprintf("≤ %s ×", digits(b.most))
	case asMore:
		return "≤ +" + u.text(b.most)
	case asAll:
		return "≤ " + u.text(b.most)
	}
	return ""
}

// measure runs both in turns, so that a busy machine is busy for both.
func (r *row) measure(w *workshop) (ours, beside figure, err error) {
	var a, b []figure
	for range cmp.Or(r.rounds, rounds) {
		for _, turn := range []struct {
			source
			to *[]figure
		}{{r.ours, &a}, {r.beside, &b}} {
			if turn.source == nil {
				continue
			}
			f, err := turn.measure(w)
			if err != nil {
				return ours, beside, err
			}
			*turn.to = append(*turn.to, f)
		}
	}
	return median(a), median(b), nil
}

// outcome is a row as it has been measured.
type outcome struct {
	What    string  `json:"what"`
	Ours    *figure `json:"ours,omitempty"`
	Beside  *figure `json:"beside,omitempty"`
	Ratio   float64 `json:"ratio,omitempty"`
	Budget  string  `json:"budget,omitempty"`
	OK      string  `json:"ok"` // "yes", "NO", or "" where nothing is promised
	Missing string  `json:"missing,omitempty"`
	Held    int     `json:"held,omitempty"`
}

// take measures one row.
func (r *row) take(w *workshop) (outcome, error) {
	o := outcome{What: r.what, Held: r.held}
	ours, beside, err := r.measure(w)
	if missing, ok := errors.AsType[*missingError](err); ok {
		o.Missing = missing.Error()
		return o, nil
	}
	if err != nil { // the other rows are still worth their time
		o.Missing, o.OK = "failed", "NO"
		return o, fmt.Errorf("%s: %w", r.what, err)
	}
	o.Ours, o.Budget = &ours, r.budget.text(ours.Unit)
	if r.beside != nil {
		o.Beside = &beside
		if beside.Value != 0 {
			o.Ratio = ours.Value / beside.Value
		}
	}
	if r.noAllocs {
		o.Budget = strings.TrimPrefix(o.Budget+", 0 allocs", ", ")
	}
	switch met := r.budget.met(ours.Value, beside.Value) && (!r.noAllocs || ours.Allocs == 0); {
	case !met:
		o.OK = "NO"
	case r.budget.as != none || r.noAllocs:
		o.OK = "yes"
	}
	return o, nil
}

// add measures the wanted rows of a group and prints them.
func (r *report) add(w *workshop, g group, wanted *regexp.Regexp) error {
	part := part{Name: g.name}
	for _, row := range g.rows {
		if !wanted.MatchString(row.what) {
			continue
		}
		o, err := row.take(w)
		if w.ctx.Err() != nil {
			break
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
		}
		part.Rows = append(part.Rows, o)
	}
	if len(part.Rows) == 0 {
		return nil
	}
	r.Parts = append(r.Parts, part)
	return part.print()
}

// median is the figure in the middle, with the samples of all.
func median(figures []figure) figure {
	if len(figures) == 0 {
		return figure{}
	}
	var samples []float64
	for _, f := range figures {
		samples = append(samples, f.Samples...)
	}
	slices.Sort(samples)
	slices.SortFunc(figures, func(a, b figure) int { return cmp.Compare(a.Value, b.Value) })
	f := figures[len(figures)/2]
	f.Samples = samples
	return f
}
