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
		`Renew a printed lease once: as its owner, or as a companion if the text names no owner. Print it again, under strict
with its new epoch. A lease that has expired is revived if it is still ours. If it is not ours, the status is 76.`,
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
			case errors.As(err, &failed) && failed.Kind == host.NothingToJoin && failed.Reason != core.ReasonUnreadable:
				return &exit.Error{Status: exit.StatusLost, Reason: failed.Reason.String(), Text: exit.Text(failed)}
			case errors.As(err, &failed) && failed.Reason == core.ReasonUnreadable:
				return &exit.Error{Status: exit.StatusUnavailable, Reason: failed.Reason.String(), Text: exit.Text(failed)}
			}
			return err
		})
}

// asStored returns a renewed lease with the TTL of its record: the text that was
// given may be handmade, and joining copies the TTL of the record, not of the text.
func asStored(ctx context.Context, h *host.Host, lease host.Handle) host.Handle {
	if lease.Protocol != core.ProtocolStrict {
		return lease // its renewal wrote the TTL of the text
	}
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	seen, err := h.Inspect(ctx, lease.Name)
	if err != nil || seen.Holder != lease.Holder || seen.Protocol != lease.Protocol {
		return lease // it stands renewed, and nothing better is known
	}
	lease.TTL = core.TTLOf(seen.TTL)
	return lease
}

// renewLimit bounds the one renewal: on a store that can be read but not written it
// would be tried forever.
const renewLimit = 30 * time.Second
