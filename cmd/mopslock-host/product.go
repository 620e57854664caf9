package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/capture"
	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/child"
	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/exit"
	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/memo"
	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/supervise"
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
)

// product is the output of the command of remote or once, kept until it is stored as the result of a
// name.
type product struct {
	*app
	by           string // remote or once
	name         string
	memoFailures bool
	output       *capture.File
	stderr       *capture.Tee // with --memo-failures

	ended     *exit.Error // how CMD ended, or nil
	status    child.Status
	unwritten error // why the file does not have all of its output
	offered   bool  // its failure is to be kept
	tell      *time.Timer
}

// end removes the file.
func (c *product) end() {
	if c.output != nil {
		c.output.Close()
	}
}

// quiet calls off the line that says that the result is being stored.
func (c *product) quiet() {
	if c.tell != nil {
		c.tell.Stop()
	}
}

// commandEnded records how the command has ended. A command that ended with 0, and was not told to
// end, has made the result even if the lease was lost meanwhile. Its own end then counts, and the
// end of the lease is returned. A command that we killed does not end with 0.
func (c *product) commandEnded(s *supervise.Supervisor, end *exit.Error) (lost *exit.Error) {
	c.ended, c.status = end, s.Command.Status()
	if !end.ByCommand && !s.ToldToEnd() && c.status.ExitStatus() == 0 {
		lost, c.ended = end, &exit.Error{Status: 0, Reason: "exited", ByCommand: true}
	}
	return lost
}

// outputs are the pipes of a command.
type outputs struct {
	stdout pipe
	stderr pipe // nil: stderr is ours, untouched
}

const (
	lastStderr     = 2 * memo.MaxStderr // bytes of stderr that are kept, to see whether a kept failure was printed
	stderrPatience = 10 * time.Second   // for a slow reader of our stderr, once the command has ended
)

// start starts the command, with pipes for the outputs that are to be kept.
func (c *product) start(options *child.Options) (command, outputs, error) {
	o, err := c.takeOutputs(options)
	if err != nil {
		return nil, o, err
	}
	started, err := c.app.signals.Start(*options)
	if err != nil {
		o.drop()
		return nil, o, err
	}
	o.started()
	return started, o, nil
}

// takeOutputs puts pipes into the command's options.
func (c *product) takeOutputs(options *child.Options) (o outputs, err error) {
	if c.output, err = capture.NewFile(); err != nil {
		return o, noOutputFile(err)
	}
	if o.stdout, err = c.newPipe(c.output.Take); err != nil {
		return o, noOutputFile(err)
	}
	options.Stdout = o.stdout.Writer()
	if !c.memoFailures {
		return o, nil
	}
	c.stderr = capture.NewTee(c.app.stderr, lastStderr)
	if o.stderr, err = c.newPipe(c.stderr.Take); err != nil {
		o.drop()
		return o, noOutputFile(err)
	}
	options.Stderr = o.stderr.Writer()
	return o, nil
}

// noOutputFile is the exit without a place for the command's output: the command cannot be executed.
func noOutputFile(err error) error {
	return &exit.Error{
		Status: child.StatusCannotExecute, Reason: "not_started",
		Text: fmt.Sprintf("no file for the command's output: %v; set TMPDIR to a directory with room for it", err),
	}
}

func (o outputs) started() {
	o.stdout.Started()
	if o.stderr != nil {
		o.stderr.Started()
	}
}

func (o outputs) drop() {
	o.stdout.Drop()
	if o.stderr != nil {
		o.stderr.Drop()
	}
}

// finish waits for the file as long as it takes, since a part of a result is no result, and some
// seconds for a slow reader of our stderr.
func (o outputs) finish() {
	o.stdout.Finish(nil)
	if o.stderr != nil {
		o.stderr.Finish(time.After(stderrPatience))
	}
}

// outcome hands over what is to be stored. It returns why the work failed, or nil.
func (c *product) outcome(work *host.Work) error {
	switch {
	case !c.ended.ByCommand: // the lease is another's
		return c.ended
	case c.ended.Status == 0:
		if err := c.output.Seal(); err != nil {
			c.unwritten = err
			return err
		}
		work.Return(c.output)
		c.tell = time.AfterFunc(tellAfter, func() {
			c.console.Printf("storing the result of %s, %d bytes", c.name, c.output.Size())
		})
		return nil
	case c.stderr != nil && c.worthKeeping(c.status):
		if kept, err := memo.New(c.by, c.status, c.stderr.Tail(memo.MaxStderr), time.Now()).Bytes(); err == nil {
			work.Fail(host.Bytes(kept))
			c.offered = true
		}
	}
	return &launcherError{c.status}
}

// answer is the exit if there is a result by now.
func (c *product) answer(ctx context.Context, result *host.Result) *exit.Error {
	switch {
	case c.ended != nil && c.ended.Status != 0: // CMD's status stands, whatever the result is
		return c.ended
	case result.Failed:
		return c.failed(ctx, c.name, result, c.stderr.Tail(lastStderr))
	case c.ended != nil && !result.Own:
		c.console.Printf("%s had a result already; this one is dropped", c.name)
	case c.ended != nil:
		return c.ended
	}
	return &exit.Error{Status: 0, Reason: reasonFound}
}

// unstored is the exit if CMD has ended and there is no result.
func (c *product) unstored(err error) error {
	var none *host.Error
	errors.As(err, &none)
	lost := none != nil && (none.Reason == core.ReasonTaken || none.Reason == core.ReasonBroken)
	switch {
	case !c.ended.ByCommand:
		return c.ended
	case c.ended.Status != 0:
		if c.offered && (none == nil || none.Kind != host.NoResult || none.Reason != core.ReasonFailed) {
			c.console.Printf("the failure of %s could not be kept: %s", c.name, exit.StoreText(err))
		}
		return c.ended
	case lost && c.unwritten != nil:
		return &exit.Error{Status: exit.StatusLost, Reason: none.Reason.String(), Text: exit.Text(err)}
	case c.unwritten != nil:
		return &exit.Error{
			Status: exit.StatusUnavailable, Reason: "output",
			Text: fmt.Sprintf("the result of %s was not stored: its file could not be written: %v; set TMPDIR to a directory with room for it", c.name, c.unwritten),
		}
	}
	out := exit.Of(err)
	path, errKeep := c.output.Keep()
	text := fmt.Sprintf("the result of %s was not stored, and is kept in %s", c.name, path)
	if errKeep != nil {
		text = fmt.Sprintf("the result of %s was not stored, and could not be kept in TMPDIR (%v)", c.name, errKeep)
	}
	if out.Text != "" {
		text += ": " + out.Text
	}
	switch {
	case lost:
		out = &exit.Error{Status: exit.StatusLost, Reason: out.Reason}
	case out.Status < exit.StatusSignal: // otherwise a signal ended us
		out = &exit.Error{Status: exit.StatusUnavailable, Reason: cmp.Or(out.Reason, core.ReasonUnusable.String())}
	}
	return &exit.Error{Status: out.Status, Reason: out.Reason, Text: text}
}
