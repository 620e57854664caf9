//go:build linux || darwin

// Package stephost shows a host in another language: host.py, of sixty lines.
package stephost

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// binaries is where mopslock-host was built; TestMain sets it once.
var binaries string

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "mopslock-stephost-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "mopslock-host"), "github.com/mopslock/mopslock/cmd/mopslock-host")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building mopslock-host: %v\n%s", err, out)
		return 1
	}
	binaries = dir
	return m.Run()
}

// bound is how long anything here may take; nothing else is asserted about time.
const bound = 30 * time.Second

// stage is a store, and a directory for the commands.
type stage struct {
	*testing.T
	dir string
}

func newStage(t *testing.T) *stage {
	t.Helper()
	if err := exec.Command("python3", "-c", "import sys; sys.exit(sys.version_info < (3, 10))").Run(); err != nil {
		t.Skip("no Python 3.10: ", err)
	}
	t.Parallel()
	return &stage{t, t.TempDir()}
}

// process is one that was started, with what it printed.
type process struct {
	cmd  *exec.Cmd
	out  bytes.Buffer
	done sync.Once
}

// python starts host.py on the name n, with a TTL that outlasts a pause of the machine.
func (s *stage) python(command string) *process {
	s.Helper()
	script, err := filepath.Abs("host.py")
	if err != nil {
		s.Fatal(err)
	}
	return s.start("python3", script, "6", filepath.Join(s.dir, "store"), "n", "sh", "-c", command)
}

func (s *stage) start(words ...string) *process {
	s.Helper()
	if words[0] == "mopslock-host" {
		words[0] = filepath.Join(binaries, words[0])
	}
	p := &process{cmd: exec.Command(words[0], words[1:]...)}
	p.cmd.Dir = s.dir
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	p.cmd.WaitDelay = time.Second
	p.cmd.Env = append(os.Environ(), "PATH="+binaries+string(os.PathListSeparator)+os.Getenv("PATH"),
		"MOPSLOCK_STORE=file://"+filepath.Join(s.dir, "store"), "MOPSLOCK_HELD=", "MOPSLOCK_LEASE=")
	if err := p.cmd.Start(); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		p.wait()
		if s.Failed() {
			s.Logf("%q\n%s", words, p.out.String())
		}
	})
	return p
}

func (p *process) wait() int {
	p.done.Do(func() {
		timer := time.AfterFunc(bound, func() { _ = p.cmd.Process.Kill() })
		defer timer.Stop()
		_ = p.cmd.Wait()
	})
	return p.cmd.ProcessState.ExitCode()
}

func (s *stage) mustExit(p *process, want int) {
	s.Helper()
	if got := p.wait(); got != want {
		s.Fatalf("%q: status %d, want %d", p.cmd.Args, got, want)
	}
}

func (s *stage) eventually(what string, holds func() bool) {
	s.Helper()
	for end := time.Now().Add(bound); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if holds() {
			return
		}
	}
	s.Fatalf("never: %s", what)
}

func (s *stage) read(name string) string {
	text, _ := os.ReadFile(filepath.Join(s.dir, name))
	return string(text)
}

func (s *stage) write(name, text string) {
	s.Helper()
	path := filepath.Join(s.dir, name)
	if err := errors.Join(os.WriteFile(path+".new", []byte(text), 0o600), os.Rename(path+".new", path)); err != nil {
		s.Fatal(err)
	}
}

// record is n's lock.json; the zero one if there is none.
func (s *stage) record() (r struct {
	Holder   string `json:"writer_id"`
	Count    int    `json:"write_count"`
	Released string `json:"released_at"`
},
) {
	_ = json.Unmarshal([]byte(s.read("store/n/lock.json")), &r)
	return r
}

const untilEnough = `echo $$ >pid; while ! test -e enough; do sleep 0.02; done; `

// host.py stays what it is called: a host in sixty lines.
func TestSixtyLines(t *testing.T) {
	text, err := os.ReadFile("host.py")
	if lines := bytes.Count(text, []byte("\n")); err != nil || lines > 60 {
		t.Errorf("%d lines, %v", lines, err)
	}
}

// host.py holds a lease that everybody else heeds, renews it while its command runs, exits with the command's status,
// and leaves the record released.
func TestHolds(t *testing.T) {
	s := newStage(t)
	p := s.python(untilEnough + "exit 7")
	s.eventually("the command", func() bool { return s.read("pid") != "" })
	status := s.start("mopslock-host", "status", "n")
	s.mustExit(status, 0)
	if !strings.Contains(status.out.String(), "held") {
		t.Errorf("status: %s", status.out.String())
	}
	s.mustExit(s.start("mopslock-host", "run", "--protocol", "lastwriter", "--wait", "0", "--ttl", "2s", "n", "--", "touch", "ran"), 75)
	before := s.record()
	s.eventually("renewals beyond the TTL", func() bool { return s.record().Count >= before.Count+5 })
	if now := s.record(); now.Holder != before.Holder || now.Released != "" {
		t.Errorf("the record is another's: %+v", now)
	}
	s.write("enough", "")
	s.mustExit(p, 7)
	if r := s.record(); r.Holder != before.Holder || r.Released == "" {
		t.Errorf("not released: %+v", r)
	}
	s.mustExit(s.start("mopslock-host", "status", "n"), 1)
	if s.read("ran") != "" {
		t.Error("two held it")
	}
}

// Four of them, and four of mopslock-host run, on one name: one at a time. That
// is promised with a margin that is longer than two requests, and not without.
func TestExclude(t *testing.T) {
	s := newStage(t)
	const alone = "mkdir inside || exit 9; echo x >>log; sleep 0.05; rmdir inside"
	var all []*process
	for range 4 {
		all = append(all, s.python(alone), s.start("mopslock-host", "run", "--protocol", "lastwriter", "--ttl", "6s", "--acquire-margin", "1s", "n", "--", "sh", "-c", alone))
	}
	for _, p := range all {
		s.mustExit(p, 0)
	}
	if log := s.read("log"); log != strings.Repeat("x\n", 8) {
		t.Errorf("%q", log)
	}
}

// A record that another writer has put there ends the command, with 76, and stays as it is.
func TestLost(t *testing.T) {
	s := newStage(t)
	p := s.python(`trap "" TERM; ` + untilEnough)
	s.eventually("the command", func() bool { return strings.HasSuffix(s.read("pid"), "\n") })
	holder := s.record().Holder
	theirs := strings.Replace(s.read("store/n/lock.json"), holder, "somebody-else", 1)
	s.eventually("its end", func() bool {
		if s.record().Holder == holder { // also once more: it may have been between its look and its write
			s.write("store/n/lock.json", theirs)
		}
		return ended(p.cmd.Process.Pid)
	})
	s.mustExit(p, 76)
	s.mustEnd(s.read("pid"))
	if got := s.read("store/n/lock.json"); got != theirs {
		t.Errorf("their record was written over: %s", got)
	}
}

// A step that hangs keeps nobody's lease alive: the command is stopped at the deadline all the same, with 76.
func TestFencesItself(t *testing.T) {
	s := newStage(t)
	p := s.python(`trap "" TERM; ` + untilEnough)
	s.eventually("the command", func() bool { return strings.HasSuffix(s.read("pid"), "\n") })
	s.signalStep(p, syscall.SIGSTOP)
	s.mustExit(p, 76)
	s.mustEnd(s.read("pid"))
	if r := s.record(); r.Released != "" {
		t.Errorf("released: %+v", r)
	}
}

// Nor does one that was killed.
func TestStepIsGone(t *testing.T) {
	s := newStage(t)
	p := s.python(untilEnough)
	s.eventually("the command", func() bool { return strings.HasSuffix(s.read("pid"), "\n") })
	s.signalStep(p, syscall.SIGKILL)
	s.mustExit(p, 76)
	s.mustEnd(s.read("pid"))
}

// signalStep is to the mopslock-host step that p has started.
func (s *stage) signalStep(p *process, number syscall.Signal) {
	s.Helper()
	out, err := exec.Command("pgrep", "-P", strconv.Itoa(p.cmd.Process.Pid), "mopslock-host").Output()
	if err != nil {
		s.Fatal("no step: ", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(out)))
	if err := errors.Join(err, syscall.Kill(pid, number)); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		if number == syscall.SIGSTOP && !ended(pid) {
			s.Errorf("step %d was left behind", pid)
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
}

// A command that there is not is 127, told in one line, and the lease is free again.
func TestNoSuchCommand(t *testing.T) {
	s := newStage(t)
	script, err := filepath.Abs("host.py")
	if err != nil {
		t.Fatal(err)
	}
	p := s.start("python3", script, "2", filepath.Join(s.dir, "store"), "n", "no-such-command")
	s.mustExit(p, 127)
	if r := s.record(); r.Released == "" {
		t.Errorf("not released: %+v", r)
	}
	if text := p.out.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "no-such-command") {
		t.Errorf("%q", text)
	}
}

// A put that fails leaves nothing behind.
func TestFailedPut(t *testing.T) {
	s := newStage(t)
	script, err := filepath.Abs("host.py")
	if err != nil {
		t.Fatal(err)
	}
	p := s.start("sh", "-c", `ulimit -f 0; exec python3 "$@"`, "sh", script, "2", filepath.Join(s.dir, "store"), "n", "touch", "ran")
	dir := filepath.Join(s.dir, "store", "n")
	s.eventually("the first put", func() bool {
		_, err := os.Stat(dir)
		return err == nil
	})
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	s.mustExit(p, 75)
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("%v %v", left, err)
	}
	if s.read("ran") != "" {
		t.Error("it ran")
	}
}

func (s *stage) mustEnd(line string) {
	s.Helper()
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		s.Fatal(err)
	}
	s.eventually("the end of the command", func() bool { return ended(pid) })
}

// ended is also what a zombie has.
func ended(pid int) bool {
	state, err := exec.Command("ps", "-o", "state=", "-p", strconv.Itoa(pid)).Output()
	return err != nil || strings.HasPrefix(string(state), "Z")
}

// SIGTERM while waiting ends the wait with 75, and leaves the other's record alone; while the command runs it is the
// command's.
func TestSignals(t *testing.T) {
	s := newStage(t)
	first := s.python("echo up >pid; exec sleep 300")
	s.eventually("the command", func() bool { return s.read("pid") != "" })
	second := s.python("touch ran")
	s.eventually("a second one that has begun", func() bool {
		out, err := exec.Command("pgrep", "-P", strconv.Itoa(second.cmd.Process.Pid)).Output()
		return err == nil && len(out) > 0
	})
	holder := s.record().Holder
	s.eventually("the end of its wait", func() bool { // the first may come before it listens
		_ = second.cmd.Process.Signal(syscall.SIGTERM)
		return ended(second.cmd.Process.Pid)
	})
	if r := s.record(); r.Holder != holder || r.Released != "" || s.read("ran") != "" {
		t.Errorf("the waiter did something: %+v", r)
	}
	if err := first.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	s.mustExit(first, 128+int(syscall.SIGTERM))
	if r := s.record(); r.Released == "" {
		t.Errorf("not released: %+v", r)
	}
}
