//go:build linux || darwin

package child

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"

	"github.com/creack/pty"
)

// onTerminal starts a helper as the leader of a session on a new pty.
func onTerminal(t *testing.T, command *exec.Cmd, mode string) (*os.File, *transcript) {
	t.Helper()
	command.Env = append(os.Environ(), "HOST_MODE="+mode)
	master, err := pty.Start(command)
	if err != nil {
		t.Skip("no pty: ", err)
	}
	says := newTranscript(t, master)
	killAtEnd(t, command)
	return master, says
}

func typeIn(t *testing.T, master *os.File, text string) {
	t.Helper()
	if _, err := master.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

const ctrlC, ctrlZ = "\x03", "\x1a"

func TestForegroundIsTheCommandsWhileItRuns(t *testing.T) {
	host := helperCommand("host", "sh", "-c", "read line; echo got $line; exit 6")
	master, says := onTerminal(t, host, "linger")
	pid := says.expectPid("host started")
	if got := foregroundOf(t, master); got != pid {
		t.Errorf("foreground group %d, want the command's %d", got, pid)
	}
	typeIn(t, master, "hello\n")
	says.expect("got hello")
	says.expect("host ended exit status 6")
	if got := foregroundOf(t, master); got != host.Process.Pid {
		t.Errorf("foreground group %d, want ours again, %d", got, host.Process.Pid)
	}
}

// The child takes the terminal before its exec fails.
func TestForegroundComesBackWhenTheCommandCannotBeExecuted(t *testing.T) {
	script := t.TempDir() + "/script"
	if err := os.WriteFile(script, []byte("#!/no/such/interpreter\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	host := helperCommand("host", script)
	master, says := onTerminal(t, host, "linger")
	says.expect("host failed")
	if got := foregroundOf(t, master); got != host.Process.Pid {
		t.Errorf("foreground group %d, want ours, %d", got, host.Process.Pid)
	}
}

// shell is helperShell on a terminal, and a way to tell it fg or bg.
type shell struct {
	*transcript
	t      *testing.T
	master *os.File
	orders *os.File
	pid    int
}

func startShell(t *testing.T, where, mode string, argv ...string) *shell {
	t.Helper()
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = writer.Close() })
	command := helperCommand("shell", append([]string{where}, asHelper("host", argv...)...)...)
	command.ExtraFiles = []*os.File{reader}
	master, says := onTerminal(t, command, mode)
	_ = reader.Close()
	return &shell{transcript: says, t: t, master: master, orders: writer, pid: command.Process.Pid}
}

func (s *shell) order(text string) {
	s.t.Helper()
	if _, err := fmt.Fprintln(s.orders, text); err != nil {
		s.t.Fatal(err)
	}
}

func (s *shell) expectForeground(who string, group int) {
	s.t.Helper()
	eventually(s.t, fmt.Sprintf("the foreground group is %s, %d", who, group), func() bool {
		return foregroundOf(s.t, s.master) == group
	})
}

// Ctrl-Z stops the command, then us; fg continues us, then the command, with the terminal. Three times over.
func TestCtrlZAndForeground(t *testing.T) {
	s := startShell(t, "fg", "", "sh", "-c", "while read line; do echo got $line; done; exit 5")
	job := s.expectPid("shell job")
	pid := s.expectPid("host started")
	for round := range 3 {
		s.expectForeground("the command's", pid)
		typeIn(t, s.master, ctrlZ)
		s.expect("host stopping")
		s.expect("shell: job stopped")
		s.expectForeground("the shell's", s.pid)
		for _, stopped := range []int{job, pid} {
			if state := processState(stopped); state != "T" {
				t.Errorf("process %d is in state %q, want T", stopped, state)
			}
		}
		s.order("fg")
		s.expect("host continued")
		s.expectForeground("the command's", pid)
		typeIn(t, s.master, fmt.Sprintf("round%d\n", round))
		s.expect(fmt.Sprintf("got round%d", round))
	}
	typeIn(t, s.master, "\x04") // end of file
	s.expect("host ended exit status 5")
	s.expect("shell: job ended 5")
	s.expectForeground("the shell's", s.pid)
}

// After bg the command runs without the terminal; its first read stops the job; fg gives it the terminal.
func TestCtrlZAndBackground(t *testing.T) {
	awake := fifo(t)
	s := startShell(t, "fg", "", "sh", "-c",
		`read go <"$1"; echo awake; while read line; do echo got $line; done; exit 5`, "sh", awake)
	pid := s.expectPid("host started")
	typeIn(t, s.master, ctrlZ)
	s.expect("shell: job stopped")
	s.order("bg")
	if err := os.WriteFile(awake, []byte("go\n"), 0); err != nil {
		t.Fatal(err)
	}
	s.expect("awake")
	s.expect("host stopping") // SIGTTIN
	s.expect("shell: job stopped")
	s.order("fg")
	s.expectForeground("the command's", pid)
	typeIn(t, s.master, "hello\n\x04")
	s.expect("got hello")
	s.expect("shell: job ended 5")
}

// OnContinue says no (the lease expired while we were stopped): the command does not run another instruction.
func TestContinuationRefused(t *testing.T) {
	s := startShell(t, "fg", "refuse", "sh", "-c", "while read line; do echo got $line; done")
	job := s.expectPid("shell job")
	pid := s.expectPid("host started")
	typeIn(t, s.master, ctrlZ)
	s.expect("shell: job stopped")
	s.order("fg")
	s.expect("host continued")
	for range 3 {
		if err := syscall.Kill(job, syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Kill(job, syscall.SIGWINCH); err != nil { // forwarded after the three, and harmless
		t.Fatal(err)
	}
	if state := processState(pid); state != "T" {
		t.Errorf("the command is in state %q, want T", state)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.expect("host ended ended by signal 9")
}

// A job started with & leaves the terminal alone, and is not stopped by SIGTTOU.
func TestBackgroundJobLeavesTheTerminalAlone(t *testing.T) {
	s := startShell(t, "bg", "", "sh", "-c", "echo ran; exit 5")
	s.expect("host started")
	s.expectForeground("the shell's", s.pid)
	s.expect("host ended exit status 5")
	s.expect("shell: job ended 5")
	s.expectForeground("the shell's", s.pid)
}

// A job started with & gets the terminal when it comes to the foreground, and Ctrl-Z works then.
func TestBackgroundJobComesToTheForeground(t *testing.T) {
	s := startShell(t, "bg", "", "sleep", "1000")
	pid := s.expectPid("host started")
	s.expectForeground("the shell's", s.pid)
	s.order("fg")
	s.expectForeground("the command's", pid)
	typeIn(t, s.master, ctrlZ)
	s.expect("shell: job stopped")
	s.order("fg")
	s.expectForeground("the command's", pid)
	typeIn(t, s.master, ctrlC)
	s.expect("shell: job ended 130")
}

// Where nobody could say fg (our group is orphaned: the first process of a container), Ctrl-Z does nothing.
func TestCtrlZWithoutAShell(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the kernel's rule is Linux's here")
	}
	host := helperCommand("host", "sh", "-c", "while read line; do echo got $line; done; exit 5")
	master, says := onTerminal(t, host, "")
	says.expect("host started")
	typeIn(t, master, ctrlZ)
	says.expect("host continued")
	typeIn(t, master, "hello\n\x04")
	says.expect("got hello")
	if got := exitOf(t, host); got != 5 {
		t.Errorf("exit %d", got)
	}
}

// In a pipeline the terminal stays with its reader until the command asks for it.
func TestPipelineGetsTheTerminalOnDemand(t *testing.T) {
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	host := helperCommand("host", "sh", "-c", `echo before; read go <"$1"; read line; echo got $line; exit 5`, "sh", fifo(t))
	host.Stdout = writer
	master, _ := onTerminal(t, host, "")
	_ = writer.Close()
	says := newTranscript(t, reader)
	pid := says.expectPid("host started")
	if got := foregroundOf(t, master); got != host.Process.Pid {
		t.Errorf("foreground group %d, want ours, %d", got, host.Process.Pid)
	}
	if err := os.WriteFile(host.Args[len(host.Args)-1], []byte("go\n"), 0); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the command has the terminal", func() bool { return foregroundOf(t, master) == pid })
	typeIn(t, master, "hello\n")
	says.expect("got hello")
	if got := exitOf(t, host); got != 5 {
		t.Errorf("exit %d", got)
	}
}

// fifo lets a shell wait with built-ins alone. (dash starts its commands by vfork: a Ctrl-Z in the middle of that stops
// its child but leaves itself waiting, unstoppable, under any shell.)
func fifo(t *testing.T) string {
	t.Helper()
	path := t.TempDir() + "/fifo"
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
