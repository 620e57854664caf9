package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/exit"
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
	"github.com/mopslock/mopslock/host/store"
)

func (a *app) releaseCommand() *cobra.Command {
	return a.leaseCommand("release", "release a printed lease",
		`Release a printed lease: as its owner, or as a companion if the text names no owner. The status is also 0 if its
holder has released it or its record is gone. It is 76 if the lease was broken or another process has taken it.`,
		`  mopslock-host release "$lease"
  mopslock-host release lease.json`,
		func(ctx context.Context, h *host.Host, handle host.Handle, terms host.Terms) error {
			limit, expiry := closeLimit, "it stays held until it is released or broken"
			if handle.TTL > 0 {
				limit, expiry = min(limit, handle.TTL.Duration()), "it will expire within "+handle.TTL.Duration().String()+" of its last renewal"
			}
			ctx, cancel := context.WithTimeout(ctx, limit)
			defer cancel()
			// ReleaseHandle tries again whatever the store says. This request comes
			// first, so that a wrong key is reported at once.
			var verb *store.Error
			if _, err := h.Inspect(ctx, handle.Name); errors.As(err, &verb) && verb.Class.Permanent() {
				return err
			}
			err := h.ReleaseHandle(ctx, handle, &terms)
			switch {
			case errors.Is(err, context.DeadlineExceeded), errors.Is(err, exit.ErrNoAnswer):
				return &exit.Error{
					Status: exit.StatusUnavailable, Reason: core.ReasonUnreachable.String(),
					Text: "lease " + handle.Name + " could not be released; " + expiry,
				}
			case errors.Is(err, &host.Error{Kind: host.Lost, Reason: core.ReasonTaken}),
				errors.Is(err, &host.Error{Kind: host.Lost, Reason: core.ReasonBroken}):
				return err
			case errors.Is(err, host.ErrLost): // the store was silent or unreadable
				return &exit.Error{Status: exit.StatusUnavailable, Reason: core.ReasonUnreachable.String(), Text: exit.Text(err)}
			}
			return err
		})
}
