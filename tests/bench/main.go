// Command bench prints what mopslock costs beside what it cannot do without,
// as ratios measured in one run: A B A B …, medians. `make bench` runs it.
//
// Machines are shared and noisy, so a figure in nanoseconds says little and a
// ratio says something. It exits 1 if a budget is not met.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"text/tabwriter"
)

const (
	module = "github.com/mopslock/mopslock/"
	rounds = 5
	length = "200ms" // of one benchmark in one round
)

// row compares two things that are measured in turns.
type row struct {
	what         string
	ours, beside source
	budget       float64 // the largest ratio; 0 is none
	noAllocs     bool
}

// source is something that can be measured again and again.
type source interface {
	measure(w *workshop) (figure, error)
}

var (
	nativeStep   = goBench{"tests/bench", "StepNative"}
	mopsAcquire  = mops("acquire.py", "theirs")
	mopsRenewCPU = mops("renew.py", "theirs-cpu")

	// canal_lock's own benchmark on Erlang/OTP 25, an acquire and a release, takes 33 to
	// 154 µs. We take the lower figure for one alone and the higher for a crowd.
	canalLock, canalLockMany = quoted{value: 33_000}, quoted{value: 154_000}
	limiter, limiterMany     = goBench{"tests/bench", "Limiter"}, goBench{"tests/bench", "LimiterMany"}
	sema, semaMany           = goBench{"tests/bench", "Semaphore"}, goBench{"tests/bench", "SemaphoreMany"}

	rows = []row{
		{"native step, message to message / map lookup + copy", nativeStep, goBench{"tests/bench", "MapAndCopy"}, 16, true},
		{"C → libmopslock step / native step", replayC{}, nativeStep, 3, false},
		{"wazero step / native step", goBench{"tests/bench", "StepWASM"}, nativeStep, 20, true},
		{"Python step, ctypes that keeps the GIL, buffers used again / native step", stepCtypes("PyDLL"), nativeStep, 10, false},
		{"Python step, ctypes that lets go of it, buffers used again / native step", stepCtypes("CDLL"), nativeStep, 0, false},
		{"Python step, cffi in API mode / native step", stepCffi, nativeStep, 5, false},
		{"Python step as the package makes it, dict in, dict out / native step", packaged("step_package.py", vectorPath), nativeStep, 0, false},
		{"guest, bytes / a bare Go reactor", guestSize{}, bareSize{}, 0, false},
		{"engine opened from the cache / compiled", goBench{"tests/bench", "OpenWASM"}, goBench{"tests/bench", "CompileWASM"}, 1, false},
		{"one more guest / engine opened from the cache", goBench{"tests/bench", "GuestWASM"}, goBench{"tests/bench", "OpenWASM"}, 0, false},
		{
			"acquire + release, lastwriter, directory / the same verbs and wait, bare",
			goBench{"tests/bench", "AcquireRelease"},
			goBench{"tests/bench", "BareVerbs"},
			1.3, false,
		},
		{"put on a directory / temporary file + rename", goBench{"host/store/local", "Put"}, goBench{"host/store/local", "PutBare"}, 0, false},
		{"get on a directory / reading the file", goBench{"host/store/local", "Get"}, goBench{"host/store/local", "GetBare"}, 0, false},
		{"create on a directory / file + fsync + link", goBench{"host/store/local", "Create"}, goBench{"host/store/local", "CreateBare"}, 0, false},
		{"mopslock.mops.acquire / mops' own acquire", mops("acquire.py", "ours"), mopsAcquire, 0.25, false},
		{"mopslock.mops.acquire / its bare verbs and wait, from Python", mops("acquire.py", "ours"), mops("acquire.py", "floor"), 2, false},
		{"mopslock.mops.acquire / mops' own without its traces", mops("acquire.py", "ours"), mops("acquire.py", "bare"), 0, false},
		{"an acquire's bare verbs and wait, from Python / mops' own acquire", mops("acquire.py", "floor"), mopsAcquire, 0, false},
		{"mopslock.lease(file://).acquire / mops' own acquire", mops("acquire.py", "url"), mopsAcquire, 0, false},
		{"renewal, own store, stepped from Python one by one / mops' maintain", mops("renew.py", "ours"), mops("renew.py", "theirs"), 0, false},
		{"renewal, own store, of 500 leases, CPU / mops' maintain, CPU", mops("renew.py", "own-cpu"), mopsRenewCPU, 0, false},
		{"renewal, file://, of 500 leases, CPU / mops' maintain, CPU", mops("renew.py", "url-cpu"), mopsRenewCPU, 0, false},
		{"check() of a held lease, file:// / own store", packaged("check.py", "url"), packaged("check.py", "own"), 0, false},

		{"limiter, acquire + release, 1 goroutine / canal_lock, quoted", limiter, canalLock, 1. / 200, true},
		{"limiter, acquire + release, 100 goroutines / canal_lock, quoted", limiterMany, canalLockMany, 1. / 200, true},
		{"limiter, by name and holder, 1 goroutine / x/sync/semaphore", limiter, sema, 8, true},
		{"limiter, by name and holder, 100 goroutines / x/sync/semaphore", limiterMany, semaMany, 8, true},
		{"limiter, on a slot, 1 goroutine / x/sync/semaphore", goBench{"tests/bench", "LimiterSlot"}, sema, 3, true},
		{"limiter, on a slot, 100 goroutines / x/sync/semaphore", goBench{"tests/bench", "LimiterSlotMany"}, semaMany, 3, true},
		{"limiter, 1 M names live, bytes a name / 200", bytesPerName{goBench{"tests/bench", "LimiterMemory"}}, quoted{value: 200, bytes: true}, 1, false},
		{"shared semaphore, commits of 100 callers together, in and out / one each", commits{goBench{"host", "PermitsOfAHundred"}}, quoted{value: 200, count: true}, 1. / 20, false},
	}
)

func main() {
	some := flag.String("rows", "", "measure only the rows in which this regular expression is found")
	flag.Parse()
	if err := run(*some); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(some string) error {
	wanted, err := regexp.Compile(some)
	if err != nil {
		return err
	}
	w, err := openWorkshop()
	if err != nil {
		return err
	}
	defer os.RemoveAll(w.dir)
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "what\tours\tbeside\tratio\tbudget\tok")
	missed := 0
	for _, r := range rows {
		if !wanted.MatchString(r.what) {
			continue
		}
		ours, beside, err := r.measure(w)
		if missing, ok := errors.AsType[*missingError](err); ok {
			fmt.Fprintf(table, "%s\t%s\t\t\t%s\t-\n", r.what, missing, r.limit())
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", r.what, err)
		}
		ratio := ours.value / beside.value
		budget, ok := r.limit(), "-"
		if r.budget > 0 {
			ok = "yes"
			if ratio > r.budget || r.noAllocs && ours.allocs > 0 {
				ok = "NO"
				missed++
			}
		}
		if ours.bytes && r.budget == 0 { // the size line has its budget as a difference
			budget, ok = fmt.Sprintf("≤ +%d KiB", guestBudget>>10), "yes"
			if ours.value-beside.value > guestBudget {
				ok = "NO"
				missed++
			}
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", r.what, ours, beside, short(ratio), budget, ok)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if missed > 0 {
		return fmt.Errorf("%d of %d budgets not met", missed, len(rows))
	}
	return nil
}

// short is a ratio with two digits that say something.
func short(ratio float64) string {
	if ratio < 0.1 {
		return fmt.Sprintf("%.2g", ratio)
	}
	return fmt.Sprintf("%.2f", ratio)
}

// limit is the budget as the table has it.
func (r *row) limit() string {
	switch {
	case r.budget == 0:
		return "-"
	case r.noAllocs:
		return fmt.Sprintf("≤ %g, 0 allocs", r.budget)
	}
	return fmt.Sprintf("≤ %g", r.budget)
}

// measure runs both in turns, so that a busy machine is busy for both.
func (r *row) measure(w *workshop) (ours, beside figure, err error) {
	var a, b []figure
	for range rounds {
		for _, turn := range []struct {
			source
			to *[]figure
		}{{r.ours, &a}, {r.beside, &b}} {
			f, err := turn.measure(w)
			if err != nil {
				return ours, beside, err
			}
			*turn.to = append(*turn.to, f)
		}
	}
	return median(a), median(b), nil
}

// figure is a duration in nanoseconds, a size in bytes, or a count.
type figure struct {
	value, allocs float64
	bytes, count  bool
}

func median(figures []figure) figure {
	slices.SortFunc(figures, func(a, b figure) int {
		switch {
		case a.value < b.value:
			return -1
		case a.value > b.value:
			return 1
		}
		return 0
	})
	return figures[len(figures)/2]
}

func (f figure) String() string {
	switch ns := f.value; {
	case f.count:
		return fmt.Sprintf("%.3g", ns)
	case f.bytes:
		return fmt.Sprintf("%.0f", ns)
	case ns < 1e3:
		return fmt.Sprintf("%.1f ns", ns)
	case ns < 1e6:
		return fmt.Sprintf("%.2f µs", ns/1e3)
	}
	return fmt.Sprintf("%.2f ms", f.value/1e6)
}
