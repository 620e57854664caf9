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
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/child"
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
)

// app is one run of the programme.
type app struct {
	stdin  io.Reader
	stdout io.Writer
	ui     *ui

	storeURL  string
	json      bool
	engine    engine
	trace     *recording
	tracePath string
	metrics   *metricsFile // nil: nobody asked for it

	signals *child.Signals
	status  *statusFile
	closing time.Duration // how long closing the store may take
}

func newApp(stdin io.Reader, stdout, stderr io.Writer) *app {
	return &app{stdin: stdin, stdout: stdout, ui: newUI(stderr), signals: child.NewSignals(), closing: closeLimit}
}

// execute runs one command line and returns its exit status.
func (a *app) execute(args []string) int {
	defer a.signals.Stop()
	defer a.ui.out.flush(flushPatience)
	root := a.root()
	root.SetArgs(args)
	root.SetOut(a.stdout)
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
		Example: `  mopslock-host run --store s3://bucket/locks nightly-report -- ./report.sh
  mopslock-host run --wait 0 backup -- tar czf /backup/home.tgz /home
  mopslock-host permit api --capacity 50 --width 3 -- ./crawl.sh
  mopslock-host status nightly-report`,
		Args:          cobra.ArbitraryArgs,
		RunE:          unknownCommand,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.PersistentFlags().StringVar(&a.storeURL, "store", "", "where the leases are kept: file:///dir, s3://bucket/prefix, gs://…, azblob://… (default $MOPSLOCK_STORE, else a directory of this user)")
	root.PersistentFlags().BoolVar(&a.json, "json", false, "report as JSON, one object a line, on stdout")
	a.addEngineFlags(root)
	root.PersistentPreRunE = a.prepare
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		_ = a.openStatusFile(cmd) // if it is named before the bad one
		return usagef("%v; see %s --help", err, cmd.CommandPath())
	})
	root.AddCommand(a.runCommand(), a.permitCommand(), a.acquireCommand(), a.renewCommand(), a.releaseCommand(), a.accompanyCommand(),
		a.invokeCommand(), a.remoteCommand(), a.statusCommand(), a.lsCommand(), a.watchCommand(), a.breakCommand(), a.doctorCommand(), a.benchCommand(), a.exploreCommand(), a.simulateCommand(), a.stepCommand(), a.replayCommand(), a.versionCommand(), a.completionCommand())
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

func unknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	return usagef("there is no command %s; see mopslock-host --help", host.Printable(args[0]))
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
			return "", usagef("--store is empty")
		}
		raw = os.Getenv("MOPSLOCK_STORE")
	}
	if raw == "" {
		dir, err := defaultStore()
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
	h, err := host.Open(ctx, raw, &host.Options{Logger: slog.New(&logHandler{ui: a.ui}), Engine: a.core(), Meter: a.metrics.meter()})
	if err == nil {
		a.engine.users++
		a.engine.begin()
	}
	return h, err
}

// defaultStore makes the directory of this user's leases.
func defaultStore() (string, error) {
	state := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(state) { // the specification says to ignore a relative one
		home, err := os.UserHomeDir()
		if err != nil {
			return "", usagef("no default store: %v; set --store", err)
		}
		state = filepath.Join(home, ".local", "state")
	}
	dir := filepath.Join(state, "mopslock")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", &exit{Status: statusUnavailable, Reason: "no_such_store", Text: fmt.Sprintf("default store: %v; set --store", err)}
	}
	return dir, nil
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
