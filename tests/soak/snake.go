//go:build unix

package main

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

//go:embed soak.py
var program string

const (
	pythonLeases  = 5_000
	pythonWaiters = 200
	pythonChurn   = 5 // a second
	pythonFill    = 5 * time.Minute
)

// snake is the Python process. It writes its samples as lines of JSON, and ends
// when its time is over or its stdin is closed, which also happens when we are killed.
type snake struct {
	cmd   *exec.Cmd
	stdin io.Closer
	ended chan struct{} // closed when it has ended
	err   error         // of its end, once ended is closed
	limit time.Duration
}

func startSnake(python, dir string, p plan, t *table) (*snake, error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	orders := map[string]any{
		"url": "file://" + dir, "for": p.length.Seconds(), "every": p.every.Seconds(), "ttl": p.ttl.Seconds(),
		"leases": pythonLeases, "waiters": pythonWaiters, "churn": pythonChurn, "crowd": crowd,
		"turn": turn.Seconds(), "pause": pauseFor.Seconds(),
	}
	text, err := json.Marshal(orders)
	if err != nil {
		return nil, err
	}
	fmt.Printf("Python: %d leases on one session, and %d waiters, which are tasks of asyncio; %d a second\n", pythonLeases, pythonWaiters, pythonChurn)
	if err := exec.Command(python, "-c", "import mopslock").Run(); err != nil { // fail now, and not after half an hour
		return nil, fmt.Errorf("%s has no package mopslock: %w", python, err)
	}
	s := &snake{cmd: exec.Command(python, "-c", program, string(text)), ended: make(chan struct{}), limit: p.length + pythonFill}
	s.cmd.Stderr = os.Stderr
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // the terminal's interrupt comes to us alone, and we end it
	if s.stdin, err = s.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", python, err)
	}
	go func() {
		lines := bufio.NewScanner(stdout)
		for lines.Scan() {
			var one sample
			if json.Unmarshal(lines.Bytes(), &one) == nil {
				t.add("Python", one)
			}
		}
		s.err = s.cmd.Wait()
		close(s.ended)
	}()
	return s, nil
}

// await waits until it ends. If the soak is over, await asks it to end at once.
func (s *snake) await(ctx context.Context, over bool) error {
	limit, cancel := context.WithTimeout(ctx, s.limit)
	defer cancel()
	if over {
		cancel()
	}
	select {
	case <-s.ended:
	case <-limit.Done():
	}
	_ = s.stdin.Close()
	select {
	case <-s.ended:
	case <-time.After(closeLimit):
		return errors.New("python: it does not end")
	}
	if s.err != nil {
		return fmt.Errorf("python: %w", s.err)
	}
	return nil
}

// kill ends it if it has not ended.
func (s *snake) kill() {
	_ = s.cmd.Process.Kill()
	<-s.ended
}
