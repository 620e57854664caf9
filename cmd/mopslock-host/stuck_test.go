//go:build unix

package main

import (
	"io"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/exit"
	"github.com/mopslock/mopslock/core"
)

// inWorld runs a test in a world of its own.
func inWorld(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	t.Chdir(t.TempDir())
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		t.Cleanup(w.end)
		test(t, w)
	})
}

// stuck is a reader who has stopped reading, until it is closed.
type stuck chan struct{}

func (s stuck) Write(text []byte) (int, error) {
	<-s
	return len(text), nil
}

// A reader of our stderr who has stopped reading must not keep us from ending the command.
func TestNobodyReadsStderr(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		reader := make(stuck)
		defer close(reader)
		p := w.launch([]string{"MOPSLOCK_STORE=shelf://one"}, nil, io.Discard, reader, strings.Fields("run --ttl 9s --protocol strict n -- sleep 300"))
		time.Sleep(5 * time.Second)
		w.shelf("one").setFault(func(string, string) (core.Class, bool) { return core.ClassUnreachable, true })
		if <-p.ended; p.status != exit.StatusLost {
			t.Errorf("exit status %d", p.status)
		}
	})
}

// Nor does a reader of step's answers keep it from being ended; and one that has gone ends it as every command.
func TestStepIsEnded(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		reader := make(stuck)
		const lines = `{"machine":"lease","protocol":"lastwriter","name":"n","seed":"AQIDBAUGBwgJCgsMDQ4PEA=="}` + "\n{}\n"
		p := w.launch(nil, strings.NewReader(lines), reader, io.Discard, []string{"step"})
		synctest.Wait()
		p.signal(syscall.SIGINT)
		if <-p.ended; p.status != 128+int(syscall.SIGINT) {
			t.Errorf("exit status %d", p.status)
		}
		close(reader)
		out, gone := io.Pipe()
		_ = out.CloseWithError(syscall.EPIPE)
		p = w.launch(nil, strings.NewReader(lines), gone, io.Discard, []string{"step"})
		if <-p.ended; p.status != 128+int(syscall.SIGPIPE) {
			t.Errorf("exit status %d", p.status)
		}
	})
}
