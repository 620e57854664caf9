package main

import (
	"context"
	"io"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/exit"
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
)

func (a *app) acquireCommand() *cobra.Command {
	var claim acquireFlags
	cmd := &cobra.Command{
		Use:   "acquire NAME --ttl DURATION [flags]",
		Short: "acquire the lease NAME and print it, for scripts",
		Long: `Acquire NAME and print the lease as one line of JSON. No process renews it: it expires after --ttl unless the
printed text is given to renew or release. So stdout must not be the null device. With --ttl 0 (strict) the lease is
held until it is released or broken.`,
		Example: `  lease=$(mopslock-host acquire deploy --ttl 10m) || exit
  mopslock-host release "$lease"`,
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := nameArg(cmd, args)
			if err != nil {
				return err
			}
			bad := claim.check(name)
			if !cmd.Flags().Changed("ttl") {
				bad = append(bad, exit.Usagef("acquire needs --ttl: nobody renews the lease, so say how long it is to live"))
			}
			if goesNowhere(a.stdout) {
				bad = append(bad, exit.Usagef("stdout is closed or %s, so nobody would have the lease that acquire prints: keep it, as in lease=$(mopslock-host acquire %s --ttl 10m)",
					os.DevNull, host.Printable(name)))
			}
			if err := exit.Usage(bad...); err != nil {
				return err
			}
			return a.acquire(cmd, name, &claim)
		},
	}
	claim.add(cmd)
	addStatusFile(cmd)
	return cmd
}

// goesNowhere reports whether out is the null device. The runtime also opens that in the place of a closed descriptor.
// On Windows all devices and pipes are the same file to os.
func goesNowhere(out io.Writer) bool {
	file, ok := out.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	null, errNull := os.Stat(os.DevNull)
	return err == nil && errNull == nil && os.SameFile(info, null) && info.Mode().Type() == null.Mode().Type() && !term.IsTerminal(int(file.Fd()))
}

func (a *app) acquire(cmd *cobra.Command, name string, claim *acquireFlags) error {
	ctx, cancel := a.signals.WaitContext(context.Background())
	defer cancel()
	h, err := a.open(ctx, cmd)
	if err != nil {
		return err
	}
	lease, err := a.acquireLease(ctx, h, name, claim)
	if err != nil {
		a.close(h)
		return err
	}
	if fleet, _ := claim.fleet(); fleet > 0 && lease.TTL() > fleet && lease.Protocol() == core.ProtocolLastWriter {
		a.console.Printf("warning: mops takes %s over after %v whatever its ttl, and nobody renews it; --fleet-expire none says that there is no mops", name, fleet.Duration())
	}
	// The lease outlives this process, so the Host stays open: closing it would release the lease. The
	// process ends right after.
	if err := a.reportHandle(lease.OwnerHandle()); err != nil {
		a.releaseAfter(lease) // the caller did not get it
		a.close(h)
		return err
	}
	lease.Settle(ctx)
	return &exit.Error{Status: 0, Reason: core.ReasonHeld.String()}
}
