//go:build linux || darwin

package stress

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The test binary, started with helperMark, is the command that runs under a
// lease. It writes down on its own clock when it began and when it ended.
const helperMark = "stress-helper"

func helper(args []string) int {
	// Whoever stops us early makes us lose the end of the interval. A loss
	// still ends us, by SIGKILL.
	signal.Ignore(syscall.SIGTERM)
	switch {
	case len(args) == 3 && args[0] == "hold": // hold LOG DURATION
		return hold(args[1], args[2])
	case len(args) == 3 && args[0] == "group": // group LOG DURATION: with a child in the same group
		child := exec.Command(os.Args[0], helperMark, "hold", args[1]+".child", args[2])
		if err := child.Start(); err != nil {
			return fail(err)
		}
		return hold(args[1], args[2])
	case len(args) >= 3 && args[0] == "orchestrate": // orchestrate LOG CMD...: start CMD in a session of its own and wait
		remote := exec.Command(args[2], args[3:]...)
		remote.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := remote.Start(); err != nil {
			return fail(err)
		}
		if err := appendLine(args[1], "self", os.Getpid(), monotonic()); err != nil {
			return fail(err)
		}
		if err := appendLine(args[1], "remote", remote.Process.Pid, monotonic()); err != nil {
			return fail(err)
		}
		_ = remote.Wait()
		return 0
	case len(args) == 6 && args[0] == "storm": // storm URL LOG TTL REST OVER
		return storm(args[1], args[2], args[3], args[4], args[5])
	case len(args) == 6 && args[0] == "clock": // clock URL NAME LOG TTL OFF
		return holdByClock(args[1], args[2], args[3], args[4], args[5])
	}
	return fail(fmt.Errorf("bad arguments %q", args))
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, "stress helper:", err)
	return 99
}

func hold(log, length string) int {
	d, err := time.ParseDuration(length)
	if err != nil {
		return fail(err)
	}
	if err := appendLine(log, "begin", os.Getpid(), monotonic()); err != nil {
		return fail(err)
	}
	time.Sleep(d)
	if err := appendLine(log, "end", os.Getpid(), monotonic()); err != nil {
		return fail(err)
	}
	return 0
}

// appendLine is one write to a file opened for appending, so that lines of many
// processes do not mix.
func appendLine(path, what string, pid int, at time.Duration) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "%s %d %d\n", what, pid, at.Nanoseconds())
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return err
}

// entry is one line of a log.
type entry struct {
	what string
	pid  int
	at   time.Duration
}

// readLog reads what helpers have written so far; no file is no lines.
func readLog(t *testing.T, path string) []entry {
	t.Helper()
	text, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	var entries []entry
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) != 3 || !strings.HasSuffix(line, "\n") {
			continue // being written
		}
		pid, err := strconv.Atoi(words[1])
		if err != nil {
			t.Fatal(err)
		}
		at, err := strconv.ParseInt(words[2], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, entry{words[0], pid, time.Duration(at)})
	}
	return entries
}

// find returns the first line of a kind.
func find(t *testing.T, path, what string) (entry, bool) {
	t.Helper()
	for _, e := range readLog(t, path) {
		if e.what == what {
			return e, true
		}
	}
	return entry{}, false
}
