package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/exit"
	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/report"
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
)

type breakFlags struct {
	termFlags
	why    string
	now    bool
	yes    bool
	holder string
}

func (a *app) breakCommand() *cobra.Command {
	var f breakFlags
	cmd := &cobra.Command{
		Use:   "break NAME --why TEXT [flags]",
		Short: "end somebody's lease NAME, on the record",
		Long: `End the lease NAME, and keep on the record who did so and why. The holder loses the lease (broken) when it next
renews, on a directory at once. Others can take NAME when the holder's last beat is a TTL old. Under lastwriter break
writes a release in the holder's name, and NAME is free at once. Permits of a semaphore cannot be broken (78).

break ends the tenure of --holder; without that flag, the tenure that it finds at the beginning and shows in its
question. If another process holds NAME by then, break writes nothing and the status is 75. Under lastwriter the store
does not guard this: break reads the record just before it writes, and a holder that acquires between the two loses
the lease.

On a terminal it shows the lease and asks, unless --yes is given. It first warns of the two ways in which two processes
can then hold one name. With --now NAME is free at once, even while its holder believes that it holds the lease. And the
holder of a lease without a TTL does not learn of the break while it is out of contact. The status is 1 if there is
nothing to break.`,
		Example: `  mopslock-host break nightly-report --why "worker-7 is gone for good"
  mopslock-host break nightly-report --why "worker-7 was switched off" --now --yes
  mopslock-host break nightly-report --why "it hangs" --holder 3f0c2b1a-5d6e-4f70-8192-a3b4c5d6e7f8`,
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := nameArg(cmd, args)
			if err != nil {
				return err
			}
			if err := exit.Usage(append(f.check(name), f.checkWhy(), f.checkHolder(cmd.Flags().Changed("holder")))...); err != nil {
				return err
			}
			return a.withStore(cmd, func(ctx context.Context, h *host.Host) error { return a.breakLease(ctx, h, name, &f) })
		},
	}
	f.add(cmd)
	cmd.Flags().StringVar(&f.why, "why", "", "why, for the record; required")
	cmd.Flags().BoolVar(&f.now, "now", false, "let others take NAME at once, whatever its holder believes")
	cmd.Flags().StringVar(&f.holder, "holder", "", "break this holder only, by the id that status shows; 75 if another holds NAME")
	cmd.Flags().BoolVar(&f.yes, "yes", false, "do not ask")
	return cmd
}

func (f *breakFlags) checkWhy() error {
	printable := utf8.ValidString(f.why) && strings.IndexFunc(f.why, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
	switch {
	case f.why == "":
		return exit.Usagef("break needs --why: a text for the holder to read")
	case len(f.why) > core.MaxWhy || !printable:
		return exit.Usagef("--why: at most %d bytes of printable text", core.MaxWhy)
	}
	return nil
}

// checkHolder refuses an empty id: a script that found no holder must not break the present one.
func (f *breakFlags) checkHolder(given bool) error {
	other := func(r rune) bool { return !unicode.IsPrint(r) || unicode.IsSpace(r) || r == '/' }
	if given && (f.holder == "" || len(f.holder) > core.MaxHolder || strings.ContainsFunc(f.holder, other)) {
		return exit.Usagef("--holder %q: must be the id of a holder, as status shows it", f.holder)
	}
	return nil
}

// breakLease never breaks twice: withStore repeats it only as long as the store has not answered, and its first
// request only reads.
func (a *app) breakLease(ctx context.Context, h *host.Host, name string, f *breakFlags) error {
	seen, err := h.Inspect(ctx, name)
	if err != nil {
		return err
	}
	if seen.IsSemaphore() {
		return &exit.Error{
			Status: exit.StatusUnfit, Reason: core.ReasonKind.String(),
			Text: host.Printable(name) + " is a semaphore, and a permit of it ends with its holder: there is nothing to break; those of dead processes free themselves a TTL after their last sign of life",
		}
	}
	// The protocol of the lease that is seen wins over --protocol, unless --holder names another holder: that of a
	// lease beside it under the other protocol.
	protocol, left := seen.Protocol, isLeft(&seen)
	if f.holder != "" && f.holder != seen.Holder {
		protocol = cmp.Or(f.wanted(), protocol)
	}
	beside := protocol != seen.Protocol
	if reason := unbreakable(&seen); reason != core.ReasonNone && (!beside || isFree(&seen)) {
		return breakFailure(name, &seen, &host.Error{Kind: host.NotAcquired, Name: name, Reason: reason})
	}
	if beside || f.holder == "" || f.holder == seen.Holder { // otherwise Break will refuse
		if err := a.confirm(ctx, &seen, protocol, f); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, renewLimit)
	defer cancel()
	opts := &host.BreakOptions{Why: f.why, Now: f.now, Holder: f.holder, Protocol: protocol}
	if beside {
		after, err := h.Break(ctx, name, opts)
		if err == nil {
			return a.reportBreak(&host.Status{Name: name, Protocol: protocol, Holder: f.holder}, &after, f)
		}
		if !isVacant(err) || !left {
			return breakFailure(name, &seen, err)
		}
		opts.Protocol = seen.Protocol
	}
	opts.Holder = cmp.Or(f.holder, seen.Holder)
	after, err := h.Break(ctx, name, opts)
	if err != nil {
		return breakFailure(name, &seen, err)
	}
	return a.reportBreak(&seen, &after, f)
}

// unbreakable returns why there is no holder to break, or ReasonNone. A holder that acquires later was not shown, so
// it is not broken.
func unbreakable(s *host.Status) core.Reason {
	switch {
	case s.State == core.ObservedCorrupt:
		return core.ReasonUnreadable
	case !isLeft(s):
		return core.ReasonVacant
	}
	return core.ReasonNone
}

// isLeft reports whether there is something to break.
func isLeft(s *host.Status) bool { return !isFree(s) && s.State != core.ObservedBroken }

// isFree reports whether the name is held under neither protocol: of two records Inspect shows one that is held.
func isFree(s *host.Status) bool {
	return s.State == core.ObservedVacant || s.State == core.ObservedReleased
}

func isVacant(err error) bool {
	return errors.Is(err, &host.Error{Kind: host.NotAcquired, Reason: core.ReasonVacant})
}

func breakFailure(name string, seen *host.Status, err error) error {
	failed := new(host.Error)
	switch {
	case isVacant(err):
		text := "lease " + host.Printable(name) + ": nobody holds it, so there is nothing to break"
		if seen.State == core.ObservedBroken {
			text = "lease " + host.Printable(name) + " is broken already" + reasonText(seen)
		}
		return &exit.Error{Status: exit.StatusNothing, Reason: core.ReasonVacant.String(), Text: text}
	case errors.Is(err, &host.Error{Kind: host.NotAcquired, Reason: core.ReasonHeld}):
		return &exit.Error{Status: exit.StatusNotAcquired, Reason: core.ReasonHeld.String(), Text: exit.Text(err)}
	case errors.Is(err, context.DeadlineExceeded):
		return &exit.Error{
			Status: exit.StatusUnavailable, Reason: core.ReasonUnreachable.String(),
			Text: "lease " + host.Printable(name) + ": the store did not answer, so it is unknown whether it was broken; status shows it",
		}
	case errors.As(err, &failed) && (failed.Reason == core.ReasonUnreadable || seen.State == core.ObservedCorrupt):
		text := strings.Replace(exit.Text(err), " not acquired: ", " not broken: ", 1)
		return &exit.Error{Status: exit.StatusUnfit, Reason: core.ReasonUnreadable.String(), Text: text}
	}
	return err
}

// confirm warns of what a break may cause. On a terminal it also shows the lease and asks.
func (a *app) confirm(ctx context.Context, seen *host.Status, protocol core.Protocol, f *breakFlags) error {
	stdin, ok := a.stdin.(*os.File)
	asks := !f.yes && ok && term.IsTerminal(int(stdin.Fd()))
	if asks && !a.console.OnTerminal() {
		return exit.Usagef("stderr is no terminal, so nobody would see the question whether to break it; say --yes")
	}
	if asks {
		a.console.Plainf("%s", strings.TrimSuffix(report.StatusText(seen), "\n"))
	}
	if protocol != seen.Protocol {
		a.console.Printf("warning: what %s keeps of the name stays; to be broken is what %s keeps of it for %s", seen.Protocol, protocol, host.Printable(f.holder))
	}
	switch {
	case protocol == core.ProtocolLastWriter:
		a.console.Printf("warning: under lastwriter the name is free at once, and its holder hears of it only when it next renews")
	case f.now:
		a.console.Printf("warning: --now frees the name at once: another can hold it while its holder still believes that it does")
	case report.Endless(seen):
		a.console.Printf("warning: the lease has no ttl: a holder that is out of contact does not hear that it is broken, and goes on")
	}
	if !asks {
		return nil
	}
	yes, err := a.ask(ctx, "Break it? [y/N] ")
	if err == nil && !yes {
		return &exit.Error{Status: exit.StatusNothing, Reason: "declined", Text: "not broken"}
	}
	return err
}

// ask asks on the terminal. A signal ends the wait for the answer.
func (a *app) ask(ctx context.Context, question string) (bool, error) {
	a.console.Prompt(question)
	answer := make(chan string, 1)
	go func() { // the answer may never come; this ends with the process
		line, _ := bufio.NewReader(a.stdin).ReadString('\n')
		answer <- line
	}()
	select {
	case <-ctx.Done():
		return false, context.Cause(ctx)
	case line := <-answer:
		line = strings.ToLower(strings.TrimSpace(line))
		return line == "y" || line == "yes", nil
	}
}

// breakReport is what --json prints: the lease after the break, and why.
type breakReport struct {
	report.Lease
	Why string `json:"why"`
	By  string `json:"by"`
}

// reportBreak names the holder that was broken, also if another process holds the name by now.
func (a *app) reportBreak(whom, after *host.Status, f *breakFlags) error {
	broken := *after
	if after.Holder != whom.Holder {
		broken = *whom
		broken.State, broken.Epoch, broken.Why = core.ObservedBroken, 0, f.why
	}
	if a.json {
		return a.report(breakReport{report.NewLease(&broken), broken.Why, broken.By})
	}
	whose := *whom
	whose.Left = 0 // it is over
	text := fmt.Sprintf("%s was held by %s; ", host.Printable(whom.Name), whose.Who())
	switch {
	case broken.Protocol != core.ProtocolStrict:
		text += "released in its name; others can take it now"
	case broken.Epoch == 0:
		text += "broken, and taken again by " + after.Who()
	default:
		text += fmt.Sprintf("broken at epoch %d, token %d%s; others can take it ", broken.Epoch, broken.Token, reasonText(&broken))
		if !f.now && broken.Left > 0 {
			text += fmt.Sprintf("in %v", broken.Left.Round(time.Second))
		} else {
			text += "now"
		}
	}
	return a.print(text + "\n")
}

func reasonText(s *host.Status) string {
	if s.By == "" {
		return ""
	}
	return ", by " + host.Printable(s.By) + ": " + host.Printable(s.Why)
}
