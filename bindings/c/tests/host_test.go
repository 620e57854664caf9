//go:build linux

package tests

import (
	"fmt"
	"io"
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

// bound ends a test that hangs.
const bound = time.Minute

// theCommand builds mopslock-host, once, without a cloud's SDK.
var theCommand = sync.OnceValues(func() (string, error) {
	program := filepath.Join(scratch, "mopslock-host")
	out, err := exec.Command("go", "build", "-tags", "mopslock_nocloud", "-o", program, "github.com/mopslock/mopslock/cmd/mopslock-host").CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, out)
	}
	return program, err
})

// hosts is a directory with a store, on which the example's host and the command compete.
type hosts struct {
	*testing.T
	dir, host, command string
}

// newHosts compiles the example, with another directory.c if one is given.
func newHosts(t *testing.T, directory string, flags ...string) *hosts {
	t.Helper()
	t.Parallel()
	example := filepath.Join(c, "example")
	if directory == "" {
		directory = filepath.Join(example, "directory.c")
	}
	host := compile(t, filepath.Join(example, "host.c"), coreLibrary(t), append([]string{directory, "-I" + example}, flags...)...)
	command, err := theCommand()
	if err != nil {
		t.Fatal(err)
	}
	return &hosts{t, t.TempDir(), host, command}
}

func (s *hosts) path(name string) string { return filepath.Join(s.dir, name) }

func (s *hosts) read(name string) string {
	text, _ := os.ReadFile(s.path(name))
	return string(text)
}

func (s *hosts) eventually(what string, holds func() bool) {
	s.Helper()
	for end := time.Now().Add(bound); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			s.Fatalf("never: %s", what)
		}
	}
}

// started is a process under way. What it says on stdout and stderr goes into a file.
type started struct {
	*exec.Cmd
	s     *hosts
	input io.Closer
	said  string
	done  chan struct{}
}

// begin starts a program in the directory, with a stdin that stays open.
func (s *hosts) begin(words ...string) *started {
	s.Helper()
	p := &started{Cmd: exec.Command(words[0], words[1:]...), s: s, done: make(chan struct{})}
	out, err := os.CreateTemp(s.dir, "said-")
	if err != nil {
		s.Fatal(err)
	}
	defer out.Close()
	p.Dir, p.Stdout, p.Stderr, p.said = s.dir, out, out, filepath.Base(out.Name())
	p.Env = append(os.Environ(), "MOPSLOCK_STORE=file://"+s.path("store"), leaksFail)
	if p.input, err = p.StdinPipe(); err == nil {
		err = p.Start()
	}
	if err != nil {
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
			s.Logf("%q\n%s", words, s.read(p.said))
		}
	})
	return p
}

// holds starts the example's host on the name n, with a TTL of so many seconds.
func (s *hosts) holds(ttl int, words ...string) *started {
	s.Helper()
	return s.begin(append([]string{s.host, "-t", strconv.Itoa(ttl)}, words...)...)
}

func (p *started) says(text string) *started {
	p.s.Helper()
	p.s.eventually(text, func() bool { return strings.Contains(p.s.read(p.said), text) })
	return p
}

func (p *started) signal(signal syscall.Signal) { _ = p.Process.Signal(signal) }

func (p *started) exits(want int) {
	p.s.Helper()
	p.s.eventually("its end", func() bool {
		select {
		case <-p.done:
			return true
		default:
			return false
		}
	})
	if got := p.ProcessState.ExitCode(); got != want {
		p.s.Fatalf("%q: status %d, want %d\n%s", p.Args, got, want, p.s.read(p.said))
	}
}

// tick is a command that writes down its process and its token, and then goes on.
const tick = `echo $$ $MOPSLOCK_TOKEN >child.new && mv child.new child; while ! test -e enough; do sleep 0.02; done`

// child waits for a command that is not this one, and returns its process.
func (s *hosts) child(not int) (pid, token int) {
	s.Helper()
	s.eventually("a child", func() bool {
		n, _ := fmt.Sscan(s.read("child"), &pid, &token)
		return n == 2 && pid != not
	})
	return pid, token
}

func (s *hosts) ended(pid int) {
	s.Helper()
	s.eventually("the end of the child", func() bool {
		state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err != nil || strings.Contains(string(state), ") Z ")
	})
}

// run gives the words of the command mopslock-host run.
func (s *hosts) run(ttl string, words ...string) []string {
	return append([]string{s.command, "run", "--protocol", "strict", "--ttl", ttl}, words...)
}

// TestHostTakesTurns: the example's host excludes the command and is excluded by it. It takes over
// from a command that was killed, and the command from it; its own command ends with it. The fencing
// token grows.
func TestHostTakesTurns(t *testing.T) {
	s := newHosts(t, "", sanitize...)
	held := s.holds(60, "store", "n").says("held token 1\n")
	s.begin(s.run("60s", "--wait", "0", "n", "--", "touch", "ran")...).exits(75)
	_ = held.input.Close()
	held.says("released").exits(0)
	s.begin(s.run("60s", "--wait", "0", "n", "--", "touch", "ran")...).exits(0)

	theirs := s.begin(s.run("3s", "n", "--", "sh", "-c", tick)...)
	pid, before := s.child(0)
	s.holds(3, "-w", "0", "store", "n", "touch", "never").says("refused held").exits(75)
	waiter := s.holds(3, "store", "n", "sh", "-c", tick).says("waiting")
	theirs.signal(syscall.SIGKILL)
	waiter.says("held")
	pid, after := s.child(pid)
	if after <= before || s.read("never") != "" {
		t.Errorf("token %d after %d", after, before)
	}
	waiter.signal(syscall.SIGKILL)
	s.ended(pid)
	s.begin(s.run("3s", "n", "--", "true")...).exits(0)
}

// TestHostLoses: the command of the example's host is killed when the lease is lost: broken by a
// person; past its deadline while the host was stopped; with a store that hangs, or has gone.
func TestHostLoses(t *testing.T) {
	for name, lose := range map[string]func(s *hosts, p *started){
		"broken": func(s *hosts, p *started) {
			s.begin(s.command, "break", "n", "--why", "stuck").exits(0)
			p.says("lost broken")
		},
		"stopped": func(s *hosts, p *started) {
			p.signal(syscall.SIGSTOP)
			s.begin(s.run("3s", "n", "--", "true")...).exits(0)
			p.signal(syscall.SIGCONT)
		},
		"hangs": func(s *hosts, p *started) {
			if err := os.WriteFile(s.path("hang"), nil, 0o600); err != nil {
				s.Fatal(err)
			}
			p.says("lost unreachable")
			_ = os.Remove(s.path("hang")) // or it would not be closed for ten seconds
		},
		"moved": func(s *hosts, p *started) {
			if err := os.Rename(s.path("store"), s.path("away")); err != nil {
				s.Fatal(err)
			}
			p.says("mount it or move it back").says("lost unreachable")
			if _, err := os.Stat(s.path("store")); err == nil {
				s.Error("the directory was made again")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newHosts(t, "testdata/hanging.c", sanitize...)
			p := s.holds(3, "store", "n", "sh", "-c", tick)
			pid, _ := s.child(0)
			lose(s, p)
			s.ended(pid)
			p.exits(76)
		})
	}
}

// TestHostEnds: its status is the command's; a signal is passed on, and ends a wait; wrong words
// begin nothing.
func TestHostEnds(t *testing.T) {
	s := newHosts(t, "", sanitize...)
	s.holds(60, "store", "n", "sh", "-c", "exit 7").says("released").exits(7)
	s.holds(60, "store", "n", "no-such-command").says("no-such-command").exits(127)
	held := s.holds(60, "store", "n", "sh", "-c", `trap "exit 9" TERM; `+tick)
	s.child(0)
	waiter := s.holds(60, "store", "n", "touch", "never").says("waiting")
	waiter.signal(syscall.SIGTERM)
	waiter.exits(128 + int(syscall.SIGTERM))
	held.signal(syscall.SIGTERM)
	held.says("released").exits(9)
	s.holds(60, "store", "a//b", "touch", "never").says("refused").exits(64)
	s.holds(60, "store").says("usage").exits(64)
	if s.read("never") != "" {
		t.Error("it ran")
	}
}

// TestHostBridges: a name that mops keeps by its lock.json is kept so that mops sees it, with a token.
func TestHostBridges(t *testing.T) {
	s := newHosts(t, "", sanitize...)
	s.begin(s.command, "run", "--protocol", "lastwriter", "--ttl", "60s", "n", "--", "true").exits(0)
	held := s.holds(60, "store", "n").says("held token 1\n")
	s.begin(s.command, "run", "--protocol", "lastwriter", "--wait", "0", "--ttl", "60s", "n", "--", "touch", "ran").exits(75)
	held.signal(syscall.SIGTERM)
	held.says("released").exits(128 + int(syscall.SIGTERM))
}

// TestDirectory: what the program says at its top.
func TestDirectory(t *testing.T) {
	t.Parallel()
	example := filepath.Join(c, "example")
	made := compile(t, "testdata/directory.c", coreLibrary(t), append([]string{"-I" + example}, sanitize...)...)
	command(t, []string{leaksFail}, made, t.TempDir())
}
