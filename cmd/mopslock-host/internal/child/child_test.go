//go:build linux || darwin

package child

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
)

func start(t *testing.T, argv ...string) *Child {
	t.Helper()
	c, err := Start(Options{Argv: argv, ParentDeath: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Kill()
		c.Close()
	})
	return c
}

func TestExitStatusPassesThrough(t *testing.T) {
	for script, want := range map[string]Status{
		"exit 0":        {},
		"exit 3":        {Code: 3},
		"exit 255":      {Code: 255},
		"kill -TERM $$": {Signal: syscall.SIGTERM},
		"kill -KILL $$": {Signal: syscall.SIGKILL},
		"kill -QUIT $$": {Signal: syscall.SIGQUIT},
	} {
		c := start(t, "sh", "-c", "ulimit -c 0; "+script)
		<-c.Done()
		if got := c.Status(); got != want {
			t.Errorf("%s: %v, want %v", script, got, want)
		}
	}
	if got := (Status{Signal: syscall.SIGTERM}).ExitStatus(); got != 143 {
		t.Errorf("128+15 = %d", got)
	}
}

func TestCannotStart(t *testing.T) {
	dir, later := t.TempDir(), t.TempDir()
	write := func(path, text string, mode os.FileMode) {
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	write(dir+"/plain", "#!/bin/sh\n", 0o644)
	write(dir+"/both", "#!/bin/sh\nexit 1\n", 0o644)
	write(later+"/both", "#!/bin/sh\nexit 42\n", 0o755)
	write(dir+"/noformat", "neither ELF nor script\n", 0o755)
	write(dir+"/nointerpreter", "#!/no/such/interpreter\n", 0o755)
	t.Setenv("PATH", dir+":"+later)

	for name, want := range map[string]int{
		"no-such-command":      127,
		"":                     127,
		"/no/such/file":        127,
		dir + "/no-such":       127,
		dir + "/plain/x":       127,
		"plain":                126,
		dir + "/plain":         126,
		dir:                    126,
		"noformat":             126,
		"nointerpreter":        126,
		dir + "/nointerpreter": 126,
		"both":                 0,
	} {
		c, err := Start(Options{Argv: []string{name}})
		var failure *StartError
		switch {
		case want == 0 && err != nil:
			t.Errorf("%q: %v", name, err)
		case want == 0:
			c.Close()
			if c.Status().Code != 42 {
				t.Errorf("%q: passed over nothing: %v", name, c.Status())
			}
		case !errors.As(err, &failure) || failure.ExitStatus() != want || !strings.HasPrefix(err.Error(), "child: "):
			t.Errorf("%q: %v, want status %d", name, err, want)
		}
	}
}

// The command has our environment or its own, the very words, stdin of ours, and files in the place of stdout and stderr.
func TestEnvironmentAndOutputs(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := Start(Options{
		Argv: []string{"sh", "-c", `printf '%s|%s|%s' "$MARK" "$1" "$2"; echo to err >&2; exit 3`, "sh", "a b", "-"},
		Env:  []string{"MARK=here", "PATH=/bin:/usr/bin"}, Stdout: file, Stderr: file,
	})
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
	c.Close()
	if got, _ := os.ReadFile(file.Name()); string(got) != "here|a b|-to err\n" || c.Status().Code != 3 {
		t.Errorf("got %q, %v", got, c.Status())
	}
}

// The command has ended politely, one of its group has not: Kill still reaches it, up to Close.
func TestKillReachesTheGroupAfterItsLeaderEnded(t *testing.T) {
	out := filepath.Join(t.TempDir(), "pid")
	c := start(t, "sh", "-c", `(trap "" TERM; echo ready; exec sleep 1000) >"$1.ready" & echo $! >"$1"`, "sh", out)
	grandchild := pidFrom(t, out)
	if group, err := syscall.Getpgid(c.Pid()); err != nil || group != c.Pid() {
		t.Errorf("group %d (%v), want %d", group, err, c.Pid())
	}
	<-c.Done()
	if state := processState(c.Pid()); runtime.GOOS == "linux" && state != "Z" {
		t.Fatalf("before Close the command is in state %q, want Z", state)
	}
	eventually(t, "SIGTERM is ignored", func() bool {
		text, _ := os.ReadFile(out + ".ready")
		return len(text) > 0
	})
	if err := c.Terminate(); err != nil {
		t.Fatal(err)
	}
	if !c.Others() {
		t.Error("the grandchild is not seen")
	}
	if !alive(grandchild) {
		t.Fatal("the grandchild should have survived SIGTERM")
	}
	if err := c.Kill(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the grandchild is gone", func() bool { return !alive(grandchild) && !c.Others() })
	if err := c.Kill(); err != nil {
		t.Errorf("Kill of an empty group: %v", err)
	}
	c.Close()
	if state := processState(c.Pid()); state != "" {
		t.Errorf("after Close the command is in state %q", state)
	}
}

func TestNothingIsSignalledAfterClose(t *testing.T) {
	c := start(t, "true")
	c.Close()
	c.Close()
	for _, err := range []error{c.Signal(syscall.SIGTERM), c.Kill(), c.Terminate(), c.forward(syscall.SIGCONT)} {
		if !errors.Is(err, os.ErrProcessDone) {
			t.Errorf("after Close: %v", err)
		}
	}
}

func TestTerminateEndsAStoppedCommand(t *testing.T) {
	c := start(t, "sleep", "1000")
	if err := c.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is stopped", func() bool { return processState(c.Pid()) == "T" })
	if err := c.Terminate(); err != nil {
		t.Fatal(err)
	}
	<-c.Done()
	if c.Status().Signal != syscall.SIGTERM {
		t.Errorf("status %v", c.Status())
	}
}

func TestStatusBeforeDonePanics(t *testing.T) {
	c := start(t, "sleep", "1000")
	defer func() {
		if text := fmt.Sprint(recover()); !strings.HasPrefix(text, "child: ") {
			t.Errorf("panic %q", text)
		}
	}()
	c.Status()
}

func openDescriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/dev/fd")
	if err != nil {
		t.Skip(err)
	}
	return len(entries)
}

// Twenty times, so that descriptors which the runtime opens once do not count.
func TestNoDescriptorOrZombieIsLeft(t *testing.T) {
	once := func() {
		c, err := Start(Options{Argv: []string{"true"}, ParentDeath: true})
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
		if _, err := Start(Options{Argv: []string{"/dev/null"}}); err == nil {
			t.Fatal("/dev/null was executed")
		}
	}
	once()
	before := openDescriptors(t)
	for range 20 {
		once()
	}
	if after := openDescriptors(t); after > before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
	if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); err == nil && pid > 0 {
		t.Errorf("child %d was not reaped", pid)
	}
}

// The command gets no descriptor of ours beyond the three.
func TestNoDescriptorIsInherited(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "ours"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	c := start(t, "sh", "-c", `! test -e "/dev/fd/$1"`, "sh", fmt.Sprint(file.Fd()))
	<-c.Done()
	if c.Status() != (Status{}) {
		t.Errorf("descriptor %d was inherited", file.Fd())
	}
}

func TestStressStartStop(t *testing.T) {
	const workers, each = 8, 25
	var group sync.WaitGroup
	for worker := range workers {
		group.Go(func() {
			for i := range each {
				stressOnce(t, (worker+i)%3)
			}
		})
	}
	group.Wait()
}

// stressOnce lets signals race with the end and with Close.
func stressOnce(t *testing.T, kind int) {
	argv := [][]string{{"true"}, {"sleep", "1000"}, {"sh", "-c", "exit 5"}}[kind]
	c, err := Start(Options{Argv: argv, ParentDeath: true})
	if err != nil {
		t.Error(err)
		return
	}
	var signallers sync.WaitGroup
	signallers.Go(func() {
		for c.Signal(syscall.SIGCONT) == nil {
			runtime.Gosched()
		}
	})
	if kind == 1 {
		signallers.Go(func() { _ = c.Kill() })
	}
	c.Close()
	signallers.Wait()
	want := []Status{{}, {Signal: syscall.SIGKILL}, {Code: 5}}[kind]
	if c.Status() != want {
		t.Errorf("%v: %v, want %v", argv, c.Status(), want)
	}
}
