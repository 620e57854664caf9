//go:build linux || darwin

package child

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

func send(t *testing.T, command *exec.Cmd, sig syscall.Signal) {
	t.Helper()
	if err := command.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

// Every signal reaches the whole group, not the command alone.
func TestEverySignalIsForwarded(t *testing.T) {
	host := helperCommand("host", append([]string{"sh", "-c", `trap : INT TERM HUP QUIT USR1 USR2 WINCH TSTP; "$@"; exit 9`, "sh"}, asHelper("catch")...)...)
	says := startPiped(t, host, "again")
	says.expect("catch ready")
	for _, sig := range forwardedSignals {
		if sig != syscall.SIGQUIT {
			send(t, host, sig)
			says.expect(fmt.Sprintf("caught %d", int(sig)))
		}
	}
	send(t, host, syscall.SIGPIPE) // dropped: neither forwarded nor our end
	send(t, host, syscall.SIGQUIT)
	says.expect(fmt.Sprintf("caught %d", int(syscall.SIGQUIT)))
	says.expect("host ended exit status 9")
	send(t, host, syscall.SIGTERM)
	send(t, host, syscall.SIGHUP)
	says.expect("host forwarded true child: interrupted")
	if got := exitOf(t, host); got != 9 {
		t.Errorf("exit %d, want the command's own 9", got)
	}
}

// A forwarded SIGTSTP without a terminal stops the command, not us; SIGCONT continues it.
func TestForwardedStopLeavesUsRunning(t *testing.T) {
	host := helperCommand("host", "sleep", "1000")
	says := startPiped(t, host, "")
	pid := says.expectPid("host started")
	send(t, host, syscall.SIGTSTP)
	eventually(t, "the command is stopped", func() bool { return processState(pid) == "T" })
	if state := processState(host.Process.Pid); state == "T" {
		t.Error("we are stopped as well")
	}
	send(t, host, syscall.SIGCONT)
	eventually(t, "the command runs", func() bool { return processState(pid) == "S" })
	send(t, host, syscall.SIGTERM)
	if got := exitOf(t, host); got != 143 {
		t.Errorf("exit %d, want 143", got)
	}
}

// A stopped command cannot end: SIGCONT comes after every signal that is to end it.
func TestSignalEndsAStoppedCommand(t *testing.T) {
	for _, sig := range endingSignals {
		host := helperCommand("host", "sleep", "1000")
		says := startPiped(t, host, "")
		pid := says.expectPid("host started")
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the command is stopped", func() bool { return processState(pid) == "T" })
		send(t, host, sig)
		if got := exitOf(t, host); got != 128+int(sig) {
			t.Errorf("%v: exit %d", sig, got)
		}
	}
}

// Between a stop from the terminal and our own continuation nothing wakes the command. What came meanwhile to end it does
// so as soon as the command may go on, and never after a refusal.
func TestSignalWhileSuspended(t *testing.T) {
	for _, refused := range []bool{false, true} {
		c := start(t, "sleep", "1000")
		if err := c.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the command is stopped", func() bool { return processState(c.Pid()) == "T" })
		c.mu.Lock()
		c.suspended, c.refused = true, refused
		c.mu.Unlock()
		if err := c.forward(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		c.resumeIfContinued()
		if !refused {
			<-c.Done()
			continue
		}
		if state := processState(c.Pid()); state != "T" {
			t.Errorf("refused: the command is in state %q, want T", state)
		}
	}
}

// From waiting to forwarding no signal is lost: sent at any moment, SIGTERM ends the host with 143 - before the
// start (Interrupted), during the fork, or forwarded.
func TestNoSignalIsLostAtTheStart(t *testing.T) {
	for i := range 25 {
		host := helperCommand("host", "sleep", "1000")
		says := startPiped(t, host, "")
		says.expect("host listening")
		for range i * 200 {
			runtime.Gosched()
		}
		send(t, host, syscall.SIGTERM)
		if got := exitOf(t, host); got != 143 {
			t.Fatalf("exit %d", got)
		}
	}
}

// What each signal comes to where no command runs: while we wait, after the command, and after one that is ThenWait.
func TestSignalsAroundTheCommand(t *testing.T) {
	const (
		hup, term, sigint, quit = syscall.SIGHUP, syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT
		usr1, cont, winch       = syscall.SIGUSR1, syscall.SIGCONT, syscall.SIGWINCH
	)
	for name, c := range map[string]struct {
		mode, begins string
		sends        []syscall.Signal
		says         string
		then         []syscall.Signal
		exit         int
	}{
		"waiting": {"wait", "host listening", []syscall.Signal{usr1, cont, winch, syscall.SIGTSTP, syscall.SIGPIPE, hup}, "host failed", nil, 128 + int(hup)},
		"TERM":    {"wait", "host listening", []syscall.Signal{term}, "host failed", nil, 128 + int(term)},
		// Signals do not end the release; the second INT or TERM does.
		"releasing": {"linger", "host ended exit status 4", []syscall.Signal{hup, usr1, quit, sigint, term}, "host hurried", nil, 4},
		// The second signal ends the wait, and the one after it the release.
		"again":  {"again linger", "host ended exit status 4", []syscall.Signal{usr1, hup, quit}, "host forwarded false child: interrupted by signal", []syscall.Signal{term}, 4},
		"second": {"again linger", "host ended exit status 4", []syscall.Signal{sigint, term}, "host forwarded false child: interrupted by signal", []syscall.Signal{term}, 4},
		// One alone right after the command's end may have been sent along with what ended that. It is put off, not dropped.
		"put off": {"again linger", "host ended exit status 4", []syscall.Signal{quit}, "host forwarded false child: interrupted by signal 3", []syscall.Signal{term}, 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			host := helperCommand("host", "sh", "-c", "exit 4")
			says := startPiped(t, host, c.mode)
			says.expect(c.begins)
			for _, sig := range c.sends {
				send(t, host, sig)
			}
			says.expect(c.says)
			for _, sig := range c.then {
				send(t, host, sig)
			}
			if got := exitOf(t, host); got != c.exit {
				t.Errorf("exit %d, want %d", got, c.exit)
			}
		})
	}
}

// What is put off lets no other command start, which would never hear of it.
func TestSignalPutOffKeepsFromStarting(t *testing.T) {
	s := NewSignals()
	defer s.Stop()
	first, err := s.Start(Options{Argv: []string{"true"}, ThenWait: true})
	if err != nil {
		t.Fatal(err)
	}
	<-first.Done()
	first.Close()
	s.mu.Lock()
	s.handleLocked(syscall.SIGTERM)
	s.mu.Unlock()
	var interrupted *Interrupted
	if second, err := s.Start(Options{Argv: []string{"true"}}); !errors.As(err, &interrupted) || interrupted.Signal != syscall.SIGTERM {
		t.Errorf("started: %v, %v", second, err)
	}
}

// ignoredMask runs the host under a shell that ignores signals, and returns what the command ignores.
func ignoredMask(t *testing.T, prefix string) uint64 {
	t.Helper()
	out := filepath.Join(t.TempDir(), "out")
	argv := asHelper("host", "sh", "-c", `grep SigIgn /proc/self/status >"$1"`, "sh", out)
	host := exec.Command("sh", append([]string{"-c", prefix + ` "$@"`, "sh"}, argv...)...)
	startPiped(t, host, "")
	if got := exitOf(t, host); got != 0 {
		t.Fatalf("exit %d", got)
	}
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	mask, err := strconv.ParseUint(strings.Fields(string(text))[1], 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	return mask
}

func TestIgnoredAtStartStaysIgnored(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("it looks into /proc")
	}
	for prefix, want := range map[string][]syscall.Signal{
		"exec":                         {},
		"exec nohup":                   {syscall.SIGHUP},
		`trap "" HUP; exec`:            {syscall.SIGHUP},
		`trap "" INT; exec`:            {syscall.SIGINT, syscall.SIGQUIT}, // see ignoredAtStart
		`trap "" TSTP TTIN TTOU; exec`: {syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU},
	} {
		mask := ignoredMask(t, prefix)
		for _, sig := range append([]syscall.Signal{syscall.SIGTTIN, syscall.SIGTTOU}, caughtSignals...) {
			if ignored := mask>>(sig-1)&1 == 1; ignored != slices.Contains(want, sig) {
				t.Errorf("%s: the command ignores %v: %v", prefix, sig, ignored)
			}
		}
	}
}

// SIGKILL for us is SIGKILL for the command, also when the runtime has ended threads meanwhile, which by itself must
// not kill it.
func TestCommandDoesNotOutliveUs(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("no parent-death signal")
	}
	for _, mode := range []string{"", "churn"} {
		host := helperCommand("host", "sleep", "1000")
		says := startPiped(t, host, mode)
		pid := says.expectPid("host started")
		if !alive(pid) {
			t.Fatalf("%q: the command did not outlive a thread", mode)
		}
		send(t, host, syscall.SIGKILL)
		eventually(t, "the command is gone", func() bool { return !alive(pid) })
	}
}
