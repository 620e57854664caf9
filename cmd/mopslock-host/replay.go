package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/exit"
	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/messages"
	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/report"
	"github.com/mopslock/mopslock/core/wire"
	"github.com/mopslock/mopslock/host"
	"github.com/mopslock/mopslock/host/trace"
)

func (a *app) replayCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "replay FILE [flags]",
		Short: "run a recording of --trace again and compare",
		Long: `Run a recording of --trace FILE again, on --engine, and compare every answer with the recorded one. The status is 0
if all answers are the same to the byte. Otherwise it is 1, and replay shows the first byte that differs: of which
machine, at which of its steps, and both answers. If the recording ends early because its process was killed, replay
compares as far as it goes. FILE is - for stdin. replay opens no store.`,
		Example: `  mopslock-host run --trace run.trace nightly-report -- ./report.sh
  mopslock-host replay run.trace
  mopslock-host replay --engine wasm --json run.trace`,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return exit.Usagef("replay takes one FILE that --trace made, or - for stdin")
			}
			ctx, cancel := a.signals.WaitContext(context.Background())
			defer cancel()
			return a.interruptible(ctx, func() error { return a.replay(args[0]) })
		},
	}
}

func (a *app) replay(path string) error {
	source := a.stdin
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return exit.Usagef("the recording cannot be read: %v", err)
		}
		defer file.Close()
		source = file
	}
	report, err := trace.Replay(source, a.core())
	var failed *host.EngineError
	var format *trace.FormatError
	switch {
	case errors.As(err, &failed):
		return err
	case errors.As(err, &format):
		return exit.Usagef("%s: %s", host.Printable(path), exit.Text(err))
	case err != nil:
		return exit.Usagef("the recording cannot be read: %v", err)
	}
	return a.showReplay(&report)
}

// replayReport is what --json prints.
type replayReport struct {
	Machines   int               `json:"machines"`
	Steps      int               `json:"steps"`
	Failed     int               `json:"failed"`
	Same       bool              `json:"same"`
	EndsEarly  bool              `json:"ends_early"`
	Difference *differenceReport `json:"difference,omitempty"`
}

type differenceReport struct {
	Machine  uint64 `json:"machine"`
	Name     string `json:"name"`
	Step     int    `json:"step"`
	Offset   int    `json:"offset"`
	Recorded int    `json:"recorded"`
	Replayed int    `json:"replayed"`
	Told     []byte `json:"told"`
	Was      []byte `json:"recorded_answer"`
	Is       []byte `json:"replayed_answer"`
}

func (a *app) showReplay(r *trace.Report) (err error) {
	switch d := r.Difference; {
	case a.json:
		out := replayReport{Machines: r.Machines, Steps: r.Steps, Failed: r.Failed, Same: d == nil, EndsEarly: r.EndsEarly}
		if d != nil {
			out.Difference = &differenceReport{
				d.Machine, d.Name, d.Step, d.Offset, d.Recorded, d.Replayed, d.Message, d.RecordedAnswer, d.ReplayedAnswer,
			}
		}
		err = a.report(out)
	case d == nil:
		err = a.print(fmt.Sprintf("%d machines, %d steps: the same to the byte\n", r.Machines, r.Steps))
	default:
		err = a.print(differenceText(d, a.engine.Name))
	}
	if err != nil {
		return err
	}
	if r.EndsEarly {
		a.console.Printf("the recording ends early: its process was killed, or its file could not be written; what is there was compared")
	}
	if r.Failed > 0 {
		a.console.Printf("the engine of the recording lost %d machines; what came after that cannot be compared", r.Failed)
	}
	if r.Difference != nil {
		return &exit.Error{Status: exit.StatusNothing, Reason: "differs"}
	}
	return nil
}

func differenceText(d *trace.Difference, engine string) string {
	place, told, as := fmt.Sprintf("step %d", d.Step), "input", any(new(wire.Input))
	if d.Step == 0 {
		place, told, as = "its making", "config", new(wire.Config)
	}
	within := ""
	if key := messages.KeyAt(d.RecordedAnswer, d.Offset); key != "" {
		within = " (in " + key + ")"
	}
	var text strings.Builder
	fmt.Fprintf(&text, "machine %d (lease %s), %s: the answers differ from byte %d on%s: %s recorded, %s now on --engine %s\n",
		d.Machine, host.Printable(d.Name), place, d.Offset, within, byteText(d.Recorded), byteText(d.Replayed), engine)
	fmt.Fprintf(&text, "  %-9s%s\n", told, messageText(d.Message, as))
	fmt.Fprintf(&text, "  %-9s%s\n", "recorded", messageText(d.RecordedAnswer, new(wire.Answer)))
	fmt.Fprintf(&text, "  %-9s%s\n", "now", messageText(d.ReplayedAnswer, new(wire.Answer)))
	return text.String()
}

func byteText(b int) string {
	if b < 0 {
		return "its end"
	}
	return fmt.Sprintf("0x%02x", b)
}

// messageText returns a message as step prints it, or as hex if it is no message.
func messageText(message []byte, as any) string {
	line, err := messages.Line(message, as)
	if err != nil {
		return "0x" + hex.EncodeToString(message)
	}
	return strings.TrimSuffix(report.EscapeControls(string(line)), "\n")
}
