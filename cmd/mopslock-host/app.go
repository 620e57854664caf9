package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/child"
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
)

// app is one run of the programme.
type app struct {
	stdin  io.Reader
	stdout io.Writer
	stderr io.Writer
	ui     *ui

	storeURL  string
	json      bool
	engine    engine
	trace     *recording
	tracePath string
	metrics   *metricsFile // nil: nobody asked for it

	status  *statusFile
	closing time.Duration // how long closing the store may take

	// The rest of the world. Tests give their own, and need no process.
	env      []string
	clock    host.Clock // nil: the machine's
	signals  signals
	openHost func(context.Context, string, *host.Options) (*host.Host, error)
	newTap   func(take func([]byte)) (tap, error)
}

func newApp(stdin io.Reader, stdout, stderr io.Writer) *app {
	return &app{
		stdin: stdin, stdout: stdout, stderr: stderr, ui: newUI(stderr), closing: closeLimit,
		env: os.Environ(), signals: processSignals{child.NewSignals()}, openHost: host.Open, newTap: newIntake,
	}
}

// signals are those of this process, and of the commands that it starts: child.Signals.
type signals interface {
	WaitContext(context.Context) (context.Context, context.CancelFunc)
	ReleaseContext(context.Context) (context.Context, context.CancelFunc)
	Start(child.Options) (command, error)
	Forwarded() bool
	Stop()
}

// command is one that was started: a *child.Child.
type command interface {
	Done() <-chan struct{}
	Status() child.Status
	Terminate() error
	Kill() error
	Others() bool
	Close()
}

type processSignals struct{ *child.Signals }

func (s processSignals) Start(options child.Options) (command, error) {
	c, err := s.Signals.Start(options)
	if err != nil {
		return nil, err // and no command that is a nil *child.Child
	}
	return c, nil
}

// getenv is the last of its values, as that of a process started with them.
func (a *app) getenv(name string) string {
	for _, line := range slices.Backward(a.env) {
		if value, found := strings.CutPrefix(line, name+"="); found {
			return value
		}
	}
	return ""
}

// execute runs one command line and returns its exit status.
func (a *app) execute(args []string) int {
	defer a.signals.Stop()
	defer a.ui.out.flush(flushPatience)
	root := a.root()
	root.SetArgs(args)
	root.SetOut(helpWriter{a.stdout})
	root.SetErr(a.ui.out.to)
	err := root.Execute()
	a.ui.waited()
	a.metrics.end()
	a.endEngine()
	if err == nil {
		return 0
	}
	out := exitOf(err)
	if out.Text != "" {
		a.ui.printf("%s", out.Text)
	}
	a.status.write(a.ui, out)
	return out.Status
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "mopslock-host",
		Short: "leases and semaphores kept in a blob store, for commands and scripts",
		Long: `mopslock-host puts a lease (an expiring exclusive claim), or a permit of a semaphore
(one of so many), around a command. They are kept in a directory or bucket that the
machines share; there is no server.`,
		Example: `  mopslock-host run --store s3://bucket/locks deploy -- ./deploy.sh
  mopslock-host once "nightly/$(date +%F)" -- ./report.sh
  mopslock-host permit api --capacity 50 --width 3 -- ./crawl.sh
  mopslock-host status deploy`,
		Args:                       cobra.ArbitraryArgs,
		SilenceErrors:              true,
		SilenceUsage:               true,
		SuggestionsMinimumDistance: 2,
	}
	version := root.Flags().Bool("version", false, "print the version")
	root.RunE = func(_ *cobra.Command, args []string) error {
		switch {
		case len(args) > 0:
			return unknownCommand(root, args[0])
		case *version:
			return a.version()
		}
		root.SetOut(helpWriter{a.ui.out.to})
		_ = root.Help()
		return &exit{Status: statusUsage, Reason: "usage"}
	}
	root.PersistentFlags().StringVar(&a.storeURL, "store", "", "where the leases are kept: file:///dir, s3://bucket/prefix, gs://…, azblob://… (default $MOPSLOCK_STORE, else a directory of this user)")
	root.PersistentFlags().BoolVar(&a.json, "json", false, "report as JSON, one object a line, on stdout")
	a.addEngineFlags(root)
	root.PersistentPreRunE = a.prepare
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		_ = a.openStatusFile(cmd) // if it is named before the bad one
		return usagef("%s; see %s --help", flagText(err), cmd.CommandPath())
	})
	root.AddCommand(a.runCommand(), a.permitCommand(), a.acquireCommand(), a.renewCommand(), a.releaseCommand(), a.accompanyCommand(),
		a.invokeCommand(), a.remoteCommand(), a.onceCommand(), a.statusCommand(), a.lsCommand(), a.watchCommand(), a.breakCommand(), a.doctorCommand(), a.benchCommand(), a.exploreCommand(), a.simulateCommand(), a.stepCommand(), a.replayCommand(), a.versionCommand(), a.completionCommand())
	for _, cmd := range root.Commands() {
		if strings.Contains(cmd.Use, " NAME") {
			cmd.ValidArgsFunction = a.completeName
		}
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetHelpCommand(helpCommand())
	root.SetHelpTemplate(root.HelpTemplate() + statusHelp)
	return root
}

// prepare is what every command begins with: what is wrong with a flag that is
// not its own shows before it does anything.
func (a *app) prepare(cmd *cobra.Command, args []string) error {
	if err := a.openStatusFile(cmd); err != nil { // first, since it tells of what follows
		return err
	}
	if a.engine.name != engineNative && a.engine.name != engineWASM {
		return usagef("--engine %s: native or wasm", host.Printable(a.engine.name))
	}
	if cmd.Flags().Changed("trace") {
		if err := a.openTrace(cmd, args); err != nil {
			return err
		}
	}
	return a.openMetrics(cmd)
}

func unknownCommand(root *cobra.Command, word string) error {
	text := "there is no command " + host.Printable(word)
	if like := root.SuggestionsFor(word); len(like) > 0 {
		text += "; did you mean " + strings.Join(like, " or ") + "?"
	}
	return usagef("%s; see mopslock-host --help", text)
}

// flagText says what is wrong with a flag. Many people mean seconds when they write a
// duration without a unit.
func flagText(err error) string {
	bad, ok := errors.AsType[*pflag.InvalidValueError](err)
	if ok && bad.GetFlag().Value.Type() == "duration" {
		if _, err := strconv.ParseFloat(bad.GetValue(), 64); err == nil {
			return fmt.Sprintf("--%s %s: a duration has a unit: %[2]ss?", bad.GetFlag().Name, bad.GetValue())
		}
	}
	return err.Error()
}

// helpWriter ignores that the reader of a help has closed the pipe (`… | head`).
type helpWriter struct{ to io.Writer }

func (w helpWriter) Write(text []byte) (int, error) {
	n, err := w.to.Write(text)
	if errors.Is(err, syscall.EPIPE) {
		return len(text), nil
	}
	return n, err
}

// open opens the store that flags, environment or default name.
func (a *app) open(ctx context.Context, cmd *cobra.Command) (*host.Host, error) {
	raw, err := a.location(cmd)
	if err != nil {
		return nil, err
	}
	return a.openURL(ctx, raw)
}

// location is the URL of the store that flags, environment or default name.
func (a *app) location(cmd *cobra.Command) (string, error) {
	raw := a.storeURL
	if raw == "" {
		if cmd.Flags().Changed("store") { // --store "$UNSET" must not exclude on this machine only
			return "", usagef("--store is empty; is the variable that it was to come from unset?")
		}
		raw = a.getenv("MOPSLOCK_STORE")
	}
	if raw == "" {
		dir, err := a.defaultStore()
		if err != nil {
			return "", err
		}
		raw = (&url.URL{Scheme: "file", Path: filepath.ToSlash(dir)}).String()
		a.ui.plainf("store: %s (this machine only; set --store to share)", raw)
	}
	return raw, nil
}

func isMemory(raw string) bool {
	scheme, _, _ := strings.Cut(raw, ":")
	return strings.EqualFold(scheme, "mem")
}

// errMemory is for all commands but those that only want to see what a store does.
func errMemory() error {
	return usagef("a mem:// store is this process's own and excludes nobody; choose another --store")
}

func (a *app) openURL(ctx context.Context, raw string) (*host.Host, error) {
	if isMemory(raw) {
		return nil, errMemory()
	}
	h, err := a.openHost(ctx, raw, &host.Options{Logger: slog.New(&logHandler{ui: a.ui}), Engine: a.core(), Meter: a.metrics.meter(), Clock: a.clock})
	if err == nil {
		a.engine.users++
		a.engine.begin()
	}
	return h, err
}

// defaultStore makes the directory of this user's leases.
func (a *app) defaultStore() (string, error) {
	dir, err := a.defaultDir()
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", &exit{Status: statusUnavailable, Reason: "no_such_store", Text: fmt.Sprintf("default store: %v; set --store", err)}
	}
	return dir, nil
}

// defaultDir is where that is.
func (a *app) defaultDir() (string, error) {
	state := a.getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(state) { // the specification says to ignore a relative one
		home, err := os.UserHomeDir()
		if err != nil {
			return "", usagef("no default store: %v; set --store", err)
		}
		state = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(state, "mopslock"), nil
}

// closeLimit bounds what comes after the work: a release, the end of a claim.
const closeLimit = 10 * time.Second

// close ends a host within a.closing. What it could not release expires.
func (a *app) close(h *host.Host) {
	ctx, cancel := context.WithTimeout(context.Background(), a.closing)
	defer cancel()
	if err := h.Close(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		a.ui.printf("closing the store: %v", err)
	}
	a.engine.users--
}

// closeNow is for after a failure that has had its time: close tries no more.
func (a *app) closeNow() { a.closing = 0 }

// untilAnswered is ctx for commands that ask once: it ends with errNoAnswer
// when the store has not answered anything within 5 s.
func untilAnswered(ctx context.Context, h *host.Host) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(core.FirstAnswerLimit, func() {
		if !h.Reached() {
			cancel(errNoAnswer)
		}
	})
	return ctx, func() {
		timer.Stop()
		cancel(nil)
	}
}

// nameArg is the one NAME of a command.
func nameArg(cmd *cobra.Command, args []string) (string, error) {
	if len(args) != 1 || cmd.ArgsLenAtDash() > 0 { // `-- -name` is one too
		return "", usagef("%s takes one NAME; see %s --help", cmd.Name(), cmd.CommandPath())
	}
	return args[0], nil
}

// commandArgs splits `… -- CMD ARG…`; before is how many words come first.
func commandArgs(cmd *cobra.Command, args []string, before int) ([]string, []string, error) {
	dash := cmd.ArgsLenAtDash()
	if dash != before || len(args) <= dash {
		return nil, nil, usagef("usage: %s; the command comes after --", cmd.UseLine())
	}
	return args[:dash], args[dash:], nil
}
