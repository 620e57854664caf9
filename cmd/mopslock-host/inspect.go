package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
	"github.com/mopslock/mopslock/host/store"
)

func (a *app) statusCommand() *cobra.Command {
	return a.nameCommand("status", "show who holds the lease NAME",
		`Show the state of NAME: vacant, held, stale, released, broken or corrupt. Nothing is written. Age and what is
left of the TTL are by this machine's clock against the writer's. The status is 1 if NAME is vacant or released.`,
		`  mopslock-host status nightly-report
  mopslock-host status --json nightly-report | jq .holder`, a.showStatus)
}

// nameCommand is what status and watch have in common: they ask about a NAME.
func (a *app) nameCommand(use, short, long, example string, do func(context.Context, *host.Host, string) error) *cobra.Command {
	var f termFlags
	cmd := &cobra.Command{
		Use: use + " NAME [flags]", Short: short, Long: long, Example: example,
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := nameArg(cmd, args)
			if err != nil {
				return err
			}
			if err := usage(f.check(cmd, name)...); err != nil {
				return err
			}
			return a.withStore(cmd, func(ctx context.Context, h *host.Host) error { return do(ctx, h, name) })
		},
	}
	f.add(cmd)
	return cmd
}

// withStore opens the store for a command that asks, and closes it. A store
// that is silent is asked again until it has had its 5 s.
func (a *app) withStore(cmd *cobra.Command, do func(context.Context, *host.Host) error) error {
	ctx, cancel := a.signals.WaitContext(context.Background())
	defer cancel()
	h, err := a.open(ctx, cmd)
	if err != nil {
		return err
	}
	defer a.close(h)
	ctx, stop := untilAnswered(ctx, h)
	defer stop()
	var silence error
	for pause := core.PollFirst; ; pause *= 2 {
		err := do(ctx, h)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil: // interrupted, or no answer: the error is only its echo
			return noAnswer(context.Cause(ctx), silence)
		case h.Reached() || !silent(err):
			return err
		}
		silence = err
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// silent reports whether the store may yet answer.
func silent(err error) bool {
	var verb *store.Error
	return errors.As(err, &verb) && (verb.Class == core.ClassUnreachable || verb.Class == core.ClassThrottled)
}

// noAnswer adds what was heard instead of an answer.
func noAnswer(cause, silence error) error {
	if silence == nil || !errors.Is(cause, errNoAnswer) {
		return cause
	}
	out := exitOf(silence)
	out.Text = "the store has not answered once within 5 s: " + out.Text
	return out
}

func (a *app) showStatus(ctx context.Context, h *host.Host, name string) error {
	s, err := h.Inspect(ctx, name)
	if err != nil {
		return err
	}
	if a.json {
		err = a.report(newReport(&s))
	} else {
		err = a.print(statusText(&s))
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
	line("protocol", "%s", core.ProtocolLastWriter)
	line("epoch", "0")
	if s.Companion {
		line("companions", "%s (wrote last)", host.Printable(s.Host+":"+s.PID))
	}
	if s.TTL > 0 {
		line("ttl", "%v", s.TTL)
	}
	if !s.Acquired.IsZero() {
		line("acquired", "%s", s.Acquired.Format(time.RFC3339))
	}
	if !s.Written.IsZero() || !s.Released.IsZero() {
		line("age", "%v", s.Age.Round(time.Millisecond))
	}
	if s.State == core.ObservedHeld {
		line("left", "%v", s.Left.Round(time.Millisecond))
	}
	return text.String()
}

func (a *app) lsCommand() *cobra.Command {
	var stale bool
	cmd := &cobra.Command{
		Use:   "ls [PREFIX] [flags]",
		Short: "list the leases whose names begin with PREFIX",
		Long:  `List every lease: a table, or JSON lines with --json. The status is 1 if there is none.`,
		Example: `  mopslock-host ls
  mopslock-host ls --stale --json team-a/`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef("ls takes at most one PREFIX")
			}
			prefix := ""
			if len(args) == 1 {
				prefix = args[0]
			}
			return a.withStore(cmd, func(ctx context.Context, h *host.Host) error { return a.list(ctx, h, prefix, stale) })
		},
	}
	cmd.Flags().BoolVar(&stale, "stale", false, "only those that have expired")
	return cmd
}

func (a *app) list(ctx context.Context, h *host.Host, prefix string, stale bool) error {
	table := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	found := 0
	var trouble error // one bad record must not hide the others
	for s, err := range h.List(ctx, prefix) {
		if err != nil {
			if s.Name == "" || ctx.Err() != nil || silent(err) {
				return err
			}
			trouble = err
			a.ui.printf("%s", oneLine(err))
			continue
		}
		if stale && s.State != core.ObservedStale {
			continue
		}
		if a.json {
			if err := a.report(newReport(&s)); err != nil {
				return err
			}
		} else {
			if found == 0 {
				fmt.Fprintln(table, "NAME\tSTATE\tHOLDER\tHOST\tPID\tAGE\tLEFT")
			}
			fmt.Fprintln(table, tableRow(&s))
		}
		found++
	}
	if err := written(table.Flush()); err != nil {
		return err
	}
	switch {
	case trouble != nil:
		out := exitOf(trouble)
		return &exit{Status: out.Status, Reason: out.Reason} // it was said already
	case found == 0:
		return &exit{Status: statusNothing, Reason: "none"}
	}
	return nil
}

func tableRow(s *host.Status) string {
	age, left := "-", "-"
	if !s.Written.IsZero() || !s.Released.IsZero() {
		age = s.Age.Round(time.Second).String()
	}
	if s.State == core.ObservedHeld {
		left = s.Left.Round(time.Second).String()
	}
	cells := []string{dash(s.Name), s.State.String(), dash(s.Holder), dash(s.Host), dash(s.PID), age, left}
	return strings.Join(cells, "\t")
}

func dash(text string) string {
	if text == "" {
		return "-"
	}
	return host.Printable(text)
}

func (a *app) watchCommand() *cobra.Command {
	return a.nameCommand("watch", "print a line at each change of NAME until interrupted",
		`Print the state of NAME, and a line more at each change of state or holder, until interrupted.`,
		`  mopslock-host watch nightly-report
  mopslock-host watch --json nightly-report`, a.watch)
}

func (a *app) watch(ctx context.Context, h *host.Host, name string) error {
	trouble := ""
	for s, err := range h.Watch(ctx, name) {
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
			err = a.report(newReport(&s))
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
	if s.Holder != "" {
		line += " holder " + host.Printable(s.Holder) + " on " + host.Printable(s.Host) + " pid " + host.Printable(s.PID)
	}
	if s.Companion {
		line += " (companion)"
	}
	return line
}
