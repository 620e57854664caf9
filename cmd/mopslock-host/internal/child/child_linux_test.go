package child

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// A stop that waitid has shown can be gone before it is taken away: the command was continued, or it has ended. Neither is
// the end of watching. In the second case the kernel says ECHILD, as if the command had been reaped, and the next event
// is its end, with its status.
func TestStopThatIsGone(t *testing.T) {
	command := exec.Command("sh", "-c", "kill -STOP $$; kill -STOP $$; exit 3")
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	killAtEnd(t, command)
	c := &Child{pid: command.Process.Pid}
	taken := func(want bool) {
		t.Helper()
		if stopped, err := c.takeStop(); stopped != want || err != nil {
			t.Errorf("a stop was taken: %v, %v, want %v", stopped, err, want)
		}
	}
	nextStop := func() {
		t.Helper()
		if _, err := c.waitid(unix.WSTOPPED | unix.WNOWAIT); err != nil {
			t.Fatal(err)
		}
	}
	nextStop()
	taken(true)
	taken(false)
	send(t, command, unix.SIGCONT)
	nextStop()
	send(t, command, unix.SIGCONT)
	if _, err := c.waitid(unix.WEXITED | unix.WNOWAIT); err != nil { // it is a zombie by now
		t.Fatal(err)
	}
	taken(false)
	if got, err := c.nextEvent(); err != nil || got != (event{ended: true, status: Status{Code: 3}}) {
		t.Errorf("the end: %+v, %v", got, err)
	}
	c.reap()
	if _, err := c.nextEvent(); !errors.Is(err, unix.ECHILD) {
		t.Errorf("of a command that was reaped: %v", err)
	}
}

func init() {
	becomeSubreaper = func() {
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			panic(err)
		}
	}
}

// An orphan of the command is adopted by the first process of a container, or by a subreaper as here, and reaped by it. The
// command itself stays a zombie until Close, and what package os/exec has started is left to that.
func TestOrphansAreReaped(t *testing.T) {
	out := filepath.Join(t.TempDir(), "pid")
	host := helperCommand("host", "sh", "-c", `sleep 1000 & echo $! >"$1"; exit 7`, "sh", out)
	says := startPiped(t, host, "adopts linger")
	command := says.expectPid("host started")
	says.expect("host ended exit status 7")
	orphan := pidFrom(t, out)
	if err := syscall.Kill(orphan, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, fmt.Sprintf("orphan %d is reaped", orphan), func() bool { return processState(orphan) == "" })
	if state := processState(command); state != "Z" {
		t.Errorf("before Close the command is in state %q, want Z", state)
	}
	send(t, host, syscall.SIGINT)
	send(t, host, syscall.SIGTERM)
	says.expect("host waited <nil>")
	if got := exitOf(t, host); got != 7 {
		t.Errorf("exit %d, want the command's 7", got)
	}
}
