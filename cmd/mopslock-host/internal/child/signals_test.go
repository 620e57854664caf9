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

func TestEverySignalIsForwarded(t *testing.T) {
	host := helperCommand("host", asHelper("catch")...)
	says := startPiped(t, host, "")
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
	if got := exitOf(t, host); got != 7 {
		t.Errorf("exit %d, want the command's own 7", got)
	}
}

// What is forwarded reaches the whole group, not the command alone.
func TestForwardingReachesGrandchildren(t *testing.T) {
	host := helperCommand("host", append([]string{"sh", "-c", `trap : TERM QUIT; "$@"; exit 9`, "sh"}, asHelper("catch")...)...)
	says := startPiped(t, host, "")
	says.expect("catch ready")
	send(t, host, syscall.SIGTERM)
	says.expect("caught 15")
	send(t, host, syscall.SIGQUIT)
	says.expect("host ended exit status 9")
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

func TestWaitEndsBySignal(t *testing.T) {
	for _, sig := range endingSignals {
		host := helperCommand("host", "true")
		says := startPiped(t, host, "wait")
		says.expect("host listening")
		for _, nothing := range []syscall.Signal{
			syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGCONT, syscall.SIGWINCH, syscall.SIGTSTP, syscall.SIGPIPE,
		} {
			send(t, host, nothing)
		}
		send(t, host, sig)
		if got := exitOf(t, host); got != 128+int(sig) {
			t.Errorf("%v: exit %d", sig, got)
		}
	}
}

// Nobody reads what we print any more: that must not end us.
func TestBrokenPipeDoesNotEndUs(t *testing.T) {
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	_ = reader.Close()
	host := helperCommand("host", "sh", "-c", "exit 4")
	host.Stdout = writer
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	_ = writer.Close()
	if got := exitOf(t, host); got != 4 {
		t.Errorf("exit %d, want 4", got)
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

// While we release, signals do not end us, and the second INT or TERM ends the release.
func TestSecondSignalEndsTheRelease(t *testing.T) {
	host := helperCommand("host", "sh", "-c", "exit 4")
	says := startPiped(t, host, "linger")
	says.expect("host ended exit status 4")
	for _, nothing := range []syscall.Signal{syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGQUIT} {
		send(t, host, nothing)
	}
	send(t, host, syscall.SIGINT)
	send(t, host, syscall.SIGTERM)
	says.expect("host hurried")
	if got := exitOf(t, host); got != 4 {
		t.Errorf("exit %d, want the command's 4", got)
	}
}

// After a command that is ThenWait it is waiting again: the second signal ends that, and the one after it the release.
func TestWaitsAgainAfterTheCommand(t *testing.T) {
	for _, two := range [][2]syscall.Signal{{syscall.SIGHUP, syscall.SIGQUIT}, {syscall.SIGINT, syscall.SIGTERM}} { // one twice may come once
		host := helperCommand("host", "sh", "-c", "exit 4")
		says := startPiped(t, host, "again linger")
		says.expect("host ended exit status 4")
		send(t, host, syscall.SIGUSR1)
		send(t, host, two[0])
		send(t, host, two[1])
		says.expect("host forwarded false child: interrupted by signal")
		send(t, host, syscall.SIGTERM)
		says.expect("host hurried")
	}
}

// One alone right after the command's end may have been sent along with what ended that. It is put off, not dropped.
func TestSignalRightAfterTheCommandEndsTheWait(t *testing.T) {
	for _, sig := range endingSignals {
		host := helperCommand("host", "sh", "-c", "exit 4")
		says := startPiped(t, host, "again linger")
		says.expect("host ended exit status 4")
		send(t, host, sig)
		says.expect("host forwarded false child: interrupted by signal " + strconv.Itoa(int(sig)))
		send(t, host, syscall.SIGTERM) // and the next one ends the release
		says.expect("host hurried")
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

func TestForwardedIsRemembered(t *testing.T) {
	host := helperCommand("host", asHelper("catch")...)
	says := startPiped(t, host, "again")
	says.expect("catch ready")
	send(t, host, syscall.SIGUSR1)
	says.expect(fmt.Sprintf("caught %d", int(syscall.SIGUSR1)))
	send(t, host, syscall.SIGQUIT)
	says.expect("host ended")
	send(t, host, syscall.SIGTERM)
	send(t, host, syscall.SIGHUP)
	says.expect("host forwarded true child: interrupted")
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
		t.Skip("/proc")
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

// nohup: a SIGHUP to us ends nothing.
func TestNohup(t *testing.T) {
	argv := asHelper("host", asHelper("catch")...)
	host := exec.Command("sh", append([]string{"-c", `trap "" HUP; exec "$@"`, "sh"}, argv...)...)
	says := startPiped(t, host, "")
	says.expect("catch ready")
	send(t, host, syscall.SIGHUP)
	send(t, host, syscall.SIGUSR1)
	if rest := says.expect("caught"); rest != fmt.Sprint(int(syscall.SIGUSR1)) {
		t.Errorf("the command caught %s first", rest)
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
