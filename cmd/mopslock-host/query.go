package main

import (
	"cmp"
	"context"

	"github.com/spf13/cobra"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
)

// nameCommand is what status and watch have in common: they ask about a NAME.
func (a *app) nameCommand(use, short, long, example string, do func(context.Context, *host.Host, *asked) error) *cobra.Command {
	var f termFlags
	cmd := &cobra.Command{
		Use: use + " NAME [flags]", Short: short, Long: long, Example: example,
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := nameArg(cmd, args)
			if err != nil {
				return err
			}
			if err := usage(f.check(name)...); err != nil {
				return err
			}
			return a.withStore(cmd, func(ctx context.Context, h *host.Host) error { return do(ctx, h, &asked{name, f.wanted()}) })
		},
	}
	f.add(cmd)
	return cmd
}

// asked is the NAME that status and watch were asked about, and the protocol.
type asked struct {
	name     string
	protocol core.Protocol
}

// of is a status as it is shown: whoever is there says how the name is kept, and
// where nobody is, it is as was asked for.
func (q *asked) of(s *host.Status) *host.Status {
	if s.State == core.ObservedVacant && !s.IsSemaphore() {
		s.Protocol = cmp.Or(q.protocol, s.Protocol)
	}
	return s
}
