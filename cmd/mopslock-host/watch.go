package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/mopslock/mopslock/host"
	"github.com/mopslock/mopslock/host/store"
)

func (a *app) watchCommand() *cobra.Command {
	return a.nameCommand("watch", "print a line at each change of NAME until interrupted",
		`Print the state of NAME, and a line more at each change of state, holder or version, until interrupted. Each permit
of a semaphore that is acquired or released is a version.`,
		`  mopslock-host watch nightly-report
  mopslock-host watch --json nightly-report`, a.watch)
}

func (a *app) watch(ctx context.Context, h *host.Host, q *query) error {
	trouble := ""
	for s, err := range h.Watch(ctx, q.name) {
		if err != nil {
			var verb *store.Error
			if errors.As(err, &verb) && verb.Class.Permanent() {
				return err
			}
			if out := exitOf(err); trouble != out.Reason { // once, not once a second
				trouble = out.Reason
				a.ui.printf("%s", out.Text)
			}
			continue
		}
		trouble = ""
		if a.json {
			err = a.reportStatus(q.of(&s))
		} else {
			err = a.print(watchLine(&s, time.Now()) + "\n")
		}
		if err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

func watchLine(s *host.Status, now time.Time) string {
	line := now.Format(time.RFC3339) + " " + host.Printable(s.Name) + " " + s.State.String()
	if s.IsSemaphore() {
		return fmt.Sprintf("%s %s (%s) epoch %d", line, heldOfMost(s), viewText(s), s.Epoch)
	}
	if s.Holder != "" {
		line += " holder " + host.Printable(s.Holder) + " on " + host.Printable(s.Host) + " pid " + host.Printable(s.PID)
	}
	if s.Companion {
		line += " (companion)"
	}
	if s.Epoch > 0 {
		line += fmt.Sprintf(" epoch %d token %d", s.Epoch, s.Token)
	}
	if s.By != "" {
		line += " broken by " + host.Printable(s.By) + ": " + host.Printable(s.Why)
	}
	return line
}
