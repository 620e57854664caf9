//go:build unix

package main

import (
	"fmt"
	"regexp"
	"strings"
)

// trial is one run from which several figures are read, so that ours and what is
// beside it may come from turns within one process. Each figure of a run is read
// once: for the next time there is another run, unless it would be the same.
type trial struct {
	run  func(w *workshop) ([]byte, error)
	form string // of a figure in what it prints: a regular expression with %s for the name
	same bool   // every run is

	out  []byte
	read map[string]bool
}

// trialOf is a Go benchmark that reports its figures by ReportMetric.
func trialOf(g goBench) *trial {
	return &trial{run: g.run, form: `\s([0-9.e+-]+) %s\s`}
}

// countsOf is a Go test that reports its figures by Attr. It measures no time, plays
// hours in an instant, and fails by itself if a count is wrong. It reports its
// figures even then.
func countsOf(pkg, test string) *trial {
	run := func(w *workshop) ([]byte, error) {
		binary, err := goBench{pkg, test}.binary(w)
		if err != nil {
			return nil, err
		}
		cmd, cancel := w.command(binary, "-test.run", "^Test"+test+"$", "-test.v")
		defer cancel()
		cmd.Dir = w.dir
		out, err := w.output(cmd)
		if strings.Contains(string(out), "=== ATTR") {
			err = nil
		}
		return out, err
	}
	return &trial{run: run, same: true, form: `(?m)^=== ATTR  .* %s ([0-9.e+-]+)$`}
}

// figure is one figure of a trial.
func (t *trial) figure(name string, u unit) reading { return reading{trial: t, name: name, unit: u} }

type reading struct {
	*trial

	name  string
	unit  unit
	curve string
}

// on is the same figure as a point of a curve.
func (r reading) on(curve string) source {
	r.curve = curve
	return r
}

func (r reading) measure(w *workshop) (figure, error) {
	t := r.trial
	if t.out == nil || t.read[r.name] && !t.same {
		out, err := t.run(w)
		if err != nil && strings.Contains(err.Error(), notInstalled) {
			return figure{}, &missingError{"the server (make servers)"}
		}
		if err != nil {
			return figure{}, err
		}
		t.out, t.read = out, map[string]bool{}
	}
	t.read[r.name] = true
	form := regexp.MustCompile(fmt.Sprintf(t.form, regexp.QuoteMeta(r.name)))
	f := figure{Unit: r.unit, Curve: r.curve}
	var err error
	f.Value, err = goBench{name: r.name}.find(form, t.out)
	return f, err
}

// notInstalled is in the error of a benchmark that has no server.
const notInstalled = "not installed: make servers"
