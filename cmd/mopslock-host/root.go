package main

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/engine"
	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/exit"
	"github.com/mopslock/mopslock/host"
)

// execute runs one command line and returns its exit status.
func (a *app) execute(args []string) int {
	defer a.signals.Stop()
	defer a.console.Flush()
	root := a.root()
	root.SetArgs(args)
	root.SetOut(helpWriter{a.stdout})
	root.SetErr(a.stderr)
	err := root.Execute()
	a.console.StopWaiting()
	a.metrics.End()
	a.endEngine()
	if err == nil {
		return 0
	}
	out := exit.Of(err)
	if out.Text != "" {
		a.console.Printf("%s", out.Text)
	}
	a.status.write(a.console, out)
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
		root.SetOut(helpWriter{a.stderr})
		_ = root.Help()
		return &exit.Error{Status: exit.StatusUsage, Reason: "usage"}
	}
	root.PersistentFlags().StringVar(&a.storeURL, "store", "", "where the leases are kept: file:///dir, s3://bucket/prefix, gs://…, azblob://… (default $MOPSLOCK_STORE, or without it a directory of this user)")
	root.PersistentFlags().BoolVar(&a.json, "json", false, "report as JSON, one object a line, on stdout")
	a.addEngineFlags(root)
	root.PersistentPreRunE = a.prepare
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		_ = a.openStatusFile(cmd) // if it is named before the bad one
		return exit.Usagef("%s; see %s --help", flagText(err), cmd.CommandPath())
	})
	root.AddCommand(a.runCommand(), a.permitCommand(), a.acquireCommand(), a.renewCommand(), a.releaseCommand(), a.accompanyCommand(),
		a.invokeCommand(), a.remoteCommand(), a.onceCommand(), a.statusCommand(), a.lsCommand(), a.watchCommand(), a.breakCommand(), a.doctorCommand(), a.benchCommand(), a.exploreCommand(), a.simulateCommand(), a.stepCommand(), a.keepCommand(), a.replayCommand(), a.versionCommand(), a.completionCommand())
	for _, cmd := range root.Commands() {
		if strings.Contains(cmd.Use, " NAME") {
			cmd.ValidArgsFunction = a.completeName
		}
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetHelpCommand(helpCommand())
	root.SetHelpTemplate(root.HelpTemplate() + exit.Help)
	return root
}

// prepare runs at the beginning of every command, and reports a bad flag of those
// that all commands share before anything else is done.
func (a *app) prepare(cmd *cobra.Command, args []string) error {
	if err := a.openStatusFile(cmd); err != nil { // first, since it reports what follows
		return err
	}
	if a.engine.Name != engine.Native && a.engine.Name != engine.WASM {
		return exit.Usagef("--engine %s: native or wasm", host.Printable(a.engine.Name))
	}
	if cmd.Flags().Changed("trace") {
		if err := a.openTrace(cmd, args); err != nil {
			return err
		}
	}
	return a.openMetrics(cmd)
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

// helpWriter ignores that the reader of a help text has closed the pipe (`… | head`).
type helpWriter struct{ to io.Writer }

func (w helpWriter) Write(text []byte) (int, error) {
	n, err := w.to.Write(text)
	if exit.NobodyReads(err) {
		return len(text), nil
	}
	return n, err
}
