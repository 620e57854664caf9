package main

import (
	"cmp"
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/child"
	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/exit"
	"github.com/mopslock/mopslock/host"
)

type accompanyFlags struct {
	acquireFlags
	lossFlags
	lease        string
	lostStatus   int
	withoutLease bool
}

func (a *app) accompanyCommand() *cobra.Command {
	var f accompanyFlags
	cmd := &cobra.Command{
		Use:   "accompany [--lease LEASE] [flags] -- CMD [ARG...]",
		Short: "keep another process's lease alive while CMD runs",
		Long: `Join the lease in MOPSLOCK_LEASE or --lease, run CMD, and keep the lease alive while CMD runs, even after its
holder has died. accompany does not release the lease at the end: only the holder does.

If the lease is already lost (taken, broken or released), CMD is not run and the status is 0 (--lost-status).
If there is no lease to keep alive, CMD is not run and the status is 77, unless --without-lease is given. Losing
contact with the store never ends CMD. If another process has taken the lease, or it was broken, accompany ends
CMD (76).`,
		Example: `  mopslock-host accompany -- ./remote-part.sh
  mopslock-host accompany --lease "$LEASE_FROM_MY_ARGUMENTS" -- python train.py`,
		RunE: func(cmd *cobra.Command, args []string) error {
			_, argv, err := commandArgs(cmd, args, 0)
			if err != nil {
				return err
			}
			ctx, cancel := a.signals.WaitContext(context.Background())
			defer cancel()
			handle, err := a.accompanied(ctx, f.lease)
			if err != nil {
				return err
			}
			if err := exit.Usage(f.checkFor(&handle)...); err != nil {
				return err
			}
			return a.accompany(ctx, handle, argv, &f)
		},
	}
	f.add(cmd)
	return cmd
}

func (f *accompanyFlags) add(cmd *cobra.Command) {
	f.termFlags.add(cmd)
	f.addClaim(cmd)
	f.lossFlags.add(cmd)
	cmd.Flags().StringVar(&f.lease, "lease", "", "the lease: a file, - for stdin, or the JSON text itself (default $MOPSLOCK_LEASE)")
	cmd.Flags().IntVar(&f.lostStatus, "lost-status", 0, "the exit status if the lease is already lost")
	cmd.Flags().BoolVar(&f.withoutLease, "without-lease", false, "run CMD even if the lease cannot be kept alive")
}

// checkFor is check for a lease that exists: its own terms win over the flags.
func (f *accompanyFlags) checkFor(handle *host.Handle) []error {
	terms := f.terms()
	terms.TTL, terms.Protocol = handle.TTL, handle.Protocol
	_, err := f.fleet()
	bad := append(f.checkTerms(handle.Name, terms), err)
	bad = append(bad, f.lossFlags.check(handle.TTL.Duration())...)
	if f.lostStatus < 0 || f.lostStatus > exit.StatusMax {
		bad = append(bad, exit.Usagef("--lost-status %d: from 0 to %d", f.lostStatus, exit.StatusMax))
	}
	return bad
}

// accompanied finds the lease to join.
func (a *app) accompanied(ctx context.Context, lease string) (host.Handle, error) {
	if lease != "" {
		return a.readHandle(ctx, lease)
	}
	if text := a.getenv("MOPSLOCK_LEASE"); text != "" {
		return parseHandle(text)
	}
	return host.Handle{}, exit.Usagef("which lease? set MOPSLOCK_LEASE or --lease")
}

// accompany returns an *exit.Error, also if all went well.
func (a *app) accompany(ctx context.Context, handle host.Handle, argv []string, f *accompanyFlags) error {
	h, err := a.openURL(ctx, handle.Store)
	if err != nil {
		return err
	}
	defer a.close(h)
	companion, err := h.Accompany(ctx, handle, &host.AccompanyOptions{
		Terms: f.terms(), OnContact: func(contact bool) { a.contact(handle.Name, contact) },
	})
	switch {
	case err == nil:
		return a.runAccompanied(h, companion, handle, argv, f)
	case errors.Is(err, host.ErrLost):
		var lost *host.Error
		errors.As(err, &lost)
		return &exit.Error{Status: f.lostStatus, Reason: lost.Reason.String()}
	case errors.Is(err, host.ErrNothingToJoin) && f.withoutLease:
		a.console.Printf("%v; the command runs without a lease (--without-lease)", exit.Text(err))
		return a.unaccompanied(argv, f, handle.Name)
	}
	return err
}

func (a *app) contact(name string, contact bool) {
	if contact {
		a.console.Printf("lease %s: joined again", name)
		return
	}
	a.console.Printf("lease %s: contact with the store is lost, the lease may be another's; the command goes on, trying to join again", name)
}

func (a *app) runAccompanied(h *host.Host, c *host.Companion, handle host.Handle, argv []string, f *accompanyFlags) error {
	leave := func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeLimit)
		defer cancel()
		ctx, stop := a.signals.ReleaseContext(ctx)
		defer stop()
		if c.Leave(ctx) != nil { // nothing is owed: the holder releases, or the lease expires
			a.closeNow()
		}
	}
	options := a.accompaniedOptions(h, c, handle, argv)
	command, err := a.signals.Start(options)
	if err != nil {
		leave()
		return err
	}
	defer command.Close()
	out := a.supervisor(command, handle.Name, &f.lossFlags).Companion(c)
	leave()
	return out
}

// accompaniedOptions are those of a companion's command. Without OnContinue a pause of ours does not
// stop the command.
func (a *app) accompaniedOptions(h *host.Host, c *host.Companion, handle host.Handle, argv []string) child.Options {
	handle.Epoch, handle.Token = max(handle.Epoch, c.Epoch()), cmp.Or(c.FencingToken(), handle.Token)
	options := childOptions(argv, a.childEnv(handle, h.URL()))
	options.OnStop = func() { a.console.Printf("stopped; the lease is not kept alive from here meanwhile") }
	return options
}

// unaccompanied runs the command as if there were no lease.
func (a *app) unaccompanied(argv []string, f *accompanyFlags, name string) error {
	command, err := a.signals.Start(childOptions(argv, a.env))
	if err != nil {
		return err
	}
	defer command.Close()
	<-command.Done()
	return a.supervisor(command, name, &f.lossFlags).End()
}
