package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/child"
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
broken does (76), and nothing is stored.

CMD's stdout is a pipe, and what comes through it until CMD's end is kept in a file in TMPDIR until it is stored;
stdin and stderr are ours, untouched. A result has at most as many bytes as TMPDIR has room for and the store takes in
one object: S3 5 TiB, Google Cloud Storage 5 TiB, Azure about 190 TiB, a directory what its filesystem takes. A store
that fails to take it is tried for 10 min, and for a TTL at the least. If it cannot be stored the status is 69, and
the file is kept, unless that could not be written.

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
	if f.lease == "" && os.Getenv("MOPSLOCK_LEASE") == "" && f.withoutLease {
		none := host.Handle{Name: name, TTL: f.longestTTL(), Protocol: cmp.Or(f.wanted(), core.ProtocolLastWriter)}
		return handle, usage(append(f.checkFor(&none), wrong)...)
	}
	if handle, err = a.accompanied(ctx, f.lease); err != nil {
		return handle, err
	}
	if handle.Name != name {
		wrong = errors.Join(wrong, usagef("the lease is of %s, and not of %s", host.Printable(handle.Name), host.Printable(name)))
	}
	return handle, usage(append(f.checkFor(&handle), wrong)...)
}

// remoteCall is one run of remote.
type remoteCall struct {
	*app
	host   *host.Host
	name   string
	handle host.Handle // zero: there is no lease
	argv   []string
	flags  *remoteFlags
	spool  *spool
	stderr *relay // with --memo-failures

	begun     *host.Invocation
	ended     *exit // how CMD ended, or nil
	unwritten error // why what it printed is not whole in the spool
	offered   bool  // what it failed with is to be kept
	tell      *time.Timer
}

// remote ends in an *exit, also where all went well.
func (a *app) remote(ctx context.Context, cmd *cobra.Command, name string, handle host.Handle, argv []string, f *remoteFlags) error {
	h, err := a.openFor(ctx, cmd, handle)
	if err != nil {
		return err
	}
	defer a.close(h)
	call := &remoteCall{app: a, host: h, name: name, handle: handle, argv: argv, flags: f}
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
		if call.tell != nil {
			call.tell.Stop()
		}
		switch {
		case err != nil:
			return call.without(err)
		case work == nil:
			return call.answer(ctx)
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

// end takes the file away.
func (c *remoteCall) end() {
	if c.spool != nil {
		c.spool.end()
	}
}

// work runs the command and hands over what it printed. An error says that it was
// not started.
func (c *remoteCall) work(work *host.Work) (err error) {
	companion := work.Companion()
	options := childOptions(c.argv, nil)
	if companion != nil {
		options = c.accompaniedOptions(c.host, companion, c.handle, c.argv)
	} else {
		c.ui.printf("%s: the command runs without a lease (--without-lease)", c.name)
	}
	options.ThenWait = true
	outputs, err := c.takeOutputs(&options)
	if err != nil {
		return err
	}
	command, err := c.signals.Start(options)
	if err != nil {
		outputs.drop()
		return err
	}
	defer command.Close()
	outputs.started()
	s := supervisor{app: c.app, child: command, loss: &c.flags.lossFlags, name: c.name}
	if companion != nil {
		c.ended = s.companion(companion)
	} else {
		<-command.Done()
		c.ended = s.end()
	}
	outputs.finish()
	work.End(c.outcome(work, command.Status()))
	return nil
}

// outputs are the intakes of a command.
type outputs struct {
	stdout *intake
	stderr *intake // nil: it is ours, untouched
}

// takeOutputs puts pipes in the place of what is to be kept.
func (c *remoteCall) takeOutputs(options *child.Options) (o outputs, err error) {
	if c.spool, err = newSpool(); err != nil {
		return o, err
	}
	if o.stdout, err = newIntake(c.spool.take); err != nil {
		return o, err
	}
	options.Stdout = o.stdout.write
	if !c.flags.memoFailures {
		return o, nil
	}
	c.stderr = &relay{to: os.Stderr}
	if o.stderr, err = newIntake(c.stderr.take); err != nil {
		o.drop()
		return o, err
	}
	options.Stderr = o.stderr.write
	return o, nil
}

func (o outputs) started() {
	o.stdout.started()
	if o.stderr != nil {
		o.stderr.started()
	}
}

func (o outputs) drop() {
	o.stdout.drop()
	if o.stderr != nil {
		o.stderr.drop()
	}
}

// finish waits for the file as long as it takes, for a part of a result is none, and
// for a slow reader of our stderr as long as is bearable.
func (o outputs) finish() {
	o.stdout.finish(nil)
	if o.stderr != nil {
		o.stderr.finish(time.After(echoPatience))
	}
}

// outcome offers what is to be stored, and is why the work failed, or nil.
func (c *remoteCall) outcome(work *host.Work, status child.Status) error {
	switch {
	case !c.ended.ByCommand: // the lease is another's
		return c.ended
	case c.ended.Status == 0:
		if err := c.spool.seal(); err != nil {
			c.unwritten = err
			return err
		}
		work.Return(c.spool)
		c.tell = time.AfterFunc(tellAfter, func() {
			c.ui.printf("storing the result of %s, %d bytes", c.name, c.spool.size)
		})
		return nil
	case c.stderr != nil && c.worthKeeping(status):
		if kept, err := newFailure("remote", status, c.stderr.tail(maxStderr), time.Now()).bytes(); err == nil {
			work.Fail(host.Bytes(kept))
			c.offered = true
		}
	}
	return &launcherError{status}
}

// answer is the end where there is a result by now.
func (c *remoteCall) answer(ctx context.Context) error {
	result := c.begun.Result()
	switch {
	case c.ended != nil && c.ended.Status != 0: // whatever is there, CMD's status stands
		return c.ended
	case result.Failed:
		return c.failed(ctx, c.name, result, c.stderr.tail(relayed))
	case c.ended != nil && !result.Own:
		c.ui.printf("%s had a result already; this one is dropped", c.name)
	case c.ended != nil:
		return c.ended
	}
	return &exit{Status: 0, Reason: reasonFound}
}

// without is the end where there is none.
func (c *remoteCall) without(err error) error {
	var none *host.Error
	errors.As(err, &none)
	switch {
	case c.ended == nil && none != nil && none.Kind == host.Lost: // we came late
		return &exit{Status: c.flags.lostStatus, Reason: none.Reason.String()}
	case c.ended == nil:
		return err
	case !c.ended.ByCommand:
		return c.ended
	case c.ended.Status != 0:
		if c.offered && (none == nil || none.Kind != host.NoResult || none.Reason != core.ReasonFailed) {
			c.ui.printf("what %s came to could not be kept: %s", c.name, storeText(err))
		}
		return c.ended
	case none != nil && (none.Reason == core.ReasonTaken || none.Reason == core.ReasonBroken):
		return &exit{Status: statusLost, Reason: none.Reason.String(), Text: oneLine(err)}
	}
	if c.unwritten != nil {
		return &exit{
			Status: statusUnavailable, Reason: "output",
			Text: fmt.Sprintf("the result of %s was not stored: its file could not be written: %v; set TMPDIR to a directory with room for it", c.name, c.unwritten),
		}
	}
	c.spool.keep = true
	out := exitOf(err)
	text := fmt.Sprintf("the result of %s was not stored, and is kept in %s", c.name, c.spool.path)
	if out.Text != "" {
		text += ": " + out.Text
	}
	if out.Status < statusSignal { // else a signal ended us
		out = &exit{Status: statusUnavailable, Reason: cmp.Or(out.Reason, core.ReasonUnusable.String())}
	}
	return &exit{Status: out.Status, Reason: out.Reason, Text: text}
}
