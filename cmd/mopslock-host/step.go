package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/exit"
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
)

func (a *app) stepCommand() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "step [flags]",
		Short: "the core on stdin and stdout, for hosts in other languages",
		Long: `Read a Config, then one input after the other, and answer each at once: what was asked of a lease, or what the
store said, goes in; what is to be done comes out. The caller does the I/O and reads the clocks; this decides.
It ends with 0 at the end of stdin. What it refuses is answered with an error and changes nothing; after a
refused Config, or after bytes that are no msgpack, it ends with 64. No store is opened.

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
				s.form = jsonForm{in}
			case "msgpack":
				s.form = msgpackForm{in}
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

// form is one way to write the messages down.
type form interface {
	// read reads the next value into a struct of package wire. A *refusal says
	// what is wrong with it, io.EOF that there is none; anything else is stdin's.
	read(to any) error
	// answer is a canonical answer in this form.
	answer(canonical []byte) ([]byte, error)
}

// refusal is why a value is not taken.
type refusal struct {
	text  string
	fatal bool // the beginning of the next value cannot be found
}

func (r *refusal) Error() string { return r.text }

func refusef(format string, args ...any) error {
	return &refusal{text: fmt.Sprintf(format, args...)}
}

// stepper is one machine between stdin and stdout.
type stepper struct {
	app     *app
	form    form
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
		err := readInput(s.form, &now, &ev)
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
	err := readConfig(s.form, &cfg)
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

// say answers in one write. What it returns ends the command.
func (s *stepper) say(actions []core.Action, err error) error {
	var refused *refusal
	var breach *core.Error
	var canonical []byte
	switch {
	case err == nil:
		canonical = core.AppendAnswer(nil, s.machine, actions)
	case errors.As(err, &breach):
		canonical = core.AppendError(nil, breach)
	case errors.As(err, &refused):
		canonical = core.AppendError(nil, &core.Error{Code: core.ErrorMessage, Text: "message: " + refused.text})
	case errors.Is(err, errStdin):
		return exit.Usage(err)
	default: // the engine's own: there is no machine any more
		canonical = core.AppendError(nil, &core.Error{Code: core.ErrorHandle, Text: "the engine failed and its machine is gone: " + exit.Text(err)})
	}
	out, formErr := s.form.answer(canonical)
	if formErr != nil {
		return &host.EngineError{Err: formErr}
	}
	if _, writeErr := s.app.stdout.Write(out); writeErr != nil {
		return exit.Written(writeErr)
	}
	switch {
	case refused != nil && refused.fatal:
		return exit.Usagef("standard input: %s", refused.text)
	case err == nil || breach != nil || refused != nil:
		return nil
	}
	return &host.EngineError{Err: err}
}

// errStdin is behind what went wrong with reading, beside the content.
var errStdin = errors.New("standard input")
