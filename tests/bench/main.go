//go:build unix

// Command bench prints what mopslock costs beside what it cannot do without and
// beside what a user would pick instead, as ratios measured in one run: A B A B …,
// medians. `make bench` runs it; a whole run writes results, the table in README.md
// and the headlines in the README at the root.
//
// Machines are shared and noisy, so a figure in nanoseconds says little and a
// ratio says something. It exits 1 if a budget is not met.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"syscall"
)

func main() {
	some := flag.String("rows", "", "measure only the rows in which this regular expression is found, and write nothing")
	merge := flag.Bool("merge", false, "write the rows of -rows into the last results")
	again := flag.Bool("write", false, "measure nothing: write the pages and the pictures from the last results")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "bench: %q: only flags are known; -rows %[1]q measures some rows\n", flag.Arg(0))
		os.Exit(64)
	}
	if err := run(*some, *merge, *again); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(some string, merge, again bool) error {
	if again {
		r, err := readReport()
		if err != nil {
			return err
		}
		return r.publish()
	}
	wanted, err := regexp.Compile(some)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	w, err := openWorkshop(ctx)
	if err != nil {
		return err
	}
	defer w.close()
	r := newReport()
	for _, g := range groups() {
		if err := r.add(w, g, wanted); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return errors.New("interrupted; nothing was written")
		}
	}
	if len(r.Parts) == 0 {
		return fmt.Errorf("no row has %q in it; tests/bench/rows_*.go has them all", some)
	}
	if merge {
		last, err := readReport()
		if err == nil {
			err = r.merge(last, groups())
		}
		if err != nil {
			return err
		}
	}
	if merge || some == "" {
		stop() // from here on an interrupt ends the command at once
		err = r.publish()
	}
	return errors.Join(err, r.missed())
}
