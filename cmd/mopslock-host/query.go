package main

import (
	"cmp"
	"context"

	"github.com/spf13/cobra"

	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/exit"
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
)

// nameCommand is what status and watch have in common: they ask about a NAME.
func (a *app) nameCommand(use, short, long, example string, do func(context.Context, *host.Host, *query) error) *cobra.Command {
	var f termFlags
	cmd := &cobra.Command{
		Use: use + " NAME [flags]", Short: short, Long: long, Example: example,
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := nameArg(cmd, args)
			if err != nil {
				return err
			}
			if err := exit.Usage(f.check(name)...); err != nil {
				return err
			}
			return a.withStore(cmd, func(ctx context.Context, h *host.Host) error { return do(ctx, h, &query{name, f.wanted()}) })
		},
	}
	f.add(cmd)
	return cmd
}

// query is the NAME that status or watch asks about, and the protocol of --protocol.
type query struct {
	name     string
	protocol core.Protocol
}

// of returns the status to show. If the name is held, the record says under which protocol. If it
// is vacant, the query does.
func (q *query) of(s *host.Status) *host.Status {
	if s.State == core.ObservedVacant && !s.IsSemaphore() {
		s.Protocol = cmp.Or(q.protocol, s.Protocol)
	}
	return s
}
