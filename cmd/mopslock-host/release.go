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
		`Release a printed lease, as its owner or, where the text names none, as a companion. The status is 0 also if its
holder released it before or its record is gone, and 76 if it was broken or is another's by now.`,
		`  mopslock-host release "$lease"
  mopslock-host release lease.json`,
		func(ctx context.Context, h *host.Host, handle host.Handle, terms host.Terms) error {
			limit, expiry := closeLimit, "it stays held until it is released or broken"
			if handle.TTL > 0 {
				limit, expiry = min(limit, handle.TTL), "it will expire within "+handle.TTL.String()+" of its last renewal"
			}
			ctx, cancel := context.WithTimeout(ctx, limit)
			defer cancel()
			// A release is tried again whatever the store says. Whether it can be
			// used at all is asked first, so that a wrong key is told at once.
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
