//go:build unix

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
)

// fate is how far a job was when the orchestrator was killed.
type fate int

const (
	wasDone fate = iota
	wasRunning
	wasLaunched // and its remote had not begun
	wasNotBegun
	fates
)

func (f fate) String() string {
	return [fates]string{
		"done before the kill", "running at the kill", "launched before the kill, but not begun", "not launched before the kill",
	}[f]
}

// report is what became of the jobs, by the journal.
type report struct {
	jobs    []outcome
	members [fates]int
}

// outcome is what became of one job.
type outcome struct {
	name       string
	fate       fate
	again      int // launches after the kill
	executions int // how often it ran, in all
	result     string
	told       []string // results that differ from it
}

func (d *driver) report() (report, error) {
	r := report{jobs: make([]outcome, d.jobs)}
	for n := range r.jobs {
		before, after := d.atKill[n], d.afterwards[n]
		o := &r.jobs[n]
		o.name, o.fate = jobName(n), wasNotBegun
		switch {
		case len(before.got) > 0:
			o.fate = wasDone
		case len(before.began) > 0:
			o.fate = wasRunning
		case len(before.launched) > 0:
			o.fate = wasLaunched
		}
		r.members[o.fate]++
		o.again, o.executions = len(after.launched)-len(before.launched), len(after.began)
		for _, orchestrator := range after.got {
			text, err := os.ReadFile(d.path("results", strconv.Itoa(orchestrator), o.name))
			if err != nil {
				return r, err
			}
			if o.result == "" {
				o.result = string(text)
			} else if string(text) != o.result {
				o.told = append(o.told, string(text))
			}
		}
	}
	return r, nil
}

func (r *report) print(out io.Writer) {
	fmt.Fprintf(out, "\n%-40s %5s  %14s  %10s\n", "what the orchestrator found", "jobs", "launched again", "executions")
	sum := outcome{}
	for f := range fates {
		again, executions := 0, 0
		for _, o := range r.jobs {
			if o.fate == f {
				again += o.again
				executions += o.executions
			}
		}
		fmt.Fprintf(out, "%-40s %5d  %14d  %10d\n", f, r.members[f], again, executions)
		sum.again += again
		sum.executions += executions
	}
	fmt.Fprintf(out, "%-40s %5d  %14d  %10d\n", "in all", len(r.jobs), sum.again, sum.executions)
}

// judge says what is not as promised: every result is there and is one, every
// job has run once, and nothing was launched again that was done or running.
func (r *report) judge() error {
	var bad []error
	for _, o := range r.jobs {
		again := 0
		if o.fate == wasLaunched || o.fate == wasNotBegun {
			again = 1
		}
		switch {
		case o.result == "":
			bad = append(bad, fmt.Errorf("%s has no result", o.name))
		case len(o.told) > 0:
			bad = append(bad, fmt.Errorf("%s has the results %q and %q", o.name, o.result, o.told))
		case o.executions != 1:
			bad = append(bad, fmt.Errorf("%s has run %d times", o.name, o.executions))
		case o.again != again:
			bad = append(bad, fmt.Errorf("%s was %s, and launched %d times after it", o.name, o.fate, o.again))
		}
	}
	return errors.Join(bad...)
}
