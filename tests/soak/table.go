//go:build unix

package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
)

// table has the samples of each process, and prints a row for each at intervals.
type table struct {
	each time.Duration

	mu        sync.Mutex
	processes []string
	samples   map[string][]sample
	next      map[string]float64 // seconds at which the next row is due
	headed    bool
}

func newTable(each time.Duration) *table {
	return &table{each: each, samples: map[string][]sample{}, next: map[string]float64{}}
}

// add takes a sample of a process.
func (t *table) add(process string, s sample) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.samples[process] == nil {
		t.processes = append(t.processes, process)
	}
	t.samples[process] = append(t.samples[process], s)
	if s.At < t.next[process] {
		return
	}
	t.next[process] += t.each.Seconds()
	if !t.headed {
		t.headed = true
		fmt.Print(row("process", "after", func(q *quantity) string { return strings.TrimSpace(q.name + " " + q.unit) }))
	}
	fmt.Print(row(process, elapsed(s.At), func(q *quantity) string {
		if value, ok := s.Values[q.name]; ok {
			return q.show(value)
		}
		return "-"
	}))
}

// row is one line with a cell for each quantity, as wide as its head.
func row(process, after string, cell func(*quantity) string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-7s %8s", process, after)
	for i := range quantities {
		q := &quantities[i]
		fmt.Fprintf(&b, "  %*s", max(6, len(q.name)+1+len(q.unit)), cell(q))
	}
	return b.String() + "\n"
}

// verdict prints the verdict on each process; its error lists what grows, sinks or was lost.
func (t *table) verdict() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "\nprocess\twhat\tfirst quarter\tlast quarter\tslope over all\tmay grow by\tverdict")
	var bad []string
	for _, process := range t.processes {
		for _, f := range judge(t.samples[process]) {
			word := "flat"
			if !f.flat {
				word = "GROWS"
				if f.work {
					word = "SINKS"
				}
				bad = append(bad, process+"'s "+f.name+" "+strings.ToLower(word))
			}
			fmt.Fprintf(out, "%s\t%s %s\t%s\t%s\t%s\t%s\t%s\n", process, f.name, f.unit, f.show(f.first), f.show(f.last),
				f.show(f.slope), f.show(f.limit), word)
		}
		last := t.samples[process][len(t.samples[process])-1].Values
		fmt.Fprintf(out, "%s\tlost\t\t%g\t\t0\t%s\n", process, last[qLost], map[bool]string{true: "none", false: "LOST"}[last[qLost] == 0])
		if last[qLost] != 0 {
			bad = append(bad, fmt.Sprintf("%s lost %g leases", process, last[qLost]))
		}
	}
	fmt.Fprintf(out, "(judged after the first third; it grows if medians and slope both exceed what is allowed)\n")
	if err := out.Flush(); err != nil {
		return err
	}
	if len(bad) > 0 {
		return errors.New(strings.Join(bad, ", "))
	}
	return nil
}
