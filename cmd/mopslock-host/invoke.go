package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/capture"
	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/child"
	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/exit"
	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/memo"
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
)

type invokeFlags struct {
	acquireFlags
	lossFlags
	memoFailures bool
}

func (a *app) invokeCommand() *cobra.Command {
	var f invokeFlags
	cmd := &cobra.Command{
		Use:   "invoke NAME [flags] -- LAUNCHER [ARG...]",
		Short: "print the result of NAME; if there is none, launch what computes it",
		Long: `Print the result NAME/result. If there is none, acquire the lease NAME, look again, run LAUNCHER, wait until
the result is there, print it and release. If another process holds the lease, wait for the result or for the lease. So
the work of NAME is done once, however many processes ask for it, and even if some of them die.

LAUNCHER must make mopslock-host remote NAME -- CMD run somewhere: here, or elsewhere if it hands MOPSLOCK_LEASE of its
environment (which is that of run's CMD) to another machine. Start one remote for a lease: two would both do the work.
LAUNCHER may end before CMD does, if the remote has joined the lease by then or joins it within 5 s: while a remote
keeps the lease alive, invoke waits. LAUNCHER's output goes to stderr. stdout gets only the result, to the byte,
streamed from the store. If mopslock-host is killed, LAUNCHER lives on: it may outlive its orchestrator.

If LAUNCHER fails and there is no result, the lease is released and the status is 70; LAUNCHER's own status is on stderr
and in --status-file. The status is also 70 if LAUNCHER ended well and no process goes on with the work. If the lease is
lost, LAUNCHER is ended (--on-loss, --grace), and invoke waits for the other process's result, or launches again.

If LAUNCHER fails or is killed, the lease is given back, even if what LAUNCHER has started goes on elsewhere, and the
next invoke starts the same work beside it. So LAUNCHER should end what it has started when it is told to end (trap
TERM). Use --on-loss continue if that work should go on when the lease is lost.

With --memo-failures failed work is not done again: its status and the last 4 KiB of its stderr are kept, and are
the answer to every invoke and remote with this flag, until somebody removes _mopslock/f/NAME/result. A failure of
LAUNCHER is kept only if its status tells about the work. Not kept: the end by a signal or after a lost lease; 126 and
above, which a shell gives for that; and 64, 69, 70 and 75 to 78, which may be a remote's. With the flag LAUNCHER's stderr
is a file in TMPDIR, which is passed on to ours: it is no terminal, and opening it again to write (>/dev/stderr)
truncates it.`,
		Example: `  mopslock-host invoke report/2026-11 -- mopslock-host remote report/2026-11 -- ./report.sh
  mopslock-host invoke --wait 2h --memo-failures train/7 -- ./start-job-and-wait-for-it.sh >model.bin`,
		RunE: func(cmd *cobra.Command, args []string) error {
			names, argv, err := commandArgs(cmd, args, 1)
			if err != nil {
				return err
			}
			if err := exit.Usage(f.check(names[0])...); err != nil {
				return err
			}
			return a.invoke(cmd, &invocation{app: a, name: names[0], argv: argv, flags: &f})
		},
	}
	f.add(cmd)
	return cmd
}

func (f *invokeFlags) add(cmd *cobra.Command) {
	f.acquireFlags.add(cmd)
	f.lossFlags.add(cmd)
	addMemoFailures(cmd, &f.memoFailures)
}

func (f *invokeFlags) check(name string) []error {
	bad := append(f.acquireFlags.check(name), f.lossFlags.check(f.longestTTL())...)
	if f.endless() && f.wanted() != core.ProtocolLastWriter {
		bad = append(bad, exit.Usagef("--ttl 0: work is done under a lease that expires; give it a ttl, or leave it out"))
	}
	return append(bad, checkResultName(name))
}

// invocation is one run of invoke, or of once.
type invocation struct {
	*app
	host     *host.Host
	name     string
	argv     []string
	flags    *invokeFlags
	follower *capture.Follower // of the launcher's output, with --memo-failures
	once     bool              // the launcher is the work itself,
	made     product           // and its output is the result
	lost     *exit.Error       // the exit of a once whose CMD went on without the lease (--on-loss continue), or nil

	begun   *host.Invocation
	lease   *host.Lease   // of the latest launch, or nil
	ended   *child.Status // of the latest launcher that ended by itself, or nil
	offered bool          // its failure is to be kept
	tell    *time.Timer   // says that invoke still waits for the result
}

// invoke returns an *exit.Error, also if all went well.
func (a *app) invoke(cmd *cobra.Command, call *invocation) error {
	ctx, cancel := a.signals.WaitContext(context.Background())
	defer cancel()
	h, err := a.open(ctx, cmd)
	if err != nil {
		return err
	}
	defer a.close(h)
	if a.heldHere(call.name, h.URL()) {
		return heldAbove(call.name)
	}
	call.host = h
	if call.flags.memoFailures && !call.once {
		if call.follower, err = capture.NewFollower(a.stderr); err != nil {
			return noOutputFile(err)
		}
		defer call.follower.Close()
	}
	defer a.console.StopWaiting()
	defer call.made.end()
	return call.run(ctx)
}

func (c *invocation) run(ctx context.Context) (err error) {
	opts := &host.InvokeOptions{
		Terms: c.flags.terms(), MemoFailures: c.flags.memoFailures, Try: c.flags.wait == 0,
		OnWaiting: c.console.Computing(c.name, func() ([]time.Duration, error) { return c.host.Took(ctx, c.name) }),
	}
	if c.flags.wait > 0 {
		opts.Wait = c.flags.wait
	}
	if c.begun, err = c.host.BeginInvoke(ctx, c.name, opts); err != nil {
		return err
	}
	defer c.giveBack()
	for {
		work, err := c.begun.Next(ctx)
		c.console.StopWaiting()
		c.quiet()
		c.made.quiet()
		switch {
		case err != nil:
			return c.without(err)
		case work == nil:
			return c.answer(ctx)
		}
		if err := c.launch(ctx, work); err != nil {
			return err
		}
	}
}

// giveBack ends an invocation that has not ended by itself, and waits within
// bounds until its lease is released.
func (c *invocation) giveBack() {
	c.begun.Cancel()
	limit := closeLimit
	if c.lease != nil && c.lease.Err() == nil {
		limit = min(limit, max(0, c.lease.Left()))
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	ctx, stop := c.signals.ReleaseContext(ctx)
	defer stop()
	err := c.begun.Wait(ctx)
	if err != nil && ctx.Err() != nil {
		c.closeNow()
	}
	switch {
	case err == nil || c.lease == nil: // nothing was held
	case errors.Is(err, &host.Error{Kind: host.Lost, Reason: core.ReasonTaken}):
		c.console.Printf("lease %s was no longer ours when it was to be released: %s", c.name, exit.Text(err))
	case ctx.Err() != nil && errors.Is(c.lease.Err(), host.ErrLost): // it was lost before, and a line has said so
	default: // a write that we gave up may have landed as late as now
		c.console.Printf("lease %s could not be released; it will expire by itself, at the latest at %s",
			c.name, time.Now().Add(c.lease.TTL().Duration()).Local().Format(time.DateTime))
	}
}

// launch runs the launcher to its end, or until its lease is lost. An error says
// that it was not started.
func (c *invocation) launch(ctx context.Context, work *host.Work) error {
	lease := work.Lease()
	c.lease, c.ended, c.offered = lease, nil, false
	if err := c.flags.settle(lease.TTL().Duration()); err != nil {
		return err
	}
	if lease.Protocol() == core.ProtocolLastWriter {
		c.warnOfStrict(ctx, c.host, c.name)
	}
	options := child.Options{
		Argv: c.argv, Env: c.childEnv(lease.Handle(), c.host.URL()), Stdout: os.Stderr, ThenWait: true,
		OnStop: func() { c.stoppedHolding(lease) }, OnContinue: func() bool { return c.flags.mayContinue(lease) },
	}
	if c.follower != nil {
		options.Stdout, options.Stderr = c.follower.File(), c.follower.File()
	}
	if c.once {
		return c.work(lease, work, &options)
	}
	launcher, err := c.signals.Start(options)
	if err != nil {
		return err
	}
	defer launcher.Close()
	if out := c.supervisor(launcher, c.name, &c.flags.lossFlags).Holder(lease, c.flags.margin); !out.ByCommand {
		// Its status tells nothing about the work: we ended it, or another process does the work by now.
		c.console.Printf("the launcher of %s has ended without the lease; waiting for the result, or for the lease", c.name)
		work.End(nil)
		return nil
	}
	status := launcher.Status()
	c.ended = &status
	work.End(c.failure(work, status))
	c.tell = time.AfterFunc(tellAfter, func() {
		c.console.Printf("the launcher of %s has ended; waiting for the result", c.name)
	})
	return nil
}

// tellAfter is how long a wait lasts before a line tells of it.
const tellAfter = time.Second

// quiet calls off the line that says that the launcher has ended.
func (c *invocation) quiet() {
	if c.tell != nil {
		c.tell.Stop()
	}
}

// failure returns the error that a launcher's status means, or nil, and offers the
// failure to be kept.
func (c *invocation) failure(work *host.Work, status child.Status) error {
	if status.ExitStatus() == 0 {
		return nil
	}
	if c.follower != nil && c.worthKeeping(status) && !ownStatus(status.Code) && work.Err() == nil {
		if kept, err := memo.New("invoke", status, c.follower.Tail(memo.MaxStderr), time.Now()).Bytes(); err == nil {
			work.Fail(host.Bytes(kept))
			c.offered = true
		}
	}
	return &launcherError{status}
}

// launcherError is a launcher that failed.
type launcherError struct{ status child.Status }

func (e *launcherError) Error() string { return e.status.String() }

// without returns the exit of an invocation without a result.
func (c *invocation) without(err error) error {
	var none *host.Error
	if c.made.ended != nil {
		return c.made.unstored(err)
	}
	if !errors.As(err, &none) || none.Kind != host.NoResult || c.ended == nil {
		return err
	}
	status := c.ended.ExitStatus()
	out := &exit.Error{
		Status: exit.StatusNoResult, Reason: none.Reason.String(), Launcher: &status,
		Text: fmt.Sprintf("the launcher of %s ended (%v), and there is no result", c.name, c.ended),
	}
	switch none.Reason {
	case core.ReasonNone:
		out.Reason = core.ReasonAbsent.String()
		out.Text += ", nor does anybody keep the lease who would be at work on it"
	case core.ReasonUnreachable, core.ReasonUnusable:
		if c.offered {
			out.Text += "; its failure could not be kept"
		}
		out.Text += ": " + exit.StoreText(none)
	}
	return out
}

// answer prints the result, or returns the exit of a failure that was kept.
func (c *invocation) answer(ctx context.Context) error {
	result := c.begun.Result()
	out := &exit.Error{Status: 0, Reason: reasonFound}
	switch {
	case c.once:
		out = c.made.answer(ctx, result)
	case result.Failed:
		out = c.failed(ctx, c.name, result, c.follower.Tail(lastStderr))
	}
	if out.Status != 0 {
		return out
	}
	err := c.interruptible(ctx, func() error { return c.print(ctx, result) })
	switch {
	case err != nil:
		return err
	case c.lost != nil:
		return c.lost
	}
	return out
}

// reasonFound says in the status file that the result was there.
const reasonFound = "found"

// print streams the result to stdout. If the stream breaks off, a part has been printed.
func (c *invocation) print(ctx context.Context, result *host.Result) error {
	body, size, err := result.Open(ctx)
	if err != nil {
		return c.unread(ctx, err)
	}
	defer body.Close()
	to := &checked{to: c.stdout}
	n, err := io.Copy(to, body)
	switch {
	case to.err != nil:
		return exit.Written(to.err)
	case err == nil && size >= 0 && n != size:
		err = fmt.Errorf("it has %d bytes, and was said to have %d", n, size)
	}
	if err != nil {
		return c.unread(ctx, fmt.Errorf("after %d bytes, which are printed: %w", n, err))
	}
	return nil
}

func (c *invocation) unread(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return unreadable(c.name, err)
}

// unreadable returns the exit for a result that is there but cannot be read.
func unreadable(name string, err error) *exit.Error {
	return &exit.Error{
		Status: exit.StatusUnavailable, Reason: core.ReasonUnreadable.String(),
		Text: fmt.Sprintf("the result of %s is there, but could not be read: %s; try again", name, exit.Text(err)),
	}
}

// checked remembers its own error, which tells a failed write from a failed read.
type checked struct {
	to  io.Writer
	err error
}

func (w *checked) Write(b []byte) (int, error) {
	n, err := w.to.Write(b)
	w.err = err
	return n, err
}
