//go:build unix

package servers

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// Silence stops the server until Resume: it keeps its connections and answers nothing.
// Its other threads go on until the one that takes the signal has run, which can be
// long on a busy machine. Silence waits for them where the kernel tells.
func (s *Server) Silence() error {
	if err := s.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	const step = time.Millisecond
	for range stopLimit / step {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", s.cmd.Process.Pid))
		if err != nil || !slices.ContainsFunc(threads, isRunning) {
			return err
		}
		time.Sleep(step)
	}
	return fmt.Errorf("it is not stopped after %v", stopLimit)
}

// isRunning reports whether a thread is not stopped, by its stat.
func isRunning(stat string) bool {
	text, err := os.ReadFile(stat)
	return err == nil && !bytes.Contains(text, []byte(") T "))
}

// Resume lets a silenced server go on.
func (s *Server) Resume() error { return s.cmd.Process.Signal(syscall.SIGCONT) }
