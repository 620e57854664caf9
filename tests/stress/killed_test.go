//go:build linux

package stress

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"
)

// TestOrchestratorKilled: `run` is killed while a companion, which its command
// started in a session of its own, keeps the lease alive.
//
//	run A      held ──── SIGKILL
//	companion       join ─── renew ── renew ── renew ── CMD ends, leaves
//	run B           wait ─────────────────────────────────── TTL ──── held
//	                            ^ never before the companion ends
func TestOrchestratorKilled(t *testing.T) {
	eachProtocol(t, orchestratorsKilled)
}

// eachProtocol plays a story under strict and under lastwriter, and gives each
// half of the time.
func eachProtocol(t *testing.T, story func(t *testing.T, protocol string, d time.Duration, long bool)) {
	d, long := duration(t)
	for _, protocol := range []string{"strict", "lastwriter"} {
		t.Run(protocol, func(t *testing.T) { story(t, protocol, d/2, long) })
	}
}

func orchestratorsKilled(t *testing.T, protocol string, d time.Duration, long bool) {
	ttl := 1200 * time.Millisecond
	if long {
		ttl = 2 * time.Second
	}
	var late []time.Duration
	for round, end := 0, time.Now().Add(d); round == 0 || time.Now().Add(4*ttl).Before(end); round++ {
		late = append(late, orchestratorKilled(t, protocol, ttl, round))
		if t.Failed() {
			return
		}
	}
	slices.Sort(late)
	figures(t, "%d rounds, TTL %v: taken over after the companion's end, median %v max %v", len(late), ttl,
		late[len(late)/2].Round(time.Millisecond), late[len(late)-1].Round(time.Millisecond))
}

func orchestratorKilled(t *testing.T, protocol string, ttl time.Duration, round int) time.Duration {
	url := store(t)
	logs, name := t.TempDir(), fmt.Sprintf("stress/killed-%d", round)
	orchestratorLog, remoteLog, nextLog := filepath.Join(logs, "o"), filepath.Join(logs, "r"), filepath.Join(logs, "n")
	flags := []string{"--ttl", ttl.String(), "--protocol", protocol}

	// The companion's work lasts two TTLs from its start: the lease would have
	// expired without it.
	a := start(t, run(url, name, flags, "orchestrate", orchestratorLog,
		binary, "accompany", "--", self, helperMark, "hold", remoteLog, (2*ttl).String())...)
	t.Cleanup(func() {
		remote, _ := find(t, orchestratorLog, "remote")
		stop(remote.pid)
	})
	eventually(t, 10*time.Second, "the companion's command runs", func() bool {
		_, ok := find(t, remoteLog, "begin")
		return ok
	})
	first := observe(t, url, name)
	b := start(t, run(url, name, flags, "hold", nextLog, "1ms")...)
	if err := a.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if status := a.status(t, 5*time.Second); status != 128+int(syscall.SIGKILL) {
		t.Fatalf("the killed run ended with %d", status)
	}
	command, _ := find(t, orchestratorLog, "self")
	eventually(t, 5*time.Second, "the killed run's command is killed with it", func() bool { return gone(command.pid) })

	for {
		_, over := find(t, remoteLog, "end")
		if over {
			break
		}
		now := observe(t, url, name)
		if _, over = find(t, remoteLog, "end"); !over && (now.State != "held" || now.Holder != first.Holder || now.Token != first.Token) {
			t.Fatalf("while the companion works the lease is %+v, and was %+v", now, first)
		}
		if _, taken := find(t, nextLog, "begin"); taken {
			t.Fatal("taken over while the companion works")
		}
	}
	if status := b.status(t, 10*ttl+10*time.Second); status != 0 {
		t.Fatalf("the next run ended with %d: %s", status, b.stderr.String())
	}
	ended, _ := find(t, remoteLog, "end")
	began, _ := find(t, nextLog, "begin")
	margin, poll := ttl/10, max(500*time.Millisecond, ttl/8)*12/10
	const slack = 2 * time.Second // other people's processors
	took := began.at - ended.at
	if took > ttl+margin+poll+slack {
		t.Errorf("taken over %v after the companion's end; TTL %v + margin %v + a poll of %v", took, ttl, margin, poll)
	}
	return took
}

// observed is what `mopslock-host status` says.
type observed struct {
	State, Holder, PID string
	Token              uint64
}

func observe(t *testing.T, url, name string) observed {
	t.Helper()
	return observeIn(t, here(url), name)
}

func observeIn(t *testing.T, p place, name string) (seen observed) {
	t.Helper()
	cmd := exec.Command(binary, "status", "--store", p.url, "--json", name)
	cmd.Env = append(cleanEnvironment(), p.env...)
	out, err := cmd.Output()
	if err != nil && cmd.ProcessState.ExitCode() != 1 {
		t.Fatalf("status: %v", err)
	}
	if err := json.Unmarshal(out, &seen); err != nil {
		t.Fatalf("status printed %q: %v", out, err)
	}
	return seen
}
