package main

import (
	"bytes"
	"context"
	"errors"
	"strings"

	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/child"
	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/exit"
	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/memo"
	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/report"
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
)

// worthKeeping reports whether the end of a command is the work's own, as far as we know. What a signal
// ended may succeed another time. A shell says 126, 127 and 128+N of a command that did not start
// or that a signal ended.
func (a *app) worthKeeping(status child.Status) bool {
	return status.ExitStatus() > 0 && status.ExitStatus() < child.StatusCannotExecute && !a.signals.Forwarded()
}

// ownStatus reports whether a launcher's status may be that of a mopslock-host that it started. Such a
// status says nothing about the work, which may succeed another time.
func ownStatus(status int) bool {
	switch status {
	case exit.StatusUsage, exit.StatusUnavailable, exit.StatusNoResult, exit.StatusNotAcquired, exit.StatusLost, exit.StatusCannotKeep, exit.StatusUnfit:
		return true
	}
	return false
}

// failed returns the exit for a failure that was kept, by others or by us. seen is the end of what our
// command printed on stderr, which is not printed again.
func (a *app) failed(ctx context.Context, name string, result *host.Result, seen []byte) *exit.Error {
	body, err := memo.Body(ctx, result)
	if err != nil && !errors.Is(err, memo.ErrLarge) {
		return unreadable(name, err)
	}
	f := new(memo.Failure)
	if err == nil {
		f, err = memo.Read(body)
	}
	switch {
	case errors.Is(err, memo.ErrNewer):
		return &exit.Error{Status: exit.StatusUnfit, Reason: core.ReasonNewer.String(), Text: "the failure that was kept of " + name + ": " + err.Error()}
	case err != nil:
		return &exit.Error{Status: exit.StatusNoResult, Reason: core.ReasonFailed.String(), Text: "a failure was kept of " + name + ", and " + err.Error()}
	}
	out := &exit.Error{Status: f.Status, Reason: core.ReasonFailed.String(), ByCommand: true}
	if result.Own { // its stderr has been seen
		out.Text = name + " failed, and that is kept (--memo-failures)"
	} else {
		if text := strings.TrimSuffix(report.PrintableLines(string(f.Stderr)), "\n"); text != "" && !bytes.Contains(seen, f.Stderr) {
			a.console.Plainf("%s", text)
		}
		out.Text = f.Describe(name)
	}
	if f.Status == 0 {
		out.Status, out.ByCommand = exit.StatusNoResult, false
	}
	return out
}
