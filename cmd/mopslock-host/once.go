package main

import (
	"github.com/spf13/cobra"

	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/child"
	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/exit"
	"github.com/mopslock/mopslock/host"
)

func (a *app) onceCommand() *cobra.Command {
	var f invokeFlags
	cmd := &cobra.Command{
		Use:   "once NAME [flags] -- CMD [ARG...]",
		Short: "run CMD once for NAME, and print its output to every caller",
		Long: `Print the result NAME/result. If there is none, acquire the lease NAME, look again, run CMD, store what it prints on
stdout as the result, print that, and release. If another process holds the lease, wait for the result or for the lease.
So CMD runs once for a NAME, however many processes ask, now or later. A NAME with the date in it is new work each day.
To do the work of a NAME again, remove NAME/result from the store.

A CMD that fails stores nothing, its status is ours, and the next caller runs it again. Nothing of its stdout is
printed. With --memo-failures its status and the last 4 KiB of its stderr are the answer to every caller instead.

CMD runs here, with the same environment as under run. If mopslock-host is killed, CMD is killed with it (Linux).
When the lease is lost, CMD's group gets SIGTERM, then SIGKILL, and the status is 76 (--on-loss, --grace). A CMD that
ends with 0 before that, or with --on-loss continue, has made the result. It is stored if there is none by then, after
acquiring again if another process could hold the lease, and the result is printed. With --on-loss continue the status
is then still 76. For work that must go on when mopslock-host dies, use invoke and remote.

CMD's stdout is a pipe, and its output lies in a file in TMPDIR until it is stored. If it cannot be stored, the status
is 69, and the file is kept.`,
		Example: `  mopslock-host once "nightly/$(date +%F)" -- ./report.sh
  mopslock-host once --wait 1h build/3f2a91c -- sh -c 'make >&2 && cat out/app' >app`,
		RunE: func(cmd *cobra.Command, args []string) error {
			names, argv, err := commandArgs(cmd, args, 1)
			if err != nil {
				return err
			}
			if err := exit.Usage(f.check(names[0])...); err != nil {
				return err
			}
			return a.invoke(cmd, &invocation{
				app: a, name: names[0], argv: argv, flags: &f, once: true,
				made: product{app: a, by: "once", name: names[0], memoFailures: f.memoFailures},
			})
		},
	}
	f.add(cmd)
	return cmd
}

// work runs the command, and hands over its output. An error says that there is
// nothing to store: the lease is then given back at once. A command that has ended
// is not run again: its lease was lost before its result was stored.
func (c *invocation) work(lease *host.Lease, work *host.Work, options *child.Options) error {
	if c.made.ended == nil {
		if err := c.makeUnder(lease, options); err != nil {
			return err
		}
	}
	err := c.made.outcome(work)
	if err != nil && !c.made.offered {
		return c.made.unstored(err)
	}
	work.End(err)
	return nil
}

// makeUnder runs the command to its end, or until the lease is lost.
func (c *invocation) makeUnder(lease *host.Lease, options *child.Options) error {
	options.ParentDeath = true
	command, outputs, err := c.made.start(options)
	if err != nil {
		return err
	}
	defer command.Close()
	s := c.supervisor(command, c.name, &c.flags.lossFlags)
	if lost := c.made.commandEnded(s, s.Holder(lease, c.flags.margin)); lost != nil {
		c.console.Printf("lease %s was lost (%s), and the command has ended well: what it printed is stored if there is no result", c.name, lost.Reason)
		if s.Continue {
			c.lost = lost
		}
	}
	outputs.finish()
	return nil
}
