// Package exit holds the exit statuses of mopslock-host and the errors that carry one. It says which
// status an error of the host, of the store or of a command means.
//
// It prints nothing and ends no process.
package exit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/child"
	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/report"
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
	"github.com/mopslock/mopslock/host/store"
)

// The exit statuses, on which scripts act.
const (
	StatusNothing     = 1  // vacant, none found, not the same; explore and simulate: a violation is found
	StatusUsage       = 64 // bad flag, name, URL or lease text
	StatusUnavailable = 69 // the store is unauthorized, missing or unreachable; or the engine does not run
	StatusNoResult    = 70 // the launcher ended and there is no result
	StatusNotAcquired = 75 // not within --wait
	StatusLost        = 76
	StatusCannotKeep  = 77
	StatusUnfit       = 78  // the store or a record cannot serve the request
	StatusSignal      = 128 // + the number of the signal
	StatusMax         = 255 // the greatest that a process can end with
)

// Help ends the help of every command.
const Help = `
Exit status:
  CMD's own  CMD ran to its end: 128+N if signal N ended it, 126 if it could not be executed, 127 not found
  0, 1       fine; 1: status found it vacant or released, break nothing to break, ls none, replay a difference,
             explore or simulate a counter-example
  64         usage: bad flag, name, URL or lease text
  69         the store is unauthorized, missing, or unreachable; it has answered no read, or taken no write, for 5 s;
             it failed when --wait was over; --engine does not run; stdout, or the file of remote's result, cannot be
             written
  70         invoke: the launcher ended, and there is no result
  75         not acquired within --wait: another holds it
             break: another process holds it than --holder names, or than was shown
  76         the lease, or the permit, was lost: taken, broken, released, or not renewed in time
  77         the lease cannot be maintained (accompany, remote)
  78         the store or a record cannot serve the request: create-if-absent is not honoured, a newer mopslock wrote
             the record, the name is a semaphore's and not a lease's or the reverse, or a semaphore's record has no
             room for another holder
  128+N      signal N ended mopslock-host while it was waiting
`

// Error is an error that knows its exit status. A command that ends well may return one
// with status 0.
type Error struct {
	Status    int
	Reason    string // for --status-file
	Text      string // for stderr, if not empty
	ByCommand bool   // CMD itself ended with this status
	Launcher  *int   // the status of invoke's launcher, if it ended without a result
}

func (e *Error) Error() string { return e.Text }

// Usagef returns an error in the command line.
func Usagef(format string, args ...any) error {
	return &Error{Status: StatusUsage, Reason: "usage", Text: fmt.Sprintf(format, args...)}
}

// Usage joins the errors in the command line to one, or nil. An err may be nil.
func Usage(errs ...error) error {
	var texts []string
	for _, err := range errs {
		if err != nil {
			texts = append(texts, Text(err))
		}
	}
	if len(texts) == 0 {
		return nil
	}
	return Usagef("%s", strings.Join(texts, "; "))
}

// Text returns an error's text without the prefix mopslock, on one line.
func Text(err error) string {
	text := strings.TrimPrefix(err.Error(), "mopslock: ")
	return strings.ReplaceAll(text, "\nmopslock: ", "; ") // of errors.Join
}

// StoreText returns the text of the store's error within err, or err's own if there is none.
func StoreText(err error) string {
	if verb, ok := errors.AsType[*store.Error](err); ok {
		return Text(verb)
	}
	return Text(err)
}

// ErrNoAnswer is the cause of a context that ended because the store did not answer.
var ErrNoAnswer = errors.New("the store has not answered once within 5 s; check its URL and the network")

// Of returns the exit that an error means.
func Of(err error) *Error {
	var known *Error
	var interrupted *child.Interrupted
	var start *child.StartError
	var lease *host.Error
	var engine *host.EngineError
	var config *core.Error
	var verb *store.Error
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &interrupted):
		return &Error{Status: interrupted.ExitStatus(), Reason: "interrupted"}
	case errors.As(err, &start):
		return &Error{Status: start.ExitStatus(), Reason: "not_started", Text: host.Printable(start.Name) + ": " + start.Err.Error()}
	case errors.As(err, &lease):
		return leaseExit(lease)
	case errors.As(err, &engine):
		return &Error{Status: StatusUnavailable, Reason: "engine", Text: Text(err)}
	case errors.As(err, &config), errors.Is(err, store.ErrURL), errors.Is(err, store.ErrKey):
		return &Error{Status: StatusUsage, Reason: "usage", Text: Text(err)}
	case errors.As(err, &verb):
		return &Error{Status: StatusUnavailable, Reason: verb.Class.String(), Text: Text(err)}
	case errors.Is(err, ErrNoAnswer), errors.Is(err, context.DeadlineExceeded):
		return &Error{Status: StatusUnavailable, Reason: core.ClassUnreachable.String(), Text: Text(err)}
	}
	return &Error{Status: StatusUsage, Reason: "usage", Text: Text(err)}
}

func leaseExit(e *host.Error) *Error {
	out := &Error{Reason: e.Reason.String(), Text: Text(e)}
	switch {
	case e.Kind == host.Incompatible:
		out.Status = StatusUnfit
		out.Reason = cmp.Or(e.Reason, core.ReasonUnusable).String()
	case e.Kind == host.NotAcquired && e.Reason == core.ReasonCrowded:
		out.Status = StatusUnfit
	case e.Kind == host.Lost:
		out.Status = StatusLost
	case e.Kind == host.NoResult:
		out.Status = StatusNoResult
	case e.Class.Permanent(), e.Kind == host.NotAcquired && isStoreFault(e):
		out.Status = StatusUnavailable
	case e.Kind == host.NothingToJoin:
		out.Status = StatusCannotKeep
	default:
		out.Status = StatusNotAcquired
	}
	if e.Reason == core.ReasonLimit && e.Seen != nil { // other errors name the holder themselves
		out.Text += "; last seen " + report.Waiting(e.Seen)
	}
	return out
}

// isStoreFault reports whether the store is why a lease was not acquired: nobody was seen to
// hold it, or the store has failed since.
func isStoreFault(e *host.Error) bool {
	switch e.Reason {
	case core.ReasonUnreachable, core.ReasonUnusable:
		return true
	}
	return e.Reason == core.ReasonLimit && (e.Class != core.ClassNone || e.Seen == nil)
}

// NobodyReads reports whether a pipe could not be written because its reader has closed it.
func NobodyReads(err error) bool {
	return slices.ContainsFunc(closedPipe, func(one error) bool { return errors.Is(err, one) })
}

// Written returns the exit for an error of writing to stdout. A reader that has closed the pipe
// (`… | head -1`) ends us as SIGPIPE would.
func Written(err error) error {
	switch {
	case err == nil:
		return nil
	case NobodyReads(err):
		return &Error{Status: StatusSignal + int(syscall.SIGPIPE), Reason: "interrupted"}
	}
	return &Error{Status: StatusUnavailable, Reason: "output", Text: fmt.Sprintf("standard output cannot be written: %v", err)}
}
