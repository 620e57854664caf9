package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/exit"
	"github.com/mopslock/mopslock/host"
	"github.com/mopslock/mopslock/host/trace"
)

// recording is the file that --trace names, and who writes to it.
type recording struct {
	*trace.Recorder
	file *traceFile
}

const (
	openPatience  = time.Second     // for --trace to be opened; then it may come later
	tracePatience = 2 * time.Second // for its last bytes
)

// addEngineFlags adds --engine and --trace to every command.
func (a *app) addEngineFlags(root *cobra.Command) {
	root.PersistentFlags().StringVar(&a.engine.name, "engine", engineNative, "native or wasm: which build of the core decides; both answer the same")
	root.PersistentFlags().StringVar(&a.tracePath, "trace", "", "record what the core was told and answered, for replay")
}

// openTrace makes the file before any I/O at the store, so that a bad path is a
// usage error and not a surprise after the work.
func (a *app) openTrace(cmd *cobra.Command, args []string) error {
	path := a.tracePath
	switch {
	case path == "" || path == "-":
		return exit.Usagef("--trace %q: the name of a file", path)
	case cmd.Name() == "replay" && len(args) == 1 && sameFile(args[0], path):
		return exit.Usagef("--trace %s: that is the recording to replay, and would be emptied", host.Printable(path))
	}
	file := &traceFile{opened: make(chan struct{})}
	var apart os.FileInfo
	if a.status != nil {
		apart, _ = a.status.file.Stat()
	}
	go file.open(path, apart)
	timer := time.NewTimer(openPatience)
	defer timer.Stop()
	select {
	case <-file.opened:
		if file.err != nil {
			return exit.Usagef("--trace: %v", file.err)
		}
	case <-timer.C: // a FIFO without a reader, a dead mount: no reason to keep a lease waiting
	}
	a.trace = &recording{trace.NewRecorder(&a.engine, file), file}
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

// traceFile is a file that may take its time to open.
type traceFile struct {
	opened chan struct{} // closed when file or err is set
	file   *os.File
	err    error
}

// open makes the file anew, unless it is the status file, which may be nil.
func (t *traceFile) open(path string, status os.FileInfo) {
	defer close(t.opened)
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, traceMode)
	if err == nil {
		if err = empty(file, status); err != nil {
			file.Close()
			file = nil
		}
	}
	t.file, t.err = file, err
}

// empty takes what an older file held, and its mode, which was perhaps for all
// to read. Devices and FIFOs are as they are.
func empty(file *os.File, status os.FileInfo) error {
	info, err := file.Stat()
	switch {
	case err != nil:
		return err
	case status != nil && os.SameFile(info, status) && info.Mode()&os.ModeDevice == 0: // /dev/null is anybody's
		return fmt.Errorf("%s: that is the --status-file", host.Printable(file.Name()))
	case !info.Mode().IsRegular():
		return nil
	}
	if info.Mode().Perm() != traceMode {
		if err := file.Chmod(traceMode); err != nil {
			return err
		}
	}
	return file.Truncate(0)
}

// traceMode: it tells who leases what, to its owner.
const traceMode = 0o600

// Write is called by the recorder's own goroutine, which may wait.
func (t *traceFile) Write(b []byte) (int, error) {
	<-t.opened
	if t.err != nil {
		return 0, t.err
	}
	return t.file.Write(b)
}
