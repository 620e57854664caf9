package main

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
	"github.com/mopslock/mopslock/host/store"
)

func (a *app) acquireCommand() *cobra.Command {
	var claim acquireFlags
	cmd := &cobra.Command{
		Use:   "acquire NAME --ttl DURATION [flags]",
		Short: "acquire the lease NAME and print it, for scripts",
		Long: `Acquire NAME and print the lease as one line of JSON. Nobody renews it: it expires after --ttl unless
renew or release is given what was printed, so stdout must not be the null device. With --ttl 0 (strict) it is held
until it is released or broken.`,
		Example: `  lease=$(mopslock-host acquire deploy --ttl 10m) || exit
  mopslock-host release "$lease"`,
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := nameArg(cmd, args)
			if err != nil {
				return err
			}
			bad := claim.check(name)
			if !cmd.Flags().Changed("ttl") {
				bad = append(bad, usagef("acquire needs --ttl: nobody renews the lease, so say how long it is to live"))
			}
			if goesNowhere(a.stdout) {
				bad = append(bad, usagef("stdout is closed or %s, so nobody would have the lease that acquire prints: keep it, as in lease=$(mopslock-host acquire %s --ttl 10m)",
					os.DevNull, host.Printable(name)))
			}
			if err := usage(bad...); err != nil {
				return err
			}
			return a.acquire(cmd, name, &claim)
		},
	}
	claim.add(cmd)
	addStatusFile(cmd)
	return cmd
}

// goesNowhere reports whether what is written is lost: the null device, which the runtime also opens in the place of a
// closed descriptor.
func goesNowhere(out io.Writer) bool {
	file, ok := out.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	null, errNull := os.Stat(os.DevNull)
	return err == nil && errNull == nil && os.SameFile(info, null)
}

func (a *app) acquire(cmd *cobra.Command, name string, claim *acquireFlags) error {
	ctx, cancel := a.signals.WaitContext(context.Background())
	defer cancel()
	h, err := a.open(ctx, cmd)
	if err != nil {
		return err
	}
	lease, err := a.acquireLease(ctx, h, name, claim)
	if err != nil {
		a.close(h)
		return err
	}
	if fleet, _ := claim.fleet(); fleet > 0 && claim.ttl > fleet && lease.Protocol() == core.ProtocolLastWriter {
		a.ui.printf("warning: mops takes %s over after %v whatever its ttl, and nobody renews it; --fleet-expire none says that there is no mops", name, fleet)
	}
	// The lease is to outlive this process, so the Host is left as it is: closing
	// it would release. The process ends right after.
	if err := a.reportHandle(lease.OwnerHandle()); err != nil {
		a.releaseAfter(lease) // nobody has it
		a.close(h)
		return err
	}
	lease.Settle(ctx)
	return &exit{Status: 0, Reason: core.ReasonHeld.String()}
}

func (a *app) reportHandle(handle host.Handle) error {
	return a.print(handle.String() + "\n")
}

// leaseCommand is what renew and release have in common.
func (a *app) leaseCommand(use, short, long, example string, do func(context.Context, *host.Host, host.Handle, host.Terms) error) *cobra.Command {
	var f termFlags
	cmd := &cobra.Command{
		Use: use + " LEASE [flags]", Short: short, Long: long, Example: example,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("%s takes one LEASE: a file, - for stdin, or the JSON text itself", use)
			}
			ctx, cancel := a.signals.WaitContext(context.Background())
			defer cancel()
			handle, err := a.readHandle(ctx, args[0])
			if err != nil {
				return err
			}
			terms := f.terms()
			terms.TTL, terms.Protocol = handle.TTL, handle.Protocol // the lease wins
			if err := usage(f.checkTerms(handle.Name, terms)...); err != nil {
				return err
			}
			h, err := a.openURL(ctx, handle.Store)
			if err != nil {
				return err
			}
			defer a.close(h)
			ctx, stop := untilAnswered(ctx, h)
			defer stop()
			if err := do(ctx, h, handle, terms); err != nil {
				a.closeNow()
				return err
			}
			return nil
		},
	}
	f.add(cmd)
	return cmd
}

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
				return &exit{
					Status: statusUnavailable, Reason: core.ReasonUnreachable.String(),
					Text: "lease " + handle.Name + " could not be renewed in time; check that the store answers and takes writes, then try again",
				}
			case errors.As(err, &failed) && failed.Kind == host.CannotMaintain && failed.Reason != core.ReasonUnreadable:
				return &exit{Status: statusLost, Reason: failed.Reason.String(), Text: oneLine(failed)}
			case errors.As(err, &failed) && failed.Reason == core.ReasonUnreadable:
				return &exit{Status: statusUnavailable, Reason: failed.Reason.String(), Text: oneLine(failed)}
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

// lookLimit bounds a look that only tells more.
const lookLimit = 2 * time.Second

// renewLimit bounds the one renewal: a store that can be read and not written
// would keep it trying for ever.
const renewLimit = 30 * time.Second

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
			case errors.Is(err, context.DeadlineExceeded), errors.Is(err, errNoAnswer):
				return &exit{
					Status: statusUnavailable, Reason: core.ReasonUnreachable.String(),
					Text: "lease " + handle.Name + " could not be released; " + expiry,
				}
			case errors.Is(err, &host.Error{Kind: host.Lost, Reason: core.ReasonTaken}),
				errors.Is(err, &host.Error{Kind: host.Lost, Reason: core.ReasonBroken}):
				return err
			case errors.Is(err, host.ErrLost): // the store was silent or unreadable
				return &exit{Status: statusUnavailable, Reason: core.ReasonUnreachable.String(), Text: oneLine(err)}
			}
			return err
		})
}
