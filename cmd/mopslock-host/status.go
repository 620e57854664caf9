package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/exit"
	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/report"
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
)

func (a *app) statusCommand() *cobra.Command {
	return a.nameCommand("status", "show who holds the lease, or permits of the semaphore, NAME",
		`Show the state of NAME: vacant, held, stale, released, broken or corrupt, under the protocol of its record. status
writes nothing. The rest of the TTL is measured by the clock that is named: the store's, or this machine's. Under
lastwriter it compares this machine's clock with the writer's. The status is 1 if NAME is vacant or released.

For a semaphore, show the holders, and how many permits are held of how many: by the capacity and width of the latest
holder, and the limit in the store. More are held if earlier holders had larger values. A stale holder is dead, and its
permits go to the next process that needs the room. The status is 1 if nothing is held.`,
		`  mopslock-host status nightly-report
  mopslock-host status --json nightly-report | jq .token`, a.showStatus)
}

func (a *app) showStatus(ctx context.Context, h *host.Host, q *query) error {
	s, err := h.Inspect(ctx, q.name)
	if err != nil {
		return err
	}
	if a.json {
		err = a.report(report.StatusJSON(q.of(&s)))
	} else {
		err = a.print(report.StatusText(q.of(&s)))
	}
	if err != nil {
		return err
	}
	if s.State == core.ObservedVacant || s.State == core.ObservedReleased {
		return &exit.Error{Status: exit.StatusNothing, Reason: s.State.String()}
	}
	return nil
}
