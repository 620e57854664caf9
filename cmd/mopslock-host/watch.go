package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/exit"
	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/report"
	"github.com/mopslock/mopslock/host"
	"github.com/mopslock/mopslock/host/store"
)

func (a *app) watchCommand() *cobra.Command {
	return a.nameCommand("watch", "print a line at each change of NAME until interrupted",
		`Print the state of NAME, and one more line at each change of state, holder or version, until interrupted. A
semaphore has a new version whenever a permit is acquired or released.`,
		`  mopslock-host watch nightly-report
  mopslock-host watch --json nightly-report`, a.watch)
}

func (a *app) watch(ctx context.Context, h *host.Host, q *query) error {
	trouble, seen := "", false
	for s, err := range h.Watch(ctx, q.name) {
		if err != nil {
			var verb *store.Error
			if !seen && errors.As(err, &verb) && verb.Class.Permanent() {
				return err // it has never been read
			}
			if out := exit.Of(err); trouble != out.Reason { // once, not once a second
				trouble = out.Reason
				a.console.Printf("%s", out.Text)
			}
			continue
		}
		trouble, seen = "", true
		if a.json {
			err = a.report(report.StatusJSON(q.of(&s)))
		} else {
			err = a.print(report.WatchLine(&s, time.Now()) + "\n")
		}
		if err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}
