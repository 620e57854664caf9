//go:build unix

package main

import (
	"os"
	"strconv"
	"strings"
)

const notHere = 3 // the exit status of a program whose server is not installed

// samples runs a program that prints nanoseconds. It keeps the samples if they are a curve.
func (w *workshop) samples(curve, needs, program string, args ...string) (figure, error) {
	cmd, cancel := w.command(program, args...)
	defer cancel()
	f, err := w.numbers(cmd, curve)
	if cmd.ProcessState != nil && cmd.ProcessState.ExitCode() == notHere {
		return f, &missingError{needs}
	}
	if curve == "" {
		f.Samples = nil
	}
	return f, err
}

// handOver is a run of tests/bench/handover.
type handOver struct {
	args  []string
	curve string
	asked string // the file for how many requests a waiter makes in a poll interval
}

func (h handOver) measure(w *workshop) (figure, error) {
	program := w.path("handover")
	if err := w.build(program, "go", "build", "-o", program, "./tests/bench/handover"); err != nil {
		return figure{}, err
	}
	args := h.args
	if h.asked != "" {
		args = append([]string{"-asked", w.path(h.asked)}, args...)
	}
	return w.samples(h.curve, "the S3 server (make servers)", program, args...)
}

// mopsHandOver is mops' own waiter.
type mopsHandOver struct {
	args  []string
	curve string
}

func (m mopsHandOver) measure(w *workshop) (figure, error) {
	const needs = "thds.mops"
	if err := w.build("import "+needs, projectPython(), "-c", "import "+needs); err != nil {
		return figure{}, &missingError{needs}
	}
	return w.samples(m.curve, needs, projectPython(), append([]string{"tests/bench/handover_mops.py"}, m.args...)...)
}

// once is a source that is measured once, for all its rows: it takes long, and is a
// median of many already.
type once struct {
	source

	done bool
	figure
	err error
}

func (o *once) measure(w *workshop) (figure, error) {
	if !o.done {
		o.done = true
		o.figure, o.err = o.source.measure(w)
	}
	return o.figure, o.err
}

// percentile is one of the samples of another source, which draws them.
type percentile struct {
	of      source
	percent int
}

func (p percentile) measure(w *workshop) (figure, error) {
	f, err := p.of.measure(w)
	if len(f.Samples) > 0 {
		f.Value = f.Samples[(len(f.Samples)-1)*p.percent/100]
	}
	f.Samples, f.Curve = nil, ""
	return f, err
}

// content is the number in a file that another source has written.
type content struct {
	of   source
	file string
}

func (c content) measure(w *workshop) (figure, error) {
	if _, err := c.of.measure(w); err != nil {
		return figure{}, err
	}
	text, err := os.ReadFile(w.path(c.file))
	if err != nil {
		return figure{}, err
	}
	f := figure{Unit: inNumber}
	f.Value, err = strconv.ParseFloat(strings.TrimSpace(string(text)), 64)
	return f, err
}
