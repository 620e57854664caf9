//go:build linux

package stress

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// runTTL outlasts a busy machine's pauses. Each story waits for it once.
const runTTL = 4 * time.Second

// hold LEDGER WHO is the command under a lease. It ignores SIGTERM, and runs until
// the file LEDGER.WHO is there.
func hold(args []string) error {
	log, who := ledger(args[0]), args[1]
	ignoreTerm()
	log.note("begin-" + who)
	for end := time.Now().Add(bound); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if _, err := os.Lstat(string(log) + "." + who); err == nil {
			log.note("end-" + who)
			return nil
		}
	}
	return errors.New("the test has not let it end")
}

// letGo lets a hold end.
func (l ledger) letGo(t *testing.T, who string) {
	t.Helper()
	if err := os.WriteFile(string(l)+"."+who, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// parent LEDGER SETSID CMD... starts CMD, in a session of its own if SETSID is yes, and
// waits for its end.
func parent(args []string) error {
	ignoreTerm()
	child := exec.Command(args[2], args[3:]...)
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: args[1] == "yes"}
	if err := child.Start(); err != nil {
		return err
	}
	ledger(args[0]).note("parent")
	return child.Wait()
}

// running starts `mopslock-host run` with a command.
func running(t *testing.T, url, protocol string, command ...string) *process {
	t.Helper()
	argv := []string{binary, "run", "--store", url, "--protocol", protocol, "--ttl", runTTL.String(), "stress", "--"}
	return start(t, nil, append(argv, command...)...)
}

// eachProtocol plays a story under strict and under lastwriter, at the same time.
func eachProtocol(t *testing.T, story func(t *testing.T, protocol string)) {
	duration(t)
	t.Parallel()
	for _, protocol := range []string{"strict", "lastwriter"} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			story(t, protocol)
		})
	}
}

// observed is what `mopslock-host status` says.
type observed struct {
	State, Holder string
	PID           int
	Token         uint64
}

func observe(t *testing.T, url string) (seen observed) {
	t.Helper()
	out, failed := exec.Command(binary, "status", "--store", url, "--json", "stress").Output() // 1: it is not held
	if err := json.Unmarshal(out, &seen); err != nil {
		t.Fatalf("status printed %q: %v, %v", out, err, failed)
	}
	return seen
}

// gone reports whether a process group is empty. A killed orphan that its new parent
// has not reaped yet still counts.
func gone(group int) bool { return errors.Is(syscall.Kill(-group, 0), syscall.ESRCH) }

// TestHolderStopped: a holder is stopped beyond its deadline, another takes the
// lease, and the first goes on.
//
//	A  held ── SIGSTOP ════════════════ SIGCONT ─ lost: kills its group, ends with 76
//	B                   TTL … held ───────────────────────────────── held
//	                                        ^ not a byte of A's is written
func TestHolderStopped(t *testing.T) {
	eachProtocol(t, func(t *testing.T, protocol string) {
		url, log := store(t), newLedger(t)
		a := running(t, url, protocol, helper("parent", string(log), "no", self, helperMark, "hold", string(log), "a")...)
		log.await(t, "begin-a")
		group := log.await(t, "parent").pid
		if err := a.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		b := running(t, url, protocol, helper("hold", string(log), "b")...)
		log.await(t, "begin-b")
		second := observe(t, url)
		if second.PID != b.Process.Pid {
			t.Errorf("pid %d holds the lease, and the second is %d", second.PID, b.Process.Pid)
		}
		if err := a.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		a.ended(t, 76)
		eventually(t, "the first one's process group is empty", func() bool { return gone(group) })
		if now := observe(t, url); now != second {
			t.Errorf("the second one's lease was touched: %+v, and was %+v", now, second)
		}
		log.letGo(t, "b")
		b.ended(t, 0)
		if n := len(log.read(t, "end-a")); n > 0 {
			t.Error("the first one's command ran to its end")
		}
	})
}

// TestOrchestratorKilled: `run` is killed while a companion, which its command
// started in a session of its own, keeps the lease alive for longer than a TTL.
//
//	run A      held ──── SIGKILL
//	companion       join ─── renew ── renew ── renew ── CMD ends, leaves
//	run B           wait ─────────────────────────────────── TTL ──── held
//	                            ^ never before the companion ends
func TestOrchestratorKilled(t *testing.T) {
	eachProtocol(t, func(t *testing.T, protocol string) {
		url, log := store(t), newLedger(t)
		a := running(t, url, protocol, helper("parent", string(log), "yes",
			binary, "accompany", "--", self, helperMark, "hold", string(log), "a")...)
		t.Cleanup(func() { log.letGo(t, "a") }) // it is in a session of its own
		log.await(t, "begin-a")
		first := observe(t, url)
		b := running(t, url, protocol, helper("hold", string(log), "b")...)
		log.letGo(t, "b")
		command := log.await(t, "parent").pid
		if err := a.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		a.ended(t, 128+int(syscall.SIGKILL))
		eventually(t, "the killed run's command is killed with it", func() bool { return gone(command) })
		for end := time.Now().Add(runTTL * 3 / 2); time.Now().Before(end); time.Sleep(runTTL / 16) {
			if now := observe(t, url); now.State != "held" || now.Holder != first.Holder || now.Token != first.Token {
				t.Errorf("while the companion works the lease is %+v, and was %+v", now, first)
			}
		}
		log.letGo(t, "a")
		b.ended(t, 0)
		if ended, began := log.await(t, "end-a"), log.await(t, "begin-b"); began.at < ended.at {
			t.Error("taken over while the companion works")
		}
	})
}

// TestExample: tests/examples/invoke gets every result, and no job runs twice, although
// its orchestrator is killed half-way.
func TestExample(t *testing.T) {
	eachProtocol(t, func(t *testing.T, protocol string) {
		program := filepath.Join(t.TempDir(), "invoke")
		if out, err := exec.Command("go", "build", "-o", program, "../examples/invoke").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		p := start(t, nil, program, "-protocol", protocol, "-ttl", (2 * runTTL).String(), "-jobs", "20", binary)
		p.ended(t, 0)
	})
}
