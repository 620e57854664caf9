package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
)

func (a *app) statusCommand() *cobra.Command {
	return a.nameCommand("status", "show who holds the lease, or permits of the semaphore, NAME",
		`Show the state of NAME: vacant, held, stale, released, broken or corrupt, under whichever protocol it is kept.
Nothing is written. What is left of the TTL is by the clock that is named: the store's, or this machine's. Under
lastwriter it is this machine's clock against the writer's. The status is 1 if NAME is vacant or released.

Of a semaphore: how much is held of how much, by the capacity and width of whoever was let in last and the limit that
is kept in the store, and the holders. More is held where others had larger ones before. A holder that is stale is
dead, and makes room for whoever needs it. The status is 1 if nothing is held.`,
		`  mopslock-host status nightly-report
  mopslock-host status --json nightly-report | jq .token`, a.showStatus)
}

func (a *app) showStatus(ctx context.Context, h *host.Host, q *query) error {
	s, err := h.Inspect(ctx, q.name)
	if err != nil {
		return err
	}
	if a.json {
		err = a.reportStatus(q.of(&s))
	} else {
		err = a.print(statusText(q.of(&s)))
	}
	if err != nil {
		return err
	}
	if s.State == core.ObservedVacant || s.State == core.ObservedReleased {
		return &exit{Status: statusNothing, Reason: s.State.String()}
	}
	return nil
}

func statusText(s *host.Status) string {
	if s.IsSemaphore() {
		return semaphoreText(s)
	}
	var text strings.Builder
	line := func(key, format string, args ...any) {
		fmt.Fprintf(&text, "%-11s%s\n", key, fmt.Sprintf(format, args...))
	}
	line("name", "%s", host.Printable(s.Name))
	line("state", "%s", s.State)
	if s.Holder != "" {
		line("holder", "%s", host.Printable(s.Holder))
		line("host", "%s", host.Printable(s.Host))
		line("pid", "%s", host.Printable(s.PID))
	}
	said := func(key, text string) {
		if text != "" {
			line(key, "%s", host.Printable(text))
		}
	}
	said("label", s.Label)
	line("protocol", "%s", s.Protocol)
	line("epoch", "%d", s.Epoch)
	line("token", "%d", s.Token)
	said("session", s.Session)
	for _, companion := range companions(s) {
		if s.Protocol == core.ProtocolLastWriter {
			line("companions", "%s (wrote last)", host.Printable(companion))
			continue
		}
		line("companion", "%s", host.Printable(companion))
	}
	switch {
	case s.TTL > 0:
		line("ttl", "%v", s.TTL)
	case endless(s):
		line("ttl", "none: until it is released or broken")
	}
	if !s.Acquired.IsZero() {
		line("acquired", "%s", s.Acquired.Format(time.RFC3339))
	}
	if !s.Written.IsZero() || !s.Released.IsZero() {
		line("age", "%v", s.Age.Round(time.Millisecond))
	}
	said("left", leftText(s, time.Millisecond))
	if _, _, is := ended(s); is && s.Left > 0 {
		line("free", "in %v at the latest", s.Left.Round(time.Millisecond))
	}
	said("broken by", s.By)
	said("why", s.Why)
	return text.String()
}

// leftText is what is left of the TTL of a lease that is held, and by whose clock.
func leftText(s *host.Status, unit time.Duration) string {
	switch {
	case s.State != core.ObservedHeld || endless(s):
		return ""
	case s.Left == 0 && s.Protocol == core.ProtocolStrict:
		return "unknown (no clock in common with its holder)"
	case s.Clock == "store":
		return s.Left.Round(unit).String() + " (by the store's clock)"
	}
	return s.Left.Round(unit).String()
}

// endless reports whether a lease is there that no time ends.
func endless(s *host.Status) bool {
	return s.Protocol == core.ProtocolStrict && s.State == core.ObservedHeld && s.TTL <= 0
}
