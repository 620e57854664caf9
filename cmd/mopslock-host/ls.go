package main

import (
	"cmp"
	"context"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/exit"
	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/report"
	"github.com/mopslock/mopslock/host"
)

func (a *app) lsCommand() *cobra.Command {
	var stale bool
	cmd := &cobra.Command{
		Use:   "ls [PREFIX] [flags]",
		Short: "list the leases and semaphores whose names begin with PREFIX",
		Long: `List every lease, of both protocols, and every semaphore: a table, or JSON lines with --json. In the place of a
holder, a semaphore shows how many permits are held of how many. The status is 1 if the list is empty. A record that
cannot be read, or that a newer mopslock wrote, is listed as unreadable, with the reason; the status is then 69, or 78.
Without PREFIX, ls also removes what processes that died long ago left in the store beside their leases.`,
		Example: `  mopslock-host ls
  mopslock-host ls --stale --json team-a/`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return exit.Usagef("ls takes at most one PREFIX")
			}
			prefix := ""
			if len(args) == 1 {
				prefix = args[0]
			}
			return a.withStore(cmd, func(ctx context.Context, h *host.Host) error { return a.list(ctx, h, prefix, stale) })
		},
	}
	cmd.Flags().BoolVar(&stale, "stale", false, "only leases that have expired, and semaphores with a permit that has")
	return cmd
}

func (a *app) list(ctx context.Context, h *host.Host, prefix string, stale bool) error {
	table := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	found := 0
	var trouble, end error // one bad record must not hide the others
	for s, err := range h.List(ctx, prefix) {
		if err != nil && (s.Name == "" || ctx.Err() != nil || silent(err)) {
			end = err
			break
		}
		trouble = cmp.Or(err, trouble)
		if err == nil && stale && !report.HasExpired(&s) {
			continue
		}
		if found++; a.json {
			if err := a.reportListed(&s, err); err != nil {
				return err
			}
			continue
		}
		if found == 1 {
			fmt.Fprintln(table, report.Header)
		}
		if err != nil {
			fmt.Fprintln(table, report.UnreadRow(s.Name, exit.Text(err)))
		} else {
			fmt.Fprintln(table, report.Row(&s))
		}
	}
	if err := exit.Written(table.Flush()); err != nil {
		return err
	}
	switch {
	case end != nil:
		return end
	case trouble != nil:
		out := exit.Of(trouble)
		return &exit.Error{Status: out.Status, Reason: out.Reason} // its row says why
	case found == 0:
		return &exit.Error{Status: exit.StatusNothing, Reason: "none"}
	}
	return nil
}

// reportListed prints the status of a name, or why its record could not be read.
func (a *app) reportListed(s *host.Status, err error) error {
	if err == nil {
		return a.report(report.StatusJSON(s))
	}
	return a.report(report.NewUnread(s.Name, exit.Of(err).Reason, exit.Text(err)))
}
