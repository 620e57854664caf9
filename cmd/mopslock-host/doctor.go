package main

import (
	"cmp"
	"context"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/exit"
	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/report"
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/doctor"
	"github.com/mopslock/mopslock/host/store"
)

func (a *app) doctorCommand() *cobra.Command {
	var rounds int
	cmd := &cobra.Command{
		Use:   "doctor [flags]",
		Short: "examine the store: can it be relied on, and with which flags?",
		Long: `Examine the store: whether it can be reached and allows what leases need, how long each verb takes, whether
create-if-absent has one winner when 16 writers race, whether lists and reads are fresh, which unit its stamps have, how
far the clocks behind them disagree, and how far they are from this machine's. Then say which protocol, TTL and
margins fit, the flags to use, and what a held lease costs an hour. It takes some seconds.

doctor holds no lease and disturbs none. It writes below _mopslock/d/, and deletes that again. (A doctor that was killed
leaves objects there, which do no harm.) It also leaves _mopslock/store.json. If two writers were told that they had won,
store.json refuses the store: from then on --protocol strict ends with 78 for every caller, and auto uses lastwriter,
until a doctor finds the store mended. Processes that already run go on as before.

The status is 0 if strict can be relied on, and 78 if not; 69 if the store is missing, silent for 5 s, or denies what
leases need (if it denies 'list', only lastwriter works).

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
				return exit.Usagef("doctor takes no argument; see mopslock-host doctor --help")
			case rounds < 0 || rounds > doctor.MaxRounds || cmd.Flags().Changed("rounds") && rounds == 0:
				return exit.Usagef("--rounds %d: from 1 to %d", rounds, doctor.MaxRounds)
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
		a.console.Progress("examining the store: %s, %d of %d", step, done, total)
	}})
	a.console.StopWaiting()
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

// inStore adds the --store of this run to a command line that would otherwise use another
// store. It does not repeat a URL with secrets.
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

// verdict returns the exit of a report, or nil if strict can be relied on.
func verdict(r *doctor.Report) error {
	worst := ""
	for _, found := range r.Findings {
		if found.Bad {
			worst = cmp.Or(worst, found.Text)
		}
		switch {
		case !found.Bad:
		case found.Kind == "read_only":
			return &exit.Error{Status: exit.StatusUnavailable, Reason: core.ClassReadOnly.String(), Text: found.Text}
		case found.Kind == "no_list_right", found.Kind == "no_exists_right", found.Kind == "no_create_right":
			return &exit.Error{Status: exit.StatusUnavailable, Reason: core.ClassUnauthorized.String(), Text: found.Text}
		}
	}
	if r.Strict() {
		return nil
	}
	return &exit.Error{Status: exit.StatusUnfit, Reason: core.ReasonUnusable.String(), Text: "strict cannot be relied on here: " + worst}
}

func (a *app) reportDoctor(raw string, r *doctor.Report) error {
	if a.json {
		return a.report(struct {
			Store string `json:"store"`
			*doctor.Report
		}{store.Redact(raw), r})
	}
	return a.print(report.DoctorText(raw, isPaid(raw), r))
}
