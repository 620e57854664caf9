package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/bench"
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

// both is the default of bench's --protocol.
const both = "both"

func (a *app) benchCommand() *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{
		Use:   "bench [flags]",
		Short: "measure leases on the store: how long they take, how many a second, what they cost",
		Long: `Measure leases on your own store, under both protocols: how long it takes to acquire, renew and release one, how many
a second the workers acquire and release, and how soon after the beginning of a release a waiter on another Host has the
lease. It counts requests by verb, and says what they would cost at S3's list prices.

Its leases are named mopslock-bench/ID/…. At the end it deletes them and all that the store keeps of them. If it cannot,
it says so, and everything below that prefix may be deleted by hand. It writes as fast as the store takes it, and
requests cost money. A signal ends it; it prints what it has measured by then. mem:// is the memory of this process.

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
	flags.DurationVar(&f.length, "for", 10*time.Second, "how long to measure, for all protocols together")
	flags.StringVar(&f.protocol, "protocol", both, "strict, lastwriter or both")
	_ = cmd.RegisterFlagCompletionFunc("protocol", cobra.FixedCompletions([]string{both, "strict", "lastwriter"}, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	return cmd
}

func (f *benchFlags) check() (bad []error) {
	if f.parallel < 1 || f.parallel > bench.MaxParallel {
		bad = append(bad, exit.Usagef("--parallel %d: from 1 to %d", f.parallel, bench.MaxParallel))
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

// bench measures the store at a URL. It prints what it has measured, however it ends.
func (a *app) bench(ctx context.Context, raw string, f *benchFlags) error {
	s, err := store.Open(ctx, raw)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	protocols := f.protocols()
	b := bench.New(s, bench.Options{
		Parallel: f.parallel, Length: f.length / time.Duration(len(protocols)), NewHost: a.benchHost(f), CloseHost: a.close, AtEnd: a.signals.ReleaseContext,
	})
	all := &bench.Report{Store: store.Redact(raw), Parallel: f.parallel, Protocols: []*bench.Result{}}
	begun := time.Now()
	stop := a.tell(b, begun)
	for _, protocol := range protocols {
		var result *bench.Result
		result, err = b.Run(ctx, protocol)
		if result != nil && (result.Leases > 0 || err == nil) {
			all.Protocols = append(all.Protocols, result)
		}
		if errors.Is(err, host.ErrIncompatible) && len(protocols) > 1 {
			a.console.Printf("strict is left out: %s", exit.Text(err))
			err = nil
		}
		if err != nil || ctx.Err() != nil {
			break
		}
	}
	all.Elapsed = report.Seconds(time.Since(begun))
	all.Left = b.Sweep()
	stop()
	if all.Left != 0 {
		a.console.Printf("not everything below %s could be deleted; it is of no use to anybody, and may be deleted by hand", b.Prefix())
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

func (a *app) reportBench(r *bench.Report) error {
	if a.json {
		return a.report(r)
	}
	return a.print(r.Text(isPaid(r.Store)))
}

// benchHost returns the function by which a bench makes a Host that keeps no memory of the store.
func (a *app) benchHost(f *benchFlags) func(store.Store) (*host.Host, error) {
	return func(s store.Store) (*host.Host, error) {
		h, err := host.New(s, &host.Options{Logger: a.console.Logger(), Engine: a.core(), Memory: "-", InFlight: max(64, f.parallel), Clock: a.clock})
		if err == nil {
			a.steppers++
		}
		return h, err
	}
}

const (
	tellEach  = 3 * time.Second        // a line of progress, without a terminal
	drawnEach = 200 * time.Millisecond // the live line, on a terminal
)

// tell shows how far the bench is, until the function that it returns is called.
func (a *app) tell(b *bench.Bench, begun time.Time) (stop func()) {
	each := tellEach
	if a.console.OnTerminal() {
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
			if text := b.Progress(time.Since(begun)); a.console.OnTerminal() {
				a.console.Progress("%s", text)
			} else {
				a.console.Printf("%s", text)
			}
		}
	}()
	return func() {
		close(over)
		<-done
		a.console.StopWaiting()
	}
}
