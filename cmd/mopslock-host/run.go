package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/exit"
)

func (a *app) runCommand() *cobra.Command {
	var claim acquireFlags
	var loss lossFlags
	cmd := &cobra.Command{
		Use:   "run NAME [flags] -- CMD [ARG...]",
		Short: "run CMD under the lease NAME",
		Long: `Acquire NAME, run CMD, renew the lease while it runs, release it, and exit with CMD's status.

It keeps runs of one NAME from overlapping, but each of them runs, even with --wait 0. For work that must be done once,
such as a nightly job that cron starts on several machines, use once.

CMD gets MOPSLOCK_NAME, MOPSLOCK_STORE, MOPSLOCK_HOLDER, MOPSLOCK_TOKEN, MOPSLOCK_LEASE (for accompany) and
MOPSLOCK_HELD in its environment, and a process group of its own. MOPSLOCK_TOKEN is the fencing token. It grows
from each holder of NAME to the next: a server that refuses a lower token than it has seen is safe from a holder that
was paused. Under lastwriter, which has no token, it is 0.

If mopslock-host is killed (SIGKILL), CMD is killed with it on Linux, but not what CMD has started: let a shell
exec its last command. On other systems CMD runs on, and only the fencing token guards.

When the lease is lost, CMD's group gets SIGTERM, then SIGKILL, and the status is 76 (--on-loss, --grace).`,
		Example: `  mopslock-host run deploy -- ./deploy.sh
  mopslock-host run --wait 0 --ttl 30s --label "release 7" deploy -- make deploy
  mopslock-host run --protocol strict counter -- sh -c './add --token "$MOPSLOCK_TOKEN"'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			names, argv, err := commandArgs(cmd, args, 1)
			if err != nil {
				return err
			}
			if err := exit.Usage(append(claim.check(names[0]), loss.check(claim.longestTTL())...)...); err != nil {
				return err
			}
			return a.run(cmd, names[0], argv, &claim, &loss)
		},
	}
	claim.add(cmd)
	loss.add(cmd)
	return cmd
}

// run returns an *exit.Error, also if all went well.
func (a *app) run(cmd *cobra.Command, name string, argv []string, claim *acquireFlags, loss *lossFlags) error {
	ctx, cancel := a.signals.WaitContext(context.Background())
	defer cancel()
	h, err := a.open(ctx, cmd)
	if err != nil {
		return err
	}
	defer a.close(h)
	if held := a.heldHere(name, h.URL()); held {
		return heldAbove(name)
	}
	lease, err := a.acquireLease(ctx, h, name, claim)
	if err != nil {
		return err
	}
	if err := loss.settle(lease.TTL().Duration()); err != nil {
		a.releaseAfter(lease)
		return err
	}
	return a.under(lease, argv, a.childEnv(lease.Handle(), h.URL()), loss, claim.margin)
}
