package main

import (
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/exit"
	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/metrics"
	"github.com/mopslock/mopslock/host"
)

// addMetricsFile adds --metrics-file to a command; prepare opens it.
func addMetricsFile(cmd *cobra.Command) {
	cmd.Flags().String("metrics-file", "", "keep metrics in this file as Prometheus reads them: at the start, every 5 s and at the end")
}

// openMetrics writes the file for the first time before any I/O with the store, so that a bad path is a
// usage error and not a surprise after the work.
func (a *app) openMetrics(cmd *cobra.Command) error {
	if flag := cmd.Flags().Lookup("metrics-file"); flag == nil || !flag.Changed {
		return nil
	}
	named, _ := cmd.Flags().GetString("metrics-file")
	path, err := a.metricsPath(named)
	if err != nil {
		return err
	}
	if a.metrics, err = metrics.Open(path, a.console.Printf); err != nil {
		return exit.Usagef("--metrics-file: %v", err)
	}
	return nil
}

// metricsPath returns the file to replace: the target of a link, not the link. It refuses what is no
// regular file, and our own other files.
func (a *app) metricsPath(named string) (string, error) {
	if named == "" || named == "-" {
		return "", exit.Usagef("--metrics-file %q: the name of a file", named)
	}
	info, err := os.Stat(named)
	if err != nil { // there is no file yet; the first write makes it, or says why it cannot
		return named, nil
	}
	if !info.Mode().IsRegular() {
		return "", exit.Usagef("--metrics-file %s: that is no regular file, so another cannot take its place", host.Printable(named))
	}
	if a.status != nil {
		if status, err := a.status.file.Stat(); err == nil && os.SameFile(status, info) {
			return "", exit.Usagef("--metrics-file %s: that is the --status-file", host.Printable(named))
		}
	}
	if a.trace != nil && sameFile(named, a.tracePath) {
		return "", exit.Usagef("--metrics-file %s: that is the --trace file", host.Printable(named))
	}
	path, err := filepath.EvalSymlinks(named)
	if err != nil {
		return "", exit.Usagef("--metrics-file: %v", err)
	}
	return path, nil
}
