//go:build linux || darwin

package stress

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// binary is the built mopslock-host and directory the test's own scratch space;
// TestMain sets them once.
var binary, self string

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == helperMark {
		os.Exit(helper(os.Args[2:]))
	}
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "mopslock-stress-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "mopslock-host")
	build := exec.Command("go", "build", "-o", binary, "github.com/mopslock/mopslock/cmd/mopslock-host")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building mopslock-host: %v\n%s", err, out)
		return 1
	}
	if self, err = os.Executable(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	// What runs in parallel here mostly waits, whatever the number of processors.
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

const shortRun = 5 * time.Second

// duration is how long each test goes on: $MOPSLOCK_STRESS, or 5 s.
func duration(t *testing.T) (d time.Duration, long bool) {
	t.Helper()
	if testing.Short() {
		t.Skip("stress is not short")
	}
	text := os.Getenv("MOPSLOCK_STRESS")
	if text == "" {
		return shortRun, false
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		t.Fatalf("MOPSLOCK_STRESS=%q: a duration such as 30s", text)
	}
	return d, d > shortRun
}

// monotonic is an instant that every process of this machine agrees on.
func monotonic() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic("stress: CLOCK_MONOTONIC: " + err.Error())
	}
	return time.Duration(ts.Nano())
}

// process is one started process and how it ended.
type process struct {
	cmd    *exec.Cmd
	stderr bytes.Buffer
	done   chan struct{} // closed when it has ended
	ended  time.Duration // monotonic, once done
}

// start is launch in the test's own goroutine.
func start(t *testing.T, argv ...string) *process {
	t.Helper()
	return startIn(t, nil, argv...)
}

// startIn is start with more variables.
func startIn(t *testing.T, env []string, argv ...string) *process {
	t.Helper()
	p, err := launch(t, env, argv...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// launch starts a command without any of our variables in its environment, and with
// env. It is killed when the test ends.
func launch(t *testing.T, env []string, argv ...string) (*process, error) {
	p := &process{cmd: exec.Command(argv[0], argv[1:]...), done: make(chan struct{})}
	p.cmd.Stderr = &p.stderr
	p.cmd.Env = append(cleanEnvironment(), env...)
	p.cmd.WaitDelay = time.Second // a companion that lives on keeps our stderr open
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = p.cmd.Wait()
		p.ended = monotonic()
		close(p.done)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Signal(syscall.SIGCONT)
		_ = p.cmd.Process.Kill()
		<-p.done
	})
	return p, nil
}

func cleanEnvironment() []string {
	var env []string
	for _, line := range os.Environ() {
		if !strings.HasPrefix(line, "MOPSLOCK_") {
			env = append(env, line)
		}
	}
	return env
}

// run is the argv of `mopslock-host run` with a helper as its command.
func run(store, name string, flags []string, helperArgs ...string) []string {
	argv := append([]string{binary, "run", "--store", store}, flags...)
	return append(append(argv, name, "--", self, helperMark), helperArgs...)
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// status waits for the end: the exit status, 128+N after signal N, or -1 with
// a failed test after limit.
func (p *process) status(t *testing.T, limit time.Duration) int {
	t.Helper()
	select {
	case <-p.done:
	case <-time.After(limit):
		t.Errorf("%v has not ended within %v", p.cmd.Args[1:], limit)
		return -1
	}
	state := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if state.Signaled() {
		return 128 + int(state.Signal())
	}
	return state.ExitStatus()
}

// eventually polls until ok, or fails the test after limit.
func eventually(t *testing.T, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", limit, what)
		}
	}
}

// gone reports whether nobody is left of a process group. A killed orphan that
// its new parent has not reaped yet counts as somebody.
func gone(group int) bool {
	return errors.Is(syscall.Kill(-group, 0), syscall.ESRCH)
}

// stop ends a process that is not our child, and was perhaps never started.
func stop(pid int) {
	if pid > 0 {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// store is the URL of a fresh local directory.
func store(t *testing.T) string { return "file://" + t.TempDir() }

// place is where a store is.
type place struct {
	url    string
	env    []string // what a process needs for it
	direct string   // the test's own way, around what may be before the store
}

// here is a place that everybody comes to in the same way.
func here(url string) place { return place{url: url, direct: url} }

// figures prints what a test measured, also when it passes.
func figures(t *testing.T, format string, args ...any) {
	t.Helper()
	printing.Lock()
	defer printing.Unlock()
	fmt.Printf("    %s: %s\n", t.Name(), fmt.Sprintf(format, args...))
}

var printing sync.Mutex
