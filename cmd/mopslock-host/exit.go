package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/child"
	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/report"
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
	"github.com/mopslock/mopslock/host/store"
)

// The exit statuses, for scripts to act on.
const (
	statusNothing     = 1  // vacant, none found, not the same; or what explore and simulate search is found
	statusUsage       = 64 // bad flag, name, URL or lease text
	statusUnavailable = 69 // the store is unauthorized, missing or unreachable; or the engine does not run
	statusNoResult    = 70 // the launcher ended and there is no result
	statusNotAcquired = 75 // not within --wait
	statusLost        = 76
	statusCannotKeep  = 77
	statusUnfit       = 78  // the store or a record cannot serve what was asked
	statusSignal      = 128 // + the number of the signal
)

// statusHelp ends the help of every command.
const statusHelp = `
Exit status:
  CMD's own  CMD ran to its end: 128+N if signal N ended it, 126 if it could not be executed, 127 not found
  0, 1       fine; 1: status found it vacant or released, break nothing to break, ls none, replay a difference,
             explore or simulate a counter-example
  64         usage: bad flag, name, URL or lease text
  69         the store is unauthorized, missing, or unreachable (silent for 5 s); --engine does not run; or stdout,
             or the file of remote's result, cannot be written
  70         invoke: the launcher ended, and there is no result
  75         not acquired within --wait
             break: another holds it than --holder, or than the one who was shown
  76         the lease, or the permit, was lost: taken, broken, released, or not renewed in time
  77         the lease cannot be maintained (accompany, remote)
  78         the store or a record cannot serve what was asked: create-if-absent is not honoured, the record was
             written by a newer mopslock, a lease was asked of a semaphore or a permit of a lease, or a semaphore's
             record has no room for another holder
  128+N      signal N ended mopslock-host while it was waiting
`

// exit is an error that knows its status. An empty Text says nothing on stderr.
type exit struct {
	Status int
	Reason string // for --status-file
	Text   string
	// ByCommand: CMD ended with this status by itself.
	ByCommand bool
	// Launcher is the status of invoke's launcher, if it ended without a result.
	Launcher *int
}

func (e *exit) Error() string { return e.Text }

// usagef is an error in what was typed, found before any I/O.
func usagef(format string, args ...any) error {
	return &exit{Status: statusUsage, Reason: "usage", Text: fmt.Sprintf(format, args...)}
}

// usage is all that is wrong with what was typed, or nil.
func usage(errs ...error) error {
	var texts []string
	for _, err := range errs {
		if err != nil {
			texts = append(texts, oneLine(err))
		}
	}
	if len(texts) == 0 {
		return nil
	}
	return usagef("%s", strings.Join(texts, "; "))
}

// oneLine is an error's text behind the programme's own name.
func oneLine(err error) string {
	text := strings.TrimPrefix(err.Error(), "mopslock: ")
	return strings.ReplaceAll(text, "\nmopslock: ", "; ") // of errors.Join
}

// storeText is the store's own word in an error, without what was made of it; where
// it has said nothing, the whole.
func storeText(err error) string {
	if verb, ok := errors.AsType[*store.Error](err); ok {
		return oneLine(verb)
	}
	return oneLine(err)
}

// errNoAnswer is the cause of a context that ended because the store was silent.
var errNoAnswer = errors.New("the store has not answered once within 5 s; check its URL and the network")

// exitOf finds the status that an error stands for.
func exitOf(err error) *exit {
	var known *exit
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
		return &exit{Status: interrupted.ExitStatus(), Reason: "interrupted"}
	case errors.As(err, &start):
		return &exit{Status: start.ExitStatus(), Reason: "not_started", Text: host.Printable(start.Name) + ": " + start.Err.Error()}
	case errors.As(err, &lease):
		return leaseExit(lease)
	case errors.As(err, &engine):
		return &exit{Status: statusUnavailable, Reason: "engine", Text: oneLine(err)}
	case errors.As(err, &config), errors.Is(err, store.ErrURL), errors.Is(err, store.ErrKey):
		return &exit{Status: statusUsage, Reason: "usage", Text: oneLine(err)}
	case errors.As(err, &verb):
		return &exit{Status: statusUnavailable, Reason: verb.Class.String(), Text: oneLine(err)}
	case errors.Is(err, errNoAnswer), errors.Is(err, context.DeadlineExceeded):
		return &exit{Status: statusUnavailable, Reason: core.ClassUnreachable.String(), Text: oneLine(err)}
	}
	return &exit{Status: statusUsage, Reason: "usage", Text: oneLine(err)}
}

func leaseExit(e *host.Error) *exit {
	out := &exit{Reason: e.Reason.String(), Text: oneLine(e)}
	switch {
	case e.Kind == host.Unfit:
		out.Status = statusUnfit
		out.Reason = cmp.Or(e.Reason, core.ReasonUnusable).String()
	case e.Kind == host.Refused && e.Reason == core.ReasonCrowded:
		out.Status = statusUnfit
	case e.Kind == host.Lost:
		out.Status = statusLost
	case e.Kind == host.NoResult:
		out.Status = statusNoResult
	case e.Class.Permanent(),
		e.Kind == host.Refused && (e.Reason == core.ReasonUnreachable || e.Reason == core.ReasonUnusable):
		out.Status = statusUnavailable
	case e.Kind == host.CannotMaintain:
		out.Status = statusCannotKeep
	default:
		out.Status = statusNotAcquired
		if e.Reason == core.ReasonLimit && e.Seen != nil { // the others name the holder themselves
			out.Text += "; last seen " + report.Waiting(e.Seen)
		}
	}
	return out
}

// written is what becomes of a report that could not be written. A reader who
// has had enough (`… | head -1`) ends us as SIGPIPE ends others.
func written(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.EPIPE):
		return &exit{Status: statusSignal + int(syscall.SIGPIPE), Reason: "interrupted"}
	}
	return &exit{Status: statusUnavailable, Reason: "output", Text: fmt.Sprintf("standard output cannot be written: %v", err)}
}
