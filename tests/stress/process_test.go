//go:build linux

package stress

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/mopslock/mopslock/tests/defaults"
)

// binary is the built mopslock-host and self this test binary; TestMain sets them once.
var binary, self string

// bound ends a test that hangs, and all that a failed test leaves behind. It does not
// judge speed.
const bound = 2 * time.Minute

// The test binary, started with helperMark and one of these words, is a process of a story.
const helperMark = "stress-helper"

// builtMark is the variable in which this test binary, started by a test, is told of the command that is built already.
const builtMark = "STRESS_BINARY"

var helpers = map[string]func(args []string) error{
	"storm":       stormer,
	"command":     commander,
	"guarded":     guarded,
	"hold":        hold,
	"parent":      parent,
	"orchestrate": orchestrate,
	"launch":      launch,
	"work":        work,
}

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == helperMark {
		time.AfterFunc(time.Hour, func() { panic("stress: a helper was left behind") })
		if err := helpers[os.Args[2]](os.Args[3:]); err != nil {
			fmt.Fprintln(os.Stderr, "stress helper:", os.Args[2:], err)
			os.Exit(99)
		}
		os.Exit(0)
	}
	defaults.Signals()
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	var err error
	if self, err = os.Executable(); err != nil {
		panic(err)
	}
	if binary = os.Getenv(builtMark); binary != "" {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "mopslock-stress-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "mopslock-host")
	build := exec.Command("go", "build", "-o", binary, "github.com/mopslock/mopslock/cmd/mopslock-host")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building mopslock-host: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// duration is how long each story goes on: $MOPSLOCK_STRESS, or 5 s.
func duration(t *testing.T) time.Duration {
	t.Helper()
	if testing.Short() {
		t.Skip("stress is not short")
	}
	text := os.Getenv("MOPSLOCK_STRESS")
	if text == "" {
		return 5 * time.Second
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		t.Fatalf("MOPSLOCK_STRESS=%q: a duration such as 30s", text)
	}
	return d
}

// process is one started process.
type process struct {
	*exec.Cmd
	stderr  bytes.Buffer
	done    chan struct{} // closed when it has ended
	stopped atomic.Bool   // by SIGSTOP
}

// helper is the argv of one of our helpers.
func helper(words ...string) []string { return append([]string{self, helperMark}, words...) }

// start starts a command at the head of a process group of its own. Its environment is
// ours without MOPSLOCK_ variables, and env. It is killed when the test ends.
func start(t *testing.T, env []string, argv ...string) *process {
	t.Helper()
	p := &process{Cmd: exec.Command(argv[0], argv[1:]...), done: make(chan struct{})}
	p.Stderr = &p.stderr
	for _, line := range os.Environ() {
		if !strings.HasPrefix(line, "MOPSLOCK_") {
			p.Env = append(p.Env, line)
		}
	}
	p.Env = append(p.Env, env...)
	p.WaitDelay = time.Second // a companion that lives on keeps our stderr open
	p.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		p.signal(syscall.SIGKILL)
		<-p.done
	})
	return p
}

// signal sends a signal to a process and to the others of its group.
func (p *process) signal(s syscall.Signal) { _ = syscall.Kill(-p.Process.Pid, s) }

// ended waits until a process has ended, and checks its status: 128+N after signal N.
func (p *process) ended(t *testing.T, want int) {
	t.Helper()
	select {
	case <-p.done:
	case <-time.After(bound):
		t.Fatalf("%v has not ended", p.Args[1:])
	}
	if got := status(p.ProcessState); got != want {
		t.Fatalf("%v ended with %d, not %d: %s", p.Args[1:], got, want, p.stderr.String())
	}
}

// status is how a process has ended: 128+N after signal N.
func status(ended *os.ProcessState) int {
	state := ended.Sys().(syscall.WaitStatus)
	if state.Signaled() {
		return 128 + int(state.Signal())
	}
	return state.ExitStatus()
}

// eventually polls until ok.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(bound); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// ledger is a file to which all processes of a story append lines. A line is one write:
// lines never mix, a SIGKILL leaves no half line, and lines stand in the order in which
// they were written. So the length of the file is a clock that no pause can falsify: a question
// that is asked after the length was read comes after every line within that length.
type ledger string

func newLedger(t *testing.T) ledger { return ledger(filepath.Join(t.TempDir(), "ledger")) }

// note appends a line: our process id, and words. Only the last word may have blanks.
func (l ledger) note(words ...any) {
	line := strings.ReplaceAll(strings.TrimSuffix(fmt.Sprintln(append([]any{os.Getpid()}, words...)...), "\n"), "\n", " ")
	f, err := os.OpenFile(string(l), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic("stress: " + err.Error())
	}
	defer f.Close()
	if _, err := f.WriteString(line + "\n"); err != nil {
		panic("stress: " + err.Error())
	}
}

func (l ledger) length() int64 {
	info, err := os.Stat(string(l))
	if err != nil {
		return 0 // no process has written yet
	}
	return info.Size()
}

// entry is a line. It was written by the time that the ledger was at long.
type entry struct {
	at    int64
	pid   int
	what  string
	words []string
}

// read returns all lines of these kinds.
func (l ledger) read(t *testing.T, kinds ...string) (all []entry) {
	t.Helper()
	text, err := os.ReadFile(string(l))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	at := int64(0)
	for line := range strings.Lines(string(text)) {
		if !strings.HasSuffix(line, "\n") {
			break // of a line that crosses a page, a reader may see the first part alone for a moment
		}
		at += int64(len(line))
		words := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 5)
		pid, err := strconv.Atoi(words[0])
		if err != nil || len(words) < 2 {
			t.Fatalf("the ledger says %q", line)
		}
		for _, kind := range kinds {
			if kind == words[1] {
				all = append(all, entry{at, pid, words[1], words[2:]})
			}
		}
	}
	return all
}

// await waits for the first line of a kind.
func (l ledger) await(t *testing.T, kind string) entry {
	t.Helper()
	eventually(t, kind, func() bool { return len(l.read(t, kind)) > 0 })
	return l.read(t, kind)[0]
}

// store is the URL of a fresh local directory.
func store(t *testing.T) string { return "file://" + t.TempDir() }

// figures prints what a test measured, also when it passes.
func figures(t *testing.T, format string, args ...any) {
	t.Helper()
	fmt.Printf("    %s: %s\n", t.Name(), fmt.Sprintf(format, args...))
}
