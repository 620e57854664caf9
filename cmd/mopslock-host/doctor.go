package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
	"github.com/mopslock/mopslock/host/doctor"
	"github.com/mopslock/mopslock/host/store"
)

func (a *app) doctorCommand() *cobra.Command {
	var rounds int
	cmd := &cobra.Command{
		Use:   "doctor [flags]",
		Short: "examine the store: can it be relied on, and with which flags?",
		Long: `Examine the store: whether it is reached and allows what leases need, how long each verb takes, whether
create-if-absent has one winner when 16 writers race, whether lists and reads are fresh, in which unit stamps come, how
far the clocks behind them disagree, and how far they are from this machine's. Then say which protocol, TTL and
margins fit, the flags to use, and what a held lease costs an hour. It takes some seconds.

It holds no lease and disturbs none: what it writes lies below _mopslock/d/, and is deleted again. (What a doctor that was
killed has left there does no harm.) It also leaves _mopslock/store.json. A store in which two writers were told that they
had won is refused there: from then on --protocol strict is 78 for everybody, and auto is lastwriter, until a doctor finds
the store mended. Processes that run already go on as they are.

The status is 0 if strict can be relied on, and 78 if not; 69 if the store is missing, silent for 5 s, or denies what
leases need (with 'list' denied, only lastwriter can be had).

--json prints one object; its keys stay as they are, with their units in their names. store; reached_ms; verbs: verb,
answered, timed, p50_ms, p99_ms, unknown, throttled, denied; create: unsupported, rounds, writers, rounds_with_two_winners,
most_winners, rounds_with_lost_answer, unknown, over_object, over_object_told_yes; fresh: list_after_write,
list_after_delete, read_after_overwrite, exists_after_write_or_delete, each with tries and stale; stamps: samples, unit_s,
get_unit_s, list_unit_s, spread_s; clock: known, offset_s, bound_s; card: refused, seen, mended; findings: kind, bad, text;
protocol: strict, lastwriter or none; advice: ttl_floor_s, ttl_s, margin_s, acquire_margin_s, command, handover_s,
take_over_s, file_events, and cost: lease_put_per_hour, lease_get_per_hour, lease_usd_per_hour,
thousand_leases_usd_per_hour, waiter_get_per_hour, waiter_usd_per_hour; left_behind.`,
		Example: `  mopslock-host doctor --store s3://bucket/locks
  mopslock-host doctor --rounds 1000
  mopslock-host doctor --json | jq -r .advice.command`,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) > 0:
				return usagef("doctor takes no argument; see mopslock-host doctor --help")
			case rounds < 0 || rounds > doctor.MaxRounds || cmd.Flags().Changed("rounds") && rounds == 0:
				return usagef("--rounds %d: from 1 to %d", rounds, doctor.MaxRounds)
			}
			raw, err := a.location(cmd)
			if err != nil {
				return err
			}
			ctx, cancel := a.signals.WaitContext(context.Background())
			defer cancel()
			return a.doctor(ctx, raw, rounds)
		},
	}
	cmd.Flags().IntVar(&rounds, "rounds", 0, "how many times 16 writers race to create an object (default "+strconv.Itoa(doctor.DefaultRounds)+", or what 6 s allow)")
	return cmd
}

// doctor examines the store at a URL and says what to do with it.
func (a *app) doctor(ctx context.Context, raw string, rounds int) error {
	if isMemory(raw) {
		return errMemory()
	}
	s, err := store.Open(ctx, raw)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	report, failed := doctor.Examine(ctx, s, &doctor.Options{Rounds: rounds, Progress: func(step string, done, total int) {
		a.ui.progress("examining the store: %s, %d of %d", step, done, total)
	}})
	a.ui.waited()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if report.Advice != nil {
		report.Advice.Command = a.inStore(report.Advice.Command)
	}
	if report.Reached > 0 {
		if err := a.reportDoctor(raw, report); err != nil {
			return err
		}
	}
	if failed != nil {
		return failed
	}
	return verdict(report)
}

// inStore names in a command line the store that --store named: as it stands it would
// take leases in another. One with secrets in it is not repeated.
func (a *app) inStore(command string) string {
	shown := store.Redact(a.storeURL)
	named, err := url.Parse(a.storeURL)
	told, errShown := url.Parse(shown)
	if a.storeURL == "" || err != nil || errShown != nil || named.User != nil || !maps.EqualFunc(named.Query(), told.Query(), slices.Equal) {
		return command
	}
	quoted := "'" + strings.ReplaceAll(shown, "'", `'\''`) + "'"
	return strings.Replace(command, "mopslock-host run ", "mopslock-host run --store "+quoted+" ", 1)
}

// verdict is the status of a report.
func verdict(r *doctor.Report) error {
	worst := ""
	for _, found := range r.Findings {
		if found.Bad {
			worst = cmp.Or(worst, found.Text)
		}
		switch {
		case !found.Bad:
		case found.Kind == "read_only":
			return &exit{Status: statusUnavailable, Reason: core.ClassReadOnly.String(), Text: found.Text}
		case found.Kind == "no_list_right", found.Kind == "no_exists_right", found.Kind == "no_create_right":
			return &exit{Status: statusUnavailable, Reason: core.ClassUnauthorized.String(), Text: found.Text}
		}
	}
	if r.Strict() {
		return nil
	}
	return &exit{Status: statusUnfit, Reason: core.ReasonUnusable.String(), Text: "strict cannot be relied on here: " + worst}
}

func (a *app) reportDoctor(raw string, r *doctor.Report) error {
	if a.json {
		return a.report(struct {
			Store string `json:"store"`
			*doctor.Report
		}{store.Redact(raw), r})
	}
	return a.print(doctorText(raw, r))
}

// textReport is a report for people: rows of a word, and a text about it.
type textReport struct{ strings.Builder }

// A long text is broken at reportWidth. The word before it takes wordWidth.
const (
	reportWidth = 110
	wordWidth  = 12
)

// line writes a word and a text, in as many rows as needed.
func (p *textReport) line(word, format string, args ...any) {
	row := fmt.Sprintf("%-*s", wordWidth, word)
	for i, part := range strings.Fields(fmt.Sprintf(format, args...)) {
		switch {
		case i == 0:
		case len([]rune(row))+1+len([]rune(part)) > reportWidth:
			p.WriteString(row + "\n")
			row = strings.Repeat(" ", wordWidth)
		default:
			row += " "
		}
		row += part
	}
	p.WriteString(row + "\n")
}

func doctorText(raw string, r *doctor.Report) string {
	var p textReport
	p.line("store", "%s", host.Printable(store.Redact(raw)))
	p.line("reached", "in %v", short(r.Reached))
	p.latencies(r)
	if r.Create.Rounds > 0 {
		p.line("create", "%s", createText(&r.Create))
	}
	p.line("fresh", "%s", freshText(&r.Fresh))
	p.clocks(r)
	if r.Card.Refused {
		p.line("card", "refused: %s", r.Card.Seen)
	}
	for _, found := range r.Findings {
		word := "note"
		if found.Bad {
			word = "bad"
		}
		p.line(word, "%s", host.Printable(found.Text))
	}
	p.WriteString("\n")
	switch {
	case r.Advice == nil:
		p.line("verdict", "no lease can be kept here")
		return p.String()
	case r.Strict():
		p.line("verdict", "strict: leases exclude each other, and have fencing tokens")
	default:
		p.line("verdict", "lastwriter only: two may hold a lease at once, now and then, and there is no fencing token")
	}
	p.advice(r, isPaid(raw))
	return p.String()
}

// isPaid reports whether requests of a store cost money.
func isPaid(raw string) bool {
	return !isMemory(raw) && !strings.HasPrefix(strings.ToLower(raw), "file:")
}

func (p *textReport) latencies(r *doctor.Report) {
	fmt.Fprintf(p, "%-*s%8s %8s %8s\n", wordWidth, "latency", "p50 ms", "p99 ms", "of")
	for _, v := range r.Verbs {
		if v.Denied {
			fmt.Fprintf(p, "  %-*s%8s\n", wordWidth-2, v.Verb, "denied")
			continue
		}
		fmt.Fprintf(p, "  %-*s%8.2f %8.2f %8d\n", wordWidth-2, v.Verb, millis(v.P50), millis(v.P99), v.Timed)
	}
}

func millis(m doctor.Milliseconds) float64 { return float64(m) / float64(time.Millisecond) }

// short is a duration as one reads it: three digits are enough.
func short[T ~int64](d T) time.Duration {
	whole := time.Duration(d)
	unit := time.Nanosecond
	for unit < time.Second && whole.Abs() >= 1000*unit {
		unit *= 10
	}
	return whole.Round(unit)
}

func createText(c *doctor.Create) string {
	text := fmt.Sprintf("one winner in each of %d rounds of %d writers", c.Rounds, c.Writers)
	switch {
	case c.Lost > 0 && c.Doubled == 0:
		text = fmt.Sprintf("never two winners in %d rounds of %d writers; in %d nobody was told that he had won", c.Rounds, c.Writers, c.Lost)
	case c.Doubled > 0:
		text = fmt.Sprintf("%d of %d writers were told they won; more than one in %d of %d rounds", c.MostWinners, c.Writers, c.Doubled, c.Rounds)
	}
	if c.Over > 0 {
		text += fmt.Sprintf("; over an object %d of %d were refused", c.Over-c.Overwrote, c.Over)
	}
	return text
}

func freshText(f *doctor.Fresh) string {
	var seen, stale []string
	for _, each := range []struct {
		doctor.Checked
		what string
	}{{f.AfterWrite, "lists after a write"}, {f.AfterDelete, "lists after a delete"}, {f.AfterOverwrite, "reads after an overwrite"}, {f.Exists, "looks"}} {
		if each.Stale > 0 {
			stale = append(stale, fmt.Sprintf("%d of %d %s were stale", each.Stale, each.Tries, each.what))
		}
		if each.Tries > 0 {
			seen = append(seen, fmt.Sprintf("%d %s", each.Tries, each.what))
		}
	}
	switch {
	case len(stale) > 0:
		return strings.Join(stale, ", ")
	case len(seen) > 0:
		return "nothing was stale in " + strings.Join(seen, ", ")
	}
	return "not looked at"
}

func (p *textReport) clocks(r *doctor.Report) {
	s, c := &r.Stamps, &r.Clock
	if !c.Known {
		p.line("stamps", "none")
		return
	}
	agree := "one clock, as far as can be seen"
	if s.Spread > 0 {
		agree = fmt.Sprintf("their clocks disagree by %v at least", short(s.Spread))
	}
	p.line("stamps", "in units of %v, of %d looked at; %s", short(s.Unit), s.Samples, agree)
	word := "ahead of"
	if c.Offset < 0 {
		word = "behind"
	}
	p.line("clock", "the store's is %v %s this machine's, give or take %v", short(time.Duration(c.Offset).Abs()), word, short(c.Bound))
}

func (p *textReport) advice(r *doctor.Report, paid bool) {
	a := r.Advice
	fmt.Fprintf(p, "%-*s%s\n", wordWidth, "use", a.Command) // on one line, to be copied
	p.line("ttl", "%s; not below %s here", doctor.Brief(time.Duration(a.TTL)), doctor.Brief(time.Duration(a.TTLFloor)))
	price := func(usd float64) string {
		if !paid {
			return ""
		}
		return fmt.Sprintf(" (US$ %.4f)", usd)
	}
	if r.Strict() {
		p.line("cost", "a held lease: at most %.0f put and %.0f exists an hour%s", a.Cost.Puts, a.Cost.Gets, price(a.Cost.USD))
		p.line("session", "1,000 leases of one process on one session (--session): the same for all of them together%s", price(a.Cost.Thousand))
	} else {
		p.line("cost", "a held lease: at most %.0f put and %.0f get an hour%s; 1,000 leases a thousand times that", a.Cost.Puts, a.Cost.Gets, price(a.Cost.USD))
	}
	p.line("waiting", "at most %.0f get or exists an hour%s", a.Cost.Polls, price(a.Cost.PollsUSD))
	if paid {
		p.line("", "US$ at S3's list prices: an estimate")
	}
	events := ""
	if a.Watched {
		events = ", on this machine by file events"
	}
	p.line("hand-over", "at once within a process%s; else within %v of a release", events, time.Duration(a.Handover).Round(100*time.Millisecond))
	p.line("take-over", "of a dead holder's lease: within %v", time.Duration(a.TakeOver).Round(100*time.Millisecond))
}
