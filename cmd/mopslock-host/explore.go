package main

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/exit"
	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/report"
	"github.com/mopslock/mopslock/host"
	"github.com/mopslock/mopslock/tests/explore"
)

type exploreFlags struct {
	protocol string
	seed     uint64
	states   int
	depth    int
	span     time.Duration
	svg      string
}

func (a *app) exploreCommand() *cobra.Command {
	var f exploreFlags
	cmd := &cobra.Command{
		Use:   "explore [PROTOCOL] [flags]",
		Short: "search a protocol for what must not happen",
		Long: `Run a few holders and a companion of a protocol against a store in memory, in every order in which requests are
sent, applied and answered, with lost answers, late writes, crashes, pauses and clocks that drift. Look for a state
that must not occur, such as two holders, or more permits than there are. Under strict, lastwriter, invocation,
semaphore and buckets it runs the machines that all other commands run; the other protocols imitate older ones.

If explore finds such a state, it prints the shortest way to it as numbered steps, and the status is 1. Otherwise it
says how much it has searched. It opens no store.

PROTOCOL is one of ` + strings.Join(explore.Protocols(), ", ") + `.`,
		Example: `  mopslock-host explore
  mopslock-host explore riak-2 --svg riak-2.svg
  mopslock-host explore --protocol canal-lock
  mopslock-host explore --protocol strict --states 20000000
  mopslock-host explore --for 1h`,
		ValidArgs: explore.Protocols(),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) > 1 || len(args) > 0 && cmd.Flags().Changed("protocol"):
				return exit.Usagef("explore takes one PROTOCOL; see mopslock-host explore --help")
			case len(args) > 0:
				f.protocol = args[0]
			}
			if err := exit.Usage(f.check()...); err != nil {
				return err
			}
			if f.span > 0 && !cmd.Flags().Changed("states") {
				f.states = 0
			}
			ctx, cancel := a.signals.WaitContext(context.Background())
			defer cancel()
			return a.explore(ctx, &f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.protocol, "protocol", "strict", "which `PROTOCOL` to explore")
	flags.Uint64Var(&f.seed, "seed", 1, "the seed of the machines' ids and jitter")
	flags.IntVar(&f.states, "states", explore.DefaultStates, "the most distinct states to see; with --for there is no bound unless one is given")
	flags.IntVar(&f.depth, "depth", 0, "the most steps from the beginning (default no bound)")
	flags.DurationVar(&f.span, "for", 0, "stop after this `DURATION`, and report how far it went (default no bound)")
	flags.StringVar(&f.svg, "svg", "", "draw who held when into this `FILE`")
	_ = cmd.RegisterFlagCompletionFunc("protocol", cobra.FixedCompletions(explore.Protocols(), cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	return cmd
}

func (f *exploreFlags) check() (bad []error) {
	if all := explore.Protocols(); !slices.Contains(all, f.protocol) {
		bad = append(bad, exit.Usagef("--protocol %s: one of %s", host.Printable(f.protocol), strings.Join(all, ", ")))
	}
	if f.states < 1 {
		bad = append(bad, exit.Usagef("--states %d: at least 1", f.states))
	}
	if f.depth < 0 {
		bad = append(bad, exit.Usagef("--depth %d: at least 1, or 0 for no bound", f.depth))
	}
	if f.span < 0 {
		bad = append(bad, exit.Usagef("--for %s: more than nothing, or 0 for no bound", f.span))
	}
	return bad
}

func (a *app) explore(ctx context.Context, f *exploreFlags) error {
	svg, err := createFile("svg", f.svg)
	if err != nil {
		return err
	}
	result, err := explore.Run(ctx, explore.Options{
		Protocol: f.protocol, Seed: f.seed, MaxStates: f.states, Depth: f.depth, For: f.span,
		Progress: func(states int) { a.console.Progress("explored %d states of %s", states, f.protocol) },
	})
	a.console.StopWaiting()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return err
	}
	if err := svg.fill(result.WriteSVG); err != nil {
		return err
	}
	if a.json {
		err = a.report(newExploreReport(&result, f.seed))
	} else {
		var text bytes.Buffer
		if err = result.WriteText(&text); err == nil {
			err = a.print(text.String())
		}
	}
	if err != nil {
		return err
	}
	if result.Counterexample != nil {
		return &exit.Error{Status: exit.StatusNothing, Reason: "violation"}
	}
	return nil
}

// exploreReport is what --json prints.
type exploreReport struct {
	Protocol       string           `json:"protocol"`
	Seed           uint64           `json:"seed"`
	States         int              `json:"states"`
	Transitions    int              `json:"transitions"`
	Depth          int              `json:"depth"`
	Exhausted      bool             `json:"exhausted"`
	Elapsed        float64          `json:"elapsed_s"`
	Scenarios      []scenarioReport `json:"scenarios"`
	Counterexample *counterexample  `json:"counterexample,omitempty"`
}

type scenarioReport struct {
	Name      string `json:"name"`
	About     string `json:"about"`
	States    int    `json:"states"`
	Depth     int    `json:"depth"`
	Exhausted bool   `json:"exhausted"`
}

type counterexample struct {
	Scenario string       `json:"scenario"`
	Checker  string       `json:"checker"`
	Text     string       `json:"text"`
	Steps    []stepReport `json:"steps"`
}

type stepReport struct {
	Number int      `json:"step"`
	At     float64  `json:"at_s"`
	Actor  string   `json:"actor"`
	Kind   string   `json:"kind"`
	Verb   string   `json:"verb"`
	Text   string   `json:"text"`
	Holds  []string `json:"holds"`
}

func newExploreReport(r *explore.Result, seed uint64) exploreReport {
	out := exploreReport{
		Protocol: r.Protocol, Seed: seed, States: r.States, Transitions: r.Transitions, Depth: r.Depth,
		Exhausted: r.Exhausted, Elapsed: report.Seconds(r.Elapsed),
	}
	for _, found := range r.Scenarios {
		out.Scenarios = append(out.Scenarios, scenarioReport{
			found.Scenario.Name, found.Scenario.About, found.States, found.Depth, found.Exhausted,
		})
	}
	if c := r.Counterexample; c != nil {
		out.Counterexample = &counterexample{Scenario: c.Scenario.Name, Checker: c.Violation.Checker, Text: c.Violation.Text}
		for i := range c.Trace {
			s := &c.Trace[i]
			out.Counterexample.Steps = append(out.Counterexample.Steps, stepReport{
				i + 1, s.At.Seconds(), s.Actor, s.Kind, s.Verb, s.Text, append([]string{}, s.Holds...),
			})
		}
	}
	return out
}
