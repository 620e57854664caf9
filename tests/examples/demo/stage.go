//go:build unix

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// A worker prints one of these before the lease's name and its own.
const (
	began = "began"
	ended = "ended"
)

// stage starts processes and writes down what they say, with the time.
type stage struct {
	binary, self, store string
	start0              time.Time

	mu      sync.Mutex
	actors  []*actor
	history []tenure
	readers sync.WaitGroup
}

// actor is one started mopslock-host.
type actor struct {
	name string
	cmd  *exec.Cmd
	once sync.Once
}

// tenure is one worker's time under a lease.
type tenure struct {
	name, who  string
	begin, end time.Duration // end is 0 while it lasts
}

func newStage(binary, dir string) (*stage, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return &stage{binary: binary, self: self, store: "file://" + dir, start0: time.Now()}, nil
}

func (s *stage) command(args ...string) *exec.Cmd {
	cmd := exec.Command(s.binary, args...)
	cmd.Env = append(os.Environ(), "MOPSLOCK_STORE="+s.store, "MOPSLOCK_HELD=")
	return cmd
}

func (s *stage) start(name string, args ...string) (*actor, error) {
	s.say("%s: mopslock-host %s", name, s.short(args))
	a := &actor{name: name, cmd: s.command(args...)}
	// A pipe of our own, since a remote part may keep its end after a's end.
	reader, writer, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	a.cmd.Stdout, a.cmd.Stderr = writer, writer
	if err := errors.Join(a.cmd.Start(), writer.Close()); err != nil {
		return nil, errors.Join(err, reader.Close())
	}
	s.readers.Go(func() { s.listen(name, reader) })
	s.mu.Lock()
	s.actors = append(s.actors, a)
	s.mu.Unlock()
	return a, nil
}

// short is a command line without the paths of this run.
func (s *stage) short(args []string) string {
	line := strings.Join(args, " ")
	line = strings.ReplaceAll(line, s.self, "demo")
	return strings.ReplaceAll(line, s.binary+" ", "")
}

func (s *stage) listen(name string, from io.ReadCloser) {
	defer from.Close()
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) != 3 || words[0] != began && words[0] != ended {
			s.say("%s: %s", name, lines.Text())
			continue
		}
		who := strings.ReplaceAll(words[2], "_", " ")
		s.note(words[0], words[1], who)
	}
}

func (s *stage) note(what, name, who string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Since(s.start0)
	if what == began {
		s.history = append(s.history, tenure{name: name, who: who, begin: now})
	}
	for i := range s.history {
		if h := &s.history[i]; what == ended && h.name == name && h.who == who {
			h.end = now
		}
	}
	fmt.Printf("%6.2fs  >>> %s: %s %s\n", now.Seconds(), name, who, what)
}

func (s *stage) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Printf("%6.2fs  %s\n", time.Since(s.start0).Seconds(), fmt.Sprintf(format, args...))
}

// held reports whether a worker runs or has run.
func (s *stage) held(who string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.history {
		if h.who == who {
			return true
		}
	}
	return false
}

func (s *stage) await(what string, ok func() bool) error {
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("not within 20 s: %s", what)
		}
	}
	return nil
}

// end waits for an actor's end and returns its exit status.
func (s *stage) end(a *actor) int {
	a.once.Do(func() { _ = a.cmd.Wait() })
	return a.cmd.ProcessState.ExitCode()
}

// strikeSet ends what still runs.
func (s *stage) strikeSet() {
	for _, a := range s.actors {
		if a.cmd.ProcessState == nil {
			_ = a.cmd.Process.Kill()
		}
		s.end(a)
	}
	s.readers.Wait()
}

func (s *stage) printHistory() {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Println("\n-- who worked under which lease, and when")
	const scale = 150 * time.Millisecond // a column
	for _, h := range s.history {
		indent := strings.Repeat(" ", int(h.begin/scale))
		bar := strings.Repeat("#", max(1, int((h.end-h.begin)/scale)))
		fmt.Printf("%-15s %-14s %5.2fs to %5.2fs  |%s%s\n", h.name, h.who, h.begin.Seconds(), h.end.Seconds(), indent, bar)
	}
}
