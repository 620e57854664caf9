package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/child"
	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/exit"
	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/report"
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
	"github.com/mopslock/mopslock/host/store"
)

// failure is what is kept of failed work with --memo-failures, for everybody who
// asks for its result: a map of msgpack. Hosts in other languages write and read
// the same; Type and Text are what they keep of an exception.
type failure struct {
	V      int    `msgpack:"v"`
	Status int    `msgpack:"status"` // 0 where there was no exit status
	By     string `msgpack:"by"`     // what kept it
	At     string `msgpack:"at"`     // RFC 3339, by its clock
	Host   string `msgpack:"host"`
	Stderr []byte `msgpack:"stderr"` // the last of it

	Type string `msgpack:"type,omitempty"`
	Text string `msgpack:"text,omitempty"`
}

const (
	failureVersion = 1
	maxStderr      = 4 << 10  // bytes of stderr that are kept
	maxFailure     = 64 << 10 // bytes of one that is read
	maxStatus      = 255
)

// newFailure is what a command's end is kept as.
func newFailure(by string, status child.Status, stderr []byte, now time.Time) *failure {
	name, _ := os.Hostname()
	return &failure{
		V: failureVersion, Status: status.ExitStatus(), By: "mopslock-host " + by, Host: name, Stderr: stderr,
		At: now.UTC().Format(time.RFC3339),
	}
}

func (f *failure) bytes() ([]byte, error) { return msgpack.Marshal(f) }

// errNewerFailure: what stands there was kept by a newer mopslock.
var errNewerFailure = errors.New("it was kept by a newer mopslock; update this one")

// readFailure takes what anybody may have stored: its texts are not to be trusted.
func readFailure(body []byte) (*failure, error) {
	f := new(failure)
	decoder := msgpack.NewDecoder(bytes.NewReader(body))
	if err := decoder.Decode(f); err != nil {
		return nil, fmt.Errorf("it cannot be read: %w", err)
	}
	switch {
	case f.V > failureVersion:
		return nil, errNewerFailure
	case f.V != failureVersion:
		return nil, fmt.Errorf("it cannot be read: v is %d", f.V)
	case f.Status < 0 || f.Status > maxStatus:
		return nil, fmt.Errorf("it cannot be read: status is %d", f.Status)
	}
	if len(f.Stderr) > maxStderr {
		f.Stderr = f.Stderr[len(f.Stderr)-maxStderr:]
	}
	return f, nil
}

// worthKeeping reports whether a command's end is the work's own, as far as one
// can know: what a signal ended would perhaps have gone well another time. 126, 127
// and 128+N are a shell's word for what did not start or was ended by a signal.
func (a *app) worthKeeping(status child.Status) bool {
	return status.ExitStatus() > 0 && status.ExitStatus() < child.StatusCannotExecute && !a.signals.Forwarded()
}

// ownStatus reports whether a status of a launcher may be that of a mopslock-host
// which it has started: then it says nothing of the work, and another time may do.
func ownStatus(status int) bool {
	switch status {
	case exit.StatusUsage, exit.StatusUnavailable, exit.StatusNoResult, exit.StatusNotAcquired, exit.StatusLost, exit.StatusCannotKeep, exit.StatusUnfit:
		return true
	}
	return false
}

// errLargeFailure: nobody keeps as much.
var errLargeFailure = fmt.Errorf("it cannot be read: it has more than %d bytes", maxFailure)

// failureBody reads what was kept, as far as it may be one: with errLargeFailure it
// will not get any better, with other errors it may.
func failureBody(ctx context.Context, result *host.Result) ([]byte, error) {
	body, _, err := result.Open(ctx)
	if errors.Is(err, store.ErrTooLarge) {
		return nil, errLargeFailure
	}
	if err != nil {
		return nil, err
	}
	defer body.Close()
	text, err := io.ReadAll(io.LimitReader(body, maxFailure+1))
	if err == nil && len(text) > maxFailure {
		err = errLargeFailure
	}
	return text, err
}

// failed ends with what others kept of their failure, or we of ours. seen is the
// last that our command has said on stderr: nobody needs to read that twice.
func (a *app) failed(ctx context.Context, name string, result *host.Result, seen []byte) *exit.Error {
	body, err := failureBody(ctx, result)
	if err != nil && !errors.Is(err, errLargeFailure) {
		return unreadable(name, err)
	}
	f := new(failure)
	if err == nil {
		f, err = readFailure(body)
	}
	switch {
	case errors.Is(err, errNewerFailure):
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
		out.Text = f.text(name)
	}
	if f.Status == 0 {
		out.Status, out.ByCommand = exit.StatusNoResult, false
	}
	return out
}

// text tells of another's failure.
func (f *failure) text(name string) string {
	text := name + " has failed"
	if f.Status != 0 {
		text += fmt.Sprintf(" with exit status %d", f.Status)
	}
	if f.Host != "" {
		text += " on " + host.Printable(f.Host)
	}
	if f.At != "" {
		text += " at " + host.Printable(f.At)
	}
	if f.Type != "" || f.Text != "" {
		text += ": " + host.Printable(strings.Trim(f.Type+": "+f.Text, ": "))
	}
	return text + ", and that is kept (--memo-failures)"
}
