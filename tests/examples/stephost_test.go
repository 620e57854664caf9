//go:build linux || darwin

package examples

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// python starts stephost/host.py on the name n.
func (s *stage) python(ttl string, words ...string) *process {
	s.Helper()
	if err := exec.Command("python3", "-c", "import sys; sys.exit(sys.version_info < (3, 10))").Run(); err != nil {
		s.Skip("no Python 3.10: ", err)
	}
	script, err := filepath.Abs("stephost/host.py")
	if err != nil {
		s.Fatal(err)
	}
	return s.start(append([]string{"python3", script, ttl, filepath.Join(s.dir, "store"), "n"}, words...)...)
}

// The long TTL outlasts a machine's pauses; the short one is for a host that loses the lease.
const long, short = "20", "3"

// record is n's lock.json; the zero one if there is none.
func (s *stage) record() (r struct {
	Holder   string `json:"writer_id"`
	Released string `json:"released_at"`
},
) {
	_ = json.Unmarshal([]byte(s.read("store/n/lock.json")), &r)
	return r
}

// begins waits for the command's process id.
func (s *stage) begins() (pid int) {
	s.Helper()
	s.eventually("the command", func() bool { return strings.HasSuffix(s.read("pid"), "\n") })
	pid, err := strconv.Atoi(strings.TrimSpace(s.read("pid")))
	if err != nil {
		s.Fatal(err)
	}
	return pid
}

const untilEnough = `echo $$ >pid; while ! test -e enough; do sleep 0.02; done; `

// TestSixtyLines: host.py stays what its docstring calls it, a host in sixty lines.
func TestSixtyLines(t *testing.T) {
	text, err := os.ReadFile("stephost/host.py")
	if lines := bytes.Count(text, []byte("\n")); err != nil || lines > 60 {
		t.Errorf("%d lines, %v", lines, err)
	}
}

// TestHolds: host.py holds a lease that other programs obey, exits with the command's status,
// and leaves the record released. It passes SIGTERM on to its command. A host.py that waits
// ends with 75 at SIGTERM, and leaves the record alone.
func TestHolds(t *testing.T) {
	s := newStage(t)
	p := s.python(long, "sh", "-c", `trap "exit 7" TERM; `+untilEnough)
	s.begins()
	holder := s.record().Holder
	s.exits(s.start("mopslock-host", "status", "n"), 0)
	s.exits(s.start("mopslock-host", "run", "--protocol", "lastwriter", "--wait", "0", "--ttl", "2s", "n", "--", "touch", "ran"), 75)
	waiter := s.python(long, "touch", "ran")
	s.eventually("the waiter's step", func() bool { return waiter.child() > 0 })
	s.eventually("the end of its wait", func() bool { // the first signal may come before it listens
		_ = waiter.Process.Signal(syscall.SIGTERM)
		return ended(waiter.Process.Pid)
	})
	if r := s.record(); r.Holder != holder || r.Released != "" || s.read("ran") != "" {
		t.Errorf("not the first one's any more: %+v", r)
	}
	_ = p.Process.Signal(syscall.SIGTERM)
	s.exits(p, 7)
	if r := s.record(); r.Holder != holder || r.Released == "" {
		t.Errorf("not released: %+v", r)
	}
}

// TestLoses: host.py kills its command, which ignores SIGTERM, ends with 76 and releases
// nothing, in three cases: another writer's record is there; the step hangs, so that nothing
// keeps the lease alive, until the deadline; the step is gone. Neither command nor step is
// left behind.
func TestLoses(t *testing.T) {
	for how, lose := range map[string]func(s *stage, p *process, step int){
		"taken": func(s *stage, p *process, _ int) {
			holder, mine := s.record().Holder, s.read("store/n/lock.json")
			s.eventually("its end", func() bool {
				if s.record().Holder == holder { // perhaps again: host.py may have been between its read and its write
					s.write("store/n/lock.json", strings.Replace(mine, holder, "somebody-else", 1))
				}
				return ended(p.Process.Pid)
			})
			if s.record().Holder != "somebody-else" {
				s.Error("their record was written over")
			}
		},
		"hangs": func(_ *stage, _ *process, step int) { _ = syscall.Kill(step, syscall.SIGSTOP) },
		"gone":  func(_ *stage, _ *process, step int) { _ = syscall.Kill(step, syscall.SIGKILL) },
	} {
		t.Run(how, func(t *testing.T) {
			s := newStage(t)
			p := s.python(short, "sh", "-c", `trap "" TERM; `+untilEnough)
			command, step := s.begins(), p.child()
			if step == 0 {
				t.Fatal("no step")
			}
			lose(s, p, step)
			s.exits(p, 76)
			s.eventually("the end of the command", func() bool { return ended(command) })
			s.eventually("the end of the step", func() bool { return ended(step) })
			if r := s.record(); r.Released != "" {
				t.Errorf("released: %+v", r)
			}
		})
	}
}

// child is the mopslock-host step that a host.py has started.
func (p *process) child() int {
	out, _ := exec.Command("pgrep", "-P", strconv.Itoa(p.Process.Pid), "mopslock-host").Output()
	pid, _ := strconv.Atoi(strings.TrimSpace(string(out)))
	return pid
}

// ended reports whether a process has ended, as a zombie has.
func ended(pid int) bool {
	state, err := exec.Command("ps", "-o", "state=", "-p", strconv.Itoa(pid)).Output()
	return err != nil || strings.HasPrefix(string(state), "Z")
}

// TestNoSuchCommand: a command that does not exist is status 127 and one line of text, and
// the lease is free again.
func TestNoSuchCommand(t *testing.T) {
	s := newStage(t)
	p := s.python(long, "no-such-command")
	s.exits(p, 127)
	if text := p.said.String(); s.record().Released == "" || strings.Count(text, "\n") != 1 || !strings.Contains(text, "no-such-command") {
		t.Errorf("%q, %+v", text, s.record())
	}
}

// TestFailedPut: a put that fails leaves nothing behind.
func TestFailedPut(t *testing.T) {
	s := newStage(t)
	script, err := filepath.Abs("stephost/host.py")
	if err != nil {
		t.Fatal(err)
	}
	p := s.start("sh", "-c", `ulimit -f 0; exec python3 "$@"`, "sh", script, long, filepath.Join(s.dir, "store"), "n", "touch", "ran")
	dir := filepath.Join(s.dir, "store", "n")
	s.eventually("the first put", func() bool {
		_, err := os.Stat(dir)
		return err == nil
	})
	_ = p.Process.Signal(syscall.SIGTERM)
	s.exits(p, 75)
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 || s.read("ran") != "" {
		t.Errorf("%v %v", left, err)
	}
}
