package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"github.com/spf13/cobra"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdk "go.opentelemetry.io/otel/sdk/metric"

	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/console"
	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/exit"
	"github.com/mopslock/mopslock/host"
)

// metricsFile is where --metrics-file has the host's metrics, as Prometheus reads them:
// as they are at the start, every few seconds if they have changed, and at the end.
// Each time it is another file, in the place of the one before: who reads it sees one
// whole or the other.
//
// A goroutine of its own writes it. Neither a full disk nor a mount that hangs delays
// or ends anything else.
type metricsFile struct {
	console  *console.Console
	path     string
	provider *sdk.MeterProvider
	registry *prometheus.Registry

	began chan error    // nil: it is there
	late  chan struct{} // closed when nobody waits for began any more
	stop  chan struct{}
	ended chan struct{}

	// The goroutine's own.
	written []byte // what the file says
	failed  bool   // and it was told
}

const (
	metricsEach     = 5 * time.Second // from one look to the next
	metricsPatience = 2 * time.Second // for the last one
	metricsMode     = 0o644           // it has no names in it, and another process is to read it
)

// addMetricsFile adds --metrics-file to a command; prepare opens it.
func addMetricsFile(cmd *cobra.Command) {
	cmd.Flags().String("metrics-file", "", "keep metrics in this file as Prometheus reads them: at the start, every 5 s and at the end")
}

// openMetrics writes the file for the first time before any I/O at the store, so that
// a bad path is a usage error and not a surprise after the work.
func (a *app) openMetrics(cmd *cobra.Command) error {
	if flag := cmd.Flags().Lookup("metrics-file"); flag == nil || !flag.Changed {
		return nil
	}
	named, _ := cmd.Flags().GetString("metrics-file")
	path, err := a.metricsPath(named)
	if err != nil {
		return err
	}
	m := &metricsFile{
		console: a.console, path: path, registry: prometheus.NewRegistry(),
		began: make(chan error), late: make(chan struct{}), stop: make(chan struct{}), ended: make(chan struct{}),
	}
	exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(m.registry), otelprometheus.WithoutTargetInfo(), otelprometheus.WithoutScopeInfo())
	if err != nil {
		return fmt.Errorf("--metrics-file: %w", err)
	}
	m.provider = sdk.NewMeterProvider(sdk.WithReader(exporter))
	go m.run()
	timer := time.NewTimer(openPatience)
	defer timer.Stop()
	select {
	case err := <-m.began:
		if err != nil {
			return exit.Usagef("--metrics-file: %v", err)
		}
	case <-timer.C: // a dead mount: no reason to keep a lease waiting
		close(m.late)
	}
	a.metrics = m
	return nil
}

// metricsPath is the file itself, where a link names it: another one is to take its
// place. What is no file has no place to take, and our own others must not be lost.
func (a *app) metricsPath(named string) (string, error) {
	if named == "" || named == "-" {
		return "", exit.Usagef("--metrics-file %q: the name of a file", named)
	}
	info, err := os.Stat(named)
	if err != nil { // it is to be made; what is in the way, the first write says
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

// meter is what a host is to be given; nil on nil.
func (m *metricsFile) meter() metric.MeterProvider {
	if m == nil {
		return nil
	}
	return m.provider
}

// end writes the last state, and is fine on nil. One that is stuck is left behind, and
// ends with the process.
func (m *metricsFile) end() {
	if m == nil {
		return
	}
	close(m.stop)
	timer := time.NewTimer(metricsPatience)
	defer timer.Stop()
	select {
	case <-m.ended:
	case <-timer.C:
		m.console.Printf("--metrics-file %s: its last state could not be written in time", host.Printable(m.path))
	}
}

func (m *metricsFile) run() {
	defer close(m.ended)
	err := m.write()
	select {
	case m.began <- err:
		if err != nil {
			return
		}
	case <-m.late: // to fail now is no usage error any more: told as any later one is
		m.tell(err)
	}
	ticker := time.NewTicker(metricsEach)
	defer ticker.Stop()
	for {
		select {
		case <-m.stop:
			m.tell(m.write())
			return
		case <-ticker.C:
			m.tell(m.write())
		}
	}
}

// tell tells once that it cannot be written.
func (m *metricsFile) tell(err error) {
	if err != nil && !m.failed {
		m.failed = true
		m.console.Printf("warning: --metrics-file: %v", err)
	}
}

// write puts the metrics in the file's place, unless it says the same.
func (m *metricsFile) write() error {
	families, err := m.registry.Gather()
	if err != nil {
		return err
	}
	text := new(bytes.Buffer)
	for _, family := range families {
		if _, err := expfmt.MetricFamilyToText(text, family); err != nil {
			return err
		}
	}
	if m.written != nil && bytes.Equal(m.written, text.Bytes()) {
		return nil
	}
	// Beside it, on the same mount, and by a name that no collector of *.prom takes.
	beside := filepath.Join(filepath.Dir(m.path), "."+filepath.Base(m.path)+"."+strconv.Itoa(os.Getpid()))
	err = os.WriteFile(beside, text.Bytes(), metricsMode) //nolint:gosec // see metricsMode
	if err == nil {
		err = os.Rename(beside, m.path)
	}
	if err != nil {
		_ = os.Remove(beside)
		return err
	}
	m.written = append([]byte{}, text.Bytes()...)
	return nil
}
