package main

import (
	"context"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/exit"
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
	"github.com/mopslock/mopslock/tests/simulate"
)

type simulateFlags struct {
	protocol   string
	seed       uint64
	seeds      int
	actors     int
	names      int
	companions int
	ttl        time.Duration
	duration   time.Duration
	weather    string
	workers    int
	svg        string
}

func (a *app) simulateCommand() *cobra.Command {
	var f simulateFlags
	cmd := &cobra.Command{
		Use:   "simulate [flags]",
		Short: "play a protocol with many processes and many faults, in virtual time",
		Long: `Play processes that acquire, hold and release leases, or permits of a semaphore, against a store in memory, in
virtual time, with faults drawn from a seed: lost requests and answers, slow networks, throttling, pauses, crashes,
clocks that are wrong and drift. simulate prints how long a hand-over takes, how many requests one costs, and how fair
it is. The same seed plays the same again, to the last event; a value that no flag sets is drawn from the seed.
simulate opens no store.

If something happens that must not, such as two holders where the protocol promises one, simulate prints it with the
last events, and the status is 1. --svg draws who held what when; of many seeds it draws the one that failed.

PROTOCOL is one of ` + strings.Join(simulate.Protocols(), ", ") + `.`,
		Example: `  mopslock-host simulate --seed 7
  mopslock-host simulate --protocol strict --seeds 2000
  mopslock-host simulate --protocol lastwriter --svg who.svg
  mopslock-host simulate --protocol semaphore --actors 50
  mopslock-host simulate --actors 1000 --names 1 --weather fair --json`,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return exit.Usagef("simulate takes no argument; see mopslock-host simulate --help")
			}
			opts, bad := f.options()
			if err := exit.Usage(bad...); err != nil {
				return err
			}
			ctx, cancel := a.signals.WaitContext(context.Background())
			defer cancel()
			return a.simulate(ctx, opts, &f)
		},
	}
	f.add(cmd)
	return cmd
}

func (f *simulateFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.protocol, "protocol", "strict", "which `PROTOCOL` to play")
	flags.Uint64Var(&f.seed, "seed", 1, "the seed of all chance; the first one with --seeds")
	flags.IntVar(&f.seeds, "seeds", 1, "how many seeds to play, up to the first violation")
	flags.IntVar(&f.actors, "actors", 0, "how many processes acquire, hold and release (default drawn, from 3 to 9; for semaphore 20)")
	flags.IntVar(&f.names, "names", 0, "how many names they want (default drawn, from 1 to 3)")
	flags.IntVar(&f.companions, "companions", 0, "how many processes accompany; below 0 is none; semaphore has none (default drawn, up to 3)")
	flags.DurationVar(&f.ttl, "ttl", 0, "the TTL of every lease; below 0 is until it is released or broken, of strict (default drawn)")
	flags.DurationVar(&f.duration, "duration", 0, "how long the faults last, in virtual time (default 10 TTL)")
	flags.StringVar(&f.weather, "weather", "", "stormy, orderly or fair: which faults (default stormy; lastwriter also orderly)")
	flags.IntVar(&f.workers, "workers", runtime.GOMAXPROCS(0), "how many seeds at a time")
	flags.StringVar(&f.svg, "svg", "", "draw who held what when into this `FILE`")
	_ = cmd.RegisterFlagCompletionFunc("protocol", cobra.FixedCompletions(simulate.Protocols(), cobra.ShellCompDirectiveNoFileComp)) // the flag is there
}

// maxActors bounds what one run keeps in memory.
const maxActors = 100_000

// maxDuration is far longer than the bound of events lets any run last.
const maxDuration = 10 * 365 * 24 * time.Hour

func (f *simulateFlags) options() (opts simulate.Options, bad []error) {
	opts, err := simulate.ByName(f.protocol)
	if err != nil {
		bad = append(bad, exit.Usagef("--protocol %s: one of %s", host.Printable(f.protocol), strings.Join(simulate.Protocols(), ", ")))
	}
	opts.Seed, opts.Actors, opts.Names, opts.Companions = f.seed, f.actors, f.names, f.companions
	opts.TTL, opts.Duration, opts.Weather = f.ttl, f.duration, simulate.Weather(f.weather)
	within := func(flag string, value, least, most int) {
		if value < least || value > most {
			bad = append(bad, exit.Usagef("--%s %d: from %d to %d", flag, value, least, most))
		}
	}
	within("seeds", f.seeds, 1, 1<<30)
	within("workers", f.workers, 1, 1024)
	within("actors", f.actors, 0, maxActors)
	within("names", f.names, 0, maxActors)
	within("companions", f.companions, -maxActors, maxActors)
	switch weathers := []simulate.Weather{"", simulate.Stormy, simulate.Orderly, simulate.Fair}; {
	case !slices.Contains(weathers, opts.Weather):
		bad = append(bad, exit.Usagef("--weather %s: stormy, orderly or fair", host.Printable(f.weather)))
	case f.duration < 0, f.duration > maxDuration:
		bad = append(bad, exit.Usagef("--duration %v: above 0, at most %v", f.duration, maxDuration))
	}
	if f.protocol != "strict" && f.ttl < 0 {
		bad = append(bad, exit.Usagef("--ttl %v: only strict has leases without an expiry", f.ttl))
	} else if f.ttl > 0 {
		bad = append(bad, judgedUnder(opts.Protocol, "simulated", host.Terms{TTL: core.TTL(f.ttl)}))
	}
	return opts, bad
}

func (a *app) simulate(ctx context.Context, opts simulate.Options, f *simulateFlags) error {
	svg, err := createFile("svg", f.svg)
	if err != nil {
		return err
	}
	if f.seeds > 1 {
		return a.swarm(ctx, opts, f, svg)
	}
	opts.Holds = svg != nil
	var result simulate.Result
	if err := a.interruptible(ctx, func() error { result = simulate.Run(opts); return nil }); err != nil {
		return err
	}
	if err := svg.fill(result.WriteSVG); err != nil {
		return err
	}
	if err := a.reportPlayed(&result, result.String()); err != nil {
		return err
	}
	return played(&result)
}

// swarm plays many seeds, some at a time, so that the live line can say how far it is.
func (a *app) swarm(ctx context.Context, opts simulate.Options, f *simulateFlags, svg *outFile) error {
	total := simulate.Summary{Protocol: f.protocol, First: f.seed, Asked: f.seeds}
	batch := 8 * f.workers
	for total.Ran < f.seeds && total.Failed == nil {
		var some simulate.Summary
		first, count := f.seed+uint64(total.Ran), min(batch, f.seeds-total.Ran)
		err := a.interruptible(ctx, func() error { some = simulate.Swarm(first, count, f.workers, opts); return nil })
		if err != nil {
			return err
		}
		total.Add(&some)
		a.console.Progress("played %d of %d seeds", total.Ran, f.seeds)
	}
	a.console.StopWaiting()
	if err := svg.fill(total.WriteSVG); err != nil {
		return err
	}
	if err := a.reportPlayed(&total, total.String()); err != nil {
		return err
	}
	return played(total.Failed)
}

func (a *app) reportPlayed(result any, text string) error {
	if a.json {
		return a.report(result)
	}
	return a.print(text)
}

// played returns the exit of a run, or nil if it has no violation.
func played(r *simulate.Result) error {
	if r == nil || r.Violation == nil {
		return nil
	}
	return &exit.Error{Status: exit.StatusNothing, Reason: "violation"}
}
