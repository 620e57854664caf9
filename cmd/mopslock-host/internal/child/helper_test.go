//go:build linux || darwin

package child

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mopslock/mopslock/tests/defaults"
)

// The test binary is also the programs that the tests need: helperVariable says which.
const helperVariable = "CHILD_TEST_HELPER"

func TestMain(m *testing.M) {
	switch os.Getenv(helperVariable) {
	case "":
		defaults.Signals()
		// The race detector sleeps for a second at a helper's exit unless told not to.
		_ = os.Setenv("GORACE", "atexit_sleep_ms=0 "+os.Getenv("GORACE"))
		os.Exit(m.Run())
	case "host":
		helperHost(os.Args[1:])
	case "catch":
		helperCatch()
	case "shell":
		helperShell(os.Args[1:])
	}
}

// asHelper is a command line that runs this binary as a helper, whatever the environment was.
func asHelper(kind string, args ...string) []string {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return append([]string{"/usr/bin/env", helperVariable + "=" + kind, self}, args...)
}

func helperCommand(kind string, args ...string) *exec.Cmd {
	argv := asHelper(kind, args...)
	return exec.Command(argv[0], argv[1:]...)
}

var becomeSubreaper func() // Linux only

// helperHost is what mopslock-host does, without a lease. HOST_MODE: words that change what it does.
func helperHost(argv []string) {
	mode := os.Getenv("HOST_MODE")
	ours := exec.Command("true") // of our own group
	if strings.Contains(mode, "adopts") {
		becomeSubreaper()
	}
	signals := NewSignals()
	if strings.Contains(mode, "adopts") {
		_ = ours.Start()
	}
	fmt.Println("host listening")
	if strings.Contains(mode, "wait") {
		ctx, cancel := signals.WaitContext(context.Background())
		defer cancel()
		<-ctx.Done()
		exitWith(context.Cause(ctx))
	}
	var c *Child
	c, err := signals.Start(Options{
		Argv: argv, ParentDeath: true, ThenWait: strings.Contains(mode, "again"),
		OnStop: func() { fmt.Println("host stopping") },
		OnContinue: func() bool {
			fmt.Println("host continued")
			return !strings.Contains(mode, "refuse")
		},
	})
	if err != nil {
		if strings.Contains(mode, "linger") {
			fmt.Println("host failed")
			time.Sleep(time.Minute) // until the test has looked, and kills it
		}
		exitWith(err)
	}
	if strings.Contains(mode, "churn") {
		churnThreads()
	}
	fmt.Println("host started", c.Pid())
	<-c.Done()
	fmt.Println("host ended", c.Status())
	if strings.Contains(mode, "again") {
		ctx, cancel := signals.WaitContext(context.Background())
		defer cancel()
		<-ctx.Done()
		fmt.Println("host forwarded", signals.Forwarded(), context.Cause(ctx))
	}
	if strings.Contains(mode, "linger") {
		ctx, cancel := signals.ReleaseContext(context.Background())
		defer cancel()
		<-ctx.Done()
		fmt.Println("host hurried", context.Cause(ctx))
	}
	if strings.Contains(mode, "adopts") {
		fmt.Println("host waited", ours.Wait())
	}
	c.Close()
	signals.Stop()
	os.Exit(c.Status().ExitStatus())
}

func exitWith(err error) {
	fmt.Println("host failed", err)
	var status interface{ ExitStatus() int }
	if errors.As(err, &status) {
		os.Exit(status.ExitStatus())
	}
	os.Exit(1)
}

// churnThreads makes the runtime end threads: it does so when a goroutine that locked one returns.
func churnThreads() {
	for range 5 {
		var group sync.WaitGroup
		for range 20 {
			group.Go(func() {
				runtime.LockOSThread()
				_ = make([]byte, 1<<16)
			})
		}
		group.Wait()
		runtime.GC()
	}
}

// helperCatch says which signals it gets, until SIGQUIT.
func helperCatch() {
	incoming := make(chan os.Signal, 64)
	signal.Notify(incoming, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1,
		syscall.SIGUSR2, syscall.SIGCONT, syscall.SIGWINCH, syscall.SIGTSTP)
	fmt.Println("catch ready")
	for sig := range incoming {
		fmt.Println("caught", int(sig.(syscall.Signal)))
		if sig == syscall.SIGQUIT {
			os.Exit(7)
		}
	}
}

// helperShell is a shell with job control and one job: `shell fg|bg CMD…`. It is the leader of a session on a pty, and
// takes orders on descriptor 3.
//
// It never ends by itself: the end of a session's leader takes the terminal away from all.
func helperShell(args []string) {
	runtime.LockOSThread() // for the parent-death signal
	syscall.CloseOnExec(3)
	orders := bufio.NewScanner(os.NewFile(3, "orders"))
	tty := findTerminal((&Options{}).logger())
	attributes := &syscall.SysProcAttr{Setpgid: true, Foreground: args[0] == "fg", Ctty: 0}
	setParentDeath(attributes, true)
	pid, err := syscall.ForkExec(args[1], args[1:], &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{0, 1, 2}, Sys: attributes,
	})
	if err != nil {
		panic(err)
	}
	fmt.Println("shell job", pid)
	go func() {
		for orders.Scan() {
			if orders.Text() == "fg" {
				tty.give(pid)
			}
			_ = syscall.Kill(-pid, syscall.SIGCONT)
		}
	}()
	for {
		var status syscall.WaitStatus
		_, err := syscall.Wait4(pid, &status, syscall.WUNTRACED, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		tty.give(tty.ourGroup)
		if !status.Stopped() {
			fmt.Println("shell: job ended", status.ExitStatus(), int(status.Signal()))
			time.Sleep(time.Hour)
		}
		fmt.Println("shell: job stopped")
	}
}

// bound is how long anything in these tests may take. Nothing is asserted about time otherwise.
const bound = time.Minute

// eventually polls.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(bound); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if holds() {
			return
		}
	}
	t.Fatalf("never: %s", what)
}

// alive is false for a zombie, which may stay forever in a container.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	state := processState(pid)
	return state != "Z" && state != "X" && state != ""
}

// processState is the state's letter, "" for no such process.
func processState(pid int) string {
	if runtime.GOOS != "linux" {
		out, _ := exec.Command("ps", "-o", "state=", "-p", fmt.Sprint(pid)).Output()
		return strings.TrimSpace(string(out) + " ")[:1]
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	return strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))[0]
}

// pidFrom waits for a file with a pid in it.
func pidFrom(t *testing.T, path string) (pid int) {
	t.Helper()
	eventually(t, "a pid in "+path, func() bool {
		text, _ := os.ReadFile(path)
		_, err := fmt.Sscanf(string(text), "%d\n", &pid)
		return err == nil && strings.HasSuffix(string(text), "\n")
	})
	return pid
}

// transcript collects what a process prints.
type transcript struct {
	t    *testing.T
	mu   sync.Mutex
	text string
	read int // up to where expect has come; the test's own
}

func newTranscript(t *testing.T, from *os.File) *transcript {
	s := &transcript{t: t}
	go func() { // ends with the last writer, or with Close
		buffer := make([]byte, 4096)
		for {
			n, err := from.Read(buffer)
			s.mu.Lock()
			s.text += string(buffer[:n])
			s.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() { _ = from.Close() })
	return s
}

// expect waits for text after what was expected before, and returns the rest of its line.
func (s *transcript) expect(text string) (rest string) {
	s.t.Helper()
	rest, s.read = s.find(text, s.read)
	return rest
}

// expectPid waits for text and a pid, anywhere: two processes announce their children in either order.
func (s *transcript) expectPid(text string) (pid int) {
	s.t.Helper()
	rest, _ := s.find(text, 0)
	if _, err := fmt.Sscan(rest, &pid); err != nil {
		s.t.Fatal(err)
	}
	return pid
}

// find waits for text behind from, and returns the rest of its line and where that begins.
func (s *transcript) find(text string, from int) (rest string, at int) {
	s.t.Helper()
	for end := time.Now().Add(bound); time.Now().Before(end); time.Sleep(time.Millisecond) {
		s.mu.Lock()
		_, after, found := strings.Cut(s.text[from:], text)
		line, _, whole := strings.Cut(after, "\n")
		at = len(s.text) - len(after)
		s.mu.Unlock()
		if found && whole {
			return strings.TrimSpace(line), at
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.t.Fatalf("%q never came; got:\n%s", text, s.text)
	return "", 0
}

// startPiped starts a helper with its stdout on a pipe.
func startPiped(t *testing.T, command *exec.Cmd, mode string) *transcript {
	t.Helper()
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	command.Stdout, command.Stderr = writer, writer
	command.Env = append(os.Environ(), "HOST_MODE="+mode)
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	_ = writer.Close()
	says := newTranscript(t, reader)
	killAtEnd(t, command)
	return says
}

// killAtEnd comes after newTranscript: the writers go first, then the reader sees the end.
func killAtEnd(t *testing.T, command *exec.Cmd) {
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
}

// exitOf waits for a helper to end.
func exitOf(t *testing.T, command *exec.Cmd) int {
	t.Helper()
	timer := time.AfterFunc(bound, func() { _ = command.Process.Kill() })
	_ = command.Wait()
	if !timer.Stop() {
		t.Fatalf("never: the end of %q", command.Args)
	}
	if status := command.ProcessState.Sys().(syscall.WaitStatus); status.Signaled() {
		return -int(status.Signal())
	}
	return command.ProcessState.ExitCode()
}

func foregroundOf(t *testing.T, terminal *os.File) int {
	t.Helper()
	raw, err := terminal.SyscallConn() // Fd would make it blocking: Close would wait for Read
	if err != nil {
		t.Fatal(err)
	}
	var group int
	controlErr := raw.Control(func(fd uintptr) { group, err = unix.IoctlGetInt(int(fd), unix.TIOCGPGRP) })
	if err := errors.Join(err, controlErr); err != nil {
		t.Fatal(err)
	}
	return group
}
