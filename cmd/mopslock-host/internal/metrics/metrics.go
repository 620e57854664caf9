// Package metrics keeps a file of the host's metrics, as Prometheus reads them.
//
// It measures nothing: the host measures, and calls the Meter.
package metrics

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdk "go.opentelemetry.io/otel/sdk/metric"

	"github.com/mopslock/mopslock/host"
)

// File is the file of --metrics-file. It is written at the start, every few seconds if the
// metrics have changed, and at the end. Each time a new file replaces the old one, so that a reader
// sees either of them complete.
//
// A goroutine of its own writes. A full disk or a mount that hangs delays and ends nothing else.
type File struct {
	say      func(format string, args ...any)
	path     string
	provider *sdk.MeterProvider
	registry *prometheus.Registry

	began chan error    // of the first write
	late  chan struct{} // closed when Open waits for began no longer
	stop  chan struct{}
	ended chan struct{}

	// The goroutine's own.
	written []byte // what the file says
	failed  bool   // and that was printed
}

const (
	beginPatience = time.Second     // for the first write
	each          = 5 * time.Second // from one write to the next
	endPatience   = 2 * time.Second // for the last write
	mode          = 0o644           // it names no lease, and another process is to read it
)

// Open writes the file for the first time, and keeps it until End. It says later errors. A dead
// mount must not keep a lease waiting: after a second it returns.
func Open(path string, say func(format string, args ...any)) (*File, error) {
	m := &File{
		say: say, path: path, registry: prometheus.NewRegistry(),
		began: make(chan error), late: make(chan struct{}), stop: make(chan struct{}), ended: make(chan struct{}),
	}
	exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(m.registry), otelprometheus.WithoutTargetInfo(), otelprometheus.WithoutScopeInfo())
	if err != nil {
		return nil, err
	}
	m.provider = sdk.NewMeterProvider(sdk.WithReader(exporter))
	go m.run()
	timer := time.NewTimer(beginPatience)
	defer timer.Stop()
	select {
	case err := <-m.began:
		if err != nil {
			return nil, err
		}
	case <-timer.C:
		close(m.late)
	}
	return m, nil
}

// Meter is what a Host takes its metrics by. On nil it is nil.
func (m *File) Meter() metric.MeterProvider {
	if m == nil {
		return nil
	}
	return m.provider
}

// End writes the last state. On nil it does nothing. A write that hangs is left behind, and ends with
// the process.
func (m *File) End() {
	if m == nil {
		return
	}
	close(m.stop)
	timer := time.NewTimer(endPatience)
	defer timer.Stop()
	select {
	case <-m.ended:
	case <-timer.C:
		m.say("--metrics-file %s: its last state could not be written in time", host.Printable(m.path))
	}
}

func (m *File) run() {
	defer close(m.ended)
	err := m.write()
	select {
	case m.began <- err:
		if err != nil {
			return
		}
	case <-m.late: // an error is no usage error now, but a later one
		m.tell(err)
	}
	ticker := time.NewTicker(each)
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

// tell says once that the file cannot be written.
func (m *File) tell(err error) {
	if err != nil && !m.failed {
		m.failed = true
		m.say("warning: --metrics-file: %v", err)
	}
}

// write replaces the file, if the metrics have changed.
func (m *File) write() error {
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
	// In the same directory, so on the same mount, and by a name that no collector of *.prom reads.
	beside := filepath.Join(filepath.Dir(m.path), "."+filepath.Base(m.path)+"."+strconv.Itoa(os.Getpid()))
	err = os.WriteFile(beside, text.Bytes(), mode) //nolint:gosec // see mode
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
