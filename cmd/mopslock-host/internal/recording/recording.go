// Package recording keeps the file of --trace: what the core was told and answered. The file may take
// its time to open; the recording goes on meanwhile.
//
// It reads no recording: package trace replays one.
package recording

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/mopslock/mopslock/host"
	"github.com/mopslock/mopslock/host/trace"
)

// Recording is an engine, behind a recorder that writes to a file.
type Recording struct {
	*trace.Recorder
	file *slowFile
}

// openPatience is how long Open waits for the file.
const openPatience = time.Second

// Open makes the file anew, and records the machines of an engine. It refuses the file that
// status is of, which may be nil. A FIFO without a reader, or a dead mount, must not keep a lease
// waiting: after a second it returns, and the file may open later.
func Open(path string, engine host.Engine, status os.FileInfo) (*Recording, error) {
	file := &slowFile{opened: make(chan struct{})}
	go file.open(path, status)
	timer := time.NewTimer(openPatience)
	defer timer.Stop()
	select {
	case <-file.opened:
		if file.err != nil {
			return nil, file.err
		}
	case <-timer.C:
	}
	return &Recording{trace.NewRecorder(engine, file), file}, nil
}

// Close writes what is left and closes the file. When ctx ends first, the file is left open.
func (r *Recording) Close(ctx context.Context) error {
	err := r.Recorder.Close(ctx)
	if ctx.Err() == nil { // otherwise the recorder still writes, and the process ends
		if closeErr := r.file.file.Close(); err == nil {
			err = closeErr
		}
	}
	return err
}

// slowFile is a file that may take its time to open.
type slowFile struct {
	opened chan struct{} // closed when file or err is set
	file   *os.File
	err    error
}

// open makes the file anew, unless it is the status file.
func (t *slowFile) open(path string, status os.FileInfo) {
	defer close(t.opened)
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, mode)
	if err == nil {
		if err = empty(file, status); err != nil {
			file.Close()
			file = nil
		}
	}
	t.file, t.err = file, err
}

// empty removes the content of an older file, and its mode, which may have let all users read. Devices
// and FIFOs stay as they are.
func empty(file *os.File, status os.FileInfo) error {
	info, err := file.Stat()
	switch {
	case err != nil:
		return err
	case status != nil && os.SameFile(info, status) && info.Mode()&os.ModeDevice == 0: // /dev/null may be both
		return fmt.Errorf("%s: that is the --status-file", host.Printable(file.Name()))
	case !info.Mode().IsRegular():
		return nil
	}
	if info.Mode().Perm() != mode {
		if err := file.Chmod(mode); err != nil {
			return err
		}
	}
	return file.Truncate(0)
}

// mode lets only its owner read who leases what.
const mode = 0o600

// Write waits until the file is open. The recorder calls it in a goroutine of its own.
func (t *slowFile) Write(b []byte) (int, error) {
	<-t.opened
	if t.err != nil {
		return 0, t.err
	}
	return t.file.Write(b)
}
