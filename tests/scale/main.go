package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"
)

// options are the command's.
type options struct {
	orchestrators, leases int
	seed                  uint64
	only                  string
	shrunk                bool
}

func main() {
	var o options
	var file string
	flag.IntVar(&o.orchestrators, "orchestrators", fullSize, "processes")
	flag.IntVar(&o.leases, "leases", 10*fullSize, "leases that they hold together")
	flag.Uint64Var(&o.seed, "seed", 1, "of all chance")
	flag.StringVar(&o.only, "only", "", "keys of the scenarios to play, with commas between them (\"\": all)")
	flag.BoolVar(&o.shrunk, "shrunk", false, "limits in proportion to the fleet, so that a small one shows what a whole one would")
	flag.StringVar(&file, "o", "", "file to write the report to (\"\": stdout)")
	flag.Parse()
	if err := run(&o, file); err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(1)
	}
}

func run(o *options, file string) error {
	if o.orchestrators < 1 || o.leases < o.orchestrators {
		return fmt.Errorf("%d leases of %d orchestrators: at least one of each, and a lease for each orchestrator", o.leases, o.orchestrators)
	}
	if flag.NArg() > 0 {
		return fmt.Errorf("%q: only flags are known", flag.Args())
	}
	for key := range strings.SplitSeq(o.only, ",") {
		if o.only != "" && !slices.ContainsFunc(plans(o), func(p *plan) bool { return p.key == key }) {
			return fmt.Errorf("no scenario is %q; tests/scale/README.md has their keys", key)
		}
	}
	if file != "" { // fail now, not after the hour that it takes
		f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE, 0o644) //nolint:gosec // a document for everybody
		if err != nil {
			return err
		}
		_ = f.Close()
	}
	debug.SetGCPercent(100) // most of what there is stays
	begun := time.Now()
	outcomes := simulate(o, func(r *outcome, took time.Duration) {
		fmt.Fprintf(os.Stderr, "%-16s %7.1f s  %d million steps of clients, %d leases lost\n", r.plan.key, took.Seconds(), r.stats.steps/1e6, r.stats.losses)
	})
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	fmt.Fprintf(os.Stderr, "%.0f s in all, %d MiB of memory at most\n", time.Since(begun).Seconds(), memory.Sys>>20)
	if file == "" {
		_, err := os.Stdout.Write(report(o, outcomes))
		return err
	}
	return os.WriteFile(file, report(o, outcomes), 0o644) //nolint:gosec // a document for everybody
}

// outcome is the result of a scenario.
type outcome struct {
	plan  *plan
	stats stats
}

// simulate plays the scenarios, as many at once as there are processors, two at
// most: each holds a fleet in memory.
func simulate(o *options, done func(*outcome, time.Duration)) (outcomes []*outcome) {
	wanted := strings.Split(o.only, ",")
	all := plans(o)
	next := make(chan *outcome, len(all))
	for _, p := range all {
		if o.only == "" || slices.Contains(wanted, p.key) {
			outcomes = append(outcomes, &outcome{plan: p})
			next <- outcomes[len(outcomes)-1]
		}
	}
	close(next)
	var workers sync.WaitGroup
	var telling sync.Mutex
	for range min(2, runtime.GOMAXPROCS(0)) {
		workers.Go(func() {
			for r := range next {
				begun := time.Now()
				f := newFleet(r.plan, o.seed)
				f.run()
				r.stats = f.stats
				telling.Lock()
				done(r, time.Since(begun))
				telling.Unlock()
			}
		})
	}
	workers.Wait()
	return outcomes
}
