package main

import (
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/engine"
	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/exit"
	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/recording"
	"github.com/mopslock/mopslock/host"
)

// addEngineFlags adds --engine and --trace to every command.
func (a *app) addEngineFlags(root *cobra.Command) {
	root.PersistentFlags().StringVar(&a.engine.Name, "engine", engine.Native, "native or wasm: which build of the core decides; both answer the same")
	root.PersistentFlags().StringVar(&a.tracePath, "trace", "", "record what the core was told and answered, for replay")
}

// tracePatience is for the last bytes of the recording.
const tracePatience = 2 * time.Second

// openTrace makes the file before any I/O with the store, so that a bad path is a usage error and not a
// surprise after the work.
func (a *app) openTrace(cmd *cobra.Command, args []string) error {
	path := a.tracePath
	switch {
	case path == "" || path == "-":
		return exit.Usagef("--trace %q: the name of a file", path)
	case cmd.Name() == "replay" && len(args) == 1 && sameFile(args[0], path):
		return exit.Usagef("--trace %s: that is the recording to replay, and would be emptied", host.Printable(path))
	}
	var status os.FileInfo
	if a.status != nil {
		status, _ = a.status.file.Stat()
	}
	recorded, err := recording.Open(path, &a.engine, status)
	if err != nil {
		return exit.Usagef("--trace: %v", err)
	}
	a.trace = recorded
	return nil
}

func sameFile(a, b string) bool {
	one, err := os.Stat(a)
	if err != nil {
		return false
	}
	other, err := os.Stat(b)
	return err == nil && os.SameFile(one, other)
}
