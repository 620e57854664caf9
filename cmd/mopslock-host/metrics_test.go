//go:build unix

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
)

// A first write that hangs keeps nobody waiting; one that then fails is told all the
// same, once.
func TestMetricsFileFailsLate(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "m.prom")
	pipe := filepath.Join(dir, fmt.Sprintf(".m.prom.%d", os.Getpid())) // what it writes hangs until somebody reads it
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	a := &app{ui: newUI(&said)}
	cmd := &cobra.Command{}
	addMetricsFile(cmd)
	if err := cmd.Flags().Set("metrics-file", file); err != nil {
		t.Fatal(err)
	}
	if err := a.openMetrics(cmd); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(file, 0o700); err != nil { // whose place no file can take
		t.Fatal(err)
	}
	reader, err := os.OpenFile(pipe, os.O_RDWR, 0) // without waiting for a writer
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	a.metrics.end()
	if told := said.String(); strings.Count(told, "\n") != 1 || !strings.Contains(told, "warning: --metrics-file: ") {
		t.Errorf("%q", told)
	}
}
