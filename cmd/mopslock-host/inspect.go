package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
	"github.com/mopslock/mopslock/host/store"
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

// nameCommand is what status and watch have in common: they ask about a NAME.
func (a *app) nameCommand(use, short, long, example string, do func(context.Context, *host.Host, *asked) error) *cobra.Command {
	var f termFlags
	cmd := &cobra.Command{
		Use: use + " NAME [flags]", Short: short, Long: long, Example: example,
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := nameArg(cmd, args)
			if err != nil {
				return err
			}
			if err := usage(f.check(name)...); err != nil {
				return err
			}
			return a.withStore(cmd, func(ctx context.Context, h *host.Host) error { return do(ctx, h, &asked{name, f.wanted()}) })
		},
	}
	f.add(cmd)
	return cmd
}

// asked is the NAME that status and watch were asked about, and the protocol.
type asked struct {
	name     string
	protocol core.Protocol
}

// of is a status as it is shown: whoever is there says how the name is kept, and
// where nobody is, it is as was asked for.
func (q *asked) of(s *host.Status) *host.Status {
	if s.State == core.ObservedVacant && !s.IsSemaphore() {
		s.Protocol = cmp.Or(q.protocol, s.Protocol)
	}
	return s
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
	var lease *host.Error
	class := core.ClassNone
	switch {
	case errors.As(err, &verb):
		class = verb.Class
	case errors.As(err, &lease):
		class = lease.Class
	}
	return class == core.ClassUnreachable || class == core.ClassThrottled
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

func (a *app) showStatus(ctx context.Context, h *host.Host, q *asked) error {
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

func (a *app) lsCommand() *cobra.Command {
	var stale bool
	cmd := &cobra.Command{
		Use:   "ls [PREFIX] [flags]",
		Short: "list the leases and semaphores whose names begin with PREFIX",
		Long: `List every lease, of both protocols, and every semaphore: a table, or JSON lines with --json. In the place of its
holder a semaphore has how much is held of how much. The status is 1 if there is none. A record that cannot be read,
or that a newer mopslock wrote, is listed as unreadable, with the reason; the status is then 69, or 78.
Listing all also removes what processes that are long gone have left in the store beside their leases.`,
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
	cmd.Flags().BoolVar(&stale, "stale", false, "only those that have expired, and semaphores of which a permit has")
	return cmd
}

func (a *app) list(ctx context.Context, h *host.Host, prefix string, stale bool) error {
	table := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	found := 0
	var trouble, end error // one bad record must not hide the others
	for s, err := range h.List(ctx, prefix) {
		if err != nil && (s.Name == "" || ctx.Err() != nil || silent(err)) {
			end = err
			break
		}
		trouble = cmp.Or(err, trouble)
		if err == nil && stale && !hasExpired(&s) {
			continue
		}
		if found++; a.json {
			if err := a.reportListed(&s, err); err != nil {
				return err
			}
			continue
		}
		if found == 1 {
			fmt.Fprintln(table, "NAME\tSTATE\tPROTOCOL\tHOLDER\tHOST\tPID\tAGE\tLEFT")
		}
		fmt.Fprintln(table, tableRow(&s, err))
	}
	if err := written(table.Flush()); err != nil {
		return err
	}
	switch {
	case end != nil:
		return end
	case trouble != nil:
		out := exitOf(trouble)
		return &exit{Status: out.Status, Reason: out.Reason} // its row says why
	case found == 0:
		return &exit{Status: statusNothing, Reason: "none"}
	}
	return nil
}

// stateUnread is shown of a record that could not be read.
const stateUnread = "unreadable"

// unreadReport is a record that could not be read, as ls prints it with --json.
type unreadReport struct {
	Name   string `json:"name"`
	State  string `json:"state"`
	Reason string `json:"reason"`
	Error  string `json:"error"`
}

// reportListed prints what was found of a name, or why nothing was.
func (a *app) reportListed(s *host.Status, err error) error {
	if err == nil {
		return a.reportStatus(s)
	}
	return a.report(unreadReport{s.Name, stateUnread, exitOf(err).Reason, oneLine(err)})
}

func tableRow(s *host.Status, err error) string {
	if err != nil {
		why := strings.Join(strings.Fields(printableLines(oneLine(err))), " ") // on one line
		return strings.Join([]string{dash(s.Name), stateUnread, "-", "-", "-", "-", "-", "-", why}, "\t")
	}
	age, left := "-", "-"
	if !s.Written.IsZero() || !s.Released.IsZero() {
		age = s.Age.Round(time.Second).String()
	}
	if s.State == core.ObservedHeld && s.Left != 0 {
		left = s.Left.Round(time.Second).String()
	}
	who := []string{dash(s.Holder), dash(s.Host), dash(s.PID)}
	if s.IsSemaphore() { // whose last version somebody made, who need not be a holder
		who = []string{occupancy(s), "-", "-"}
	}
	cells := slices.Concat([]string{dash(s.Name), s.State.String(), s.Protocol.String()}, who, []string{age, left})
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
		`Print the state of NAME, and a line more at each change of state, holder or version, until interrupted. Each permit
of a semaphore that is acquired or released is a version.`,
		`  mopslock-host watch nightly-report
  mopslock-host watch --json nightly-report`, a.watch)
}

func (a *app) watch(ctx context.Context, h *host.Host, q *asked) error {
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
		return fmt.Sprintf("%s %s (%s) epoch %d", line, occupancy(s), viewText(s), s.Epoch)
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
