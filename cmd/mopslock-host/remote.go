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
		Long: `If the result of NAME is there, end with 0. Else join the lease in MOPSLOCK_LEASE or --lease, as accompany does,
run CMD, keep the lease alive meanwhile, and store what CMD prints on stdout as NAME/result, if there is none by then:
the first result wins. A CMD that fails stores nothing and releases nothing, and its status is ours.

Who comes late, for a lease that is lost already (taken, broken or released), runs nothing and ends with 0
(--lost-status). If there is no lease to keep alive the status is 77, unless --without-lease, which needs no lease at
all. Losing contact with the store, or the lease's release, never stops CMD; that the lease is another's or was
broken does (76), and nothing is stored. If CMD ends with 0 before that,
or with --on-loss continue, its file is kept and named on stderr.

CMD's stdout is a pipe, and what comes through it until CMD's end is kept in a file in TMPDIR until it is stored;
stdin and stderr are ours, untouched. A result has at most as many bytes as TMPDIR has room for and the store takes in
one object: S3 5 TiB, Google Cloud Storage 5 TiB, Azure about 190 TiB, a directory what its filesystem takes. A store
that fails to take it is tried for 10 min, and for a TTL at the least. If it cannot be stored the status is 69, and
the file is kept, unless that could not be written. The file has no name before: nothing is left if we are killed.

Two remotes with one lease would both do the work, and one result is dropped: start one for a lease.

With --memo-failures the status of a CMD that fails and the last 4 KiB of its stderr are kept as the answer to
whoever asks with that flag, if CMD's status is 1 to 125 and no signal ended it; stderr then reaches ours through a
pipe, and is no terminal.`,
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

// joined is the lease to join, all flags being checked against it. It is zero
// where none is asked for.
func (a *app) joined(ctx context.Context, name string, f *remoteFlags) (handle host.Handle, err error) {
	wrong := checkResultName(name)
	if f.lease == "" && a.getenv("MOPSLOCK_LEASE") == "" && f.withoutLease {
		none := host.Handle{Name: name, TTL: f.longestTTL(), Protocol: cmp.Or(f.wanted(), core.ProtocolLastWriter)}
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

// remote ends in an *exit, also where all went well.
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

// openFor opens the store of a lease, or, where there is none, the one that flags
// and environment name.
func (a *app) openFor(ctx context.Context, cmd *cobra.Command, handle host.Handle) (*host.Host, error) {
	if handle.Store != "" {
		return a.openURL(ctx, handle.Store)
	}
	return a.open(ctx, cmd)
}

// leave waits for our last word on the lease. Nothing is owed: the holder
// releases it, or it expires.
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

// work runs the command and hands over what it printed. An error says that it was
// not started.
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

// without is the end where there is none.
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
