// Command bench prints what mopslock costs beside what it cannot do without,
// as ratios measured in one run: A B A B …, medians. `make bench` runs it.
//
// Machines are shared and noisy, so a figure in nanoseconds says little and a
// ratio says something. It exits 1 if a budget is not met.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"text/tabwriter"
)

const (
	module = "github.com/mopslock/mopslock/"
	rounds = 5
	length = "200ms" // of one benchmark in one round
)

// row compares two Go benchmarks of one package.
type row struct {
	what, pkg, ours, beside string
	budget                  float64 // the largest ratio; 0 is none
	noAllocs                bool
}

var rows = []row{
	{"renew step, native, message to message / map lookup + copy", "tests/bench", "RenewStep", "MapAndCopy", 16, true},
	{"acquire + release, lastwriter, directory / the same verbs and wait, bare", "tests/bench", "AcquireRelease", "BareVerbs", 1.3, false},
	{"put on a directory / temporary file + rename", "host/store/local", "Put", "PutBare", 0, false},
	{"get on a directory / reading the file", "host/store/local", "Get", "GetBare", 0, false},
	{"create on a directory / file + fsync + link", "host/store/local", "Create", "CreateBare", 0, false},
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run() error {
	dir, err := os.MkdirTemp("", "mopslock-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "what\tours\tbeside\tratio\tbudget\tok")
	missed := 0
	for _, r := range rows {
		ours, beside, err := r.measure(dir)
		if err != nil {
			return fmt.Errorf("%s: %w", r.what, err)
		}
		ratio := ours.ns / beside.ns
		budget, ok := "-", "-"
		if r.budget > 0 {
			budget, ok = fmt.Sprintf("≤ %g", r.budget), "yes"
			if r.noAllocs {
				budget += ", 0 allocs"
			}
			if ratio > r.budget || r.noAllocs && ours.allocs > 0 {
				ok = "NO"
				missed++
			}
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%.2f\t%s\t%s\n", r.what, duration(ours.ns), duration(beside.ns), ratio, budget, ok)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if missed > 0 {
		return fmt.Errorf("%d of %d budgets not met", missed, len(rows))
	}
	return nil
}

// figure is a benchmark's median.
type figure struct{ ns, allocs float64 }

// measure runs both in turns, so that a busy machine is busy for both.
func (r *row) measure(dir string) (ours, beside figure, err error) {
	binary := filepath.Join(dir, filepath.Base(r.pkg)+".test")
	if _, err := os.Stat(binary); err != nil {
		build := exec.Command("go", "test", "-c", "-o", binary, module+r.pkg)
		if out, err := build.CombinedOutput(); err != nil {
			return ours, beside, fmt.Errorf("%w\n%s", err, out)
		}
	}
	var a, b []figure
	for range rounds {
		for name, figures := range map[string]*[]figure{r.ours: &a, r.beside: &b} {
			f, err := once(binary, dir, name)
			if err != nil {
				return ours, beside, err
			}
			*figures = append(*figures, f)
		}
	}
	return median(a), median(b), nil
}

var (
	perOp       = regexp.MustCompile(`\s([0-9.]+) ns/op`)
	allocsPerOp = regexp.MustCompile(`\s([0-9]+) allocs/op`)
)

func once(binary, dir, name string) (figure, error) {
	bench := exec.Command(binary, "-test.run", "^$", "-test.bench", "^Benchmark"+name+"$", "-test.benchtime", length)
	bench.Dir = dir
	out, err := bench.CombinedOutput()
	if err != nil {
		return figure{}, fmt.Errorf("%s: %w\n%s", name, err, out)
	}
	match := perOp.FindSubmatch(out)
	if match == nil {
		return figure{}, fmt.Errorf("%s: there is no such benchmark, or it said nothing: %s", name, out)
	}
	f := figure{}
	if f.ns, err = strconv.ParseFloat(string(match[1]), 64); err != nil {
		return f, err
	}
	if match := allocsPerOp.FindSubmatch(out); match != nil {
		f.allocs, err = strconv.ParseFloat(string(match[1]), 64)
	}
	return f, err
}

func median(figures []figure) figure {
	slices.SortFunc(figures, func(a, b figure) int {
		switch {
		case a.ns < b.ns:
			return -1
		case a.ns > b.ns:
			return 1
		}
		return 0
	})
	return figures[len(figures)/2]
}

func duration(ns float64) string {
	switch {
	case ns < 1e3:
		return fmt.Sprintf("%.1f ns", ns)
	case ns < 1e6:
		return fmt.Sprintf("%.1f µs", ns/1e3)
	}
	return fmt.Sprintf("%.2f ms", ns/1e6)
}
