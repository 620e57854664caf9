package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/exit"
	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/report"
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
	"github.com/mopslock/mopslock/host/store"
)

type benchFlags struct {
	parallel int
	length   time.Duration
	protocol string
}

// both is what --protocol is for bench unless it is said.
const both = "both"

func (a *app) benchCommand() *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{
		Use:   "bench [flags]",
		Short: "measure leases on the store: how long they take, how many a second, what they cost",
		Long: `Measure leases on your own store: how long it takes to acquire, renew and release one, how many a second so many
workers acquire and release, and how long a waiter elsewhere takes to have a lease after its release begins; under both
protocols. Requests are counted by verb, with what they would cost at S3's list prices.

Its leases are named mopslock-bench/ID/…, and deleted in the end with everything that is kept of them; where that does not
succeed it says so, and everything below that prefix may be deleted by hand. It writes as fast as the store takes it, and
requests cost money. A signal ends it, and what there is by then is printed. mem:// is the memory of this process.

--json prints one object: store, parallel, elapsed_s; protocols, each with protocol, leases, leases_per_s, acquire, renew,
release and hand_over (count, p50_ms, p90_ms, p99_ms), requests (of acquiring and releasing, by verb),
usd_per_1000_leases and failed; left_behind.`,
		Example: `  mopslock-host bench --store s3://bucket/locks
  mopslock-host bench --for 60s --parallel 32 --protocol strict
  mopslock-host bench --store mem:// --for 5s --json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return exit.Usagef("bench takes no argument; see mopslock-host bench --help")
			}
			if err := exit.Usage(f.check()...); err != nil {
				return err
			}
			raw, err := a.location(cmd)
			if err != nil {
				return err
			}
			ctx, cancel := a.signals.WaitContext(context.Background())
			defer cancel()
			return a.bench(ctx, raw, &f)
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&f.parallel, "parallel", 8, "how many workers acquire and release")
	flags.DurationVar(&f.length, "for", 10*time.Second, "how long it takes, with both protocols")
	flags.StringVar(&f.protocol, "protocol", both, "strict, lastwriter or both")
	_ = cmd.RegisterFlagCompletionFunc("protocol", cobra.FixedCompletions([]string{both, "strict", "lastwriter"}, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	return cmd
}

func (f *benchFlags) check() (bad []error) {
	if f.parallel < 1 || f.parallel > maxParallel {
		bad = append(bad, exit.Usagef("--parallel %d: from 1 to %d", f.parallel, maxParallel))
	}
	if f.length < time.Second || f.length > time.Hour {
		bad = append(bad, exit.Usagef("--for %v: from 1s to 1h", f.length))
	}
	if len(f.protocols()) == 0 {
		bad = append(bad, exit.Usagef("--protocol %s: strict, lastwriter or both", host.Printable(f.protocol)))
	}
	return bad
}

func (f *benchFlags) protocols() (wanted []core.Protocol) {
	for _, protocol := range []core.Protocol{core.ProtocolStrict, core.ProtocolLastWriter} {
		if f.protocol == both || f.protocol == protocol.String() {
			wanted = append(wanted, protocol)
		}
	}
	return wanted
}

// benchReport is what --json prints.
type benchReport struct {
	Store     string         `json:"store"`
	Parallel  int            `json:"parallel"`
	Elapsed   float64        `json:"elapsed_s"`
	Protocols []*benchResult `json:"protocols"`
	// Left is how many objects could not be deleted; -1: at least one.
	Left int `json:"left_behind"`
}

// bench measures the store at a URL, and prints what there is however it ends.
func (a *app) bench(ctx context.Context, raw string, f *benchFlags) error {
	s, err := store.Open(ctx, raw)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	protocols := f.protocols()
	b := newBench(a, s, f.parallel, f.length/time.Duration(len(protocols)))
	all := &benchReport{Store: store.Redact(raw), Parallel: f.parallel, Protocols: []*benchResult{}}
	begun := time.Now()
	stop := b.tell(begun)
	for _, protocol := range protocols {
		var result *benchResult
		result, err = b.run(ctx, protocol)
		if result != nil && (result.Leases > 0 || err == nil) {
			all.Protocols = append(all.Protocols, result)
		}
		if errors.Is(err, host.ErrUnfit) && len(protocols) > 1 {
			a.console.Printf("strict is left out: %s", exit.Text(err))
			err = nil
		}
		if err != nil || ctx.Err() != nil {
			break
		}
	}
	all.Elapsed = report.Seconds(time.Since(begun))
	all.Left = b.sweep()
	stop()
	if all.Left != 0 {
		a.console.Printf("not everything below %s could be deleted; it is of no use to anybody, and may be deleted by hand", b.prefix)
	}
	if len(all.Protocols) > 0 {
		if err := a.reportBench(all); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// Of the progress line.
const (
	tellEach  = 3 * time.Second        // a line, where there is no terminal
	drawnEach = 200 * time.Millisecond // the line, on one
)

// tell shows how far it is until the function that it returns is called.
func (b *bench) tell(begun time.Time) (stop func()) {
	each := tellEach
	if b.app.console.OnTerminal() {
		each = drawnEach
	}
	ticker := time.NewTicker(each)
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		defer ticker.Stop()
		for {
			select {
			case <-over:
				return
			case <-ticker.C:
			}
			if text := b.line(time.Since(begun)); b.app.console.OnTerminal() {
				b.app.console.Progress("%s", text)
			} else {
				b.app.console.Printf("%s", text)
			}
		}
	}()
	return func() {
		close(over)
		<-done
		b.app.console.StopWaiting()
	}
}

func (b *bench) line(since time.Duration) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	text := fmt.Sprintf("%v: ", since.Round(100*time.Millisecond))
	if b.now != nil {
		text += fmt.Sprintf("%s: %d leases, ", b.now.Protocol, b.now.Leases)
	}
	return text + b.state
}

func (a *app) reportBench(r *benchReport) error {
	if a.json {
		return a.report(r)
	}
	var text strings.Builder
	fmt.Fprintf(&text, "store %s, %d workers, %v\n", host.Printable(r.Store), r.Parallel, time.Duration(r.Elapsed*1e9).Round(100*time.Millisecond))
	for _, p := range r.Protocols {
		fmt.Fprintf(&text, "\n%-12s%10s %10s %10s %8s\n", p.Protocol, "p50 ms", "p90 ms", "p99 ms", "of")
		for _, row := range []struct {
			what string
			timing
		}{{"acquire", p.Acquire}, {"renew", p.Renew}, {"release", p.Release}, {"hand-over", p.Handover}} {
			fmt.Fprintf(&text, "  %-10s%10.2f %10.2f %10.2f %8d\n", row.what, row.P50, row.P90, row.P99, row.Count)
		}
		fmt.Fprintf(&text, "  %.1f leases a second; %s\n", p.PerS, requestsText(p, isPaid(r.Store)))
		if p.Failed > 0 {
			fmt.Fprintf(&text, "  %d could not be acquired or released\n", p.Failed)
		}
	}
	return a.print(text.String())
}

// requestsText is what a lease asks of the store, and where that costs money how much.
func requestsText(p *benchResult, paid bool) string {
	if p.Leases == 0 {
		return "no time for one; give it more, by --for"
	}
	var parts []string
	for verb, n := range p.Requests {
		if each := float64(n) / float64(p.Leases); each >= 0.05 {
			parts = append(parts, fmt.Sprintf("%.1f %s", each, verb))
		}
	}
	slices.Sort(parts)
	slices.Reverse(parts) // the most frequent first
	text := "of each " + strings.Join(parts, ", ")
	if paid {
		text += fmt.Sprintf("; 1,000 of them US$ %.4f at S3's list prices (an estimate)", p.USD)
	}
	return text
}
