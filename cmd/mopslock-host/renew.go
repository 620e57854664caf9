package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/exit"
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
)

func (a *app) renewCommand() *cobra.Command {
	return a.leaseCommand("renew", "renew a printed lease once",
		`Renew a printed lease once, as its owner or, where the text names none, as a companion, and print it again,
under strict with its new epoch. One that has expired but is still ours is revived; otherwise the status is 76.`,
		`  mopslock-host renew "$lease"
  mopslock-host renew - < lease.json`,
		func(ctx context.Context, h *host.Host, handle host.Handle, terms host.Terms) error {
			ctx, cancel := context.WithTimeout(ctx, renewLimit)
			defer cancel()
			renewed, _, err := h.RenewHandle(ctx, handle, &terms)
			var failed *host.Error
			switch {
			case err == nil:
				return a.reportHandle(asStored(ctx, h, renewed))
			case errors.Is(err, context.DeadlineExceeded):
				return &exit.Error{
					Status: exit.StatusUnavailable, Reason: core.ReasonUnreachable.String(),
					Text: "lease " + handle.Name + " could not be renewed in time; check that the store answers and takes writes, then try again",
				}
			case errors.As(err, &failed) && failed.Kind == host.CannotMaintain && failed.Reason != core.ReasonUnreadable:
				return &exit.Error{Status: exit.StatusLost, Reason: failed.Reason.String(), Text: exit.Text(failed)}
			case errors.As(err, &failed) && failed.Reason == core.ReasonUnreadable:
				return &exit.Error{Status: exit.StatusUnavailable, Reason: failed.Reason.String(), Text: exit.Text(failed)}
			}
			return err
		})
}

// asStored is a renewed lease with the TTL by which the store has it: the text
// that was given may have been made by hand, and a join copies the version.
func asStored(ctx context.Context, h *host.Host, lease host.Handle) host.Handle {
	if lease.Protocol != core.ProtocolStrict {
		return lease // whose renewal wrote the text's
	}
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	seen, err := h.Inspect(ctx, lease.Name)
	if err != nil || seen.Holder != lease.Holder || seen.Protocol != lease.Protocol {
		return lease // it stands renewed, and nothing better is known
	}
	lease.TTL = seen.TTL
	if seen.TTL <= 0 {
		lease.TTL = core.None
	}
	return lease
}

// renewLimit bounds the one renewal: a store that can be read and not written
// would keep it trying for ever.
const renewLimit = 30 * time.Second
