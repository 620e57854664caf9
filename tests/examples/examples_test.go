//go:build linux || darwin

// Package examples runs what the README and these folders show. The invocation's
// example, which waits for a lease to expire, is run by tests/stress.
package examples

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/mopslock/mopslock/tests/defaults"
)

const root = "../.."

// binaries is where mopslock-host and a stand-in for kubectl are; TestMain sets
// it once.
var binaries string

// TestMain plays kubectl under that name: the test binary is linked to it.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "kubectl" {
		os.Exit(kubectl(os.Args[1:]))
	}
	defaults.Signals()
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "mopslock-examples-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "mopslock-host"), "github.com/mopslock/mopslock/cmd/mopslock-host")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building mopslock-host: %v\n%s", err, out)
		return 1
	}
	self, err := os.Executable()
	if err == nil {
		err = os.Symlink(self, filepath.Join(dir, "kubectl"))
	}
	if err != nil {
		panic(err)
	}
	binaries = dir
	return m.Run()
}

// bound ends a test that hangs.
const bound = time.Minute

// stage is a directory in which commands run, with a store of their own.
type stage struct {
	*testing.T
	dir string
}

func newStage(t *testing.T) *stage {
	t.Helper()
	t.Parallel()
	return &stage{t, t.TempDir()}
}

func (s *stage) store() string { return "file://" + filepath.Join(s.dir, "store") }

// environment is ours, with our commands first, and without a lease that we may have.
func environment(more ...string) (env []string) {
	for _, line := range os.Environ() {
		if !strings.HasPrefix(line, "MOPSLOCK_") {
			env = append(env, line)
		}
	}
	return append(env, append(more, "PATH="+binaries+string(os.PathListSeparator)+os.Getenv("PATH"))...)
}

// process is one that was started, with what it printed.
type process struct {
	*exec.Cmd
	out, said bytes.Buffer
	done      chan struct{} // closed when it has ended
}

func (s *stage) start(words ...string) *process {
	s.Helper()
	if words[0] == "mopslock-host" {
		words[0] = filepath.Join(binaries, words[0])
	}
	p := &process{Cmd: exec.Command(words[0], words[1:]...), done: make(chan struct{})}
	p.Dir, p.Env = s.dir, environment("MOPSLOCK_STORE="+s.store())
	p.Stdout, p.Stderr = &p.out, &p.said
	p.WaitDelay = time.Second
	if err := p.Start(); err != nil {
		s.Fatal(err)
	}
	go func() {
		_ = p.Wait()
		close(p.done)
	}()
	s.Cleanup(func() {
		_ = p.Process.Kill()
		<-p.done
		if s.Failed() {
			s.Logf("%q\n%s%s", words, p.out.String(), p.said.String())
		}
	})
	return p
}

// exits waits for the end of a process, with this status.
func (s *stage) exits(p *process, want int) {
	s.Helper()
	s.eventually("its end", func() bool {
		select {
		case <-p.done:
			return true
		default:
			return false
		}
	})
	if got := p.ProcessState.ExitCode(); got != want {
		s.Fatalf("%q: status %d, want %d", p.Args, got, want)
	}
}

func (s *stage) eventually(what string, holds func() bool) {
	s.Helper()
	for end := time.Now().Add(bound); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			s.Fatalf("never: %s", what)
		}
	}
}

func (s *stage) read(name string) string {
	text, _ := os.ReadFile(filepath.Join(s.dir, name))
	return string(text)
}

// write puts a whole file into its place, which may be executed.
func (s *stage) write(name, text string) {
	s.Helper()
	path := filepath.Join(s.dir, name)
	err := os.WriteFile(path+".new", []byte(text), 0o700) //nolint:gosec // it is to be executed
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		s.Fatal(err)
	}
}

// readme is its first fenced block of a language.
func readme(t *testing.T, language string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	_, rest, found := strings.Cut(string(text), "\n```"+language+"\n")
	block, _, closed := strings.Cut(rest, "\n```\n")
	if err != nil || !found || !closed {
		t.Fatalf("README.md has no ```%s block: %v", language, err)
	}
	return block + "\n"
}

// TestGoRuns: README's Go example runs, and the fence's refuses a stale writer.
func TestGoRuns(t *testing.T) {
	s := newStage(t)
	s.write("main.go", readme(t, "go"))
	for program, says := range map[string][]string{
		filepath.Join(s.dir, "main.go"): {"only one of us runs this"},
		"./tests/examples/fence": {
			"A has written slot 1: by A: 100 rows\n", "and finds: by A: 100 rows\n", "B has written slot 3: by A: 100 rows; by B: 200 more\n",
			"A is refused: ", "is stale", "(written just now: true)", "(written just now: false)",
		},
	} {
		command := exec.Command("go", "run", program)
		command.Dir, command.Env = root, environment("MOPSLOCK_STORE="+s.store())
		out, err := command.CombinedOutput()
		for _, must := range says {
			if err != nil || !bytes.Contains(out, []byte(must)) {
				t.Errorf("%s: %v, no %q in:\n%s", program, err, must, out)
			}
		}
	}
}

// TestReadmeShellRuns runs README's shell example as it stands, in a home of
// its own.
func TestReadmeShellRuns(t *testing.T) {
	s := newStage(t)
	for _, name := range []string{"deploy", "report"} {
		s.write(name+".sh", "#!/bin/sh\necho "+name+" of $MOPSLOCK_NAME\n")
	}
	p := s.start("env", "-u", "MOPSLOCK_STORE", "HOME="+s.dir, "bash", "-euo", "pipefail", "-c", readme(t, "sh"))
	s.exits(p, 0)
	for _, must := range []string{"deploy of deploy\n", `report of nightly/\d+-\d+-\d+\n`, `(?m)^deploy +released `} {
		if !regexp.MustCompile(must).Match(p.out.Bytes()) {
			t.Errorf("no %q", must)
		}
	}
}
