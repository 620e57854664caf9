//go:build linux || darwin

package stress

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"
)

const statusLost = 76

// TestHolderStopped: a holder is stopped beyond its deadline, another takes the
// lease, and the first goes on.
//
//	A  held ── SIGSTOP ════════════════ SIGCONT ─ lost: kills its group, ends with 76
//	B                   TTL … held ───────────────────────────────── held
//	                                        ^ not a byte of A's is written
func TestHolderStopped(t *testing.T) {
	eachProtocol(t, holdersStopped)
}

func holdersStopped(t *testing.T, protocol string, d time.Duration, _ bool) {
	const ttl = 2 * time.Second
	var ends []time.Duration
	for round, end := 0, time.Now().Add(d); round == 0 || time.Now().Add(4*ttl).Before(end); round++ {
		ends = append(ends, holderStopped(t, protocol, ttl, round))
		if t.Failed() {
			return
		}
	}
	slices.Sort(ends)
	figures(t, "%d rounds, TTL %v: from SIGCONT to the end of the first, median %v max %v", len(ends), ttl,
		ends[len(ends)/2].Round(time.Millisecond), ends[len(ends)-1].Round(time.Millisecond))
}

func holderStopped(t *testing.T, protocol string, ttl time.Duration, round int) time.Duration {
	url := store(t)
	logs, name := t.TempDir(), fmt.Sprintf("stress/stopped-%d", round)
	logA, logB := filepath.Join(logs, "a"), filepath.Join(logs, "b")
	flags := []string{"--ttl", ttl.String(), "--protocol", protocol}

	a := start(t, run(url, name, flags, "group", logA, "1m")...)
	var group int
	eventually(t, 10*time.Second, "the first one's command and its child run", func() bool {
		command, ok := find(t, logA, "begin")
		_, childToo := find(t, logA+".child", "begin")
		group = command.pid
		return ok && childToo
	})
	t.Cleanup(func() { _ = syscall.Kill(-group, syscall.SIGKILL) })
	// Stop it at another phase of its renewals each time.
	time.Sleep(time.Duration(round%7) * ttl / 20)
	if err := a.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	b := start(t, run(url, name, flags, "hold", logB, "1m")...)
	eventually(t, 10*ttl+10*time.Second, "the second one's command runs", func() bool {
		_, ok := find(t, logB, "begin")
		return ok
	})
	second := observe(t, url, name)
	if second.PID != strconv.Itoa(b.pid()) {
		t.Fatalf("the lease is pid %s's, the second is %d", second.PID, b.pid())
	}
	continued := monotonic()
	if err := a.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	untouched := func() {
		t.Helper()
		if now := observe(t, url, name); now != second {
			t.Errorf("the second one's lease was touched: %+v, and was %+v", now, second)
		}
	}
	eventually(t, 10*time.Second, "the first one has ended", func() bool {
		untouched()
		select {
		case <-a.done:
			return true
		default:
			return false
		}
	})
	if status := a.status(t, time.Second); status != statusLost {
		t.Errorf("the first one ended with %d, not %d: %s", status, statusLost, a.stderr.String())
	}
	eventually(t, 2*time.Second, "nobody of the first one's group is left", func() bool { return gone(group) })
	for settle := time.Now().Add(ttl); time.Now().Before(settle); time.Sleep(time.Millisecond) {
		untouched()
	}
	select {
	case <-b.done:
		t.Errorf("the second one ended too: %s", b.stderr.String())
	default:
	}
	// Its command is not our child, and pays no heed to SIGTERM.
	command, _ := find(t, logB, "begin")
	stop(command.pid)
	b.status(t, 10*time.Second)
	return a.ended - continued
}
