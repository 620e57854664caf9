//go:build unix

package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// terminal is a process that leads a session on a pty.
type terminal struct {
	*process
	master *os.File
	ended  chan struct{} // closed when nobody can write to it any more and all was read
}

const ctrlC = "\x03"

func (s *scene) onTerminal(width uint16, words ...string) *terminal {
	s.Helper()
	p := &process{scene: s, cmd: exec.Command(words[0], words[1:]...), out: new(transcript), err: new(transcript)}
	p.cmd.Dir, p.cmd.Env = s.dir, append(s.environment(), "PS1=$ ", "ENV=", "TERM=dumb")
	master, err := pty.StartWithSize(p.cmd, &pty.Winsize{Rows: 24, Cols: width})
	if err != nil {
		s.Skip("no pty: ", err)
	}
	if err := pollable(master); err != nil {
		s.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { // ends with the last writer on the other side, or with Close
		defer close(ended)
		buffer := make([]byte, 4096)
		for {
			n, err := master.Read(buffer)
			_, _ = p.out.Write(buffer[:n])
			if err != nil {
				return
			}
		}
	}()
	s.Cleanup(func() {
		killSession(p.cmd.Process.Pid)
		p.wait()
		_ = master.Close()
		<-ended
		if s.Failed() {
			s.Logf("on the terminal: %q", p.out)
		}
	})
	return &terminal{p, master, ended}
}

// killSession kills whoever is left on the terminal of a session that pid leads, or
// led: jobs that are stopped hear nothing else.
func killSession(pid int) {
	_ = syscall.Kill(pid, syscall.SIGKILL)
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") // none where there is no /proc
	for _, path := range stats {
		text, _ := os.ReadFile(path)
		_, fields, _ := strings.Cut(string(text), ") ") // state, parent, group, session
		member, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if f := strings.Fields(fields); err == nil && len(f) > 3 && f[3] == strconv.Itoa(pid) {
			_ = syscall.Kill(member, syscall.SIGKILL)
		}
	}
}

// pollable undoes what the package pty does to its files: on a blocking one Close waits for a Read, and that for
// whatever is left on the terminal, be it for ever.
func pollable(file *os.File) error {
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var blocking error
	return errors.Join(raw.Control(func(fd uintptr) { blocking = unix.SetNonblock(int(fd), true) }), blocking)
}

func (t *terminal) shows(text string) {
	t.Helper()
	t.eventually("on the terminal: "+text, func() bool { return strings.Contains(t.out.String(), text) })
}

// mustExit is the process', and waits for the last of what it printed.
func (t *terminal) mustExit(status int) {
	t.Helper()
	t.process.mustExit(status)
	t.eventually("the end of the output", func() bool {
		select {
		case <-t.ended:
			return true
		default:
			return false
		}
	})
}

func (t *terminal) types(text string) {
	t.Helper()
	if _, err := t.master.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

func (t *terminal) foreground() (group int) {
	t.Helper()
	raw, err := t.master.SyscallConn() // Fd would make it blocking: Close would wait for Read
	if err != nil {
		t.Fatal(err)
	}
	controlErr := raw.Control(func(fd uintptr) { group, err = unix.IoctlGetInt(int(fd), unix.TIOCGPGRP) })
	if err := errors.Join(err, controlErr); err != nil {
		t.Fatal(err)
	}
	return group
}

// While CMD runs the terminal is its group's: it reads, and Ctrl-C is for it alone.
func TestTerminalIsTheCommands(t *testing.T) {
	s := newScene(t)
	p := s.onTerminal(80, "mopslock-host", "run", "--protocol", "lastwriter", "n", "--", "sh", "-c", `echo $$ >pid; read line; echo "got $line"; trap "exit 6" INT; echo ready; while :; do sleep 0.05; done`)
	pid := s.pidIn("pid")
	if got := p.foreground(); got != pid {
		t.Errorf("foreground group %d, want the command's, %d", got, pid)
	}
	p.types("hello\n")
	p.shows("got hello")
	p.shows("ready")
	p.types(ctrlC)
	p.mustExit(6)
	if s.field("released_at") == "" {
		t.Error("not released")
	}
}

// Waiting shows one live line: who holds it, on which host, since when, when it can expire. It is cleared in the end.
func TestLiveLine(t *testing.T) {
	besideOthers(t)
	for name, width := range map[string]uint16{"wide": 200, "narrow": 80} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			s.theirs("holder=3f0c2b1a-5d6e-4f70-8192-a3b4c5d6e7f8", "host=build-07")
			p := s.onTerminal(width, "mopslock-host", "run", "--protocol", "lastwriter", "n", "--", "sh", "-c", "echo it runs")
			p.shows("waiting for n: held by 3f0c2b1a")
			p.shows(" on build-07")
			p.shows("since ")
			p.shows(", can expire in 1m2")
			s.theirs("written=", "released=0s")
			p.mustExit(0)
			p.shows("it runs")
			before, _, _ := strings.Cut(p.out.String(), "it runs")
			if !strings.HasSuffix(before, "\r\x1b[K") {
				t.Errorf("the live line was not cleared: %q", before)
			}
			if strings.Contains(before, "\n") {
				t.Errorf("more than one line: %q", before)
			}
		})
	}
}

// On a terminal break shows whom it concerns and asks, and says before it asks what may come of it.
func TestBreakAsks(t *testing.T) {
	besideOthers(t)
	for name, c := range map[string]struct {
		types  string
		flags  []string
		status int
		broken bool
	}{
		"yes":   {types: "y\n", status: 0, broken: true},
		"now":   {types: "yes\n", flags: []string{"--now"}, status: 0, broken: true},
		"no":    {types: "n\n", status: statusNothing},
		"enter": {types: "\n", status: statusNothing},
		"ctrlC": {types: ctrlC, status: 128 + int(syscall.SIGINT)},
		"--yes": {flags: []string{"--yes", "--now"}, status: 0, broken: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			s.host("acquire", "a.json", "--protocol", "strict", "--ttl", "10m", "n").mustExit(0)
			words := append([]string{"mopslock-host", "break", "n", "--why", "it hangs"}, c.flags...)
			p := s.onTerminal(80, words...)
			if c.types != "" {
				p.shows("Break it? [y/N] ")
				p.types(c.types)
			}
			p.mustExit(c.status)
			text := p.out.String()
			before, _, asked := strings.Cut(text, "Break it?")
			if asked == (c.types == "") || asked && !strings.Contains(before, "state      held") {
				t.Errorf("asked %v: %q", asked, text)
			}
			if len(c.flags) > 0 && !strings.Contains(before, "--now frees the name at once") {
				t.Errorf("not said before: %q", text)
			}
			status := s.start("mopslock-host", "status", "n")
			status.wait()
			if broken := strings.Contains(status.out.String(), "broken by"); broken != c.broken {
				t.Errorf("broken %v: %s", broken, status.out)
			}
		})
	}
}

// A long search shows how far it is, and takes the line away.
func TestExploreShowsProgress(t *testing.T) {
	s := newScene(t)
	p := s.onTerminal(80, "mopslock-host", "explore", "--protocol", "lastwriter", "--states", "200000")
	p.mustExit(0)
	p.shows("explored ")
	p.shows(" states of lastwriter\r\x1b[K")
	p.shows("no violation found")
}

// A signal ends a search and a swarm: 128+N, nothing is printed, and what was drawn before is still there.
func TestSignalEndsASearch(t *testing.T) {
	besideOthers(t)
	for name, words := range map[string][]string{
		"explore":               {"explore", "--states", "100000000"},
		"explore, new picture":  {"explore", "--states", "100000000", "--svg", "new.svg"},
		"explore, old picture":  {"explore", "--states", "100000000", "--svg", "old.svg"},
		"simulate":              {"simulate", "--seeds", "1000000"},
		"simulate, new picture": {"simulate", "--seeds", "1000000", "--svg", "new.svg"},
		"simulate, old picture": {"simulate", "--seeds", "1000000", "--svg", "old.svg"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			s.write("old.svg", "drawn before\n")
			p := s.onTerminal(80, append([]string{"mopslock-host"}, words...)...)
			p.shows(map[string]string{"explore": "explored ", "simulate": "played "}[words[0]]) // it is at work
			p.signal(syscall.SIGTERM)
			p.mustExit(128 + int(syscall.SIGTERM))
			if text := p.out.String(); !strings.HasSuffix(text, "\r\x1b[K") || strings.Contains(text, "\n") {
				t.Errorf("more than a live line, which was cleared: %q", text)
			}
			if s.exists("new.svg") || s.read("old.svg") != "drawn before\n" {
				t.Error("something was drawn")
			}
		})
	}
}

func TestCtrlCWhileWaiting(t *testing.T) {
	s := newScene(t)
	before := s.theirs()
	p := s.onTerminal(80, "mopslock-host", "run", "--protocol", "lastwriter", "n", "--", "touch", "ran")
	p.shows("can expire in")
	p.types(ctrlC)
	p.mustExit(128 + int(syscall.SIGINT))
	if !strings.HasSuffix(p.out.String(), "\r\x1b[K") {
		t.Errorf("the live line was not cleared: %q", p.out)
	}
	if s.record() != before || s.exists("ran") {
		t.Error("something was done all the same")
	}
}

// A job in the background of an interactive shell leaves the terminal alone, and its status is CMD's.
func TestBackgroundOfAShell(t *testing.T) {
	shell, err := exec.LookPath("bash")
	if err != nil {
		t.Skip(err)
	}
	s := newScene(t)
	p := s.onTerminal(80, shell, "--norc", "--noprofile", "-i")
	p.types("mopslock-host run --protocol lastwriter n -- sh -c 'echo >up; while ! test -e enough; do sleep 0.05; done; exit 4' &\n")
	s.eventually("the command", func() bool { return s.exists("up") })
	p.types("echo shell-$((6*7))\n")
	p.shows("shell-42")
	if got := p.foreground(); got != p.cmd.Process.Pid {
		t.Errorf("foreground group %d, want the shell's", got)
	}
	s.write("enough", "")
	p.types("wait $!; echo status-$?\n")
	p.shows("status-4")
}

// Ctrl-Z stops the renewals with the command. Beyond the deadline fg brings the end: 76, and the command does not run
// another instruction. The command starts none of its own: a shell that is waiting for its vfork while that is stopped
// is not stopped itself, and whoever waits for it to stop, an interactive shell too, waits for ever.
func TestCtrlZBeyondTheDeadline(t *testing.T) {
	shell, err := exec.LookPath("bash")
	if err != nil {
		t.Skip(err)
	}
	s := newScene(t)
	p := s.onTerminal(80, shell, "--norc", "--noprofile", "-i")
	p.types("mopslock-host run --protocol lastwriter --ttl " + ttl(6) + " --fleet-expire none n -- sh -c 'echo $$ >pid; while :; do echo >ran; done'\n")
	pid := s.pidIn("pid")
	p.types("\x1a")
	p.shows("stopped; the lease is not renewed meanwhile")
	p.shows("Stopped")
	s.eventually("the end of the TTL", func() bool {
		written, err := time.Parse(time.RFC3339, s.field("written_at"))
		return err == nil && time.Since(written) > time.Duration(ttlSeconds(6))*time.Second
	})
	if err := os.Remove(s.path("ran")); err != nil {
		t.Fatal(err)
	}
	p.types("fg; echo status-$?\n")
	p.shows("status-76")
	s.gone(pid)
	if s.exists("ran") {
		t.Error("the command ran on")
	}
}

// Waiting for a result shows one live line: who computes it, on which host, since when, how long others took. It is
// cleared in the end, and the launcher's output is not taken for it.
func TestLiveLineOfInvoke(t *testing.T) {
	besideOthers(t)
	for name, width := range map[string]uint16{"wide": 250, "narrow": 80} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			s.host("acquire", "a.json", "--protocol", "strict", "--ttl", "10m", "part/1").mustExit(0)
			s.put("part/1/result", "one\n")
			took := s.began("part/1", 250*time.Second)
			holder := s.host("acquire", "b.json", "--protocol", "strict", "--ttl", "10m", "part/2")
			holder.mustExit(0)
			p := s.onTerminal(width, "mopslock-host", "invoke", "part/2", "--", "touch", "ran")
			p.shows("computed by ")
			p.shows(" since ")
			p.shows(took)
			s.put("part/2/result", "two\n")
			p.mustExit(0)
			text := p.out.String()
			before, found := strings.CutSuffix(text, "two\r\n")
			if !found || !strings.HasSuffix(before, "\r\x1b[K") || strings.Contains(before, "\n") {
				t.Errorf("not one live line, cleared before the result: %q", text)
			}
			for line := range strings.SplitSeq(before, "\r\x1b[K") {
				if len([]rune(line)) >= int(width) {
					t.Errorf("%d columns: %q", len([]rune(line)), line)
				}
			}
			if s.exists("ran") {
				t.Error("launched")
			}
		})
	}
}

// began makes the only version of a name so old, and returns what is said of how long
// its work took. A server stamps its objects itself: of no time nothing is said.
func (s *scene) began(name string, ago time.Duration) (took string) {
	s.Helper()
	if !onDirectories() {
		return ""
	}
	old := time.Now().Add(-ago)
	versions, err := filepath.Glob(s.path("store/" + name + "/_mopslock/*/v"))
	if err != nil || len(versions) != 1 {
		s.Fatal(versions, err)
	}
	if err := os.Chtimes(versions[0], old, old); err != nil {
		s.Fatal(err)
	}
	return ", others took 4m1"
}

// The launcher has the terminal while it runs, and its stdout is our stderr.
func TestTerminalIsTheLaunchers(t *testing.T) {
	s := newScene(t)
	p := s.onTerminal(80, "mopslock-host", "invoke", "n", "--", "sh", "-c",
		`echo $$ >pid; read line; echo "got $line"; test -t 0 && test -t 1 && test -t 2 && echo result | sh-object put - n/result`)
	pid := s.pidIn("pid")
	if got := p.foreground(); got != pid {
		t.Errorf("foreground group %d, want the launcher's, %d", got, pid)
	}
	p.types("hello\n")
	p.mustExit(0)
	p.shows("got hello\r\nresult\r\n")
}
