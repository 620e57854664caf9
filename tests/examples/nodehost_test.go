//go:build linux || darwin

package examples

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// told is a notice that nodehost has printed.
type told struct {
	Kind, Reason, Protocol, Holder, Origin string
	Claim, Epoch, Token, Total             uint64
	Keeper                                 int
}

// node is a script in JavaScript that was begun on one claim.
type node struct {
	*process
	s       *stage
	input   io.WriteCloser
	notices string // a file
}

// needsNode skips a test where there is no node.
func (s *stage) needsNode() {
	s.Helper()
	version, err := exec.Command("node", "--version").Output()
	if err != nil {
		if os.Getenv("MOPSLOCK_TOOLS") == "required" {
			s.Fatal("no node: ", err)
		}
		s.Skip("no node: ", err)
	}
	s.Logf("node %s", version)
}

// node begins a claim of a kind on a name.
func (s *stage) node(kind, name string, terms ...string) *node {
	s.Helper()
	return s.script("host.mjs", append([]string{filepath.Join(s.dir, "store"), kind, name}, terms...)...)
}

// script begins one of nodehost, which prints notices.
func (s *stage) script(name string, words ...string) *node {
	s.Helper()
	s.needsNode()
	script, err := filepath.Abs(filepath.Join("nodehost", name))
	if err != nil {
		s.Fatal(err)
	}
	n := &node{s: s, notices: fmt.Sprintf("notices-%d", len(s.read("begun")))}
	s.write("begun", s.read("begun")+".")
	n.process = s.startWith(func(c *exec.Cmd) {
		if n.input, err = c.StdinPipe(); err != nil {
			s.Fatal(err)
		}
		file, err := os.Create(filepath.Join(s.dir, n.notices))
		if err != nil {
			s.Fatal(err)
		}
		s.Cleanup(func() { _ = file.Close() })
		c.Stdout = file
	}, append([]string{"node", script}, words...)...)
	return n
}

// says gives it a command.
func (n *node) says(words string) {
	n.s.Helper()
	if _, err := io.WriteString(n.input, words+"\n"); err != nil {
		n.s.Fatal(err)
	}
}

// hears waits for a notice of its claim.
func (n *node) hears(kind string) (found told) {
	n.s.Helper()
	n.s.eventually(kind, func() bool {
		for line := range strings.Lines(n.s.read(n.notices)) {
			var a told
			if strings.HasSuffix(line, "\n") && json.Unmarshal([]byte(line), &a) == nil && a.Kind == kind && (a.Claim != 0 || kind == "closed") {
				found = a
				return true
			}
		}
		return false
	})
	return found
}

// TestNodeHostIsSmall: what it says of itself.
func TestNodeHostIsSmall(t *testing.T) {
	for file, limit := range map[string]int{"host.mjs": 170, "directory.mjs": 130, "clock.mjs": 20, "keeper.mjs": 110} {
		text, err := os.ReadFile("nodehost/" + file)
		if lines := bytes.Count(text, []byte("\n")); err != nil || lines > limit {
			t.Errorf("%s: %d lines, %v", file, lines, err)
		}
	}
}

// TestNodeLease: it excludes the command, is excluded by it, and each takes over from the other
// that was killed; a break ends it.
func TestNodeLease(t *testing.T) {
	s := newStage(t)
	held := s.node("acquire", "n", "wait_ns=-1", "ttl_ns=20000000000")
	if a := held.hears("held"); a.Protocol != "strict" || a.Token != 1 || a.Origin != "free" {
		t.Errorf("%+v", a)
	}
	s.exits(s.start("mopslock-host", "run", "--wait", "0", "--ttl", "20s", "n", "--", "touch", "ran"), 75)
	held.says("release")
	held.hears("released")
	held.hears("closed")
	s.exits(s.start("mopslock-host", "run", "--wait", "0", "--ttl", "20s", "n", "--", "touch", "ran"), 0)

	run := s.start("mopslock-host", "run", "--ttl", "3s", "n", "--", "sh", "-c", untilEnough)
	s.begins()
	if a := s.node("acquire", "n", "ttl_ns=3000000000").hears("refused"); a.Reason != "held" {
		t.Errorf("%+v", a)
	}
	waiter := s.node("acquire", "n", "wait_ns=-1", "ttl_ns=3000000000", "on_session=true")
	waiter.hears("waiting")
	_ = run.Process.Signal(syscall.SIGKILL)
	if a := waiter.hears("held"); a.Origin != "dead" {
		t.Errorf("%+v", a)
	}
	s.exits(s.start("mopslock-host", "break", "n", "--why", "stuck"), 0)
	if a := waiter.hears("lost"); a.Reason != "broken" {
		t.Errorf("%+v", a)
	}
	last := s.node("acquire", "n", "wait_ns=-1", "ttl_ns=3000000000")
	last.hears("held")
	_ = last.Process.Signal(syscall.SIGKILL)
	s.exits(s.start("mopslock-host", "run", "--ttl", "3s", "n", "--", "true"), 0)
}

// TestNodeKeeper: a lease that the command keeps for a script excludes the command's own, and is excluded by it. The
// script is told of a break; it believes no deadline that has passed while the keeper was stopped; and when it is killed its lease
// expires.
func TestNodeKeeper(t *testing.T) {
	const long, short, atOnce = "20000000000", "3000000000", "0"
	s := newStage(t)
	first := s.script("keeper.mjs", s.store(), "n", long)
	if a := first.hears("held"); a.Token != 1 {
		t.Errorf("%+v", a)
	}
	s.exits(s.start("mopslock-host", "run", "--wait", "0", "--ttl", "20s", "n", "--", "touch", "ran"), 75)
	_ = first.input.Close()
	first.hears("released")
	s.exits(first.process, 0)

	run := s.start("mopslock-host", "run", "--ttl", "3s", "n", "--", "sh", "-c", untilEnough)
	s.begins()
	refused := s.script("keeper.mjs", s.store(), "n", short, atOnce)
	if a := refused.hears("lost"); a.Reason != "n: held" {
		t.Errorf("%+v", a)
	}
	s.exits(refused.process, 0)
	waiter := s.script("keeper.mjs", s.store(), "n", short)
	_ = run.Process.Signal(syscall.SIGKILL)
	waiter.hears("held")
	s.exits(s.start("mopslock-host", "break", "n", "--why", "stuck"), 0)
	if a := waiter.hears("lost"); a.Reason != "n: broken" {
		t.Errorf("%+v", a)
	}
	s.exits(waiter.process, 0)

	alone := s.script("keeper.mjs", s.store(), "n", short)
	keeper := alone.hears("held").Keeper
	_ = syscall.Kill(keeper, syscall.SIGSTOP)
	if a := alone.hears("lost"); a.Reason != "n: expired" {
		t.Errorf("%+v", a)
	}
	_ = syscall.Kill(keeper, syscall.SIGCONT)
	s.exits(alone.process, 0)

	last := s.script("keeper.mjs", s.store(), "n", short)
	last.hears("held")
	_ = last.Process.Signal(syscall.SIGKILL)
	s.exits(s.start("mopslock-host", "run", "--ttl", "3s", "n", "--", "true"), 0)
}

// TestNodePermitAndWork: a permit counts beside the command's, and a result is one for both.
func TestNodePermitAndWork(t *testing.T) {
	s := newStage(t)
	held := s.node("permit", "s", "wait_ns=-1", "capacity=1", "width=1")
	if a := held.hears("held"); a.Total != 1 {
		t.Errorf("%+v", a)
	}
	s.exits(s.start("mopslock-host", "permit", "s", "--capacity", "1", "--wait", "0", "--", "true"), 75)
	held.says("release")
	held.hears("released")

	work := s.node("invoke", "w", "wait_ns=-1")
	work.hears("launch")
	s.write("made", "the result\n")
	work.says("ended yes " + filepath.Join(s.dir, "made"))
	work.hears("found")
	work.hears("closed")
	p := s.start("mopslock-host", "once", "w", "--", "touch", "ran")
	s.exits(p, 0)
	if got := p.out.String(); got != "the result\n" || s.read("ran") != "" {
		t.Errorf("%q", got)
	}
}

// TestNodeRoot: the directory of a store is made once, and another one is never taken for it.
func TestNodeRoot(t *testing.T) {
	s := newStage(t)
	s.needsNode()
	script, err := filepath.Abs("nodehost/directory_test.mjs")
	if err != nil {
		t.Fatal(err)
	}
	s.exits(s.start("node", script, filepath.Join(s.dir, "mnt", "store")), 0)
}

// TestNodeMakesNone: with create=false a missing directory is not made, and stderr says so.
func TestNodeMakesNone(t *testing.T) {
	s := newStage(t)
	n := s.node("acquire", "n", "create=false")
	n.hears("refused")
	s.exits(n.process, 0)
	if _, err := os.Stat(filepath.Join(s.dir, "store")); err == nil || !strings.Contains(n.said.String(), "create=false") {
		t.Errorf("%v, %s", err, n.said.String())
	}
}
