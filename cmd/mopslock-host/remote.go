package main

import (
	"cmp"
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/exit"
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
)

type remoteFlags struct {
	accompanyFlags
	memoFailures bool
}

func (a *app) remoteCommand() *cobra.Command {
	var f remoteFlags
	cmd := &cobra.Command{
		Use:   "remote NAME [--lease LEASE] [flags] -- CMD [ARG...]",
		Short: "what a launcher starts: run CMD, and store what it prints as the result of NAME",
		Long: `If the result of NAME is there, end with 0. Otherwise join the lease in MOPSLOCK_LEASE or --lease, as accompany
does, run CMD, keep the lease alive meanwhile, and store what CMD prints on stdout as NAME/result, if there is none by
then: the first result wins. A CMD that fails stores nothing and releases nothing, and its status is ours.

A remote that comes too late, when its lease is already lost (taken, broken or released), runs nothing and ends with 0
(--lost-status). If there is no lease to keep alive, the status is 77, unless --without-lease is given, which needs no
lease at all. Neither lost contact with the store nor the release of the lease ends CMD. If another process has taken
the lease, or it was broken, remote ends CMD (76) and stores nothing. If CMD ends with 0 before that, or under --on-loss
continue, the file with its output is kept, and named on stderr.

CMD's stdout is a pipe. What comes through it until CMD's end lies in a file in TMPDIR until it is stored; stdin and
stderr are ours, untouched. A result has at most as many bytes as TMPDIR has room for and the store takes in one object:
S3 5 TiB, Google Cloud Storage 5 TiB, Azure about 190 TiB, a directory what its filesystem takes. If the store fails to
take it, remote tries again for 10 min, and for at least a TTL. If it cannot be stored, the status is 69, and the file
is kept, unless the file could not be written. Until then it has no name, so nothing is left if we are killed.

Start one remote for a lease: two would both do the work, and one result would be dropped.

With --memo-failures, if CMD fails with a status from 1 to 125 and no signal ended it, its status and the last 4 KiB of
its stderr are kept as the answer to every caller with that flag. CMD's stderr then reaches ours through a pipe, and is
no terminal.`,
		Example: `  mopslock-host remote report/2026-11 -- ./report.sh
  mopslock-host remote train/7 --lease "$LEASE_FROM_MY_ARGUMENTS" --memo-failures -- python train.py --out /dev/stdout`,
		RunE: func(cmd *cobra.Command, args []string) error {
			names, argv, err := commandArgs(cmd, args, 1)
			if err != nil {
				return err
			}
			ctx, cancel := a.signals.WaitContext(context.Background())
			defer cancel()
			handle, err := a.joined(ctx, names[0], &f)
			if err != nil {
				return err
			}
			return a.remote(ctx, cmd, names[0], handle, argv, &f)
		},
	}
	f.add(cmd)
	addMemoFailures(cmd, &f.memoFailures)
	return cmd
}

// joined returns the lease to join, and checks all flags against it. It returns the
// zero Handle if there is none to join.
func (a *app) joined(ctx context.Context, name string, f *remoteFlags) (handle host.Handle, err error) {
	wrong := checkResultName(name)
	if f.lease == "" && a.getenv("MOPSLOCK_LEASE") == "" && f.withoutLease {
		none := host.Handle{Name: name, TTL: core.TTL(f.longestTTL()), Protocol: cmp.Or(f.wanted(), core.ProtocolLastWriter)}
		return handle, exit.Usage(append(f.checkFor(&none), wrong)...)
	}
	if handle, err = a.accompanied(ctx, f.lease); err != nil {
		return handle, err
	}
	if handle.Name != name {
		wrong = errors.Join(wrong, exit.Usagef("the lease is of %s, and not of %s", host.Printable(handle.Name), host.Printable(name)))
	}
	return handle, exit.Usage(append(f.checkFor(&handle), wrong)...)
}

// remoteCall is one run of remote.
type remoteCall struct {
	product
	host   *host.Host
	handle host.Handle // zero: there is no lease
	argv   []string
	flags  *remoteFlags
	begun  *host.Invocation
}

// remote returns an *exit.Error, also if all went well.
func (a *app) remote(ctx context.Context, cmd *cobra.Command, name string, handle host.Handle, argv []string, f *remoteFlags) error {
	h, err := a.openFor(ctx, cmd, handle)
	if err != nil {
		return err
	}
	defer a.close(h)
	made := product{app: a, by: "remote", name: name, memoFailures: f.memoFailures}
	call := &remoteCall{product: made, host: h, handle: handle, argv: argv, flags: f}
	defer call.end()
	call.begun, err = h.BeginRemote(ctx, name, handle, &host.RemoteOptions{
		Terms: f.terms(), WithoutLease: f.withoutLease, MemoFailures: f.memoFailures,
		OnContact: func(contact bool) { a.contact(name, contact) },
	})
	if err != nil {
		return err
	}
	defer call.leave()
	for {
		work, err := call.begun.Next(ctx)
		call.quiet()
		switch {
		case err != nil:
			return call.without(err)
		case work == nil:
			return call.answer(ctx, call.begun.Result())
		}
		if err := call.work(work); err != nil {
			return err
		}
	}
}

// openFor opens the store of a lease. Without a lease it opens the one that flags
// and environment name.
func (a *app) openFor(ctx context.Context, cmd *cobra.Command, handle host.Handle) (*host.Host, error) {
	if handle.Store != "" {
		return a.openURL(ctx, handle.Store)
	}
	return a.open(ctx, cmd)
}

// leave ends the invocation, and waits within bounds for its last request. That
// may fail: the holder releases the lease, or it expires.
func (c *remoteCall) leave() {
	c.begun.Cancel()
	ctx, cancel := context.WithTimeout(context.Background(), closeLimit)
	defer cancel()
	ctx, stop := c.signals.ReleaseContext(ctx)
	defer stop()
	if c.begun.Wait(ctx) != nil && ctx.Err() != nil {
		c.closeNow()
	}
}

// work runs the command and hands over its output. An error says that the command
// was not started.
func (c *remoteCall) work(work *host.Work) (err error) {
	companion := work.Companion()
	options := childOptions(c.argv, c.env)
	if companion != nil {
		options = c.accompaniedOptions(c.host, companion, c.handle, c.argv)
	} else {
		c.console.Printf("%s: the command runs without a lease (--without-lease)", c.name)
	}
	options.ThenWait = true
	command, outputs, err := c.start(&options)
	if err != nil {
		return err
	}
	defer command.Close()
	s := c.supervisor(command, c.name, &c.flags.lossFlags)
	if companion != nil {
		_ = c.commandEnded(s, s.Companion(companion))
	} else {
		<-command.Done()
		_ = c.commandEnded(s, s.End())
	}
	outputs.finish()
	work.End(c.outcome(work))
	return nil
}

// without returns the exit if there is no result.
func (c *remoteCall) without(err error) error {
	var none *host.Error
	errors.As(err, &none)
	switch {
	case c.ended == nil && none != nil && none.Kind == host.Lost: // we came late
		return &exit.Error{Status: c.flags.lostStatus, Reason: none.Reason.String()}
	case c.ended == nil:
		return err
	}
	return c.unstored(err)
}
