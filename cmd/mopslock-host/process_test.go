//go:build unix

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/exit"
)

// The kernel's tier: real processes on a directory, for what only a kernel shows. They wait for events.

// bound ends a test that hangs; nothing else is asserted about time.
const bound = time.Minute

// scene is a directory with a store in it, and the processes of one test.
type scene struct {
	*testing.T
	dir string
}

func newScene(t *testing.T) *scene {
	t.Parallel()
	return &scene{t, t.TempDir()}
}

// process is one that was started: its output is a terminal's, or pipes'.
type process struct {
	*scene
	cmd      *exec.Cmd
	out, err *transcript
	once     sync.Once
	master   *os.File // of its terminal, or nil
	read     chan struct{}
}

func (s *scene) command(words ...string) *process {
	p := &process{scene: s, cmd: exec.Command(words[0], words[1:]...), out: new(transcript), err: new(transcript), read: make(chan struct{})}
	p.cmd.Dir = s.dir
	p.cmd.Env = append(os.Environ(), "MOPSLOCK_STORE=file://"+s.path("store"), "MOPSLOCK_LEASE=", "MOPSLOCK_HELD=", "TMPDIR="+s.dir, "PS1=$ ", "ENV=", "TERM=dumb")
	s.Cleanup(func() {
		killGroups(p.cmd.Process.Pid)
		p.wait()
		if p.master != nil {
			_ = p.master.Close()
			<-p.read
		}
		if s.Failed() {
			s.Logf("%q\nstdout: %s\nstderr: %s", words, p.out, p.err)
		}
	})
	return p
}

// start starts a command in the scene's directory and a group of its own.
func (s *scene) start(words ...string) *process {
	s.Helper()
	p := s.command(words...)
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.err
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.WaitDelay = bound // grandchildren that hold our pipes
	if err := p.cmd.Start(); err != nil {
		s.Fatal(err)
	}
	return p
}

func (s *scene) host(words ...string) *process {
	s.Helper()
	return s.start(append([]string{"mopslock-host"}, words...)...)
}

// onTerminal starts it as the leader of a session on a pty.
func (s *scene) onTerminal(width uint16, words ...string) *process {
	s.Helper()
	p := s.command(words...)
	master, err := pty.StartWithSize(p.cmd, &pty.Winsize{Rows: 24, Cols: width})
	if err != nil {
		s.Skip("no pty: ", err)
	}
	p.master = master
	p.onMaster(func(fd int) (err error) { return unix.SetNonblock(fd, true) }) // else Close waits for Read
	go func() {                                                                // ends with the last writer on the other side, or with Close
		defer close(p.read)
		buffer := make([]byte, 4096)
		for {
			n, err := master.Read(buffer)
			_, _ = p.out.Write(buffer[:n])
			if err != nil {
				return
			}
		}
	}()
	return p
}

func (p *process) onMaster(do func(fd int) error) {
	p.Helper()
	raw, err := p.master.SyscallConn() // Fd would make it blocking
	if err == nil {
		controlErr := raw.Control(func(fd uintptr) { err = do(int(fd)) })
		err = errors.Join(err, controlErr)
	}
	if err != nil {
		p.Fatal(err)
	}
}

func (p *process) types(text string) {
	p.Helper()
	if _, err := p.master.WriteString(text); err != nil {
		p.Fatal(err)
	}
}

// killGroups kills a process and all that is left of its group and its session: a stopped job acts on no other signal.
func killGroups(pid int) {
	_ = syscall.Kill(pid, syscall.SIGKILL)
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") // none where there is no /proc
	for _, path := range stats {
		text, _ := os.ReadFile(path)
		_, fields, _ := strings.Cut(string(text), ") ") // state, parent, group, session
		member, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if f := strings.Fields(fields); err == nil && len(f) > 3 && (f[2] == strconv.Itoa(pid) || f[3] == strconv.Itoa(pid)) {
			_ = syscall.Kill(member, syscall.SIGKILL)
		}
	}
}

// wait returns the exit status, or minus the signal that ended it.
func (p *process) wait() int {
	p.once.Do(func() {
		timer := time.AfterFunc(bound, func() { killGroups(p.cmd.Process.Pid) })
		defer timer.Stop()
		_ = p.cmd.Wait()
	})
	if status := p.cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signaled() {
		return -int(status.Signal())
	}
	return p.cmd.ProcessState.ExitCode()
}

func (p *process) mustExit(want int) {
	p.Helper()
	if got := p.wait(); got != want {
		p.Fatalf("exit status %d, want %d", got, want)
	}
	if p.master != nil {
		<-p.read // the last of what it printed
	}
}

func (p *process) signal(sig syscall.Signal) {
	p.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.Fatal(err)
	}
}

func (p *process) says(text string) {
	p.Helper()
	p.eventually(text, func() bool { return strings.Contains(p.err.String()+p.out.String(), text) })
}

// eventually is how these tests wait.
func (s *scene) eventually(what string, holds func() bool) {
	s.Helper()
	for end := time.Now().Add(bound); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if holds() {
			return
		}
	}
	s.Fatalf("never: %s", what)
}

func (s *scene) path(name string) string { return filepath.Join(s.dir, name) }

func (s *scene) comes(name string) {
	s.Helper()
	s.eventually(name, func() bool { return exists(s.path(name)) })
}

func (s *scene) read(name string) string {
	text, _ := os.ReadFile(s.path(name))
	return string(text)
}

func (s *scene) write(name, text string) {
	s.Helper()
	path := s.path(name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path+".new", []byte(text), 0o666), os.Rename(path+".new", path)); err != nil {
		s.Fatal(err)
	}
}

// pidIn waits for a file with a process id in it.
func (s *scene) pidIn(name string) (pid int) {
	s.Helper()
	s.eventually("a pid in "+name, func() bool {
		_, err := fmt.Sscanf(s.read(name), "%d\n", &pid)
		return err == nil && strings.HasSuffix(s.read(name), "\n")
	})
	return pid
}

// gone waits for a process to end.
func (s *scene) gone(pid int) {
	s.Helper()
	s.eventually(fmt.Sprintf("the end of process %d", pid), func() bool { return !alive(pid) })
}

// alive is false for a zombie, which may stay forever in a container.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	state, err := exec.Command("ps", "-o", "state=", "-p", strconv.Itoa(pid)).Output()
	return err == nil && !strings.HasPrefix(strings.TrimSpace(string(state)), "Z")
}

// state is what status says of a name.
func (s *scene) state(name string) string {
	s.Helper()
	p := s.host("status", "--json", name)
	p.wait()
	return p.out.String()
}

// waits is a shell's script that goes on when there is a file.
func waits(file string) string { return "while ! test -e " + file + "; do sleep 0.02; done; " }

// Scripts of real processes, each with a directory as its store.
func TestProcesses(t *testing.T) { runScripts(t, "testdata/process") }

func runScripts(t *testing.T, dir string) {
	testscript.Run(t, testscript.Params{
		Dir:                 dir,
		RequireUniqueNames:  true,
		RequireExplicitExec: true,
		Deadline:            time.Now().Add(2 * bound), // only ends what hangs
		Setup: func(env *testscript.Env) error {
			env.Vars = append(env.Vars, "MOPSLOCK_STORE=file://"+filepath.Join(env.WorkDir, "store"), "XDG_STATE_HOME="+filepath.Join(env.WorkDir, "state"))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": func(ts *testscript.TestScript, _ bool, args []string) {
				var failed *exec.ExitError
				if err := ts.Exec(args[1], args[2:]...); !errors.As(err, &failed) || strconv.Itoa(failed.ExitCode()) != args[0] {
					ts.Fatalf("%v, want %s", err, args[0])
				}
			},
		},
	})
}

// If mopslock-host is killed its command goes with it (Linux), and leaves neither a status nor a file behind; but
// invoke's launcher is to outlive its orchestrator.
func TestKilledHostTakesItsCommandAlong(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("no parent-death signal here")
	}
	for name, words := range map[string][]string{
		"run": {"run", "n"}, "permit": {"permit", "n", "--capacity", "1"}, "once": {"once", "n"},
		"remote": {"remote", "n", "--without-lease"}, "invoke": {"invoke", "n"},
		"accompany": {"accompany", "--without-lease", "--lease", `{"name":"n","store":"file:///dev/shm/nowhere","protocol":"strict","holder":"h","epoch":1,"token":1,"ttl_s":60,"first_acquired_at":"2025-01-01T00:00:00Z"}`},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			p := s.host(append(words, "--status-file", "s.json", "--", "sh", "-c", `trap "" TERM; echo half; echo $$ >pid; `+waits("enough")+"exec true")...)
			pid := s.pidIn("pid")
			p.signal(syscall.SIGKILL)
			if s.gone(p.cmd.Process.Pid); name == "invoke" {
				if !alive(pid) {
					t.Error("the launcher was killed with its orchestrator")
				}
				s.write("enough", "")
			}
			s.gone(pid)
			if left, _ := filepath.Glob(s.path("mopslock-*")); len(left) > 0 || s.read("s.json") != "" || exists(s.path("store/n/result")) {
				t.Errorf("left behind: %q, %s", left, s.read("s.json"))
			}
		})
	}
}

// A holder that is paused past its deadline ends with 76 as soon as it wakes, with its command's whole group, and
// the next holder is not disturbed.
func TestPausedHolder(t *testing.T) {
	for name, words := range map[string]string{
		"strict": "run --protocol strict", "lastwriter": "run --protocol lastwriter --fleet-expire none", "permit": "permit --capacity 1 --width 1",
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			verb := strings.Fields(words)
			first := s.host(append(verb, "--status-file", "s.json", "--ttl", "3s", "n", "--", "sh", "-c",
				`trap "" TERM; sleep 300 & echo $! >grandchild; echo $$ >pid; while :; do sleep 0.1; done`)...)
			pid, grandchild := s.pidIn("pid"), s.pidIn("grandchild")
			first.signal(syscall.SIGSTOP)
			second := s.host(append(verb, "--ttl", "88s", "n", "--", "sh", "-c", "echo >up; "+waits("enough")+"exit 5")...)
			s.comes("up")
			if !alive(pid) {
				t.Error("the first command was to run on, unwatched")
			}
			first.signal(syscall.SIGCONT)
			first.mustExit(exit.StatusLost)
			if text := s.read("s.json"); text != `{"by":"mopslock","status":76,"reason":"expired"}`+"\n" {
				t.Error(text)
			}
			s.gone(pid)
			s.gone(grandchild)
			s.write("enough", "")
			second.mustExit(5)
		})
	}
}
