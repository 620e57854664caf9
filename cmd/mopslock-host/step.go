package main

import (
	"bufio"
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/exit"
	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/messages"
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
)

func (a *app) stepCommand() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "step [flags]",
		Short: "the core on stdin and stdout, for hosts in other languages",
		Long: `Read a Config, then one input after the other, and answer each at once: a request for a lease, or an answer of the
store, goes in; the actions to carry out come out. The caller does the I/O and reads the clocks; step decides.
It ends with 0 at the end of stdin. It answers a refused input with an error, and nothing changes. After a refused
Config, or after bytes that are no msgpack, it ends with 64. step opens no store.

--format json: one object a line, bytes as base64. msgpack: values back to back. The messages, and the duties
of the caller, are in bindings/README.md of the source.`,
		Example: `  echo '{"machine":"lease","protocol":"lastwriter","name":"n","seed":"AQIDBAUGBwgJCgsMDQ4PEA=="}' | mopslock-host step
  mopslock-host step --format msgpack --engine wasm`,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return exit.Usagef("step takes no argument: the Config is read from stdin")
			}
			s := stepper{app: a}
			switch in := bufio.NewReaderSize(a.stdin, 64<<10); format {
			case "json":
				s.form = messages.JSON(in)
			case "msgpack":
				s.form = messages.Msgpack(in)
			default:
				return exit.Usagef("--format %s: json or msgpack", host.Printable(format))
			}
			ctx, cancel := a.signals.WaitContext(context.Background())
			defer cancel()
			return a.interruptible(ctx, s.run)
		},
	}
	cmd.Flags().StringVar(&format, "format", "json", "json (one object a line) or msgpack (values back to back)")
	return cmd
}

// stepper is one machine between stdin and stdout.
type stepper struct {
	app     *app
	form    messages.Form
	machine core.Stepper
}

func (s *stepper) run() error {
	if err := s.make(); err != nil {
		return err
	}
	defer s.app.core().Drop(s.machine)
	for {
		var now core.Instant
		var ev core.Event
		err := messages.ReadInput(s.form, &now, &ev)
		if errors.Is(err, io.EOF) {
			return nil
		}
		var actions []core.Action
		if err == nil {
			actions, err = s.machine.Step(now, ev)
		}
		if err := s.say(actions, err); err != nil {
			return err
		}
	}
}

// make makes the machine of the first value.
func (s *stepper) make() error {
	var cfg core.Config
	err := messages.ReadConfig(s.form, &cfg)
	if errors.Is(err, io.EOF) {
		return exit.Usagef("standard input ended before a Config; see mopslock-host step --help")
	}
	if err == nil {
		s.machine, err = s.app.core().New(cfg)
	}
	if sayErr := s.say(nil, err); sayErr != nil || err == nil {
		return sayErr
	}
	return exit.Usagef("the Config is refused: %s", exit.Text(err))
}

// say answers in one write. An error that it returns ends the command.
func (s *stepper) say(actions []core.Action, err error) error {
	var refused *messages.Refusal
	var breach *core.Error
	var canonical []byte
	switch {
	case err == nil:
		canonical = core.AppendAnswer(nil, s.machine, actions)
	case errors.As(err, &breach):
		canonical = core.AppendError(nil, breach)
	case errors.As(err, &refused):
		canonical = core.AppendError(nil, &core.Error{Code: core.ErrorMessage, Text: "message: " + refused.Text})
	case errors.Is(err, messages.ErrStdin):
		return exit.Usage(err)
	default: // the engine's own error: its machine is gone
		canonical = core.AppendError(nil, &core.Error{Code: core.ErrorHandle, Text: "the engine failed and its machine is gone: " + exit.Text(err)})
	}
	out, formErr := s.form.Answer(canonical)
	if formErr != nil {
		return &host.EngineError{Err: formErr}
	}
	if _, writeErr := s.app.stdout.Write(out); writeErr != nil {
		return exit.Written(writeErr)
	}
	switch {
	case refused != nil && refused.Fatal:
		return exit.Usagef("standard input: %s", refused.Text)
	case err == nil || breach != nil || refused != nil:
		return nil
	}
	return &host.EngineError{Err: err}
}
